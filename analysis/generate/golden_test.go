package generate_test

import (
	"flag"
	"fmt"
	"strings"
	"testing"

	"espalier.dev/analysis/generate"
	"espalier.dev/analysis/generate/generatetest"
	"espalier.dev/internal/testcase"
)

var update = flag.Bool("update", false, "rewrite the expected results in testdata")

// TestGolden compares the types of the CRDs in testdata, and the problems, with those in a file.
func TestGolden(t *testing.T) {
	t.Parallel()
	golden(t, "testdata/crds.yaml", "testdata/golden.txt")
	golden(t, "testdata/outlines.yaml", "testdata/outlines.txt")
}

func golden(t *testing.T, crds, want string) {
	t.Helper()
	packages, problems := generate.Build(generatetest.Inputs(t, crds))
	var b strings.Builder
	for _, r := range generate.Rules() {
		fmt.Fprintf(&b, "rule %s, %s: %s %s\n", r.ID, r.Severity, r.Summary, r.Help)
	}
	fmt.Fprintf(&b, "comment %q %q\n", generate.CommentLines("a\tb\u0000c\u2028d\u2029 \n\n  e \n"), generate.CommentLines(" \n"))
	for _, p := range problems {
		fmt.Fprintf(&b, "CRD %d: %s %s %s: %s %q\n", p.Input, p.Severity, p.Rule, p.Pointer, p.Message, p.Detail)
	}
	for _, p := range packages {
		fmt.Fprintf(&b, "== %s\n%s\n", p.Dir(), strings.Join(outline(p), "\n"))
		for _, k := range p.Kinds {
			fmt.Fprintf(&b, "%s of CRD %d: %s, list %s\n", k.Name, k.Input, k.Type.Name, k.ListKind())
		}
		for _, typ := range p.Types {
			fmt.Fprintf(&b, "-- %s at %s: %q %s\n", typ.Name, typ.Path, typ.Doc, generate.Fingerprint(typ.Schema))
			for _, f := range typ.Fields {
				doc, short := generate.Doc(f.Value.Schema, true), generate.Doc(f.Value.Schema, false)
				if doc != "" {
					fmt.Fprintf(&b, "%s: %s\n", f.Name, strings.ReplaceAll(doc, "\n", "\n  "))
				}
				if doc != short {
					fmt.Fprintf(&b, "%s without its enum: %s\n", f.Name, strings.ReplaceAll(short, "\n", "\n  "))
				}
				if f.Union != nil || f.Discriminates != nil {
					fmt.Fprintf(&b, "%s: member %t, discriminator %t\n", f.Name, f.Union != nil, f.Discriminates != nil)
				}
			}
		}
	}
	testcase.Golden(t, want, b.String(), *update)
}

// outline returns the types of a package, one line for each.
func outline(p *generate.Package) (lines []string) {
	for _, typ := range p.Types {
		line := typ.Name + ":"
		if typ.Open {
			line += " open"
		}
		if typ.Embedded {
			line += " embedded"
		}
		for _, f := range typ.Fields {
			line += " " + f.Name
			if !f.Required {
				line += "?"
			}
			line += " " + expression(f.Value)
		}
		lines = append(lines, line)
	}
	return lines
}

func expression(v *generate.Value) string {
	switch v.Kind {
	case generate.List:
		return "[]" + expression(v.Elem)
	case generate.Map:
		return "map " + expression(v.Elem)
	case generate.Object:
		return v.Type.Name
	}
	return v.Kind.String()
}
