package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"espalier.dev/analysis/explain"
	"espalier.dev/analysis/timeline"
	"espalier.dev/cmd/espalier/internal/config"
	"espalier.dev/cmd/espalier/internal/report"
	"espalier.dev/internal/jsondoc"
	"espalier.dev/internal/pages"
	"espalier.dev/server/snapshot"
)

// An outputFormat is a kind of JSON documents that commands print.
type outputFormat struct {
	// name is that of the file with the schema.
	name, title string
	value       any
	// runs are commands in examples/crontab that print such documents. Those without any need a server,
	// and their own tests decode what they print.
	runs []string
}

func outputFormats() []outputFormat {
	return []outputFormat{
		{"findings", "Findings of audit, diff, fix, lint, prune --why, record, review, test, upgrade and validate (-o json)", report.Document{}, []string{
			"validate --crd crd.yaml hourly.yaml nightly.yaml web.yaml", "lint crd.yaml crd-v1beta1.yaml --enable conventions",
			"diff crd.yaml crd-next.yaml --objects nightly.yaml", "upgrade crd.yaml crd-next.yaml --objects nightly.yaml",
			"audit --snapshot snapshot.db", "test suite.yaml", "prune --why --crd crd.yaml -f hourly.yaml", "lint missing.yaml"}},
		{"explain", "Field that explain describes (-o json)", explain.Doc{}, []string{
			"explain --crd crd.yaml ct --recursive", "explain deployments.spec.strategy", "explain --crd crd.yaml ct.spec.schedule"}},
		{"why", "Explanation of a field of a stored object by why (-o json)", whyRecord{}, []string{
			"why crontabs/hourly spec.replica --snapshot snapshot.db"}},
		{"version", "Version of the program (version -o json)", versionInfo{}, []string{"version"}},
		{"config", "Effective configuration (config -o json)", struct {
			File     string           `json:"file"`
			Settings []config.Setting `json:"settings"`
		}{}, []string{"config"}},
		{"backup", "Manifest of a backup (backup -o json)", snapshot.Manifest{}, nil},
		{"restore", "Restored data (restore -o json)", snapshot.Restored{}, nil},
		{"migrate", "Migrated objects (migrate -o json)", struct {
			Objects []migratedObject `json:"objects"`
			CRDs    []migratedCRD    `json:"crds"`
		}{}, nil},
		{"migrate-undo", "Objects that were put back (migrate --undo -o json)", struct {
			Objects []restoredObject `json:"objects"`
			Summary undoSummary      `json:"summary"`
		}{}, nil},
		{"timeline", "A line of a timeline after the first (timeline -o json, and the files of tests)", timeline.Change{}, nil},
		{"timeline-header", "The first line of a timeline", timeline.Header{}, nil},
		{"timeline-diff", "A line of timeline --diff -o json", timelineState{}, nil},
	}
}

// TestReferenceOutputs generates the JSON Schemas of what commands print, and the page that describes them,
// from the Go types, and validates real outputs.
func TestReferenceOutputs(t *testing.T) {
	t.Parallel()
	const dir, page = "docs/reference/schemas", "docs/reference/output-formats.md"
	g := reference()
	generator := jsondoc.Generator{Root: pages.Root(t), Module: "espalier.dev", Extended: []reflect.Type{reflect.TypeFor[report.Summary]()}}
	var files []string
	var fields strings.Builder
	schemas := map[string]*jsonSchema{}
	for _, f := range outputFormats() {
		text, err := generator.Schema(reflect.TypeOf(f.value), f.title)
		if err != nil {
			t.Fatal(err)
		}
		file := f.name + ".schema.json"
		files = append(files, file)
		g.File(t, path.Join(dir, file), string(text))
		schema := &jsonSchema{}
		if err := json.Unmarshal(text, schema); err != nil {
			t.Fatal(err)
		}
		schemas[f.name] = schema
		for _, problem := range schema.texts() {
			t.Errorf("%s: %s", file, problem)
		}
		fmt.Fprintf(&fields, "\n### %s\n%s: [schemas/%s](schemas/%s).\n\n%s", f.name, f.title, file, file,
			pages.Table([]string{"field", "value", "meaning"}, schema.rows("", schema, map[string]string{})))
	}
	g.Only(t, dir, files...)
	g.Part(t, page, "formats", formatTable())
	g.Part(t, page, "fields", fields.String())

	p := place{t, exampleDir(t, pages.Root(t))}
	for _, f := range outputFormats() {
		schema := schemas[f.name]
		schema.closed("Summary") // commands add counts to it
		for _, run := range f.runs {
			out, _ := p.run(append(strings.Fields(run), "-o", "json")...)
			var value any
			if err := json.Unmarshal([]byte(out), &value); err != nil {
				t.Errorf("%s: %v\n%s", run, err, out)
				continue
			}
			for _, problem := range schema.check("", schema, value) {
				t.Errorf("%s: %s\n%s", run, problem, out)
			}
		}
	}
}

