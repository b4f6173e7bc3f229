package integrations

import (
	"encoding/xml"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

const template = "../../integrations/gitlab/espalier.yml"

// job is the job of the template for GitLab.
type job struct {
	Stage     string              `json:"stage"`
	Image     string              `json:"image"`
	Rules     []map[string]string `json:"rules"`
	Variables map[string]string   `json:"variables"`
	Script    []string            `json:"script"`
	Artifacts struct {
		When    string            `json:"when"`
		Paths   []string          `json:"paths"`
		Reports map[string]string `json:"reports"`
	} `json:"artifacts"`
}

// readTemplate reads the template, and compares the script in it with ci.sh.
func readTemplate(t *testing.T) *job {
	t.Helper()
	text, err := os.ReadFile(template)
	if err != nil {
		t.Fatal(err)
	}
	script, err := os.ReadFile("../../integrations/ci.sh")
	if err != nil {
		t.Fatal(err)
	}
	part := regexp.MustCompile(`(?s)(<<'SCRIPT'\n)(.*?)( {4}SCRIPT\n)`)
	if n := len(part.FindAll(text, -1)); n != 1 {
		t.Fatalf("the template has %d scripts", n)
	}
	indented := regexp.MustCompile(`(?m)^(.)`).ReplaceAllString(string(script), "    $1")
	current := part.ReplaceAllStringFunc(string(text), func(old string) string {
		m := part.FindStringSubmatch(old)
		return m[1] + indented + m[3]
	})
	if *update {
		if err := os.WriteFile(template, []byte(current), 0o644); err != nil {
			t.Fatal(err)
		}
		text = []byte(current)
	}
	if string(text) != current {
		t.Fatal("the script in the template is not integrations/ci.sh: go test ./internal/integrations -update")
	}
	var jobs map[string]*job
	if err := yaml.UnmarshalStrict(text, &jobs, yaml.DisallowUnknownFields); err != nil {
		t.Fatal(err)
	}
	if len(jobs) != 1 || jobs["espalier"] == nil {
		t.Fatalf("the jobs are %v", jobs)
	}
	return jobs["espalier"]
}

// runJob runs the job in a project, with variables that the user, and those that the runner sets.
func runJob(t *testing.T, p *project, r *remote, variables map[string]string) (string, int) {
	t.Helper()
	j := readTemplate(t)
	env := map[string]string{"CI_PROJECT_DIR": p.dir, "CI_JOB_URL": r.URL + "/job/1", "CI_API_V4_URL": r.URL + "/api", "CI_MERGE_REQUEST_IID": "5",
		"CI_MERGE_REQUEST_PROJECT_ID": "7", "CI_MERGE_REQUEST_DIFF_BASE_SHA": p.base, "CI_MERGE_REQUEST_TARGET_BRANCH_NAME": baseBranch}
	for name, value := range j.Variables {
		env[name] = value
	}
	env["ESPALIER_RELEASES"], env["ESPALIER_LATEST"], env["ESPALIER_TOKEN"] = r.URL+"/releases", r.URL+"/releases/latest", token
	for name, value := range variables {
		env[name] = value
	}
	cmd := exec.CommandContext(t.Context(), "sh", "-e", "-c", strings.Join(j.Script, "\n"))
	cmd.Dir, cmd.Env = p.dir, environment(env)
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		t.Fatal(err)
	}
	p.notHacked(t)
	if strings.Contains(string(out), token) {
		t.Errorf("the log has the token:\n%s", out)
	}
	return string(out), cmd.ProcessState.ExitCode()
}

