package integrations

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// actionFile is action.yml.
type actionFile struct {
	Inputs map[string]struct {
		Description string `json:"description"`
		Default     string `json:"default"`
	} `json:"inputs"`
	Outputs map[string]struct {
		Value string `json:"value"`
	} `json:"outputs"`
	Runs struct {
		Using string `json:"using"`
		Steps []step `json:"steps"`
	} `json:"runs"`
}

type step struct {
	Name  string            `json:"name"`
	ID    string            `json:"id"`
	If    string            `json:"if"`
	Uses  string            `json:"uses"`
	Shell string            `json:"shell"`
	Run   string            `json:"run"`
	Env   map[string]string `json:"env"`
	With  map[string]string `json:"with"`

	ContinueOnError bool `json:"continue-on-error"`
}

func readAction(t *testing.T) *actionFile {
	t.Helper()
	text, err := os.ReadFile("../../action.yml")
	if err != nil {
		t.Fatal(err)
	}
	a := &actionFile{}
	if err := yaml.UnmarshalStrict(text, a, yaml.DisallowUnknownFields); err != nil && !strings.Contains(err.Error(), "unknown field") {
		t.Fatal(err)
	}
	return a
}

var expression = regexp.MustCompile(`\$\{\{\s*(.*?)\s*\}\}`)

// run is a run of the action on a project, as the runner of GitHub does it.
type run struct {
	context map[string]string // values of expressions, by their names
	outputs map[string]string
	uses    []step // steps that use other actions, with their values
	log     string
	summary string
	failed  bool
}

// expand replaces expressions.
func (r *run) expand(t *testing.T, text string) string {
	return expression.ReplaceAllStringFunc(text, func(e string) string {
		return r.evaluate(t, expression.FindStringSubmatch(e)[1])
	})
}

// evaluate evaluates the kinds of expressions that action.yml has.
func (r *run) evaluate(t *testing.T, e string) string {
	t.Helper()
	if left, right, ok := strings.Cut(e, " && "); ok {
		return fmt.Sprint(r.evaluate(t, left) == "true" && r.evaluate(t, right) == "true")
	}
	if left, right, ok := strings.Cut(e, " == "); ok {
		return fmt.Sprint(r.evaluate(t, left) == r.evaluate(t, right))
	}
	if left, right, ok := strings.Cut(e, " != "); ok {
		return fmt.Sprint(r.evaluate(t, left) != r.evaluate(t, right))
	}
	if text, ok := strings.CutPrefix(e, "'"); ok {
		return strings.TrimSuffix(text, "'")
	}
	value, ok := r.context[e]
	if !ok && !strings.HasPrefix(e, "steps.") {
		t.Fatalf("unknown expression %q", e)
	}
	return value
}

