package assist_test

import (
	"context"
	"fmt"
	"strings"

	"espalier.dev/analysis"
	"espalier.dev/analysis/assist"
	"espalier.dev/analysis/object"
	"espalier.dev/api/codec"
	"espalier.dev/crd"
	"espalier.dev/schema"
)

const backups = `{
  "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
  "metadata": {"name": "backups.example.com"},
  "spec": {
    "group": "example.com", "scope": "Namespaced",
    "names": {"plural": "backups", "singular": "backup", "kind": "Backup", "listKind": "BackupList"},
    "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
      "type": "object",
      "properties": {"spec": {
        "type": "object",
        "required": ["image"],
        "properties": {
          "image": {"type": "string", "description": "What to run."},
          "policy": {"type": "string", "enum": ["Keep", "Replace"], "default": "Keep"}
        }
      }}
    }}}]
  }
}`

// backupEnv returns what is known about a Backup.
func backupEnv() assist.Env {
	c, err := codec.DecodeLenient([]byte(backups))
	if err != nil {
		panic(err)
	}
	d, err := crd.New(c, crd.Options{Semantics: schema.Kubernetes})
	if err != nil {
		panic(err)
	}
	return assist.Env{Version: d.Version("v1")}
}

func ExampleLocate() {
	text := "kind: Backup\nspec:\n  ports:\n  - name: http\n    po"
	p := assist.Locate([]byte(text), len(text))
	fmt.Println(p.Position, p.Path, p.Prefix, p.Keys, p.Indent)
	// Output: key spec.ports[0].po po [name] 4
}

func ExampleComplete() {
	text := "apiVersion: example.com/v1\nkind: Backup\nspec:\n  po\n  image: backup\n"
	for _, item := range assist.Complete([]byte(text), strings.Index(text, "po\n")+2, backupEnv()) {
		fmt.Printf("%s (%s) inserts %q for %q\n", item.Label, item.Detail, item.Insert, text[item.Range.Start:item.Range.End])
	}
	text = "apiVersion: example.com/v1\nkind: Backup\nspec:\n  policy: "
	for _, item := range assist.Complete([]byte(text), len(text), backupEnv()) {
		fmt.Println(item.Insert, item.Detail)
	}
	// Output:
	// policy (string) inserts "policy: " for "po"
	// Keep default
	// Replace
}

func ExampleHoverAt() {
	text := "apiVersion: example.com/v1\nkind: Backup\nspec:\n  image: backup\n  polcy: Keep\n"
	for _, word := range []string{"image", "polcy"} {
		fmt.Println(assist.HoverAt([]byte(text), strings.Index(text, word), backupEnv()).Markdown)
		fmt.Println()
	}
	// Output:
	// **image** `string` *required*
	//
	// What to run.
	//
	// **polcy** is **pruned**: the schema of `spec` does not specify it, and nothing preserves it
	//
	// Did you mean `policy`?
	//
	// `x-kubernetes-preserve-unknown-fields: true` in that schema would preserve it.
}

func ExampleSchemaAt() {
	text := "apiVersion: example.com/v1\nkind: Backup\nspec:\n  image: backup\n"
	fmt.Println(assist.SchemaAt([]byte(text), strings.Index(text, "image"), backupEnv()).Pointer)
	// Output: /spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/image
}

func ExampleFieldAt() {
	f := assist.FieldAt([]byte(backups), strings.Index(backups, `"image": {`)+1)
	fmt.Println(f.Group, f.Version, f.Kind, f.Path)
	text := "apiVersion: example.com/v1\nkind: Backup\nspec:\n  image: backup\n"
	for _, r := range f.In([]byte(text)) {
		fmt.Println(r, text[r.Start:r.End])
	}
	// Output:
	// example.com v1 Backup .properties[spec].properties[image]
	// {48 53} image
}

func ExampleFixes() {
	text := `{"apiVersion": "example.com/v1", "kind": "Backup", "metadata": {"name": "a"}, "spec": {"polcy": "Keep"}}`
	env := backupEnv()
	checker := object.New(env.Version.Definition(), object.Options{})
	findings := checker.Check(context.Background(), []byte(text), nil, object.Warn)
	analysis.Sort(findings)
	for _, finding := range findings {
		for _, fix := range assist.Fixes([]byte(text), finding, env) {
			fmt.Println(fix.Message, fix.Edits)
		}
	}
	// Output:
	// Add image [{set /spec/image  example}]
	// Rename polcy to policy [{rename /spec/polcy policy <nil>}]
	// Remove polcy, which the API server drops [{remove /spec/polcy  <nil>}]
}

func ExampleFunctions() {
	for _, f := range assist.Functions() {
		if f.Receiver == "string" && strings.HasPrefix(f.Name, "s") {
			fmt.Println(f.Name+f.Signature, "-", f.Doc)
		}
	}
	// Output:
	// size() int - the number of characters
	// startsWith(string) bool - whether the string starts with another
	// split(separator) list(string) - the parts between separators
	// substring(start, end) string - the part from an index to another
}
