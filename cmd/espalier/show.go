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

// showForm is a form of a schema.
type showForm struct {
	name, summary string
	derive        func(*crd.Version, schema.Semantics) *api.JSONSchemaProps
}

// showForms returns the forms that show can print.
func showForms() []showForm {
	return []showForm{
		{"core", "types, fields and items only, without value validations", func(v *crd.Version, _ schema.Semantics) *api.JSONSchemaProps {
			return v.Structural().WithoutValueValidations().ToJSONSchemaProps()
		}},
		{"skeleton", "all specified fields, including those under allOf, anyOf, oneOf and not", func(v *crd.Version, _ schema.Semantics) *api.JSONSchemaProps {
			return schema.Skeleton(object.OriginalSchema(v.Definition().CRD(), v.Name()))
		}},
		{"structural", "the structural schema that validation, pruning and defaulting use", func(v *crd.Version, _ schema.Semantics) *api.JSONSchemaProps {
			return v.Structural().ToJSONSchemaProps()
		}},
		{"openapi-v2", "the schema as published in OpenAPI v2", func(v *crd.Version, sem schema.Semantics) *api.JSONSchemaProps {
			return v.Structural().Unfold(sem).WeakenForOpenAPIV2(sem).ToJSONSchemaProps()
		}},
		{"openapi-v3", "the schema as published in OpenAPI v3", func(v *crd.Version, sem schema.Semantics) *api.JSONSchemaProps {
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
		Use:   "show " + strings.Join(names, "|") + " PATH...",
		Short: "Print schemas that are derived from a CRD",
		Long: `Show prints one of these forms of the schema of each version:

` + list + `
Documents other than CRDs are skipped. All forms except skeleton require a structural
schema: if a schema is not structural, show reports the reasons on standard error and exits
with 1.

Exit codes: 0 success, 1 a schema is not structural, ` + otherExitCodes + `.`,
		Example: `  # Print the fields that a schema specifies, including those under logical operators
  espalier show skeleton -f crontab-crd.yaml

  # Print what kube-apiserver publishes for version v1
  espalier show openapi-v3 --semantics kubernetes --version v1 -f crontab-crd.yaml

  # Print JSON for other tools
  espalier show core -o json -f crontab-crd.yaml`,
		ValidArgsFunction: completeFirst(names),
		Args:              requireFirst(names),
		RunE: func(c *cobra.Command, args []string) error {
			flags.Paths = append(flags.Paths, args[1:]...)
			form := showForms()[slices.Index(names, args[0])]
			return a.show(c, form, flags, version, output)
		},
	}
	addInputFlags(c, &flags, "CRDs")
	c.Flags().StringVar(&version, "version", "", "`VERSION` to show (default all)")
	groupFlags(c.Flags(), inputFlags, "version")
	c.Flags().StringVarP(&output, "output", "o", "yaml", "output `FORMAT`: yaml or json")
	groupFlags(c.Flags(), outputFlags, "output")
	completeValues(c, "output", "yaml", "json")
	a.completeVersions(c, "version", func(args []string) input.Flags {
		return flags.With(slices.Concat(flags.Paths, args[min(1, len(args)):])...)
	})
	return c
}

func (a *app) show(c *cobra.Command, form showForm, flags input.Flags, version, output string) (err error) {
	if output != "yaml" && output != "json" {
		return fmt.Errorf("-o %s: must be yaml or json", output)
	}
	if len(flags.Paths) == 0 {
		flags.Paths = a.configuredCRDs()
	}
	if len(flags.Paths) == 0 {
		return needsPath(c)
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
		return fmt.Errorf("no CRD has a version %q", version)
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
