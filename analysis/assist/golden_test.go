package assist_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"espalier.dev/analysis/assist"
	"espalier.dev/api/codec"
	"espalier.dev/crd"
	"espalier.dev/crd/cel"
	"espalier.dev/internal/testcase"
	"espalier.dev/internal/yamlx"
	"espalier.dev/kinds/schemas"
	"espalier.dev/schema"
)

var update = flag.Bool("update", false, "rewrite golden files")

// cursor marks the cursor in a document of a test.
const cursor = "█"

// TestGolden runs the cases in testdata. A case starts with === and a name. Its document has the mark
// █ at the cursor, \t and \r for tabs and carriage returns in a line that ends with ¶, and ends with a
// line >>>, after which the expected result follows. The files are named after what is asked.
func TestGolden(t *testing.T) {
	for name, ask := range map[string]func(*testing.T, []byte, int) string{
		"place": showPlace, "complete": showItems, "complete-crd": showItems, "hover": showHover, "schema": showSchema, "fixes": showFixes,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join("testdata", name+".txt")
			cases, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var got strings.Builder
			for i, c := range strings.Split(string(cases), "\n=== ") {
				title, rest, _ := strings.Cut(c, "\n")
				document, _, found := strings.Cut(rest, "\n>>>\n")
				if !found {
					document, _, found = strings.Cut(rest, ">>>\n")
				}
				if i > 0 {
					got.WriteString("\n=== ")
				}
				if !found {
					t.Fatalf("%s: the case %q has no line >>>", file, title)
				}
				text, at := marked(t, document)
				got.WriteString(title + "\n" + document + "\n>>>\n" + strings.TrimRight(ask(t, text, at), "\n") + "\n")
			}
			testcase.Golden(t, file, got.String(), *update)
		})
	}
}

// marked returns the text of a case and the offset of its mark.
func marked(t *testing.T, document string) ([]byte, int) {
	t.Helper()
	lines := strings.Split(document, "\n")
	for i, line := range lines {
		if special, ok := strings.CutSuffix(line, "¶"); ok {
			lines[i] = strings.NewReplacer(`\t`, "\t", `\r`, "\r").Replace(special)
		}
	}
	text := strings.Join(lines, "\n")
	at := strings.Index(text, cursor)
	if at < 0 {
		t.Fatalf("no cursor in:\n%s", document)
	}
	return []byte(strings.Replace(text, cursor, "", 1)), at
}

// world has the CRDs of testdata and the built-in kinds.
type world struct {
	definitions []*crd.Definition
	builtin     []*schemas.Kind
	mu          sync.Mutex
	made        map[string]*crd.Version
}

var theWorld = sync.OnceValues(func() (*world, error) {
	text, err := os.ReadFile(filepath.Join("testdata", "crds.yaml"))
	if err != nil {
		return nil, err
	}
	d, err := definition(text)
	return &world{definitions: []*crd.Definition{d}, builtin: schemas.All(), made: map[string]*crd.Version{}}, err
})

// definition reads a CRD.
func definition(text []byte) (*crd.Definition, error) {
	d, err := yamlx.Parse(text)
	if err != nil {
		return nil, err
	}
	data, err := d.JSON()
	if err != nil {
		return nil, err
	}
	c, err := codec.DecodeLenient(data)
	if err != nil {
		return nil, err
	}
	return crd.New(c, crd.Options{Semantics: schema.Kubernetes, Rules: cel.Checker{}})
}

