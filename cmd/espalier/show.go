package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"espalier.dev/analysis"
	"espalier.dev/api"
	"espalier.dev/cmd/espalier/internal/input"
	"espalier.dev/cmd/espalier/internal/report"
	"espalier.dev/crd"
	"espalier.dev/internal/jsonptr"
	"espalier.dev/schema"
)

// showForm is a form that can be derived from a schema.
type showForm struct {
	name, summary string
	derive        func(*crd.Version, schema.Semantics) *api.JSONSchemaProps
}

// showForms are the forms that show knows.
func showForms() []showForm {
	return []showForm{
		{"core", "types, fields and items alone: the schema without its value validations", func(v *crd.Version, _ schema.Semantics) *api.JSONSchemaProps {
			return v.Structural().WithoutValueValidations().ToJSONSchemaProps()
		}},
		{"skeleton", "what is specified anywhere, also under allOf, anyOf, oneOf and not", func(v *crd.Version, _ schema.Semantics) *api.JSONSchemaProps {
			return schema.Skeleton(originalSchema(v.Definition().CRD(), v.Name()))
		}},
		{"structural", "the schema as the engine reads it, with the reasons if it is not structural", func(v *crd.Version, _ schema.Semantics) *api.JSONSchemaProps {
			return v.Structural().ToJSONSchemaProps()
		}},
		{"openapi-v2", "what is published as OpenAPI v2", func(v *crd.Version, sem schema.Semantics) *api.JSONSchemaProps {
			return v.Structural().Unfold(sem).WeakenForOpenAPIV2(sem).ToJSONSchemaProps()
		}},
		{"openapi-v3", "what is published as OpenAPI v3", func(v *crd.Version, sem schema.Semantics) *api.JSONSchemaProps {
			return v.Structural().Unfold(sem).ToJSONSchemaProps()
		}},
	}
}

func newShowCommand(a *app) *cobra.Command {
	var flags input.Flags
	var version, output string
	var names []string
	list := ""
	for _, f := range showForms() {
		names = append(names, f.name)
		list += fmt.Sprintf("  %-11s %s\n", f.name, f.summary)
	}
	c := &cobra.Command{
		Use:   "show " + strings.Join(names, "|") + " -f PATH...",
		Short: "Show what is derived from the schema of a definition",
		Long: `Show prints a form that is derived from the schema of each version of each
CustomResourceDefinition:

` + list + `
What else is in the files is passed over. Show exits with 1 if a form is asked for that
is only right for structural schemas (all but the skeleton), and a schema is not
structural; it says why on standard error.`,
		Example: `  # Which fields does a schema specify, junctors included?
  espalier show skeleton -f crontab-crd.yaml

  # What does kube-apiserver publish of version v1?
  espalier show openapi-v3 --semantics kubernetes --version v1 -f crontab-crd.yaml

  # As JSON, for other tools
  espalier show core -o json -f crontab-crd.yaml`,
		ValidArgs: names,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) != 1 || !slices.Contains(names, args[0]) {
				return fmt.Errorf("say what to show: one of %s", strings.Join(names, ", "))
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			form := showForms()[slices.Index(names, args[0])]
			return a.show(c, form, flags, version, output)
		},
	}
	addInputFlags(c, &flags, "CustomResourceDefinitions")
	c.Flags().StringVar(&version, "version", "", "the version to show (default all)")
	c.Flags().StringVarP(&output, "output", "o", "yaml", "yaml or json")
	return c
}

func (a *app) show(c *cobra.Command, form showForm, flags input.Flags, version, output string) (err error) {
	if output != "yaml" && output != "json" {
		return fmt.Errorf("-o %s: choose yaml or json", output)
	}
	r, err := a.newSideReporter(c)
	if err != nil {
		return err
	}
	defer func() { err = r.Finish(err) }()
	ds, err := a.loadDefinitions(c.Context(), flags, r.Failure)
	if err != nil {
		return err
	}
	p := &printer{a: a, output: output}
	for _, d := range ds.list {
		r.Saw(d.item)
		if err := a.showDefinition(p, r, d, form, version); err != nil {
			return err
		}
	}
	if version != "" && p.count == 0 && len(ds.list) > 0 {
		return fmt.Errorf("no definition has a version %q", version)
	}
	return nil
}

func (a *app) showDefinition(p *printer, r *report.Reporter, d *definition, form showForm, version string) error {
	var definition *crd.Definition
	hub, err := d.hub()
	if err == nil {
		definition, err = crd.New(hub, crd.Options{Semantics: a.semantics.Semantics, IgnoreRules: true, Shared: true})
	}
	if err != nil {
		r.Report(d.item, analysis.Finding{Rule: ruleInvalidDefinition, Severity: analysis.Error, Message: err.Error()})
		return nil
	}
	for _, v := range definition.Versions() {
		if version != "" && v.Name() != version {
			continue
		}
		if form.name != "skeleton" {
			for _, finding := range structuralFindings(d, v, a.semantics.Semantics) {
				r.Report(d.item, finding)
			}
		}
		derived := form.derive(v, a.semantics.Semantics)
		if derived == nil {
			derived = &api.JSONSchemaProps{}
		}
		title := fmt.Sprintf("%s of %s, version %s", form.name, definition.Name(), v.Name())
		if err := p.print(title, derived); err != nil {
			return err
		}
	}
	return nil
}

// structuralFindings are the reasons for which the schema of a version is not
// structural.
func structuralFindings(d *definition, v *crd.Version, sem schema.Semantics) (findings []analysis.Finding) {
	base := d.schemaPointer(v)
	if strings.HasSuffix(base, "/jsonSchema") {
		return []analysis.Finding{{Rule: ruleNotStructural, Severity: analysis.Error, Path: "spec.validation.jsonSchema", Pointer: base,
			Message: "a schema in the dialect of 2017 is never structural"}}
	}
	for _, f := range schema.Check(v.Structural(), sem) {
		if f.Refused {
			findings = append(findings, analysis.Finding{
				Rule: ruleNotStructural, Severity: analysis.Error, Path: jsonptr.Display(base) + f.Path.String(),
				Pointer: base + f.Path.Pointer(), Message: f.FieldError(nil).ErrorBody(),
			})
		}
	}
	return findings
}

// newSideReporter reports on standard error, for commands whose output is something
// else.
func (a *app) newSideReporter(c *cobra.Command) (*report.Reporter, error) {
	o := a.reportOptions(c, nil, nil)
	o.Stdout, o.Color, o.Quiet = a.stderr, a.useColor(a.stderr), true
	return report.New(o)
}

// printer writes values to standard output, one document after the other.
type printer struct {
	a      *app
	output string
	count  int
}

// print writes a value. The title is a comment, where there are comments.
func (p *printer) print(title string, v any) error {
	var text []byte
	var err error
	if p.output == "json" {
		text, err = indentedJSON(v)
	} else if text, err = yaml.Marshal(v); err == nil {
		head := ""
		if p.count > 0 {
			head = "---\n"
		}
		if title != "" {
			head += "# " + title + "\n"
		}
		text = append([]byte(head), text...)
	}
	if err != nil {
		return err
	}
	p.count++
	_, err = p.a.stdout.Write(text)
	return err
}

// indentedJSON is for people too, so that <, > and & stay as they are.
func indentedJSON(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	err := e.Encode(v)
	return b.Bytes(), err
}
