package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"espalier.dev/analysis"
	"espalier.dev/analysis/object"
	"espalier.dev/api"
	"espalier.dev/cmd/espalier/internal/input"
	"espalier.dev/cmd/espalier/internal/report"
	"espalier.dev/crd"
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
			return schema.Skeleton(object.OriginalSchema(v.Definition().CRD(), v.Name()))
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
What else is in the files is skipped. Show exits with 1 if a form is asked for that
is only right for structural schemas (all but the skeleton), and a schema is not
structural; it says why on standard error.`,
		Example: `  # Which fields does a schema specify, logical operators included?
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
		r.Report(d.item, analysis.Finding{Rule: object.RuleInvalidDefinition, Severity: analysis.Error, Message: err.Error()})
		return nil
	}
	checker := object.New(definition, d.text())
	for _, v := range definition.Versions() {
		if version != "" && v.Name() != version {
			continue
		}
		if form.name != "skeleton" {
			for _, finding := range checker.NotStructural(v) {
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
