package schema

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"espalier.dev/api"
)

var update = flag.Bool("update", false, "write what the engine says into testdata/documents")

// TestDocuments runs the examples of the design documents. Each file in
// testdata/documents is named after the ledger's row that it proves, with a word
// of its own behind it where a row has several; it says at its top which
// document and which example it is.
//
// A file holds one case, or several in directories of their own, which may share
// the file's schema. A case has
//
//   - schema.yaml or schema.json, or jsonschema.json for the draft-4 spelling;
//   - object.json, which is decoded if the case wants to see the result, and
//     validated;
//   - what is wanted, in sections that are listed in documentWants. One that is
//     wanted from one semantics alone has its name before the extension, as
//     pruned.kep.json.
//
// With -update, the sections that are not right are replaced.
func TestDocuments(t *testing.T) {
	files, err := filepath.Glob("testdata/documents/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no documents: %v", err)
	}
	for _, f := range files {
		t.Run(strings.TrimSuffix(filepath.Base(f), ".txtar"), func(t *testing.T) { runDocument(t, f) })
	}
}

// documentCase is one case: its input, and the indices of its wanted sections.
type documentCase struct {
	schema     *api.JSONSchemaProps
	jsonSchema bool
	object     []byte
	// decodes says that the case looks at the decoded object, so it is that
	// which is validated.
	decodes bool
	wants   []int
}

// documentWants are the kinds of sections that say what is wanted, with what
// gives them. A []string is text, line by line.
var documentWants = map[string]func(*documentCase, Semantics) (any, error){
	"pruned":    (*documentCase).decoded,
	"defaulted": (*documentCase).decoded,
	"verdict":   (*documentCase).verdict,
	"messages": func(c *documentCase, sem Semantics) (any, error) {
		v, err := c.violations(sem)
		return v.Messages(), err
	},
	"field-errors": func(c *documentCase, sem Semantics) (any, error) {
		v, err := c.violations(sem)
		var lines []string
		for _, e := range v.FieldErrorsIn(sem) {
			lines = append(lines, e.Error())
		}
		return lines, err
	},
	"findings": func(c *documentCase, sem Semantics) (any, error) {
		s, err := NewStructural(c.schema)
		var lines []string
		for _, f := range Check(s, sem) {
			lines = append(lines, f.String())
		}
		return lines, err
	},
	"skeleton":  func(c *documentCase, _ Semantics) (any, error) { return Skeleton(c.schema), nil },
	"specified": func(c *documentCase, _ Semantics) (any, error) { return Specified(c.schema), nil },
	"conflicts": func(c *documentCase, _ Semantics) (any, error) {
		var lines []string
		for _, e := range PruneConflicts(c.schema) {
			lines = append(lines, e.Error())
		}
		return lines, nil
	},
	"pruned-by-skeleton": func(c *documentCase, sem Semantics) (any, error) {
		skeleton := documentCase{schema: Skeleton(c.schema), object: c.object}
		return skeleton.decoded(sem)
	},
	"verdict-by-skeleton": func(c *documentCase, sem Semantics) (any, error) {
		skeleton := documentCase{schema: Skeleton(c.schema), object: c.object}
		pruned, err := skeleton.decoded(sem)
		if err != nil {
			return nil, err
		}
		whole := documentCase{schema: c.schema}
		if whole.object, err = json.Marshal(pruned); err != nil {
			return nil, err
		}
		return whole.verdict(sem)
	},
	"published": func(c *documentCase, sem Semantics) (any, error) {
		s, err := NewStructural(c.schema)
		return s.Unfold(sem).ToJSONSchemaProps(), err
	},
	"v2": func(c *documentCase, sem Semantics) (any, error) {
		s, err := NewStructural(c.schema)
		return s.Unfold(sem).WeakenForOpenAPIV2(sem).ToJSONSchemaProps(), err
	},
	"without-value-validations": func(c *documentCase, _ Semantics) (any, error) {
		s, err := NewStructural(c.schema)
		return s.WithoutValueValidations().ToJSONSchemaProps(), err
	},
}