// version returns the version for an apiVersion and kind, or nil.
func (w *world) version(apiVersion, kind string) *crd.Version {
	for _, d := range w.definitions {
		for _, v := range d.Versions() {
			if gvk := v.GroupVersionKind(); gvk.GroupVersion().String() == apiVersion && gvk.Kind == kind {
				return v
			}
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if v, ok := w.made[apiVersion+kind]; ok {
		return v
	}
	for _, k := range w.builtin {
		if k.Names.Kind != kind {
			continue
		}
		for _, v := range k.Versions {
			if apiVersion == k.Group+"/"+v.Name || k.Group == "" && apiVersion == v.Name {
				d, err := k.Definition()
				if err != nil {
					return nil
				}
				w.made[apiVersion+kind] = d.Version(v.Name)
				return d.Version(v.Name)
			}
		}
	}
	return nil
}

// kinds returns some kinds.
func (w *world) kinds() []assist.Kind {
	return []assist.Kind{
		{APIVersion: "stable.example.com/v1", Kind: "CronTab", Description: "A job that runs again and again."},
		{APIVersion: "stable.example.com/v1beta1", Kind: "CronTab", Deprecated: true},
		{APIVersion: "apps/v1", Kind: "Deployment"}, {APIVersion: "apps/v1", Kind: "StatefulSet"},
		{APIVersion: "v1", Kind: "Secret"}, {APIVersion: "v1", Kind: "Service"},
	}
}

// names returns names that show what was asked for.
func (w *world) names(r assist.Reference) []string {
	kind := strings.ToLower(r.Kind)
	if r.AnyGroup {
		return []string{"any-" + kind}
	}
	return []string{strings.Trim(r.Group+"."+kind, "."), strings.Trim(r.Namespace+"/"+kind+"-2", "/")}
}

// env returns what is known about a document.
func env(t testing.TB, text []byte) assist.Env {
	t.Helper()
	w, err := theWorld()
	if err != nil {
		t.Fatal(err)
	}
	root := assist.Locate(text, 0).Root
	e := assist.Env{Version: w.version(root["apiVersion"], root["kind"]), Kinds: w.kinds, Resource: w.version, Names: w.names,
		Rules: func(v *crd.Version) *schema.RuleReport {
			return cel.Checker{}.CheckRules(context.Background(), crd.RuleCheck{Root: v.Structural()})
		}}
	e.BuiltIn = e.Version != nil && e.Version.Definition() != w.definitions[0]
	if root["kind"] == "CustomResourceDefinition" {
		e.Definition, _ = definition(text)
	}
	return e
}

func showPlace(t *testing.T, text []byte, at int) string {
	p := assist.Locate(text, at)
	out := fmt.Sprintf("%s %s %q in %q", p.Position, p.Path.Pointer(), p.Prefix, text[p.Range.Start:p.Range.End])
	for _, flag := range []struct {
		set  bool
		name string
	}{{p.OwnLine, "own line"}, {p.Item, "item"}, {p.NeedsSpace, "needs space"}, {p.Flow, "flow"}, {p.JSON, "JSON"}, {p.Complete, "complete"}} {
		if flag.set {
			out += ", " + flag.name
		}
	}
	return out + fmt.Sprintf("\nindent %d, step %d, dash %d, keys %v, siblings %v", p.Indent, p.Step, p.Dash, p.Keys, p.Siblings)
}

// mostItems limits the items that are shown.
const mostItems = 14

func showItems(t *testing.T, text []byte, at int) string {
	items := assist.Complete(text, at, env(t, text))
	if len(items) == 0 {
		return "nothing"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%q becomes\n", text[items[0].Range.Start:items[0].Range.End])
	for i, item := range items {
		if i == mostItems {
			fmt.Fprintf(&b, "and %d more\n", len(items)-i)
			break
		}
		fmt.Fprintf(&b, "%s: %q", item.Kind, item.Insert)
		if item.Detail != "" {
			fmt.Fprintf(&b, " (%s)", item.Detail)
		}
		if item.Preselect {
			b.WriteString(" preselected")
		}
		if item.Deprecated {
			b.WriteString(" deprecated")
		}
		b.WriteByte('\n')
	}
	return b.String()
}

func showHover(t *testing.T, text []byte, at int) string {
	h := assist.HoverAt(text, at, env(t, text))
	if h == nil {
		return "nothing"
	}
	return fmt.Sprintf("%q\n%s", text[h.Range.Start:h.Range.End], h.Markdown)
}

func showSchema(t *testing.T, text []byte, at int) string {
	if f := assist.FieldAt(text, at); f != nil {
		return fmt.Sprintf("%s/%s %s %s", f.Group, f.Version, f.Kind, f.Path)
	}
	s := assist.SchemaAt(text, at, env(t, text))
	if s == nil {
		return "nothing"
	}
	return fmt.Sprintf("%s%s, exact %v", s.Version.GroupVersionKind(), s.Pointer, s.Exact)
}
