package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"espalier.dev/analysis"
	"espalier.dev/analysis/lookup"
	"espalier.dev/cmd/espalier/internal/input"
	"espalier.dev/cmd/espalier/internal/report"
	"espalier.dev/internal/yamlx"
)

// addInputFlags adds -f and the flags of addReadFlags.
func addInputFlags(c *cobra.Command, flags *input.Flags, what string, keep input.Filter) {
	c.Flags().StringArrayVarP(&flags.Paths, "filename", "f", nil, "`PATH` of a file or directory with "+what+
		", or - for standard input, in addition to arguments; repeatable")
	groupFlags(c.Flags(), inputFlags, "filename")
	_ = c.MarkFlagFilename("filename", manifestExtensions()...)
	addReadFlags(c, flags, "recursive", keep)
}

// addReadFlags adds the flags that apply to all input of a command: -R, whose long name is
// recursive, --exclude, --skip-other-files, which selects the documents that a filter keeps,
// and --max-document-size.
func addReadFlags(c *cobra.Command, flags *input.Flags, recursive string, keep input.Filter) {
	c.Flags().BoolVarP(&flags.Recursive, recursive, "R", false, "include subdirectories")
	c.Flags().StringArrayVar(&flags.Exclude, "exclude", nil,
		"`GLOB` of files and directories to skip, relative to the named directory, or a base name; ** matches any directories; repeatable")
	exclude := c.Flags().Lookup("exclude")
	exclude.Value = &excludeFlag{exclude.Value, flags}
	c.Flags().Var((*sizeFlag)(&flags.MaxDocument), "max-document-size",
		"maximum size of a document in `MiB`; several are in memory at a time")
	groupFlags(c.Flags(), inputFlags, recursive, "exclude", "max-document-size")
	_ = c.RegisterFlagCompletionFunc("max-document-size", cobra.NoFileCompletions)
	flags.Skipped = new(input.Skipped)
	addRenderFlags(c, flags)
	c.Flags().VarPF(&filterFlag{flags, keep}, "skip-other-files", "",
		"read the input as a source repository: skip hidden files, files of other tools, Helm templates and encrypted objects").NoOptDefVal = "true"
	groupFlags(c.Flags(), inputFlags, "skip-other-files")
}

// excludeFlag is the flag --exclude. It gives access to the input that it applies to, because
// the configuration file excludes files too.
type excludeFlag struct {
	pflag.Value
	input *input.Flags
}

// inputOf returns the input flags of a command, or nil.
func inputOf(c *cobra.Command) *input.Flags {
	if flag := c.Flags().Lookup("skip-other-files"); flag != nil {
		if f, ok := flag.Value.(*filterFlag); ok {
			return f.flags
		}
	}
	return nil
}

// skippedBy returns what counts the skipped input of a command, or nil.
func skippedBy(c *cobra.Command) *input.Skipped {
	if flags := inputOf(c); flags != nil {
		return flags.Skipped
	}
	return nil
}

// filterFlag is the flag --skip-other-files.
type filterFlag struct {
	flags *input.Flags
	keep  input.Filter
}

// Set parses the flag.
func (f *filterFlag) Set(s string) error {
	on, err := strconv.ParseBool(s)
	f.flags.SkipOthers(on, f.keep)
	return err
}

// String returns the value of the flag.
func (f *filterFlag) String() string { return strconv.FormatBool(f.flags != nil && f.flags.SkipHidden) }

// Type returns the name of the value in help texts.
func (f *filterFlag) Type() string { return "bool" }

// addCRDFlag adds --crd.
func addCRDFlag(c *cobra.Command, flags *input.Flags) {
	c.Flags().StringArrayVar(&flags.Paths, "crd", nil, "`PATH` of a file or directory with CRDs, or - for standard input; repeatable")
	groupFlags(c.Flags(), inputFlags, "crd")
	_ = c.MarkFlagFilename("crd", manifestExtensions()...)
}

// manifestExtensions returns the extensions of files that completion offers.
func manifestExtensions() []string { return []string{"yaml", "yml", "json"} }

// completePaths completes arguments that are paths of manifests.
func completePaths(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return manifestExtensions(), cobra.ShellCompDirectiveFilterFileExt
}

// sizeFlag is a size in bytes that is written in MiB. Zero is the default.
type sizeFlag int

// Set parses the flag.
func (f *sizeFlag) Set(s string) error {
	const most = 1 << 20 // a TiB
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 || n > most {
		return fmt.Errorf("must be a number of MiB from 1 to %d", most)
	}
	*f = sizeFlag(n << 20)
	return nil
}

// String returns the value of the flag.
func (f *sizeFlag) String() string {
	if *f == 0 {
		return strconv.Itoa(yamlx.DefaultMaxDocument >> 20)
	}
	return strconv.Itoa(int(*f >> 20))
}

// Type returns the name of the value in help texts.
func (f *sizeFlag) Type() string { return "MiB" }