func (c *documentCase) compile(sem Semantics) (*Program, error) {
	if c.jsonSchema {
		return CompileJSONSchema(c.schema, WithSemantics(sem), WithPreserveUnknownFields())
	}
	s, err := NewStructural(c.schema)
	if err != nil {
		return nil, err
	}
	return Compile(s, WithSemantics(sem))
}

func (c *documentCase) decoded(sem Semantics) (any, error) {
	p, err := c.compile(sem)
	if err != nil {
		return nil, err
	}
	obj, _, err := p.Decode(c.object, DecodeOptions{})
	return obj, err
}

func (c *documentCase) violations(sem Semantics) (Violations, error) {
	p, err := c.compile(sem)
	if err != nil {
		return nil, err
	}
	var obj Object
	if c.decodes {
		obj, _, err = p.Decode(c.object, DecodeOptions{})
	} else {
		err = kjson.UnmarshalCaseSensitivePreserveInts(c.object, &obj)
	}
	if err != nil {
		return nil, err
	}
	return p.Validate(context.Background(), obj, nil), nil
}

// verdict is "accepted", or "rejected" and the paths of the violations.
func (c *documentCase) verdict(sem Semantics) (any, error) {
	v, err := c.violations(sem)
	if err != nil || len(v) == 0 {
		return []string{"accepted"}, err
	}
	var paths []string
	for _, one := range v {
		at := one.Path
		if field, ok := one.Value.(string); ok && one.Kind == ForbiddenField {
			at = append(at.clone(), Step{Key: field})
		}
		paths = append(paths, at.String())
	}
	slices.Sort(paths)
	return append([]string{"rejected"}, slices.Compact(paths)...), nil
}

