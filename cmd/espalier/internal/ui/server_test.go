package ui_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"espalier.dev/cmd/espalier/internal/ui"
	"espalier.dev/schema"
	"espalier.dev/web/protocol"
)

// start serves the page, and returns its link.
func start(t *testing.T, files *ui.Files) string {
	t.Helper()
	l := httptest.NewUnstartedServer(nil)
	handler := ui.New(ui.Options{Engine: protocol.New(protocol.Options{}), Files: files, Semantics: schema.Kubernetes}, l.Listener.Addr())
	l.Config.Handler = handler
	l.Start()
	t.Cleanup(l.Close)
	return handler.URL()
}

// browser is a client with a token.
type browser struct {
	t           *testing.T
	base, token string
}

func (b *browser) send(method, path, body string, change func(*http.Request)) (*http.Response, string) {
	b.t.Helper()
	r, err := http.NewRequest(method, b.base+path, strings.NewReader(body))
	if err != nil {
		b.t.Fatal(err)
	}
	if b.token != "" {
		r.Header.Set("Espalier-Token", b.token)
	}
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/json")
	}
	if change != nil {
		change(r)
	}
	response, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		b.t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	if len(response.Cookies()) > 0 {
		b.t.Error("sets a cookie, which the servers on all other ports get, too")
	}
	return response, string(text)
}

// logIn returns a browser with the token of a link.
func logIn(t *testing.T, link string) *browser {
	t.Helper()
	base, token, ok := strings.Cut(link, "/#token=")
	if !ok || len(token) < 32 {
		t.Fatalf("the link has no token: %s", link)
	}
	return &browser{t: t, base: base, token: token}
}