// runAction runs all steps of the action in their order, until one fails. The steps that use other
// actions succeed, unless the context has "upload": "fails".
func runAction(t *testing.T, p *project, r *remote, inputs, context map[string]string) *run {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	a := readAction(t)
	result := &run{outputs: map[string]string{}, context: map[string]string{
		"github.token": token, "github.action_path": root, "github.action_repository": strings.TrimPrefix(action, "/"), "github.action_ref": "v1.2.3",
		"github.event.pull_request.base.sha": p.base, "github.event.pull_request.base.ref": baseBranch,
		"github.event.pull_request.head.sha": p.head, "github.event.pull_request.number": "5",
	}}
	maps.Copy(result.context, context)
	for name, input := range a.Inputs {
		result.context["inputs."+name] = result.expand(t, input.Default)
	}
	for name, value := range inputs {
		if _, ok := a.Inputs[name]; !ok {
			t.Fatalf("the action has no input %q", name)
		}
		result.context["inputs."+name] = value
	}
	summary, outputs := filepath.Join(p.temp, "summary"), filepath.Join(p.temp, "outputs")
	variables := map[string]string{"RUNNER_TEMP": p.temp, "GITHUB_SERVER_URL": r.URL, "GITHUB_API_URL": r.URL + "/api", "GITHUB_REPOSITORY": "acme/site",
		"GITHUB_RUN_ID": "99", "GITHUB_OUTPUT": outputs, "GITHUB_STEP_SUMMARY": summary, "GITHUB_WORKSPACE": p.dir}
	for _, s := range a.Runs.Steps {
		if s.If != "" && result.expand(t, s.If) != "true" {
			continue
		}
		for name, value := range s.With {
			s.With[name] = result.expand(t, value)
		}
		if s.Uses != "" {
			result.uses = append(result.uses, s)
			if context["upload"] == "fails" && !s.ContinueOnError {
				result.failed = true
				break
			}
			continue
		}
		if s.Shell != "bash" || expression.MatchString(s.Run) {
			t.Fatalf("the step %q must be run by bash, and without expressions: %s", s.Name, s.Run)
		}
		if err := os.WriteFile(outputs, nil, 0o644); err != nil {
			t.Fatal(err)
		}
		env := maps.Clone(variables)
		for name, value := range s.Env {
			env[name] = result.expand(t, value)
		}
		cmd := exec.CommandContext(t.Context(), "bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", s.Run)
		cmd.Dir, cmd.Env = p.dir, environment(env)
		out, err := cmd.CombinedOutput()
		result.log += string(out)
		var exit *exec.ExitError
		if err != nil && !errors.As(err, &exit) {
			t.Fatal(err)
		}
		text, _ := os.ReadFile(outputs)
		for _, line := range strings.Split(strings.TrimSpace(string(text)), "\n") {
			name, value, _ := strings.Cut(line, "=")
			result.context["steps."+s.ID+".outputs."+name] = value
		}
		if err != nil {
			result.failed = true
			break
		}
	}
	for name, output := range a.Outputs {
		result.outputs[name] = result.expand(t, output.Value)
	}
	text, _ := os.ReadFile(summary)
	result.summary = string(text)
	p.notHacked(t)
	if strings.Contains(result.log, token) {
		t.Errorf("the log has the token:\n%s", result.log)
	}
	return result
}

// readmeInputs returns the inputs in the example of the guide.
func readmeInputs(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile("../../docs/how-to/use-in-ci.md")
	if err != nil {
		t.Fatal(err)
	}
	_, block, ok := strings.Cut(string(text), "```yaml\nname: Espalier\n")
	block, _, end := strings.Cut(block, "```")
	var example struct {
		Jobs map[string]struct {
			Steps []step `json:"steps"`
		} `json:"jobs"`
	}
	err = yaml.Unmarshal([]byte(block), &example)
	steps := example.Jobs["espalier"].Steps
	if !ok || !end || err != nil || len(steps) != 2 || steps[1].With["commands"] == "" {
		t.Fatalf("the guide has no example of the action: %v\n%s", err, block)
	}
	return steps[1].With
}