// stdinOnce returns an error if standard input is named more than once.
func stdinOnce(all ...input.Flags) error {
	n := 0
	for _, flags := range all {
		for _, path := range flags.Paths {
			if path == "-" {
				n++
			}
		}
	}
	if n > 1 {
		return errors.New("standard input (-) can be read only once")
	}
	return nil
}

// needsPath returns the usage error of a command without input.
func needsPath(c *cobra.Command) error {
	return usageError(c, fmt.Errorf("%s needs PATH: a file, a directory, or - for standard input", c.Name()))
}

// checkedNothing reports a failure if a command has checked no objects, because those of the input
// are Helm templates, which --skip-other-files skips.
func checkedNothing(r *report.Reporter, flags input.Flags) {
	s := r.Summary()
	if n := flags.Skipped.Templates(); n > 0 && s.Objects+s.Skipped+s.Failures == 0 {
		r.Failure(input.Problem{Rule: input.Unrendered, File: strings.Join(flags.Paths, ", "), Message: fmt.Sprintf(
			"nothing was checked: what was found is %s, which --skip-other-files skips: render the charts with --helm",
			analysis.Plural(n, "Helm template"))})
	}
}

// skipFlags are the flags that skip objects.
type skipFlags struct {
	missing, builtin bool
	// undefined is set if missing applies to kinds whose group has other CRDs, too.
	undefined bool
	kinds     []string
}

// addSkipFlags adds --ignore-missing-crds, --skip-builtin-kinds and --skip-kind.
func addSkipFlags(c *cobra.Command, flags *skipFlags) {
	c.Flags().BoolVar(&flags.missing, "ignore-missing-crds", false, "skip objects of unknown kinds, in groups that no CRD has")
	c.Flags().BoolVar(&flags.builtin, "skip-builtin-kinds", false, "skip objects of built-in kinds, such as Deployments")
	c.Flags().StringSliceVar(&flags.kinds, "skip-kind", nil,
		"comma-separated `KINDS` to skip, as Kind, group/Kind or group/version/Kind; repeatable")
	groupFlags(c.Flags(), checkFlags, "ignore-missing-crds", "skip-builtin-kinds", "skip-kind")
}

// check returns an error if a kind is malformed.
func (f *skipFlags) check() error {
	for _, kind := range f.kinds {
		parts := strings.Split(kind, "/")
		for _, part := range parts {
			if part == "" || len(parts) > 3 {
				return fmt.Errorf("--skip-kind=%s: must be Kind, group/Kind or group/version/Kind", kind)
			}
		}
	}
	return nil
}

// byKind returns why an object is skipped because of its kind, or "".
func (f *skipFlags) byKind(it *input.Item) string {
	if len(f.kinds) == 0 || it.Kind() == "" {
		return ""
	}
	group := lookup.KindOf(it).Group
	for _, kind := range f.kinds {
		// The core group has no name, so that v1/Secret is a version and a kind.
		switch kind {
		case it.Kind(), group + "/" + it.Kind(), it.APIVersion() + "/" + it.Kind():
			return "skipped by --skip-kind=" + kind
		}
	}
	return ""
}

// byBuiltin returns why objects of built-in kinds are skipped, or "".
func (f *skipFlags) byBuiltin() string {
	if !f.builtin {
		return ""
	}
	return "skipped by --skip-builtin-kinds"
}

// byError returns why an object is skipped because its CRD is missing, or "".
func (f *skipFlags) byError(err error) string {
	var missing *lookup.Missing
	if f.missing && errors.As(err, &missing) && (missing.Unrelated || f.undefined && missing.Undefined) {
		return missing.Message
	}
	return ""
}

// otherFilesHelp describes what is skipped in source repositories, for help texts.
const otherFilesHelp = `A Helm chart is a directory with a Chart.yaml, or a .tgz file; a kustomization is a directory with
a kustomization.yaml. If PATH is one, and not with -R, it is rendered by the helm program, or
by kustomize or kubectl, and the result is read in place of the files. Findings about a chart
name the template, and its line if that is certain. With -R, files are read one by one: --helm
and --kustomize render the charts and kustomizations that are found. Without the program, what
can be read without it is read, and the summary says what is left out; with --helm and
--kustomize this is an error. --helm-values and --helm-set set values. Charts that depend on
charts that are not in their directory charts/, and kustomizations with remote parts, need
--helm-network and --kustomize-network. The programs do not see your configuration of helm, and
write nothing into charts. --helm=read and --kustomize=skip read the files in any case.
In a directory with a kustomization file, files that it names as patches, configurations and
inputs of generators are no objects: they are skipped, as the kustomization file itself and
files that are patches by their names. --kustomize=read reads them, and so does naming a file.
--skip-other-files is for source repositories and for tools that pass all changed files: it
skips hidden files and directories, documents without apiVersion and kind, configurations of
tools such as kind, Helm templates, and objects that SOPS has encrypted. Findings about values
with variables such as ${name}, which Flux substitutes, are left out. One line of the summary
counts all of them.`