func runDocument(t *testing.T, file string) {
	archive, err := txtar.ParseFile(file)
	if err != nil {
		t.Fatal(err)
	}
	cases, err := documentCases(archive)
	if err != nil {
		t.Fatal(err)
	}
	for dir, c := range cases {
		if dir == "." {
			runDocumentCase(t, archive, c)
		} else {
			t.Run(dir, func(t *testing.T) { runDocumentCase(t, archive, c) })
		}
	}
	if *update {
		if err := os.WriteFile(file, txtar.Format(archive), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// documentCases finds the cases of a file, by directory.
func documentCases(archive *txtar.Archive) (map[string]*documentCase, error) {
	if len(bytes.TrimSpace(archive.Comment)) == 0 {
		return nil, fmt.Errorf("no comment that says where it is from")
	}
	cases := map[string]*documentCase{}
	for i, f := range archive.Files {
		dir := path.Dir(f.Name)
		c := cases[dir]
		if c == nil {
			c = &documentCase{}
			cases[dir] = c
		}
		switch path.Base(f.Name) {
		case "schema.yaml", "schema.json", "jsonschema.json":
			c.jsonSchema = path.Base(f.Name) == "jsonschema.json"
			raw, err := yaml.YAMLToJSONStrict(f.Data)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", f.Name, err)
			}
			c.schema = &api.JSONSchemaProps{}
			strict, err := kjson.UnmarshalStrict(raw, c.schema)
			if err := firstError(append(strict, err)); err != nil {
				return nil, fmt.Errorf("%s: %w", f.Name, err)
			}
		case "object.json":
			c.object = f.Data
		default:
			kind, _ := wantKind(f.Name)
			if documentWants[kind] == nil {
				return nil, fmt.Errorf("unknown section %s", f.Name)
			}
			c.wants = append(c.wants, i)
			c.decodes = c.decodes || kind == "pruned" || kind == "defaulted"
		}
	}
	for dir, c := range cases {
		if shared := cases["."]; c.schema == nil && shared != nil {
			c.schema, c.jsonSchema = shared.schema, shared.jsonSchema
		}
		if c.schema == nil {
			return nil, fmt.Errorf("%s has no schema", dir)
		}
		if len(c.wants) == 0 && dir != "." {
			return nil, fmt.Errorf("%s wants nothing", dir)
		}
	}
	return cases, nil
}

// wantKind cuts foo/pruned.kep.json into pruned and the semantics that want it.
func wantKind(name string) (string, []Semantics) {
	base := path.Base(name)
	base = strings.TrimSuffix(base, path.Ext(base))
	if i := strings.LastIndexByte(base, '.'); i >= 0 {
		if sem, err := ParseSemantics(base[i+1:]); err == nil {
			return base[:i], []Semantics{sem}
		}
	}
	return base, []Semantics{KEP, Kubernetes}
}

func firstError(errs []error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func runDocumentCase(t *testing.T, archive *txtar.Archive, c *documentCase) {
	for _, i := range c.wants {
		f := &archive.Files[i]
		kind, semantics := wantKind(f.Name)
		if c.jsonSchema {
			semantics = []Semantics{KEP} // kube-apiserver does not know the spelling
		}
		for _, sem := range semantics {
			got, err := documentWants[kind](c, sem)
			if err != nil {
				t.Errorf("%s, %s: %v", f.Name, sem, err)
				continue
			}
			if err := compareWanted(kind, f.Data, got); err != nil {
				if *update {
					f.Data = render(f.Name, got)
					continue
				}
				t.Errorf("%s, %s: %v\ngot:\n%s\nwant:\n%s", f.Name, sem, err, render(f.Name, got), f.Data)
			}
		}
	}
}

func compareWanted(kind string, want []byte, got any) error {
	if lines, ok := got.([]string); ok {
		wanted := splitLines(want)
		if kind == "verdict" || kind == "verdict-by-skeleton" {
			return compareVerdicts(wanted, lines)
		}
		if !slices.Equal(wanted, lines) {
			return fmt.Errorf("the lines differ")
		}
		return nil
	}
	raw, err := yaml.YAMLToJSONStrict(want)
	if err != nil {
		return err
	}
	if obj, ok := got.(Object); ok {
		// The tree itself is compared, so that 1 and 1.0 are not the same.
		raw, got = want, obj
	} else if got, err = tree(got); err != nil {
		return err
	}
	var wanted any
	if err := kjson.UnmarshalCaseSensitivePreserveInts(raw, &wanted); err != nil {
		return err
	}
	if !reflect.DeepEqual(wanted, got) {
		return fmt.Errorf("the values differ")
	}
	return nil
}

// compareVerdicts compares the first line. The further ones, if any are wanted,
// name the values that are rejected: every violation is at or below one of them,
// and each has one. "rejected" alone does not say where.
func compareVerdicts(want, got []string) error {
	if len(want) == 0 || want[0] != got[0] {
		return fmt.Errorf("the verdicts differ")
	}
	if len(want) == 1 {
		return nil
	}
	found := map[string]bool{}
	for _, p := range got[1:] {
		i := slices.IndexFunc(want[1:], func(w string) bool {
			return p == w || strings.HasPrefix(p, w+".") || strings.HasPrefix(p, w+"[")
		})
		if i < 0 {
			return fmt.Errorf("a violation at %q is not wanted", p)
		}
		found[want[1+i]] = true
	}
	for _, w := range want[1:] {
		if !found[w] {
			return fmt.Errorf("no violation at %q", w)
		}
	}
	return nil
}

func splitLines(text []byte) []string {
	s := strings.TrimSuffix(string(text), "\n")
	if s == "" {
		return nil
	}
	return strings.Split(s, "\n")
}

// tree writes v as JSON and reads it again.
func tree(v any) (any, error) {
	raw, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	var out any
	err = kjson.UnmarshalCaseSensitivePreserveInts(raw, &out)
	return out, err
}

// render writes what a section should hold, by its extension.
func render(name string, v any) []byte {
	if lines, ok := v.([]string); ok {
		if len(lines) == 0 {
			return nil
		}
		return []byte(strings.Join(lines, "\n") + "\n")
	}
	if path.Ext(name) == ".yaml" {
		if out, err := yaml.Marshal(v); err == nil {
			return out
		}
	}
	out, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return []byte(err.Error())
	}
	return append(out, '\n')
}