// formatTable returns a table of the commands with -o and their formats, as completion offers them.
func formatTable() string {
	var rows [][]string
	visitCommands(newRootCommand(&app{program: "espalier"}), func(c *cobra.Command) {
		complete, ok := c.GetFlagCompletionFunc("output")
		if !ok || c.Flags().Lookup("output") == nil {
			return
		}
		formats, _ := complete(c, nil, "")
		for i := range formats {
			formats[i] = pages.Code(formats[i])
		}
		rows = append(rows, []string{pages.Code(c.CommandPath()), strings.Join(formats, ", ")})
	})
	return pages.Table([]string{"command", "formats"}, rows)
}

// resolve returns the schema that a reference names.
func (s *jsonSchema) resolve(in *jsonSchema) *jsonSchema {
	for in.Ref != "" || len(in.AllOf) == 1 {
		if len(in.AllOf) == 1 {
			in = in.AllOf[0]
			continue
		}
		in = s.Definitions[strings.TrimPrefix(in.Ref, "#/definitions/")]
	}
	return in
}

// rows returns the fields of an object, and of those in it. A type is described where it is first used, which
// described has: it may be part of itself.
func (s *jsonSchema) rows(name string, in *jsonSchema, described map[string]string) (rows [][]string) {
	for _, key := range slices.Sorted(maps.Keys(in.Properties)) {
		field := in.Properties[key]
		is := s.resolve(field)
		full, ref := name+key, definitionOf(field)
		kind := is.kind()
		if is.Items != nil {
			ref = definitionOf(is.Items)
			is = s.resolve(is.Items)
			kind, full = listOf(is.kind()), full+"[]"
		}
		if !slices.Contains(in.Required, key) {
			kind += ", optional"
		}
		first, again := described[ref]
		if again {
			kind += ", as " + pages.Code(first)
		} else if ref != "" {
			described[ref] = full
		}
		rows = append(rows, []string{pages.Code(full), kind, pages.Escape(field.Description)})
		if !again {
			rows = append(rows, s.rows(full+".", is, described)...)
		}
	}
	return rows
}

// definitionOf returns the definition that a schema refers to, or "".
func definitionOf(s *jsonSchema) string {
	if len(s.AllOf) == 1 {
		return s.AllOf[0].Ref
	}
	return s.Ref
}

// texts returns what is wrong with the descriptions, which are comments of Go types: they are about JSON, and
// only begin with the names of fields.
func (s *jsonSchema) texts() (problems []string) {
	for _, in := range append(slices.Collect(maps.Values(s.Definitions)), s) {
		for name, field := range in.Properties {
			text := field.Description
			if regexp.MustCompile(`\scrds\b`).MatchString(text) {
				problems = append(problems, name+": CRDs are crds: "+text)
			}
			if goText.MatchString(text) {
				problems = append(problems, name+": a link or a value of Go: "+text)
			}
			for other := range in.Properties {
				if regexp.MustCompile(`[\pL,] ` + strings.ToUpper(other[:1]) + other[1:] + `\b`).MatchString(text) {
					problems = append(problems, fmt.Sprintf("%s: %s has the name that it has in Go: give it a comment of its own: %s", name, other, text))
				}
			}
		}
	}
	return problems
}

// goText matches links of Go doc comments, and nil. A list of a type, such as []Object, is no link.
var goText = regexp.MustCompile(`(^|[\s(])\\?\[[^\]\s]+\]|\bnil\b`)

// closed makes unknown fields errors, apart from those of one definition: the schemas allow them, but
// what this release prints must be described.
func (s *jsonSchema) closed(open string) {
	for name, d := range s.Definitions {
		if name != open && d.Properties != nil {
			d.AdditionalProperties = false
		}
	}
	s.AdditionalProperties = false
}

// check returns what is wrong with a value. It knows the keywords that jsondoc writes.
func (s *jsonSchema) check(at string, in *jsonSchema, value any) (problems []string) {
	in = s.resolve(in)
	bad := func(format string, args ...any) {
		problems = append(problems, at+": "+fmt.Sprintf(format, args...))
	}
	kind := map[string]string{"string": "string", "bool": "boolean", "float64": "number", "map[string]interface {}": "object", "[]interface {}": "array"}[fmt.Sprintf("%T", value)]
	if n, ok := value.(float64); ok && n == float64(int64(n)) && in.Type == "integer" {
		kind = "integer"
	}
	if in.Type != nil && in.Type != kind {
		bad("is %q, not %v", kind, in.Type)
		return problems
	}
	switch v := value.(type) {
	case []any:
		for i, item := range v {
			if in.Items != nil {
				problems = append(problems, s.check(fmt.Sprintf("%s[%d]", at, i), in.Items, item)...)
			}
		}
	case map[string]any:
		for _, name := range in.Required {
			if _, ok := v[name]; !ok {
				bad("%s is missing", name)
			}
		}
		for name, field := range v {
			switch {
			case in.Properties[name] != nil:
				problems = append(problems, s.check(at+"."+name, in.Properties[name], field)...)
			case in.AdditionalProperties == false:
				bad("%s is not in the schema", name)
			}
		}
	}
	return problems
}
