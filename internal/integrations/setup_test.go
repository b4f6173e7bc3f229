package integrations

import (
	"archive/tar"
	"bytes"
	"cmp"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"espalier.dev/internal/program"
)

var update = flag.Bool("update", false, "copy integrations/ci.sh into the template for GitLab")

// buildProgram returns the release archive of the program without the server.
func buildProgram(t *testing.T) []byte {
	t.Helper()
	for _, name := range []string{"bash", "git", "curl", "awk", "tar"} {
		if _, err := exec.LookPath(name); err != nil {
			t.Skip(err)
		}
	}
	text, err := os.ReadFile(program.Path(t, program.CLI))
	if err != nil {
		t.Fatal(err)
	}
	return packProgram(t, text)
}

// packProgram returns the release archive of a program.
func packProgram(t *testing.T, text []byte) []byte {
	t.Helper()
	var archive bytes.Buffer
	compress, _ := gzip.NewWriterLevel(&archive, gzip.BestSpeed)
	w := tar.NewWriter(compress)
	err := w.WriteHeader(&tar.Header{Name: "espalier", Mode: 0o755, Size: int64(len(text))})
	if err == nil {
		_, err = w.Write(text)
	}
	if err = errors.Join(err, w.Close(), compress.Close()); err != nil {
		t.Fatal(err)
	}
	return archive.Bytes()
}

// archiveName is the name of the archive in a release.
func archiveName(version string) string {
	return fmt.Sprintf("espalier-cli_%s_%s_%s.tar.gz", strings.TrimPrefix(version, "v"), runtime.GOOS, runtime.GOARCH)
}

// remote plays the releases, and the comments in the REST APIs of GitHub and GitLab.
type remote struct {
	*httptest.Server
	files  map[string][]byte // by the path of the URL
	latest string            // the version that /releases/latest redirects to
	broken bool              // the API answers 500
	user   string            // the user of the token; an app has none
	viewer string            // the user of the token in the GraphQL API, if that may be used
	denied int               // the status of updates, if they are denied

	mu       sync.Mutex
	comments []comment
	requests []string // methods, paths and tokens of the API
}

type comment struct {
	ID     int    `json:"id"`
	Body   string `json:"body"`
	Author string `json:"-"`
}

// bot is the author of comments with the token of a workflow.
const bot = "github-actions[bot]"

const (
	action = "/acme/espalier"
	token  = "secret-token"
)

func newRemote(t *testing.T, archive []byte) *remote {
	t.Helper()
	r := &remote{files: map[string][]byte{}}
	sum := fmt.Appendf(nil, "%064d  other.tar.gz\n%x  %s\n", 0, sha256.Sum256(archive), archiveName("v1.2.3"))
	for _, base := range []string{action + "/releases/download/v1.2.3/", "/releases/v1.2.3/"} {
		r.files[base+archiveName("v1.2.3")], r.files[base+"checksums.txt"] = archive, sum
	}
	r.latest = "v1.2.3"
	r.Server = httptest.NewServer(http.HandlerFunc(r.serve))
	t.Cleanup(r.Close)
	return r
}

