package openapi

import (
	"bytes"
	"encoding/json"
	"flag"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write docs.json or markers.json")

// TestDocs holds docs.json to what the sources of the API types say. With -update it
// writes the file.
func TestDocs(t *testing.T) {
	docs := map[string]map[string]map[string]string{}
	for _, dir := range []string{"../api", "../api/v1beta1"} {
		docs[filepath.Base(dir)] = readDocs(t, dir)
	}
	var want bytes.Buffer
	enc := json.NewEncoder(&want)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(docs); err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile("docs.json", want.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if !bytes.Equal(docsJSON, want.Bytes()) {
		t.Error("docs.json is not what the sources of the API types say: run go test ./openapi -run TestDocs -update")
	}
}

// readDocs reads the comments on the structs of a package and on their fields.
func readDocs(t *testing.T, dir string) map[string]map[string]string {
	t.Helper()
	out := map[string]map[string]string{}
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no sources in %s: %v", dir, err)
	}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		for _, decl := range file.Decls {
			gen, ok := decl.(*ast.GenDecl)
			if !ok {
				continue
			}
			for _, s := range gen.Specs {
				ts, ok := s.(*ast.TypeSpec)
				if !ok || !ts.Name.IsExported() {
					continue
				}
				st, ok := ts.Type.(*ast.StructType)
				if !ok {
					continue
				}
				doc := map[string]string{}
				put(doc, "", text(gen.Doc))
				for _, f := range st.Fields.List {
					if f.Tag == nil || len(f.Names) == 0 {
						continue
					}
					tag := reflect.StructTag(strings.Trim(f.Tag.Value, "`"))
					name, _, _ := strings.Cut(tag.Get("json"), ",")
					said := text(f.Doc)
					if rest, ok := strings.CutPrefix(said, f.Names[0].Name+" "); ok {
						said = name + " " + rest
					}
					put(doc, name, said)
				}
				out[ts.Name.Name] = doc
			}
		}
	}
	return out
}

func put(doc map[string]string, name, text string) {
	if text != "" {
		doc[name] = text
	}
}

// text is the first paragraph of a comment: what comes after it is for programmers.
func text(c *ast.CommentGroup) string {
	first, _, _ := strings.Cut(c.Text(), "\n\n")
	return strings.Join(strings.Fields(first), " ")
}