func testAction(t *testing.T, archive []byte) {
	t.Run("review", func(t *testing.T) {
		t.Parallel()
		p, r := newProject(t, ""), newRemote(t, archive)
		for i := range 120 { // the comment of the action is on the second page
			r.comments = append(r.comments, comment{ID: i + 1, Author: bot, Body: "I saw \"<!-- espalier: espalier -->\" \\ here"})
		}
		got := runAction(t, p, r, map[string]string{"sarif": "true"}, nil)
		contains(t, got.summary, "### espalier review", "stored objects may become invalid: maximum none → 5")
		contains(t, got.log, "::error file=crds/it's a $(touch HACKED)", "line=42")
		if !got.failed || got.outputs["exit-code"] != "1" || got.outputs["errors"] != "1" || got.outputs["warnings"] != "0" {
			t.Errorf("failed: %v, outputs %v\n%s", got.failed, got.outputs, got.log)
		}
		if len(got.uses) != 1 || !strings.HasPrefix(got.uses[0].Uses, "github/codeql-action/upload-sarif@") || got.uses[0].With["sarif_file"] != got.outputs["sarif"] {
			t.Fatalf("%+v", got.uses)
		}
		if uris := sarifPaths(t, filepath.Join(got.outputs["sarif"], "review.sarif")); !slices.Contains(uris, crdName) {
			t.Errorf("SARIF has the paths %q", uris)
		}
		if len(r.comments) != 121 || !strings.HasPrefix(r.comments[120].Body, "<!-- espalier: espalier -->\n### espalier review\n") || !strings.Contains(r.comments[120].Body, "maximum none → 5") {
			t.Fatalf("the comments are %+v", r.comments[120:])
		}

		// A second run updates the comment, also if nothing is left to report.
		git(t, p.dir, "checkout", "-q", p.base)
		got = runAction(t, p, r, nil, nil)
		if got.failed || got.outputs["exit-code"] != "0" || len(r.comments) != 121 || !strings.Contains(r.comments[120].Body, "nothing changed") || len(got.uses) != 0 {
			t.Errorf("outputs %v, comments %+v\n%s", got.outputs, r.comments[120:], got.log)
		}
		for _, request := range r.requests {
			if !strings.HasSuffix(request, " Bearer "+token) {
				t.Errorf("request %s", request)
			}
		}
		if last := r.requests[len(r.requests)-1]; !strings.HasPrefix(last, "PATCH /repos/acme/site/issues/comments/1120 ") {
			t.Errorf("the last request is %s", last)
		}
	})
	t.Run("directory", func(t *testing.T) {
		t.Parallel()
		p, r := newProject(t, "a & b"), newRemote(t, archive)
		got := runAction(t, p, r, map[string]string{"commands": "lint, diff", "working-directory": "a & b", "paths": "crds\n", "flags": "--semantics=kubernetes\n--exclude=*.json",
			"fail-on": "never", "version": "1.2.3", "comment": "false", "comment-id": "a|b"}, map[string]string{"github.action_ref": "main"})
		contains(t, got.log, "::error file=a & b/crds/it's a")
		contains(t, got.summary, "### espalier lint", "### espalier diff", "semantics: kubernetes")
		if got.failed || got.outputs["exit-code"] != "0" || got.outputs["errors"] != "1" || len(r.requests) != 0 {
			t.Errorf("failed: %v, outputs %v, requests %q\n%s", got.failed, got.outputs, r.requests, got.log)
		}
		if uris := sarifPaths(t, filepath.Join(got.outputs["sarif"], "diff.sarif")); !slices.Contains(uris, "a & b/"+crdName) {
			t.Errorf("SARIF has the paths %q", uris)
		}
		// Code scanning rejects runs with the same ID.
		for _, command := range []string{"lint", "diff"} {
			if text, err := os.ReadFile(filepath.Join(got.outputs["sarif"], command+".sarif")); err != nil || strings.Count(string(text), `"automationDetails":{"id":"a-b/`+command+`/"}`) != 1 {
				t.Errorf("%s: %v\n%.300s", command, err, text)
			}
		}
	})
	t.Run("readme", func(t *testing.T) {
		t.Parallel()
		// All files are below subdirectories, as in projects of kubebuilder.
		p, r := newProject(t, "config"), newRemote(t, archive)
		got := runAction(t, p, r, readmeInputs(t), nil)
		contains(t, got.summary, "### espalier lint", "in 1 CRD", "### espalier review", "maximum none → 5")
		if !got.failed || got.outputs["exit-code"] != "1" {
			t.Errorf("failed: %v, outputs %v\n%s", got.failed, got.outputs, got.log)
		}
	})
	t.Run("upload fails", func(t *testing.T) {
		t.Parallel()
		p, r := newProject(t, ""), newRemote(t, archive)
		got := runAction(t, p, r, map[string]string{"sarif": "true"}, map[string]string{"upload": "fails"})
		if !got.failed || len(got.uses) != 1 || len(r.comments) != 1 {
			t.Errorf("failed: %v, %d comments\n%s", got.failed, len(r.comments), got.log)
		}
		// Another use in the same job leaves the reports of the first.
		again := runAction(t, p, r, map[string]string{"commands": "lint", "paths": "crds"}, nil)
		first, err := os.ReadFile(got.outputs["summary"])
		if err != nil || !strings.Contains(string(first), "### espalier review") || again.outputs["summary"] == got.outputs["summary"] {
			t.Errorf("the summary of the first use is %s (%v)", first, err)
		}
	})
	t.Run("nothing", func(t *testing.T) {
		t.Parallel()
		p, r := newProject(t, ""), newRemote(t, archive)
		git(t, p.dir, "fetch", "-q", "origin", p.base)
		git(t, p.dir, "checkout", "-q", p.base)
		// Not for a pull request, and the ref of the action is no release.
		got := runAction(t, p, r, map[string]string{"commands": "review validate", "paths": "crds"}, map[string]string{"github.event.pull_request.base.sha": "", "github.event.pull_request.base.ref": "",
			"github.event.pull_request.head.sha": "", "github.event.pull_request.number": "", "github.action_ref": "main"})
		contains(t, got.log, "::notice title=espalier::review is skipped", "::notice title=espalier::espalier v1.2.3 is installed, the latest release", "set the version to v1.2.3 to pin it")
		if got.failed || got.outputs["exit-code"] != "0" || len(r.requests) != 0 {
			t.Errorf("failed: %v, outputs %v, requests %q\n%s", got.failed, got.outputs, r.requests, got.log)
		}
		// No comment if there is nothing to say.
		got = runAction(t, p, r, nil, nil)
		if got.failed || len(r.comments) != 0 {
			t.Errorf("comments %+v\n%s", r.comments, got.log)
		}
	})
	t.Run("API fails", func(t *testing.T) {
		t.Parallel()
		p, r := newProject(t, ""), newRemote(t, archive)
		r.broken = true
		got := runAction(t, p, r, nil, nil)
		contains(t, got.log, "::warning title=espalier::cannot read the comments: ", "500")
		contains(t, got.summary, "maximum none → 5")
		if !got.failed || got.outputs["exit-code"] != "1" {
			t.Errorf("outputs %v\n%s", got.outputs, got.log)
		}
		got = runAction(t, p, r, map[string]string{"token": ""}, nil)
		contains(t, got.log, "::warning title=espalier::cannot comment: there is no token")
	})
	for name, tt := range map[string]struct {
		change  func(r *remote)
		inputs  map[string]string
		context map[string]string
		want    string
		ran     bool // the comment is updated, and the exit code is 2
	}{
		"wrong checksum": {change: func(r *remote) {
			r.files[action+"/releases/download/v1.2.3/"+archiveName("v1.2.3")] = []byte("another archive")
		}, want: ": it is damaged"},
		"not listed": {change: func(r *remote) {
			r.files[action+"/releases/download/v1.2.3/checksums.txt"] = []byte("0  other\n")
		}, want: "checksums.txt of release v1.2.3 does not list " + archiveName("v1.2.3")},
		"no release":     {inputs: map[string]string{"version": "v9.9.9"}, want: "cannot download release v9.9.9"},
		"no latest":      {change: func(r *remote) { r.latest = "" }, inputs: map[string]string{"version": "latest"}, want: "there is no latest release"},
		"no version":     {inputs: map[string]string{"version": "../v1"}, want: `the version "../v1" is not a version such as v1.2.3`},
		"no command":     {inputs: map[string]string{"commands": "serve"}, want: `unknown command "serve"`, ran: true},
		"no directory":   {inputs: map[string]string{"working-directory": "$(touch HACKED)"}, want: "the directory $(touch HACKED) does not exist", ran: true},
		"no base":        {inputs: map[string]string{"base": "no`touch${IFS}HACKED`branch"}, want: "set fetch-depth: 0 of actions/checkout", ran: true},
		"base is a flag": {inputs: map[string]string{"base": "--upload-pack=touch HACKED"}, want: "cannot find the base", ran: true},
		"wrong flag":     {inputs: map[string]string{"flags": "--unheard;touch HACKED"}, want: "unknown flag: --unheard;touch HACKED", ran: true},
		"no paths":       {inputs: map[string]string{"commands": "validate"}, want: "validate needs files or directories: set the input paths of the GitHub action", ran: true},
		"path is a flag": {inputs: map[string]string{"commands": "validate", "paths": "--kubeconfig=x"}, want: "--kubeconfig=x"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, r := newProject(t, ""), newRemote(t, archive)
			if tt.change != nil {
				tt.change(r)
			}
			r.comments = []comment{{ID: 3, Author: bot, Body: "<!-- espalier: espalier -->\nan older run"}}
			got := runAction(t, p, r, tt.inputs, tt.context)
			contains(t, got.log, tt.want)
			if tt.ran {
				contains(t, got.summary, tt.want)
				contains(t, r.comments[0].Body, tt.want)
				if got.outputs["exit-code"] != "2" || strings.Contains(r.comments[0].Body, "older") {
					t.Errorf("outputs %v, comment %s", got.outputs, r.comments[0].Body)
				}
			}
			if !got.failed {
				t.Errorf("the action succeeds:\n%s", got.log)
			}
		})
	}
	t.Run("some commands", func(t *testing.T) {
		t.Parallel()
		p, r := newProject(t, ""), newRemote(t, archive)
		got := runAction(t, p, r, map[string]string{"commands": "serve review"}, nil)
		contains(t, got.summary, `unknown command "serve"`, "maximum none → 5")
		if got.outputs["exit-code"] != "2" || got.outputs["errors"] != "1" {
			t.Errorf("outputs %v", got.outputs)
		}
	})
	t.Run("version", func(t *testing.T) {
		t.Parallel()
		testVersion(t, archive)
	})
	t.Run("workflow commands", func(t *testing.T) {
		t.Parallel()
		p, r := newProject(t, ""), newRemote(t, packProgram(t, []byte(`#!/bin/sh
			[ "$1" != version ] || exit 0
			printf 'espalier: cannot read a\n::stop-commands::x\n  ::add-mask::b\r::debug::c ##[add-mask]d\n' >&2
			exit 2
		`)))
		got := runAction(t, p, r, nil, nil)
		contains(t, got.log, "espalier: cannot read a\nespalier: ::stop-commands::x\n")
		for line := range strings.FieldsFuncSeq(got.log, func(c rune) bool { return c == '\n' || c == '\r' }) {
			line = strings.TrimSpace(line)
			if !strings.HasPrefix(line, "::error title=espalier::") && (strings.HasPrefix(line, "::") || strings.Contains(line, "##[")) {
				t.Errorf("the runner would run %q", line)
			}
		}
	})
}

