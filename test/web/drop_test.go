package web

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
)

// TestDrop drops files and a folder on the page.
func TestDrop(t *testing.T) {
	t.Parallel()
	b := open(t, serve(t), 1440, 900, false)
	b.text("Rejected")
	drop := func(paths ...string) {
		t.Helper()
		data := &input.DragData{Items: []*input.DragDataItem{}, Files: paths, DragOperationsMask: 1}
		for _, kind := range []input.DispatchDragEventType{input.DragEnter, input.DragOver, input.Drop} {
			b.run(input.DispatchDragEvent(kind, 700, 400, data))
		}
	}
	dir := t.TempDir()
	write := func(name, text string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	t.Run("files", func(t *testing.T) {
		drop(write("one.yaml", costlyCRD+"---\napiVersion: example.com/v1\nkind: Thing\nmetadata: {name: dropped}\n"), write("notes.txt", "text"))
		b.wait(`editor("Object").value().includes("name: dropped")`)
		b.wait(`editor("CustomResourceDefinitions").value().includes("things.example.com") && !editor("CustomResourceDefinitions").value().includes("dropped")`)
		b.text("Accepted: an API server would create this object")
	})
	t.Run("a folder", func(t *testing.T) {
		write("folder/crds/crd.json", `{"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "tests.example.com"}}`)
		write("folder/objects/deep/object.yml", "apiVersion: example.com/v1\nkind: Test\nmetadata: {name: deep}\n")
		write("folder/.hidden/object.yml", "kind: Hidden\n")
		drop(filepath.Join(dir, "folder"))
		b.wait(`editor("Object").value().includes("name: deep") && !editor("Object").value().includes("Hidden")`)
		b.wait(`editor("CustomResourceDefinitions").value().includes("tests.example.com")`)
	})
	t.Run("lists of CRDs", func(t *testing.T) {
		const crd = `{"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "NAME.example.com"}}`
		write("lists/crds.json", `{"apiVersion": "v1", "kind": "List", "items": [`+strings.Replace(crd, "NAME", "jsons", 1)+`]}`)
		write("lists/crds.yaml", "apiVersion: v1\nkind: List\nitems:\n- apiVersion: apiextensions.k8s.io/v1\n  kind: CustomResourceDefinition\n  metadata: {name: yamls.example.com}\n")
		write("lists/object.yaml", "apiVersion: example.com/v1\nkind: Test\nmetadata: {name: refers}\nspec:\n  to:\n    kind: CustomResourceDefinition\n")
		write("lists/objects.yaml", "apiVersion: v1\nkind: List\nitems:\n- kind: Test\n  spec:\n    kind: CustomResourceDefinition\n  metadata: {name: listed}\n")
		drop(filepath.Join(dir, "lists"))
		b.wait(`["refers", "listed"].every((name) => editor("Object").value().includes(name)) && !editor("Object").value().includes("example.com\"}")`)
		b.wait(`["jsons", "yamls"].every((name) => editor("CustomResourceDefinitions").value().includes(name + ".example.com"))`)
	})
	t.Run("too many files", func(t *testing.T) {
		var files []string
		for i := range 201 {
			files = append(files, write(fmt.Sprintf("many/%03d.yaml", i), fmt.Sprintf("kind: Test%03d\n", i)))
		}
		for name, open := range map[string]func(){
			"dropped": func() { drop(filepath.Join(dir, "many")) },
			"chosen":  func() { b.run(chromedp.SetUploadFiles("#chooser", files, chromedp.ByQuery, chromedp.NodeReady)) },
		} {
			b.shows("only the first 200 files were read", open)
			if got := b.eval(`editor("Object").value().split("---").length`); got != "200" {
				t.Errorf("%s documents are %s", got, name)
			}
		}
	})
	t.Run("too large", func(t *testing.T) {
		large := "kind: Large\ntext: " + strings.Repeat("a", 3<<20) + "\n"
		drop(write("large/a.yaml", "kind: First\n"), write("large/b.yaml", large+"---\n"+large), write("large/c.yaml", "kind: Last\n"))
		const missing = "the files are larger than 4 MiB: without b.yaml"
		b.text(missing)
		b.wait(`["First", "Last"].every((kind) => editor("Object").value().includes(kind))`)
		b.shows("the link is not complete", func() { b.visit("#s=$$$") })
		b.text(missing)
		pick(b, "Where the two semantics differ")
		b.wait(`!document.body.innerText.includes(` + quoted(t, missing) + `)`)
	})
	t.Run("nothing to read", func(t *testing.T) {
		b.shows("there is no file with the extension .yaml, .yml or .json", func() { drop(write("other.txt", "text")) })
	})
}
