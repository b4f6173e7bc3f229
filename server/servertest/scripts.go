package servertest

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"espalier.dev/schema"
)

// File is a file with a script.
type File struct {
	// Name is the name of the file without its directory and extension.
	Name string

	path    string
	archive *txtar.Archive
	servers map[string]*Running
}

// Scripts returns the scripts in files that match a pattern. It starts the servers that they share,
// one for each semantics.
func Scripts(t *testing.T, pattern string) (scripts []*File) {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		t.Fatal("no scripts", err)
	}
	servers := map[string]*Running{}
	for _, sem := range []schema.Semantics{schema.KEP, schema.Kubernetes} {
		servers[sem.String()] = Serve(t, sem)
	}
	for _, path := range files {
		archive, err := txtar.ParseFile(path)
		if err != nil {
			t.Fatal(err)
		}
		name := strings.TrimSuffix(filepath.Base(path), ".txtar")
		scripts = append(scripts, &File{Name: name, path: path, archive: archive, servers: servers})
	}
	return scripts
}

var only = regexp.MustCompile(`(?m)^only (\w+)$`)

// Run runs the script over HTTP, parallel to other tests, in a subtest for each semantics.
func (f *File) Run(t *testing.T) {
	t.Parallel()
	for sem, r := range f.servers {
		if m := only.FindSubmatch(f.archive.Comment); m == nil || string(m[1]) == sem {
			t.Run(sem, func(t *testing.T) {
				s := newScript(t, r, f.archive)
				s.semantics = sem
				s.run(f.path)
			})
		}
	}
}

// RunScript runs the script in a file on a server.
func RunScript(t testing.TB, r *Running, file string) {
	t.Helper()
	archive, err := txtar.ParseFile(file)
	if err != nil {
		t.Fatal(err)
	}
	s := newScript(t, r, archive)
	s.semantics = r.Options.Semantics.String()
	s.run(file)
}