// testVersion checks which version is installed if the input version is empty.
func testVersion(t *testing.T, archive []byte) {
	const notice = "because no version is set"
	for _, tt := range []struct {
		ref, file, latest string
		want              string // in the log
	}{
		{ref: "v1.2.3", file: "v8.8.8", latest: "v9.9.9"},
		{ref: "v1", file: "v1.2.3\n", latest: "v9.9.9"},
		{ref: "v1.2", file: "v1.2.3", latest: "v9.9.9"},
		{ref: "v1.2.3/../x", file: "v1.2.3", latest: "v9.9.9"},
		{ref: "v1", latest: "v1.2.3", want: notice},
		{ref: "0123456789012345678901234567890123456789", latest: "v1.2.3", want: notice},
		{ref: "main", file: "next", latest: "v1.2.3", want: `the version "next" is not a version such as v1.2.3`},
	} {
		p, r := newProject(t, ""), newRemote(t, archive)
		r.latest = tt.latest
		tree := filepath.Join(p.temp, "tree")
		for _, name := range []string{"ci.sh", "github/run.sh"} {
			text, err := os.ReadFile(filepath.Join("../../integrations", name))
			name = filepath.Join(tree, "integrations", name)
			if err = errors.Join(err, os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, text, 0o755)); err != nil {
				t.Fatal(err)
			}
		}
		if tt.file != "" {
			if err := os.WriteFile(filepath.Join(tree, "integrations/version"), []byte(tt.file), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		got := runAction(t, p, r, map[string]string{"commands": "lint", "paths": "crds", "comment": "false"}, map[string]string{"github.action_path": tree, "github.action_ref": tt.ref})
		contains(t, got.log, tt.want)
		if got.failed != (tt.file == "next") || strings.Contains(got.log, notice) != (tt.want == notice) {
			t.Errorf("%+v: failed: %v\n%s", tt, got.failed, got.log)
		}
	}
}

// sarifPaths returns the paths of the results in a SARIF file.
func sarifPaths(t *testing.T, name string) (uris []string) {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	var log struct {
		Version string
		Runs    []struct {
			Results []struct {
				RuleID    string
				Message   struct{ Text string }
				Locations []struct {
					PhysicalLocation struct{ ArtifactLocation struct{ URI string } }
				}
			}
		}
	}
	if err := json.Unmarshal(text, &log); err != nil {
		t.Fatalf("%v in:\n%s", err, text)
	}
	if log.Version != "2.1.0" || len(log.Runs) != 1 {
		t.Errorf("SARIF %s with %d runs", log.Version, len(log.Runs))
	}
	for _, result := range log.Runs[0].Results {
		if result.RuleID == "" || result.Message.Text == "" {
			t.Errorf("a result has no rule or message: %s", text)
		}
		for _, location := range result.Locations {
			u, err := url.Parse(location.PhysicalLocation.ArtifactLocation.URI)
			if err != nil {
				t.Fatal(err)
			}
			uris = append(uris, u.Path)
		}
	}
	return uris
}