func testGitLab(t *testing.T, archive []byte) {
	t.Run("review", func(t *testing.T) {
		t.Parallel()
		p, r := newProject(t, ""), newRemote(t, archive)
		r.user = "project_7_bot"
		out, code := runJob(t, p, r, nil)
		contains(t, out, "error: v1: spec.replicas: stored objects may become invalid: maximum none → 5")
		if code != 1 || len(r.comments) != 1 || !strings.HasPrefix(r.comments[0].Body, "<!-- espalier: espalier -->\n### espalier review\n") {
			t.Fatalf("exit code %d, comments %+v\n%s", code, r.comments, out)
		}
		// The reports are where the job expects them.
		for _, pattern := range []string{readTemplate(t).Artifacts.Reports["junit"], ".espalier-ci/reports/sarif/*.sarif", ".espalier-ci/reports/summary.md"} {
			if names, err := filepath.Glob(filepath.Join(p.dir, pattern)); err != nil || len(names) != 1 {
				t.Errorf("%s: %q, %v", pattern, names, err)
			}
		}
		text, err := os.ReadFile(filepath.Join(p.dir, ".espalier-ci/reports/review.xml"))
		if err != nil {
			t.Fatal(err)
		}
		var junit struct {
			Failures int `xml:"failures,attr"`
		}
		if err := xml.Unmarshal(text, &junit); err != nil || junit.Failures != 1 {
			t.Errorf("JUnit has %d failures: %v", junit.Failures, err)
		}
		// The files of the job are no changes of the repository.
		if status := git(t, p.dir, "status", "--porcelain"); status != "" {
			t.Errorf("git status: %s", status)
		}

		git(t, p.dir, "checkout", "-q", p.base)
		out, code = runJob(t, p, r, map[string]string{"ESPALIER_VERSION": "v1.2.3"})
		if code != 0 || len(r.comments) != 1 || !strings.Contains(r.comments[0].Body, "nothing changed") {
			t.Errorf("exit code %d, comments %+v\n%s", code, r.comments, out)
		}
		if last := r.requests[len(r.requests)-1]; last != "PUT /projects/7/merge_requests/5/notes/1000 "+token {
			t.Errorf("the last request is %s", last)
		}
	})
	t.Run("no comment", func(t *testing.T) {
		t.Parallel()
		p, r := newProject(t, ""), newRemote(t, archive)
		out, code := runJob(t, p, r, map[string]string{"ESPALIER_COMMENT": "false", "ESPALIER_FAIL_ON": "never", "ESPALIER_COMMANDS": "lint validate", "ESPALIER_PATHS": crdName})
		if code != 0 || len(r.requests) != 0 {
			t.Errorf("exit code %d, requests %q\n%s", code, r.requests, out)
		}
	})
	t.Run("API fails", func(t *testing.T) {
		t.Parallel()
		p, r := newProject(t, ""), newRemote(t, archive)
		r.broken = true
		out, code := runJob(t, p, r, nil)
		contains(t, out, "espalier: warning: cannot read the user of the token: ", "500")
		if code != 1 {
			t.Errorf("exit code %d\n%s", code, out)
		}
	})
	t.Run("no base", func(t *testing.T) {
		t.Parallel()
		p, r := newProject(t, ""), newRemote(t, archive)
		r.user = "project_7_bot"
		r.comments = []comment{{ID: 3, Author: r.user, Body: "<!-- espalier: espalier -->\nan older run"}}
		out, code := runJob(t, p, r, map[string]string{"ESPALIER_BASE": "unheard"})
		contains(t, r.comments[0].Body, `cannot find the base "unheard"`)
		if code != 2 || len(r.comments) != 1 {
			t.Errorf("exit code %d\n%s", code, out)
		}
	})
	t.Run("token", func(t *testing.T) {
		t.Parallel()
		// The program does not get the token: runJob fails if the log has it.
		p, r := newProject(t, ""), newRemote(t, packProgram(t, []byte("#!/bin/sh\necho \"$1:\"\nenv\n")))
		out, _ := runJob(t, p, r, map[string]string{"token": "x"})
		contains(t, out, "version:\n", "review:\n", "CI_MERGE_REQUEST_IID=5")
	})
	t.Run("no release", func(t *testing.T) {
		t.Parallel()
		p, r := newProject(t, ""), newRemote(t, archive)
		out, code := runJob(t, p, r, map[string]string{"ESPALIER_VERSION": "v9.9.9"})
		contains(t, out, "espalier: error: cannot download release v9.9.9")
		if code != 2 {
			t.Errorf("exit code %d\n%s", code, out)
		}
	})
}
