package main

import (
	"fmt"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"espalier.dev/cmd/espalier/internal/config"
)

// configOptions are the flags of config.
type configOptions struct {
	output string
	schema bool
}

func newConfigCommand(a *app) *cobra.Command {
	var o configOptions
	c := &cobra.Command{
		Use:   "config",
		Short: "Print the effective configuration and where each value comes from",
		Long: `The configuration file ` + config.Name + ` is in the working directory or the closest directory
above it, up to the root of the Git repository or of the file system. All keys are
optional. Unknown keys, rules and values are errors. Paths are relative to the file.

  semantics: kubernetes            # or kep
  failOn: warning                  # error, warning, info or never; not for prune
  crds: [config/crd]               # default of --crd, and of the input of lint, fix and show
  exclude: [vendor/, '*_gen.yaml'] # files and directories to skip
  baseline: .espalier-baseline.yaml
  kubernetesVersion: '1.31'        # for validate, review and lint
  lint:
    enable: [semantics-published]
    disable: [list-type]
    severity: {unknown-format: error}
  validate:
    fieldValidation: strict        # ignore, warn or strict
    ignoreMissingCRDs: true        # for prune too
    checkCRDs: true
    severity: {unknown-field: error}
  diff:
    severity: {clients-break: error}
  ignore:                          # findings that are not reported
  - rules: [pruned-empty, validation/*]
    paths: [config/crd/legacy-*.yaml]
    fields: ['spec.versions[].schema.**.raw']
    reason: kept for old clients

Flags take precedence over the environment, which takes precedence over the file. The
environment variable ` + semanticsVariable + ` sets the semantics, and ` + outputVariable + ` the formats of
findings (-o) of lint, validate, diff, review, upgrade and test, separated by commas.

A comment in a file suppresses findings on its line or, above a field or list item, in that
field or item. The reason is required. Comments that match no finding are reported.

  color: {format: colour} # espalier:ignore unknown-format -- checked by the controller

--schema prints a JSON Schema of the file for editors. Save it, and name it in the first
line of the configuration file:

  # yaml-language-server: $schema=.espalier.schema.json

Exit codes: 0 success, 2 usage or input error.`,
		Example: `  # Print all values and where they come from
  espalier config
  espalier config -o json

  # Write the JSON Schema for editors
  espalier config --schema > .espalier.schema.json`,
		Args: noArgs(""),
		RunE: func(c *cobra.Command, _ []string) error {
			if o.schema {
				return a.configSchema()
			}
			return a.printConfig(c, o)
		},
	}
	addTextOutputFlag(c, &o.output)
	c.Flags().BoolVar(&o.schema, "schema", false, "print the JSON Schema of the configuration file and exit")
	groupFlags(c.Flags(), outputFlags, "schema")
	return c
}

func (a *app) configSchema() error {
	text, err := config.Schema(a.rules())
	if err == nil {
		_, err = a.stdout.Write(text)
	}
	return err
}

// printConfig prints the effective values.
func (a *app) printConfig(c *cobra.Command, o configOptions) error {
	var override []config.Setting
	if c.Flags().Changed("semantics") {
		override = append(override, config.Setting{Name: "semantics", Value: a.semantics.String(),
			Source: config.Source{Kind: config.FromFlag, Name: "--semantics"}})
	} else if value, _ := a.environ(semanticsVariable); value != "" {
		override = append(override, config.Setting{Name: "semantics", Value: value,
			Source: config.Source{Kind: config.FromEnvironment, Name: semanticsVariable}})
	}
	settings := a.config.Effective(a.rules(), override...)
	if err := checkTextOutput(o.output); err != nil {
		return err
	}
	if o.output != "text" {
		p := &printer{a: a, output: o.output}
		return p.print("", map[string]any{"file": a.config.Path, "settings": settings})
	}
	file := a.config.Path
	if file == "" {
		file = "none"
	}
	fmt.Fprintf(a.stdout, "Configuration file: %s\n\n", file)
	w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "NAME\tVALUE\tSOURCE")
	for _, s := range settings {
		value := s.Text()
		if value == "" {
			value = "-"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\n", s.Name, value, s.Source)
	}
	return w.Flush()
}
