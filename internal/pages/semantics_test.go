package pages

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// differences matches the comment in the page about semantics that names the predicates whose differences
// the commands up to the next heading show.
var differences = regexp.MustCompile(`^<!-- differences: (.*) -->$`)

// TestSemantics checks that docs/explanation/semantics.md has an example for each difference of the two
// semantics, with commands in both of them, and that it names no others.
func TestSemantics(t *testing.T) {
	root := Root(t)
	page, err := Read(root, "docs/explanation/semantics.md")
	if err != nil {
		t.Fatal(err)
	}
	predicates := predicates(t, filepath.Join(root, "schema", "semantics.go"))
	if len(predicates) < 20 {
		t.Errorf("only %d predicates were found", len(predicates))
	}
	shown := shownIn(page)
	for _, p := range predicates {
		if !shown[p] {
			t.Errorf("%s has no example of %s in both semantics", page.Name, p)
		}
		delete(shown, p)
	}
	for p := range shown {
		t.Errorf("%s names %s, and schema.Semantics does not have it", page.Name, p)
	}
}

// predicates returns the methods of Semantics that return a bool.
func predicates(t *testing.T, path string) (names []string) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range file.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok || f.Recv == nil || f.Type.Results == nil || len(f.Type.Results.List) != 1 {
			continue
		}
		receiver, _ := f.Recv.List[0].Type.(*ast.Ident)
		result, _ := f.Type.Results.List[0].Type.(*ast.Ident)
		if receiver != nil && receiver.Name == "Semantics" && result != nil && result.Name == "bool" {
			names = append(names, f.Name.Name)
		}
	}
	return names
}

// shownIn returns the names in the comments of a page, each with whether commands in both semantics follow
// before the next heading.
func shownIn(p Page) map[string]bool {
	shown := map[string]bool{}
	var names []string
	var first int
	lines := strings.Split(p.Text, "\n")
	end := func(last int) {
		var commands strings.Builder
		for _, b := range p.Blocks {
			if b.Line > first && b.Line <= last && b.IsSession() && b.Attributes["skip"] == "" {
				for _, c := range b.Commands() {
					commands.WriteString(c.Line + "\n")
				}
			}
		}
		for _, name := range names {
			shown[name] = strings.Contains(commands.String(), "kep") && strings.Contains(commands.String(), "kubernetes")
		}
		names = nil
	}
	for i, line := range lines {
		if heading.MatchString(line) && !slices.ContainsFunc(p.Blocks, func(b Block) bool {
			return b.Line <= i && i < b.Line+strings.Count(b.Text, "\n")+1
		}) {
			end(i)
		}
		if m := differences.FindStringSubmatch(line); m != nil {
			names, first = append(names, strings.Split(m[1], ", ")...), i
		}
	}
	end(len(lines))
	return shown
}

func TestShownIn(t *testing.T) {
	p, err := Parse("a.md", "## A\n<!-- differences: One, Two -->\n```\n$ a --semantics kep\n# no heading\n$ b --semantics kubernetes\n```\n"+
		"## B\n<!-- differences: Three -->\n```\n$ a --semantics kep\n```\n## C\n```\n$ b --semantics kubernetes\n```\n")
	if err != nil {
		t.Fatal(err)
	}
	shown := shownIn(p)
	if len(shown) != 3 || !shown["One"] || !shown["Two"] || shown["Three"] {
		t.Errorf("shown: %v", shown)
	}
}