func (r *remote) serve(w http.ResponseWriter, q *http.Request) {
	if file, ok := r.files[q.URL.Path]; ok {
		_, _ = w.Write(file)
		return
	}
	if r.latest != "" && strings.HasSuffix(q.URL.Path, "/releases/latest") {
		http.Redirect(w, q, "/releases/tag/"+r.latest, http.StatusFound)
		return
	}
	path, isAPI := strings.CutPrefix(q.URL.Path, "/api")
	if !isAPI {
		http.NotFound(w, q)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.requests = append(r.requests, q.Method+" "+path+" "+q.Header.Get("Authorization")+q.Header.Get("PRIVATE-TOKEN"))
	if r.broken {
		http.Error(w, "the API is down", http.StatusInternalServerError)
		return
	}
	if path == "/user" || path == "/graphql" {
		r.answerUser(w, path, q.Body)
		return
	}
	list, id := path, 0
	for _, of := range []string{"/repos/acme/site/issues/comments/", "/projects/7/merge_requests/5/notes/"} {
		if rest, ok := strings.CutPrefix(path, of); ok {
			list = ""
			id, _ = strconv.Atoi(rest)
		}
	}
	if list != "" && list != "/repos/acme/site/issues/5/comments" && list != "/projects/7/merge_requests/5/notes" {
		http.NotFound(w, q)
		return
	}
	var body comment
	switch q.Method {
	case http.MethodGet:
		page, _ := strconv.Atoi(q.URL.Query().Get("page"))
		page = min((page-1)*100, len(r.comments))
		r.list(w, r.comments[page:min(page+100, len(r.comments))])
		return
	case http.MethodPost:
		if err := json.NewDecoder(q.Body).Decode(&body); err != nil || list == "" {
			http.Error(w, fmt.Sprint(err), http.StatusBadRequest)
			return
		}
		body.ID, body.Author = 1000+len(r.comments), cmp.Or(r.user, r.viewer, bot)
		if r.user == "" && !strings.HasSuffix(body.Author, "[bot]") {
			body.Author += "[bot]"
		}
		r.comments = append(r.comments, body)
		w.WriteHeader(http.StatusCreated)
	case http.MethodPatch, http.MethodPut:
		if r.denied != 0 {
			http.Error(w, "denied", r.denied)
			return
		}
		i := slices.IndexFunc(r.comments, func(c comment) bool { return c.ID == id })
		if err := json.NewDecoder(q.Body).Decode(&body); err != nil || i < 0 {
			http.Error(w, fmt.Sprint(err), http.StatusNotFound)
			return
		}
		r.comments[i].Body = body.Body
	}
	_ = json.NewEncoder(w).Encode(body)
}

// list writes comments as the APIs do: with other objects in them that have an id, and escaped.
func (*remote) list(w io.Writer, comments []comment) {
	all := []any{}
	for _, c := range comments {
		user := map[string]any{"id": 4, "name": `a"b\`, "body": "<!-- espalier: espalier -->", "login": c.Author, "username": c.Author}
		all = append(all, map[string]any{"id": c.ID, "body": c.Body, "user": user, "author": user, "reactions": []any{map[string]any{"id": 9, "login": bot}, true, nil}})
	}
	e := json.NewEncoder(w)
	e.SetIndent("", " ")
	_ = e.Encode(all)
}

// answerUser answers who the user of the token is, as the APIs do.
func (r *remote) answerUser(w http.ResponseWriter, path string, body io.Reader) {
	query, _ := io.ReadAll(body)
	switch {
	case path == "/user" && r.user != "":
		_ = json.NewEncoder(w).Encode(map[string]any{"plan": map[string]any{"login": "x"}, "login": r.user, "username": r.user, "id": 3})
	case path == "/graphql" && r.viewer != "" && string(query) == `{"query":"{viewer{login}}"}`:
		_ = json.NewEncoder(w).Encode(map[string]any{"data": map[string]any{"viewer": map[string]any{"login": r.viewer}}})
	default:
		http.Error(w, `{"message":"Resource not accessible by integration","login":"mallory"}`, http.StatusForbidden)
	}
}

// project is a Git repository with a base branch and a branch of a pull request, and a clone of the
// latter, as a CI job gets it.
type project struct {
	dir, base string // the clone, and the commit of the base
	temp      string
	origin    string
	head      string // the commit of the pull request
}

// The branch that the pull request is for, and its own.
const baseBranch, headBranch = "release/$(touch${IFS}HACKED);x", "feature/`touch${IFS}HACKED`&y"

const crdName = "crds/it's a $(touch HACKED) `touch HACKED`;&|.yaml"

// TestCI runs the action and the template with one program.
func TestCI(t *testing.T) {
	if testing.Short() {
		t.Skip("links the program without the server, and starts many shells")
	}
	t.Parallel()
	readTemplate(t)
	archive := buildProgram(t)
	t.Run("GitHub", func(t *testing.T) {
		t.Parallel()
		testAction(t, archive)
	})
	t.Run("GitLab", func(t *testing.T) {
		t.Parallel()
		testGitLab(t, archive)
	})
	t.Run("base", func(t *testing.T) {
		t.Parallel()
		testBase(t, archive)
	})
	t.Run("comments", func(t *testing.T) {
		t.Parallel()
		testComments(t, archive)
	})
}

// TestUnset runs ci.sh without the variables that it needs.
func TestUnset(t *testing.T) {
	t.Parallel()
	for want, variables := range map[string]map[string]string{
		"espalier: error: ESPALIER_RELEASES is not set: set it to the URL of the releases": {"ESPALIER_VERSION": "v1.2.3"},
		"espalier: error: ESPALIER_LATEST is not set: set it to a URL that redirects":      {"ESPALIER_RELEASES": "http://127.0.0.1:1"},
	} {
		variables["ESPALIER_WORK"] = t.TempDir()
		cmd := exec.CommandContext(t.Context(), "sh", "../../integrations/ci.sh", "install")
		cmd.Env = environment(variables)
		out, err := cmd.CombinedOutput()
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() != 2 || !strings.HasPrefix(string(out), want) {
			t.Errorf("%v: %s\nwant %s", err, out, want)
		}
	}
}

// newProject creates one whose pull request makes a CRD stricter, in files and branches with
// hostile names, below a directory.
func newProject(t *testing.T, below string) *project {
	t.Helper()
	origin := filepath.Join(t.TempDir(), "origin")
	p := &project{dir: filepath.Join(t.TempDir(), "clone"), temp: t.TempDir(), origin: origin}
	old, err := os.ReadFile("../../examples/crontab/crd.yaml")
	if err != nil {
		t.Fatal(err)
	}
	next, err := os.ReadFile("../../examples/crontab/crd-next.yaml")
	if err != nil {
		t.Fatal(err)
	}
	write := func(name string, text []byte) {
		name = filepath.Join(origin, below, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, text, 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	write(crdName, old)
	write(".espalier.yaml", []byte("semantics: kep\n"))
	git(t, origin, "init", "-q", "-b", baseBranch)
	commit(t, origin, "base")
	p.base = head(t, origin)
	git(t, origin, "checkout", "-q", "-b", headBranch)
	write(crdName, next)
	commit(t, origin, "change")
	p.head = head(t, origin)
	git(t, origin, "config", "uploadpack.allowAnySHA1InWant", "true")
	git(t, "", "clone", "-q", "--depth", "1", "--branch", headBranch, "file://"+origin, p.dir)
	return p
}

func git(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %q: %v\n%s", args, err, out)
	}
	return string(out)
}

func commit(t *testing.T, dir, message string) {
	t.Helper()
	git(t, dir, "add", "-A")
	git(t, dir, "-c", "user.name=a", "-c", "user.email=a@example.com", "commit", "-qm", message)
}

// head returns the commit that is checked out.
func head(t *testing.T, dir string) string {
	t.Helper()
	return strings.TrimSpace(git(t, dir, "rev-parse", "HEAD"))
}

// notHacked fails if a name of a file or branch was run as a command.
func (p *project) notHacked(t *testing.T) {
	t.Helper()
	for _, root := range []string{p.dir, p.temp, "."} {
		_ = filepath.WalkDir(root, func(name string, d os.DirEntry, err error) error {
			if err == nil && d.Name() == "HACKED" {
				t.Errorf("%s exists: a name was run as a command", name)
			}
			return nil
		})
	}
}

// environment returns the variables that a job has, without those of the test.
func environment(variables map[string]string) []string {
	env := []string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.DevNull, "GIT_CONFIG_NOSYSTEM=1"}
	for name, value := range variables {
		env = append(env, name+"="+value)
	}
	return env
}

func contains(t *testing.T, text string, want ...string) {
	t.Helper()
	for _, w := range want {
		if !strings.Contains(text, w) {
			t.Errorf("%q is not in:\n%s", w, text)
		}
	}
}
