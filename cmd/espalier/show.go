package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"espalier.dev/analysis"
	"espalier.dev/analysis/forms"
	"espalier.dev/analysis/object"
	"espalier.dev/cmd/espalier/internal/input"
	"espalier.dev/cmd/espalier/internal/report"
	"espalier.dev/cmd/espalier/internal/workdir"
	"espalier.dev/crd"
)

func newShowCommand(a *app) *cobra.Command {
	var o showOptions
	var names []string
	list := ""
	for _, f := range forms.All() {
		names = append(names, f.Name)
		list += fmt.Sprintf("  %-11s %s\n", f.Name, f.Summary)
	}
	c := &cobra.Command{
		Use:   "show " + strings.Join(names, "|") + " (PATH|RESOURCE... | --from-cluster [RESOURCE...])",
		Short: "Print the schemas of CRDs and built-in kinds in several forms",
		Long: `Show prints one of these forms of the schema of each version:

` + list + `
A PATH is a file or directory with CRDs; documents other than CRDs are skipped. A RESOURCE
selects one of these CRDs, or a built-in kind of Kubernetes, by its plural name, singular
name, kind or a short name: deployments, Deployment, deploy, deployments.apps. Show knows
the built-in kinds without a CRD or a cluster; --builtin selects all of them. References in
their schemas are resolved.

With --from-cluster, the CRDs are those of a running cluster: those that define the named
resources or, if none is named, all of them.

json-schema is a JSON Schema document (draft 7) without references to other files, for
editors and other tools that check manifests. It accepts unknown fields unless --strict is
set. --single-types is for tools that cannot read lists of types: null and other types then
become alternatives of anyOf. JSON Schema cannot express CEL rules, nor what only the code
of Kubernetes checks: espalier validate checks these too. --output-dir writes a file for
each version, which is named as in the CRD catalogs of kubeconform and yaml-language-server,
GROUP/KIND_VERSION.json. The core group is named v1 there. all.json selects the schema by
apiVersion and kind, so that an editor can use it for all manifests.

All forms except skeleton require a structural schema: if a schema is not structural, show
reports the reasons on standard error and exits with 1.

Exit codes: 0 success, 1 a schema is not structural, ` + otherExitCodes + `.`,
		Example: `  # Print the fields that a schema specifies, including those under logical operators
  espalier show skeleton -f crontab-crd.yaml

  # Print what kube-apiserver publishes for version v1
  espalier show openapi-v3 --semantics kubernetes --version v1 -f crontab-crd.yaml

  # Print JSON for other tools
  espalier show core -o json -f crontab-crd.yaml

  # Print the JSON Schema of Deployments
  espalier show json-schema deployments

  # Print the JSON Schema of a resource of a running cluster
  espalier show json-schema --from-cluster crontabs

  # Write the JSON Schemas of all built-in kinds and of some CRDs, for editors and kubeconform:
  # kubeconform -schema-location 'schemas/{{.Group}}/{{.ResourceKind}}_{{.ResourceAPIVersion}}.json' DIR
  espalier show json-schema --builtin --strict --output-dir schemas -f crds/`,
		ValidArgsFunction: func(c *cobra.Command, args []string, start string) ([]string, cobra.ShellCompDirective) {
			if len(args) == 0 {
				return names, cobra.ShellCompDirectiveNoFileComp
			}
			return a.completeKindOrPath(c, args, start)
		},
		Args: requireFirst(names),
		RunE: func(c *cobra.Command, args []string) error {
			if len(o.source.named(c)) > 0 {
				o.names = args[1:]
			} else {
				paths, resources := splitResources(a.dir, args[1:])
				o.input.Paths, o.names = append(o.input.Paths, paths...), resources
			}
			return a.show(c, forms.All()[slices.Index(names, args[0])], o)
		},
	}
	addInputFlags(c, &o.input, "CRDs", input.Definitions)
	addFromClusterFlags(c, &o.source, "read the CRDs of a running cluster; arguments are then resources")
	flags := c.Flags()
	flags.StringVar(&o.version, "version", "", "`VERSION` to show (default all)")
	flags.BoolVar(&o.builtin, "builtin", false, "show all built-in kinds")
	groupFlags(flags, inputFlags, "version", "builtin")
	flags.StringVarP(&o.output, "output", "o", "", "output `FORMAT`: yaml or json (default: yaml, and json for json-schema)")
	flags.StringVar(&o.directory, "output-dir", "", "`DIRECTORY` to write the files of json-schema to, instead of standard output")
	flags.BoolVar(&o.strict, "strict", false, "reject unknown fields in json-schema")
	flags.BoolVar(&o.singleTypes, "single-types", false,
		"write no lists of types, such as [string, null], in json-schema, for tools that cannot read them")
	groupFlags(flags, outputFlags, "output", "output-dir", "strict", "single-types")
	_ = c.MarkFlagDirname("output-dir")
	completeValues(c, "output", "yaml", "json")
	a.completeVersions(c, "version", func(args []string) input.Flags {
		paths, _ := splitResources(a.dir, args[min(1, len(args)):])
		return o.input.With(slices.Concat(o.input.Paths, paths)...)
	})
	return c
}

