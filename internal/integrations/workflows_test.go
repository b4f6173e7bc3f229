package integrations

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// workflow is a file in .github/workflows.
type workflow struct {
	Name        string            `json:"name"`
	On          any               `json:"on"`
	Permissions map[string]string `json:"permissions"`
	Concurrency map[string]any    `json:"concurrency"`
	Jobs        map[string]struct {
		Needs       []string          `json:"needs"`
		RunsOn      string            `json:"runs-on"`
		Timeout     int               `json:"timeout-minutes"`
		Permissions map[string]string `json:"permissions"`
		Strategy    struct {
			FailFast bool                `json:"fail-fast"`
			Matrix   map[string][]string `json:"matrix"`
		} `json:"strategy"`
		Env   map[string]string `json:"env"`
		Steps []struct {
			Name string            `json:"name"`
			If   string            `json:"if"`
			Uses string            `json:"uses"`
			With map[string]any    `json:"with"`
			Run  string            `json:"run"`
			Env  map[string]string `json:"env"`
		} `json:"steps"`
	} `json:"jobs"`
}

var (
	usesLine   = regexp.MustCompile(`(?m)^[\s-]*uses:.*$`)
	pinned     = regexp.MustCompile(`uses: [\w.-]+(/[\w.-]+)+@(v\d+\.\d+\.\d+|[0-9a-f]{40} +# v\d+\.\d+\.\d+)$`)
	makeTarget = regexp.MustCompile(`\bmake "?([\w$-]+)`)
	ruleOfMake = regexp.MustCompile(`(?m)^([a-z][a-z0-9-]*):`)
)

// TestWorkflows checks what a syntax check of YAML does not find: the targets of make and scripts that
// workflows name exist, actions are pinned, jobs have limits, and no script contains an expression.
func TestWorkflows(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../../.github/workflows/*.yml")
	if err != nil || len(files) < 3 {
		t.Fatalf("%q, %v", files, err)
	}
	targets := makeTargets(t)
	for _, name := range files {
		t.Run(filepath.Base(name), func(t *testing.T) {
			w, text := readWorkflow(t, name)
			if w.Name == "" || w.On == nil || w.Concurrency["group"] == nil || len(w.Permissions) != 1 || w.Permissions["contents"] != "read" {
				t.Errorf("a name, triggers, concurrency, or permissions that are contents: read, are missing: %v", w)
			}
			checkPinned(t, text)
			for id, job := range w.Jobs {
				if job.Timeout == 0 || job.RunsOn == "" || strings.HasSuffix(job.RunsOn, "-latest") {
					t.Errorf("%s: it has no timeout-minutes, or runs on %q", id, job.RunsOn)
				}
				for _, target := range job.Strategy.Matrix["target"] {
					if !slices.Contains(targets, target) {
						t.Errorf("%s: make has no target %q", id, target)
					}
				}
				for _, s := range job.Steps {
					if strings.Contains(s.Run, "${{") {
						t.Errorf("%s: the script has an expression, which may be untrusted: pass it in env:\n%s", id, s.Run)
					}
					for _, m := range makeTarget.FindAllStringSubmatch(s.Run, -1) {
						if m[1] != "$TARGET" && !slices.Contains(targets, m[1]) {
							t.Errorf("%s: make has no target %q", id, m[1])
						}
					}
					for _, file := range regexp.MustCompile(`(?:^|\s)((?:\.ci|scripts|integrations)/\S+)`).FindAllStringSubmatch(s.Run, -1) {
						if _, err := os.Stat(filepath.Join("../..", file[1])); err != nil {
							t.Errorf("%s: %v", id, err)
						}
					}
					if s.Run == "" {
						continue
					}
					cmd := exec.CommandContext(t.Context(), "bash", "-n", "-c", s.Run)
					if out, err := cmd.CombinedOutput(); err != nil {
						t.Errorf("%s: %v: %s", id, err, out)
					}
				}
			}
		})
	}
}

func readWorkflow(t *testing.T, name string) (*workflow, []byte) {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	w := &workflow{}
	if err := yaml.UnmarshalStrict([]byte(strings.Replace(string(text), "\non:", "\n\"on\":", 1)), w, yaml.DisallowUnknownFields); err != nil {
		t.Fatal(err)
	}
	return w, text
}

// TestReleaseNeedsTests checks that nothing is published before the tests and the check of the release
// have passed, and that these jobs cannot publish.
func TestReleaseNeedsTests(t *testing.T) {
	t.Parallel()
	w, _ := readWorkflow(t, "../../.github/workflows/release.yml")
	var scripts []string
	for _, id := range w.Jobs["release"].Needs {
		if len(w.Jobs[id].Permissions) != 0 {
			t.Errorf("%s: it has the permissions %v", id, w.Jobs[id].Permissions)
		}
		for _, s := range w.Jobs[id].Steps {
			scripts = append(scripts, s.Run)
		}
	}
	contains(t, strings.Join(scripts, "\n"), ".ci/run", "make release-check")
}

// TestActionPinned checks the actions that the action uses.
func TestActionPinned(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../action.yml")
	if err != nil {
		t.Fatal(err)
	}
	if n := checkPinned(t, text); n == 0 {
		t.Error("action.yml uses no action")
	}
}

// checkPinned checks that a file uses actions at an exact version, or at a commit with the version in
// a comment. It returns their number.
func checkPinned(t *testing.T, text []byte) int {
	t.Helper()
	lines := usesLine.FindAllString(string(text), -1)
	for _, line := range lines {
		if !pinned.MatchString(line) {
			t.Errorf("%s: is not pinned: use a version such as v1.2.3, or a commit with the comment # v1.2.3", strings.TrimSpace(line))
		}
	}
	return len(lines)
}

// makeTargets returns the targets of the Makefile and of the files that it includes.
func makeTargets(t *testing.T) (targets []string) {
	t.Helper()
	files, err := filepath.Glob("../../test/*.mk")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range append(files, "../../Makefile") {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range ruleOfMake.FindAllStringSubmatch(string(text), -1) {
			targets = append(targets, m[1])
		}
	}
	return targets
}