func TestAccess(t *testing.T) {
	t.Parallel()
	b := logIn(t, start(t, nil))
	for _, token := range []string{"", "x", b.token + "x"} {
		stranger := &browser{t: t, base: b.base, token: token}
		for _, path := range []string{"/api/workspace", "/api/check?token=" + b.token, "/api/nothing"} {
			if r, _ := stranger.send("POST", path, "{}", nil); r.StatusCode != http.StatusUnauthorized {
				t.Errorf("%s with the token %q: %d", path, token, r.StatusCode)
			}
		}
		if r, text := stranger.send("GET", "/", "", nil); r.StatusCode != 200 || strings.Contains(text, b.token) || !strings.Contains(text, `content="native"`) ||
			!strings.Contains(text, `name="espalier-semantics" content="kubernetes"`) || !strings.Contains(r.Header.Get("Content-Security-Policy"), "default-src 'none'") {
			t.Errorf("%d %s", r.StatusCode, text)
		}
	}
	for path, want := range map[string]string{"/": "text/html", "/page.js": "text/javascript", "/page.css": "text/css", "/icon.svg": "image/svg+xml"} {
		if r, _ := b.send("GET", path, "", nil); r.StatusCode != 200 || !strings.HasPrefix(r.Header.Get("Content-Type"), want) {
			t.Errorf("%s: %d %s", path, r.StatusCode, r.Header.Get("Content-Type"))
		}
	}
	check := `{"objects": "a: 1"}`
	if r, text := b.send("POST", "/api/check", check, nil); r.StatusCode != 200 || !strings.Contains(text, `"answer"`) {
		t.Errorf("%d %s", r.StatusCode, text)
	}
	for name, c := range map[string]struct {
		method, path string
		change       func(*http.Request)
		want         int
	}{
		"another host":        {"POST", "/api/check", func(r *http.Request) { r.Host = "attacker.example:80" }, 403},
		"localhost":           {"GET", "/", func(r *http.Request) { r.Host = "localhost" }, 403},
		"another origin":      {"POST", "/api/check", func(r *http.Request) { r.Header.Set("Origin", "https://attacker.example") }, 403},
		"no origin":           {"POST", "/api/check", func(r *http.Request) { r.Header.Set("Origin", "null") }, 403},
		"another site":        {"POST", "/api/check", func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") }, 403},
		"a script elsewhere":  {"GET", "/page.js", func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") }, 403},
		"a form":              {"POST", "/api/check", func(r *http.Request) { r.Header.Set("Content-Type", "text/plain") }, 415},
		"a request by GET":    {"GET", "/api/check", nil, 405},
		"a file by POST":      {"POST", "/page.js", nil, 405},
		"a file that is none": {"GET", "/../server.go", nil, 404},
	} {
		t.Run(name, func(t *testing.T) {
			b := *b
			b.t = t
			if r, text := b.send(c.method, c.path, check, c.change); r.StatusCode != c.want {
				t.Errorf("%d %s", r.StatusCode, text)
			}
		})
	}
	if r, _ := b.send("GET", "/api/workspace", "", nil); r.StatusCode != http.StatusNoContent {
		t.Errorf("without a directory: %d", r.StatusCode)
	}
}

// TestPort80 shows that the page works on port 80, which browsers leave out of the headers.
func TestPort80(t *testing.T) {
	t.Parallel()
	handler := ui.New(ui.Options{Engine: protocol.New(protocol.Options{}), Semantics: schema.KEP}, &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 80})
	for host, want := range map[string]int{"127.0.0.1": 200, "127.0.0.1:80": 200, "127.0.0.1:8080": 403, "attacker.example": 403} {
		r := httptest.NewRequest("GET", "/", nil)
		r.Host = host
		r.Header.Set("Origin", "http://127.0.0.1")
		w := httptest.NewRecorder()
		if handler.ServeHTTP(w, r); w.Code != want {
			t.Errorf("%s: %d, want %d", host, w.Code, want)
		}
	}
}

func TestLarge(t *testing.T) {
	if testing.Short() {
		t.Skip("sends 40 MB")
	}
	t.Parallel()
	b := logIn(t, start(t, nil))
	if r, text := b.send("POST", "/api/check", `{"objects": "`+strings.Repeat("x", 40<<20)+`"}`, nil); r.StatusCode != 200 || !strings.Contains(text, "too-large") {
		t.Errorf("%d %.200s", r.StatusCode, text)
	}
}

func TestFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("a.yaml", "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\n---\napiVersion: v1\nkind: ConfigMap # of a\n---\nno: manifest\n")
	write("sub/b.json", `{"apiVersion": "v1", "kind": "Secret"}`)
	const item = "apiVersion: apiextensions.k8s.io/v1\n  kind: CustomResourceDefinition\n"
	write("list.yaml", "apiVersion: v1\nkind: List\nitems:\n- "+item)
	write("mixed.yaml", "apiVersion: v1\nkind: List\nitems:\n- "+item+"- {apiVersion: v1, kind: Node}\n")
	write(".git/c.yaml", "apiVersion: v1\nkind: Hidden\n")
	write("notes.txt", "apiVersion: v1\nkind: Text\n")
	files, err := ui.NewFiles("", dir)
	if err != nil {
		t.Fatal(err)
	}
	b := logIn(t, start(t, files))
	r, text := b.send("GET", "/api/workspace", "", nil)
	for _, want := range []string{`"name":"a.yaml","crds":"apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\n","objects":"apiVersion: v1\nkind: ConfigMap # of a\n"`, `"name":"sub/b.json","crds":"","objects":"{\"apiVersion\": \"v1\", \"kind\": \"Secret\"}\n"`,
		`"name":"list.yaml","crds":"apiVersion: v1\nkind: List\nitems:\n- apiVersion: apiextensions.k8s.io/v1\n  kind: CustomResourceDefinition\n","objects":""`,
		`"name":"mixed.yaml","crds":"{\"apiVersion\":\"apiextensions.k8s.io/v1\",\"kind\":\"CustomResourceDefinition\"}\n","objects":"{\"apiVersion\":\"v1\",\"kind\":\"Node\"}\n"`} {
		if !strings.Contains(text, want) {
			t.Errorf("%s is not in %s", want, text)
		}
	}
	if strings.Contains(text, "Hidden") || strings.Contains(text, "kind: Text") {
		t.Errorf("has files that are no manifests: %s", text)
	}
	tag := r.Header.Get("ETag")
	same := func(r *http.Request) { r.Header.Set("If-None-Match", tag) }
	if r, _ := b.send("GET", "/api/workspace", "", same); r.StatusCode != http.StatusNotModified {
		t.Errorf("unchanged files: %d", r.StatusCode)
	}
	write("sub/b.json", `{"apiVersion": "v1", "kind": "Service"}`)
	if err := os.Chtimes(filepath.Join(dir, "sub/b.json"), time.Now(), time.Now().Add(time.Second)); err != nil {
		t.Fatal(err)
	}
	if r, text := b.send("GET", "/api/workspace", "", same); r.StatusCode != 200 || !strings.Contains(text, "Service") {
		t.Errorf("changed files: %d %s", r.StatusCode, text)
	}
	write("node_modules/d.yaml", "apiVersion: v1\nkind: Dependency\n")
	write("vendor/d.yaml", "apiVersion: v1\nkind: Dependency\n")
	write("broken.yaml", "apiVersion: v1\nkind: Good\n---\na: \xff\n")
	if r, text := b.send("GET", "/api/workspace", "", same); r.StatusCode != 200 || strings.Contains(text, "Dependency") || !strings.Contains(text, "Good") ||
		!strings.Contains(text, `"problem":"broken.yaml: `) {
		t.Errorf("%d %s", r.StatusCode, text)
	}
	for i := range 600 {
		write(fmt.Sprintf("data/%d.json", i), "{}")
	}
	if _, text := b.send("GET", "/api/workspace", "", nil); strings.Contains(text, "only the first") || !strings.Contains(text, "Service") {
		t.Errorf("files without manifests count: %s", text)
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	if linked, err := ui.NewFiles("", link); err != nil {
		t.Error(err)
	} else if found, err := linked.Read(t.Context()); err != nil || len(found.Files) < 3 || found.Root != "link" {
		t.Errorf("a link to the directory: %v %+v", err, found)
	}
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := files.Read(canceled); err == nil {
		t.Error("reads for a browser that is gone")
	}
	if _, err := ui.NewFiles("", filepath.Join(dir, "a.yaml")); err == nil {
		t.Error("a file is a directory")
	}
}

// TestFilesAboveLimits shows that the files that do not fit are named, and that smaller ones after them are shown.
func TestFilesAboveLimits(t *testing.T) {
	t.Parallel()
	large := "apiVersion: v1\nkind: ConfigMap\ndata: {a: " + strings.Repeat("a", 3<<20) + "}\n"
	const small = "apiVersion: v1\nkind: ConfigMap\n"
	many := map[string]string{}
	for i := range 602 {
		many[fmt.Sprintf("%03d.yaml", i)] = small
	}
	for name, test := range map[string]struct {
		files map[string]string
		shown int
		want  string
	}{
		"size": {map[string]string{"a.yaml": large, "b.yaml": large, "c.yaml": small, "d.yaml": large, "e.yaml": "{}"}, 2,
			"only 500 files and 4 MiB of manifests are shown, without b.yaml, d.yaml"},
		"a file": {map[string]string{"a.yaml": large + "---\n" + large, "b.yaml": large + "---\n" + large, "c.yaml": small}, 1,
			"a.yaml: larger than 4 MiB; more files have problems: b.yaml"},
		"number": {many, 500, "599.yaml and 2 more"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for file, text := range test.files {
				if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			files, err := ui.NewFiles("", dir)
			if err != nil {
				t.Fatal(err)
			}
			found, err := files.Read(t.Context())
			if err != nil || len(found.Files) != test.shown || !strings.HasSuffix(found.Problem, test.want) {
				t.Errorf("shows %d files, and the problem %q, want %q: %v", len(found.Files), found.Problem, test.want, err)
			}
		})
	}
}