// splitResources separates paths from the names of resources: a name contains no separator, has
// no extension of a manifest, and is not that of a file or directory.
func splitResources(dir workdir.Dir, args []string) (paths, resources []string) {
	for _, arg := range args {
		extension := strings.TrimPrefix(filepath.Ext(arg), ".")
		_, err := dir.Lstat(arg)
		if err == nil || arg == "-" || arg == "" || input.IsGit(arg) || strings.ContainsAny(arg, `/\`) || slices.Contains(manifestExtensions(), extension) {
			paths = append(paths, arg)
		} else {
			resources = append(resources, arg)
		}
	}
	return paths, resources
}

func (a *app) show(c *cobra.Command, form forms.Form, o showOptions) (err error) {
	switch {
	case o.output == "" && form.Name == forms.JSONSchema:
		o.output = "json"
	case o.output == "":
		o.output = "yaml"
	case o.output != "yaml" && o.output != "json":
		return fmt.Errorf("-o %s: must be yaml or json", o.output)
	}
	switch {
	case form.Name != forms.JSONSchema && o.directory != "":
		return usageError(c, fmt.Errorf("--output-dir needs the form %s", forms.JSONSchema))
	case o.directory != "" && o.output != "json":
		return usageError(c, errors.New("--output-dir writes JSON: remove -o"))
	case form.Name != forms.JSONSchema && o.strict:
		return usageError(c, fmt.Errorf("--strict needs the form %s", forms.JSONSchema))
	case form.Name != forms.JSONSchema && o.singleTypes:
		return usageError(c, fmt.Errorf("--single-types needs the form %s", forms.JSONSchema))
	}
	fromCluster, err := o.source.clusterGiven(c, "filename")
	if err != nil {
		return err
	}
	if len(o.input.Paths) == 0 && !fromCluster {
		o.input.Paths = a.configuredCRDs()
	}
	if len(o.input.Paths) == 0 && len(o.names) == 0 && !o.builtin && !fromCluster {
		return usageError(c, fmt.Errorf("%s needs PATH or RESOURCE: a file or directory with CRDs, - for standard input, or a built-in kind", c.Name()))
	}
	r, err := a.newSideReporter(c, "")
	if err != nil {
		return err
	}
	defer func() { err = r.Finish(err) }()
	shown, err := a.shownDefinitions(c, o, r)
	if err != nil {
		return err
	}
	w := &schemaWriter{printer: printer{a: a, output: o.output}, form: form, options: o}
	for _, d := range shown {
		if err := w.definition(d, r); err != nil {
			return err
		}
	}
	if o.version != "" && w.written == 0 && len(shown) > 0 {
		return fmt.Errorf("no resource has a version %q", o.version)
	}
	return w.finish()
}

// shownDefinitions returns the resources to show.
func (a *app) shownDefinitions(c *cobra.Command, o showOptions, r *report.Reporter) (shown []shownDefinition, err error) {
	var definitions []*crd.Definition
	given := map[*crd.Definition]*definition{}
	loaded, names, err := a.namedDefinitions(c, &o.source, o.input, o.names, r)
	if err != nil {
		return nil, err
	}
	if loaded != nil {
		for _, d := range loaded.All() {
			r.Saw(d.item())
			made, err := d.compile(crd.Options{Semantics: a.semantics.Semantics, IgnoreRules: true, Shared: true})
			if err != nil {
				r.Report(d.item(), analysis.Finding{Rule: object.RuleInvalidDefinition, Severity: analysis.Error, Message: err.Error()})
				continue
			}
			definitions = append(definitions, made)
			given[made] = d
		}
	}
	if len(o.names) == 0 {
		for _, d := range definitions {
			shown = append(shown, shownDefinition{d, given[d], o.version})
		}
	}
	advice := "there is no such file or directory either"
	if len(o.source.named(c)) > 0 {
		advice = "the cluster has none either"
	}
	for _, name := range o.names {
		f, err := findResource(definitions, name, o.version, advice, names...)
		if err != nil {
			return nil, err
		}
		if f.Path != "" {
			return nil, fmt.Errorf("show needs a resource without a field: remove %q from %s", f.Path, name)
		}
		a.tellOthers(f, name)
		d := shownDefinition{f.Definition(), given[f.Definition()], o.version}
		if _, rest, _ := strings.Cut(name, "."); strings.HasPrefix(rest+".", f.Name()+".") {
			d.version = f.Name()
		}
		shown = append(shown, d)
	}
	if o.builtin {
		all, err := builtinDefinitions()
		if err != nil {
			return nil, err
		}
		for _, d := range all {
			shown = append(shown, shownDefinition{d, nil, o.version})
		}
	}
	return shown, nil
}
