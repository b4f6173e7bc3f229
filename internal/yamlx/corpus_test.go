package yamlx

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// corpus visits the files of the corpus. The test is skipped if there is none.
func corpus(t testing.TB, visit func(path string, src []byte)) {
	t.Helper()
	root := os.Getenv("ESPALIER_CORPUS")
	if root == "" {
		root = filepath.Join("..", "..", "..", "shared", "corpus")
	}
	n := 0
	err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || !strings.HasSuffix(path, ".yaml") {
			return err
		}
		src, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		n++
		visit(strings.TrimPrefix(path, root), src)
		return nil
	})
	if n == 0 {
		t.Skipf("no corpus in %s (%v): set ESPALIER_CORPUS to its directory", root, err)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// documents reads all documents of src.
func documents(t testing.TB, src []byte) []*Document {
	t.Helper()
	r := NewReader(strings.NewReader(string(src)), Options{})
	var ds []*Document
	for {
		d, err := r.Next()
		if isEOF(err) {
			return ds
		}
		if err != nil {
			t.Fatal(err)
		}
		ds = append(ds, d)
	}
}
