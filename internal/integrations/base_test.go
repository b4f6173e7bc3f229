package integrations

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// mergedProject creates a project whose base branch has changed since the pull request was made: the
// clone is of a merge of the pull request into the base branch, as CI systems make it.
func mergedProject(t *testing.T) (p *project, tip string) {
	t.Helper()
	p = newProject(t, "")
	git(t, p.origin, "checkout", "-q", baseBranch)
	for i, from := range []string{"crd.yaml", "crd-next.yaml"} {
		text, err := os.ReadFile(filepath.Join("../../examples/crontab", from))
		text = bytes.ReplaceAll(text, []byte("example.com"), []byte("theirs.example.com"))
		if err = errors.Join(err, os.WriteFile(filepath.Join(p.origin, "crds/theirs.yaml"), text, 0o644)); err != nil {
			t.Fatal(err)
		}
		commit(t, p.origin, "theirs")
		if i == 0 {
			p.base = head(t, p.origin) // The event names this commit.
		}
	}
	tip = head(t, p.origin)
	p.merge(t, p.head)
	return p, tip
}

// merge merges a commit into the base branch, but does not move the branch, and makes a shallow
// clone of the merge.
func (p *project) merge(t *testing.T, of string) {
	t.Helper()
	git(t, p.origin, "checkout", "-q", "--detach", baseBranch)
	git(t, p.origin, "-c", "user.name=a", "-c", "user.email=a@example.com", "merge", "-q", "--no-ff", "-m", "merge", of)
	git(t, p.origin, "update-ref", "refs/pull/5/merge", "HEAD")
	p.checkout(t, "refs/pull/5/merge")
}

// checkout makes a shallow clone of a ref, as actions/checkout does.
func (p *project) checkout(t *testing.T, ref string) {
	t.Helper()
	p.dir = filepath.Join(t.TempDir(), "clone")
	git(t, "", "init", "-q", p.dir)
	git(t, p.dir, "remote", "add", "origin", "file://"+p.origin)
	git(t, p.dir, "fetch", "-q", "--no-tags", "--depth=1", "origin", ref)
	git(t, p.dir, "checkout", "-q", "--detach", "FETCH_HEAD")
}

// onlyOurs fails if a report is not about the changes of the pull request only.
func onlyOurs(t *testing.T, summary, log string) {
	t.Helper()
	contains(t, summary, "maximum none → 5")
	if strings.Contains(summary, "theirs") {
		t.Errorf("the report attributes changes of others to the pull request:\n%s\n%s", summary, log)
	}
}

func testBase(t *testing.T, archive []byte) {
	const unknown = "0123456789012345678901234567890123456789"
	for name, tt := range map[string]struct {
		clone   string // the ref that is checked out, if it is not the merge
		inputs  map[string]string
		context map[string]string
	}{
		"merge": {},
		// The branch is deleted, or has another history.
		"merge without branch":    {context: map[string]string{"github.event.pull_request.base.ref": "deleted"}},
		"merge of another commit": {context: map[string]string{"github.event.pull_request.head.sha": unknown}},
		"head":                    {clone: "refs/heads/" + headBranch, context: map[string]string{"github.event.pull_request.base.sha": unknown}},
		"head without branch":     {clone: "refs/heads/" + headBranch, context: map[string]string{"github.event.pull_request.base.ref": "deleted"}},
		"input":                   {inputs: map[string]string{"base": baseBranch}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, _ := mergedProject(t)
			if tt.clone != "" {
				p.checkout(t, tt.clone)
			}
			got := runAction(t, p, newRemote(t, archive), tt.inputs, tt.context)
			onlyOurs(t, got.summary, got.log)
		})
	}
	t.Run("GitLab", func(t *testing.T) {
		t.Parallel()
		job := func(p *project, variables map[string]string) {
			t.Helper()
			variables["ESPALIER_COMMENT"] = "false"
			out, _ := runJob(t, p, newRemote(t, archive), variables)
			summary, err := os.ReadFile(filepath.Join(p.dir, ".espalier-ci/reports/summary.md"))
			if err != nil {
				t.Fatal(err)
			}
			onlyOurs(t, string(summary), out)
		}
		p, tip := mergedProject(t)
		job(p, map[string]string{"CI_MERGE_REQUEST_SOURCE_BRANCH_SHA": p.head, "CI_MERGE_REQUEST_TARGET_BRANCH_SHA": tip})
		// The merge is of a squashed commit.
		git(t, p.origin, "checkout", "-q", headBranch)
		git(t, p.origin, "-c", "user.name=a", "-c", "user.email=a@example.com", "commit", "-q", "--amend", "-m", "squashed")
		p.merge(t, head(t, p.origin))
		job(p, map[string]string{"CI_MERGE_REQUEST_SOURCE_BRANCH_SHA": p.head, "CI_MERGE_REQUEST_TARGET_BRANCH_SHA": tip})
		// A pipeline of the source branch.
		p.checkout(t, "refs/heads/"+headBranch)
		job(p, map[string]string{})
	})
}
