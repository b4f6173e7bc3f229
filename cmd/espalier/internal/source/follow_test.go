package source

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"
)

// follows lists the CRDs of each state of a server in turn, and answers watches with events.
type follows struct {
	lists  []string
	events []string
}

func (f *follows) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	next := func(from *[]string) string {
		if len(*from) == 0 {
			return ""
		}
		text := (*from)[0]
		*from = (*from)[1:]
		return text
	}
	if r.URL.Query().Get("watch") == "" {
		fmt.Fprintf(w, `{"kind": "CustomResourceDefinitionList", "metadata": {"resourceVersion": "5"}, "items": [%s]}`, next(&f.lists))
		return
	}
	text := next(&f.events)
	if text == "" {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	if text == forbidden {
		w.WriteHeader(http.StatusForbidden)
		return
	}
	fmt.Fprintln(w, text)
}

// forbidden stands for a watch that the server rejects.
const forbidden = "forbidden"

func event(kind, name, version string) string {
	return fmt.Sprintf(`{"type": %q, "object": {"metadata": {"name": %q, "resourceVersion": %q}}}`, kind, name, version)
}

// TestFollow follows a server that ends watches, has forgotten a version, and fails at last.
func TestFollow(t *testing.T) {
	t.Parallel()
	const a, b = `{"metadata": {"name": "a.b"}}`, `{"metadata": {"name": "b.b"}}`
	server := httptest.NewServer(&follows{lists: []string{a + "," + b, b}, events: []string{
		event("BOOKMARK", "", "6"),
		event("MODIFIED", "b.b", "7") + "\n" + event("ADDED", "c.b", "8") + "\n" + event("DELETED", "a.b", "9"),
		`{"type": "ERROR", "object": {"kind": "Status", "code": 410, "message": "too old"}}`,
		event("ADDED", "d.b", "10"),
	}})
	defer server.Close()
	var got []string
	err := follow(t.Context(), &rest.Config{Host: server.URL, Timeout: time.Minute}, func(u Update) {
		text := fmt.Sprint(u.Complete)
		for _, o := range u.CRDs {
			text += " " + o.Name
			if !strings.Contains(string(o.JSON), `"kind":"CustomResourceDefinition"`) {
				t.Errorf("%s is %s", o.Name, o.JSON)
			}
		}
		got = append(got, text+" -"+strings.Join(u.Deleted, " "))
	}, func(ctx context.Context, _ time.Duration) error { return ctx.Err() }, maxFollowed)
	if err == nil || !strings.HasPrefix(err.Error(), "watch the CRDs: ") {
		t.Errorf("got %v", err)
	}
	if want := "true a.b b.b -|false b.b c.b -a.b|true b.b -|false d.b -"; strings.Join(got, "|") != want {
		t.Errorf("got %s, want %s", strings.Join(got, "|"), want)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := Follow(ctx, &rest.Config{Host: server.URL}, func(Update) {}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// TestFollowPauses follows a server whose watches end at once, in different ways: the pauses get longer.
func TestFollowPauses(t *testing.T) {
	t.Parallel()
	const gone = `{"type": "ERROR", "object": {"kind": "Status", "code": 410, "message": "too old"}}`
	server := httptest.NewServer(&follows{events: []string{event("BOOKMARK", "", "6"), gone, gone, gone, forbidden, gone}})
	defer server.Close()
	var got []string
	lists := 0
	err := follow(t.Context(), &rest.Config{Host: server.URL, Timeout: time.Minute}, func(Update) { lists++ },
		func(_ context.Context, d time.Duration) error {
			got = append(got, d.String())
			return nil
		}, maxFollowed)
	if err == nil || lists != 6 {
		t.Errorf("%d lists, %v", lists, err)
	}
	if want := "200ms 400ms 800ms 1.6s 1m0s 3.2s"; strings.Join(got, " ") != want {
		t.Errorf("got %s, want %s", strings.Join(got, " "), want)
	}
}

// TestFollowEndless follows a server whose list of CRDs has no end.
func TestFollowEndless(t *testing.T) {
	t.Parallel()
	pages := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		pages++
		next := ""
		if pages < 1000 {
			next = "more"
		}
		fmt.Fprintf(w, `{"kind": "CustomResourceDefinitionList", "metadata": {"resourceVersion": "5", "continue": %q}, "items": [{"metadata": {"name": "a%05d.b"}}]}`, next, pages)
	}))
	defer server.Close()
	err := follow(t.Context(), &rest.Config{Host: server.URL, Timeout: time.Minute, QPS: -1}, func(Update) { t.Error("all CRDs are known") }, sleep, 100*definitionSize)
	if err == nil || !strings.HasPrefix(err.Error(), "list the CRDs: all of them are larger than ") || pages > 100 {
		t.Errorf("%d pages, %v", pages, err)
	}
}

// TestDefinitionCache writes CRDs with hostile names, and uses many servers.
func TestDefinitionCache(t *testing.T) {
	t.Parallel()
	root := filepath.Join(t.TempDir(), "clusters")
	config := &rest.Config{Host: "https://example.com:6443/a"}
	c, err := OpenDefinitionCache(root, config)
	if err != nil {
		t.Fatal(err)
	}
	text := []byte(`{"metadata": {"name": "a.b", "uid": "x", "annotations": {"x": "y", "kubectl.kubernetes.io/last-applied-configuration": "z"}}, "status": {}}`)
	for _, name := range []string{"../../x", "a/b", "", ".hidden", "a..b", strings.Repeat("a", 300), "A.b"} {
		if err := c.Write(Object{Name: name, JSON: text}); err == nil {
			t.Errorf("%q is written", name)
		}
	}
	if err := c.Write(Object{Name: "a.b", JSON: []byte(`{"metadata": {"name": "` + strings.Repeat("x", maxCachedBytes) + `"}}`)}); err == nil {
		t.Error("a large CRD is written")
	}
	if err := c.Write(Object{Name: "a.b", JSON: text}); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(c.Path("a.b"))
	if strings.Join(strings.Fields(string(got)), "") != `{"metadata":{"annotations":{"x":"y"},"name":"a.b"}}` || err != nil {
		t.Errorf("got %s, %v", got, err)
	}
	if c, err = OpenDefinitionCache(root, config); err != nil || strings.Join(c.Names(), " ") != "a.b" {
		t.Errorf("got %v, %v", c, err)
	}
	for i := range maxServers + 3 {
		if _, err := OpenDefinitionCache(root, &rest.Config{Host: "https://example.com", TLSClientConfig: rest.TLSClientConfig{CAData: []byte{byte(i)}}}); err != nil {
			t.Fatal(err)
		}
	}
	if entries, err := os.ReadDir(root); err != nil || len(entries) != maxServers {
		t.Errorf("%d servers are cached, %v", len(entries), err)
	}
	// Another process, or the user, has removed the directory.
	if err := os.RemoveAll(root); err != nil {
		t.Fatal(err)
	}
	if err := c.Write(Object{Name: "a.b", JSON: text}); err != nil {
		t.Error(err)
	}
	if err := errors.Join(c.Remove("a.b"), c.Remove("a.b")); err != nil {
		t.Error(err)
	}
}

// TestDefinitionCacheAttacks opens directories that others may write to, and files that are not what
// they seem.
func TestDefinitionCacheAttacks(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("modes have no meaning")
	}
	config := &rest.Config{Host: "https://example.com"}
	open := func(root string) error {
		_, err := OpenDefinitionCache(root, config)
		return err
	}
	root := filepath.Join(t.TempDir(), "clusters")
	if err := open(root); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(root, ServerName(config))
	for _, path := range []string{root, dir} {
		if err := os.Chmod(path, 0o777); err != nil {
			t.Fatal(err)
		}
		if err := open(root); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("got %v", err)
		}
		if err := os.Chmod(path, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(root, link); err != nil {
		t.Fatal(err)
	}
	if err := open(link); err == nil {
		t.Error("a symbolic link is opened")
	}
	left, recent := filepath.Join(dir, ".new-1"), filepath.Join(dir, ".new-2")
	long := time.Now().Add(-2 * time.Hour)
	err := errors.Join(os.WriteFile(left, nil, 0o600), os.WriteFile(recent, nil, 0o600), os.Chtimes(left, long, long))
	if err := errors.Join(err, open(root)); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(left); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v", err)
	}
	if _, err := os.Stat(recent); err != nil {
		t.Error(err)
	}
	// A link in the place of a CRD is replaced, also if it leads to the same text.
	c, err := OpenDefinitionCache(root, config)
	object := Object{Name: "a.b", JSON: []byte(`{"metadata": {"name": "a.b"}}`)}
	if err := errors.Join(err, c.Write(object), os.Rename(c.Path("a.b"), recent), os.Symlink(recent, c.Path("a.b")), c.Write(object)); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Lstat(c.Path("a.b")); err != nil || !info.Mode().IsRegular() {
		t.Errorf("got %v, %v", info, err)
	}
}
