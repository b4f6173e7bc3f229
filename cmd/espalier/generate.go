package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"espalier.dev/analysis"
	"espalier.dev/analysis/generate"
	"espalier.dev/analysis/generate/golang"
	"espalier.dev/analysis/generate/proto"
	"espalier.dev/analysis/generate/typescript"
	"espalier.dev/analysis/object"
	"espalier.dev/cmd/espalier/internal/input"
	"espalier.dev/cmd/espalier/internal/report"
	"espalier.dev/cmd/espalier/internal/workdir"
	"espalier.dev/crd"
)

// generateTarget is a language that types can be generated for.
type generateTarget struct {
	name, summary string
	// files are patterns of the names of its files.
	files []string
	// generate returns the files of the packages. existing are the files that an earlier run
	// has written to the directories of the packages, and goPackage is the import path of the
	// output directory, or empty.
	generate func(packages []*generate.Package, existing generate.Files, goPackage string) (generate.Files, []generate.Problem, error)
}

// generateTargets returns the targets of generate.
func generateTargets() []generateTarget {
	return []generateTarget{
		{"go", "Go types with kubebuilder markers, deep copies and AddToScheme", []string{"zz_generated.*.go"},
			func(packages []*generate.Package, _ generate.Files, _ string) (generate.Files, []generate.Problem, error) {
				return golang.Generate(packages)
			}},
		{protoTarget, "Protobuf messages, and a lock file that keeps field numbers stable", []string{"types.proto", "types.proto.lock"},
			func(packages []*generate.Package, existing generate.Files, goPackage string) (generate.Files, []generate.Problem, error) {
				files, err := proto.Generate(packages, existing, proto.Options{GoPackage: goPackage})
				return files, nil, err
			}},
		{"typescript", "TypeScript interfaces", []string{"types.ts"}, func(packages []*generate.Package,
			_ generate.Files, _ string) (generate.Files, []generate.Problem, error) {
			return typescript.Generate(packages), nil, nil
		}},
	}
}

// protoTarget is the name of the target for Protobuf.
const protoTarget = "proto"

// generateOptions are the flags of generate.
type generateOptions struct {
	input               input.Flags
	source              sourceFlags
	output, goPackage   string
	check, force, clean bool
	quiet               bool
}

func newGenerateCommand(a *app) *cobra.Command {
	var o generateOptions
	var names []string
	list := ""
	for _, t := range generateTargets() {
		names = append(names, t.name)
		list += fmt.Sprintf("  %-11s %s\n", t.name, t.summary)
	}
	c := &cobra.Command{
		Use:   "generate " + strings.Join(names, "|") + " -o DIRECTORY (PATH... | --from-cluster [CRD...])",
		Short: "Generate types from the schemas of CRDs",
		Long: `Generate writes the types of custom resources, for one of these targets:

` + list + `
Each version of each group becomes a package, in the directory GROUP/VERSION of the output
directory. The same CRDs always give the same files. Documents other than CRDs are skipped.

With --from-cluster, the CRDs are those of a running cluster: all of them, or those that the
arguments name, like crontabs.example.com.

Schemas must be structural: espalier fix can make them structural. If one of them is not,
nothing is written.

The target proto also writes a lock file beside each .proto file: commit both. A later run
never changes the number of a field, and reserves the numbers of removed fields. The option
go_package of the files is the import path of the output directory, which --go-package sets,
followed by GROUP/VERSION. Without the flag, it is that of the Go module that has the
output directory; outside a module, files do not have the option.

Generate lists on standard error the files that it has written or removed, and counts the
types. Files that have not changed are not written. --quiet turns this off.

Files that were not generated are not overwritten unless --force is set. Files of the target
that an earlier run has generated, for a version or group that the CRDs do not have anymore,
are reported; --clean removes them, including lock files. Name all CRDs of an output
directory in one run. With --check, nothing is written: generate prints what would change,
including files to remove, as a patch, and exits with 1 if anything would.

Exit codes: 0 success, 1 a schema is not structural, or --check found differences,
` + otherExitCodes + `.`,
		Example: `  # Generate Go types for all CRDs in a directory
  espalier generate go -o api crds/

  # Check in CI that committed types are up to date
  espalier generate go -o api --check crds/

  # Generate TypeScript interfaces for a CRD of a running cluster
  espalier generate typescript -o src/api --from-cluster crontabs.stable.example.com

  # Generate Protobuf messages
  espalier generate proto -o proto crds/
  espalier generate proto -o proto --go-package example.com/project/proto crds/`,
		ValidArgsFunction: o.source.completeArgs(completeFirst(names)),
		Args:              requireFirst(names),
		RunE: func(c *cobra.Command, args []string) error {
			return a.generate(c, generateTargets()[slices.Index(names, args[0])], o, args[1:])
		},
	}
	addInputFlags(c, &o.input, "CRDs", input.Definitions)
	addFromClusterFlags(c, &o.source, "read the CRDs of a running cluster; arguments are then names of CRDs")
	flags := c.Flags()
	flags.StringVarP(&o.output, "output", "o", "", "output `DIRECTORY`; required")
	flags.BoolVar(&o.check, "check", false, "print what would change, and write nothing")
	flags.BoolVar(&o.force, "force", false, "overwrite files that were not generated")
	flags.BoolVar(&o.clean, "clean", false, "remove files that are no longer generated")
	flags.StringVar(&o.goPackage, "go-package", "",
		"import `PATH` of the output directory, for the option go_package of proto (default: that in its Go module, if it has one)")
	flags.BoolVarP(&o.quiet, "quiet", "q", false, "do not list what was written")
	groupFlags(flags, outputFlags, "output", "check", "force", "clean", "go-package", "quiet")
	_ = c.RegisterFlagCompletionFunc("go-package", cobra.NoFileCompletions)
	_ = c.MarkFlagDirname("output")
	return c
}

func (a *app) generate(c *cobra.Command, target generateTarget, o generateOptions, args []string) (err error) {
	fromCluster, err := o.source.clusterGiven(c, "filename")
	if err != nil {
		return err
	}
	if !fromCluster {
		if o.input.Paths = append(o.input.Paths, args...); len(o.input.Paths) == 0 {
			o.input.Paths = a.configuredCRDs()
		}
	}
	switch {
	case len(o.input.Paths) == 0 && !fromCluster:
		return needsPath(c)
	case o.output == "":
		return usageError(c, errors.New("-o is required: the output directory"))
	}
	goPackage, err := o.importPath(a.dir, c, target)
	if err != nil {
		return err
	}
	r, err := a.newSideReporter(c, "CRD")
	if err != nil {
		return err
	}
	defer func() { err = r.Finish(err) }()
	var ds *definitions
	if fromCluster {
		items, failed := a.clusterCRDs(c.Context(), &o.source, args, r.Failure)
		ds, err = a.definitionsOf(items), failed
	} else {
		ds, err = a.loadDefinitions(c.Context(), o.input, r.Failure)
	}
	if err != nil {
		return err
	}
	packages, used, problems := a.buildPackages(ds, r)
	for _, p := range problems {
		r.Report(used[p.Input].item(), p.Finding)
	}
	if r.Code() != report.Clean {
		return nil
	}
	out := outputDirectory{at: a.dir, dir: o.output}
	existing, err := out.generated(packages)
	if err != nil {
		return err
	}
	files, problems, err := target.generate(packages, existing, goPackage)
	if err != nil {
		return err
	}
	for _, p := range problems {
		r.Report(used[p.Input].item(), p.Finding)
	}
	if r.Code() != report.Clean {
		return nil
	}
	stale, err := out.stale(target, files)
	if err != nil {
		return err
	}
	if o.check {
		return a.checkGenerated(out, files, stale)
	}
	written, err := out.write(files, o.force)
	if err != nil {
		return err
	}
	tell := func(format string, args ...any) {
		if !o.quiet {
			fmt.Fprintf(a.stderr, a.name()+": "+format+"\n", args...)
		}
	}
	for _, name := range written {
		tell("wrote %s", out.path(name))
	}
	for _, name := range stale {
		if !o.clean {
			fmt.Fprintf(a.stderr, "%s: %s is no longer generated: remove it with --clean\n", a.name(), out.path(name))
			continue
		}
		if err := a.dir.Remove(out.path(name)); err != nil {
			return err
		}
		tell("removed %s", out.path(name))
	}
	types := 0
	for _, p := range packages {
		types += len(p.Types)
	}
	tell("%s in %s: %s written, %d unchanged", analysis.Plural(types, "type"), analysis.Plural(len(packages), "package"),
		analysis.Plural(len(written), "file"), len(files)-len(written))
	return nil
}

// buildPackages returns the packages of the CRDs, the CRDs that they were made of, and the
// problems with these.
func (a *app) buildPackages(ds *definitions, r *report.Reporter) ([]*generate.Package, []*definition, []generate.Problem) {
	var inputs []generate.Input
	var used []*definition
	for _, d := range ds.All() {
		r.Saw(d.item())
		made, err := d.compile(crd.Options{Semantics: a.semantics.Semantics, IgnoreRules: true, Shared: true})
		if err != nil {
			r.Report(d.item(), analysis.Finding{Rule: object.RuleInvalidDefinition, Severity: analysis.Error, Message: err.Error()})
			continue
		}
		inputs = append(inputs, generate.Input{Definition: made, Document: d.item().JSON})
		used = append(used, d)
	}
	packages, problems := generate.Build(inputs)
	return packages, used, problems
}

// checkGenerated prints the differences between the files in the output directory and those
// that would be written. stale are the files that would not.
func (a *app) checkGenerated(out outputDirectory, files generate.Files, stale []string) error {
	patch, err := a.newPatchWriter([]string{out.dir})
	if err != nil {
		return err
	}
	differs := false
	for _, name := range slices.Sorted(slices.Values(append(slices.Collect(maps.Keys(files)), stale...))) {
		old, err := out.read(name)
		if err != nil {
			return err
		}
		if bytes.Equal(old, files[name]) {
			continue
		}
		differs = true
		if err := patch.print(out.path(name), old, files[name]); err != nil {
			return err
		}
	}
	if differs {
		return report.ExitError(report.Found)
	}
	return nil
}

// outputDirectory is the directory that generate writes to.
type outputDirectory struct {
	// at is the working directory of the command, which dir is relative to.
	at  workdir.Dir
	dir string
}

func (o outputDirectory) path(name string) string {
	return filepath.Join(o.dir, filepath.FromSlash(name))
}

// read returns a file, or nothing if there is none.
func (o outputDirectory) read(name string) ([]byte, error) {
	text, err := o.at.ReadFile(o.path(name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return text, err
}

// generated returns the generated files in the directories of packages.
func (o outputDirectory) generated(packages []*generate.Package) (generate.Files, error) {
	files := generate.Files{}
	for _, p := range packages {
		entries, err := o.at.ReadDir(o.path(p.Dir()))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		for _, e := range entries {
			if !e.Type().IsRegular() {
				continue
			}
			name := p.Dir() + "/" + e.Name()
			text, err := o.read(name)
			if err != nil {
				return nil, err
			}
			if isGenerated(text) {
				files[name] = text
			}
		}
	}
	return files, nil
}

// stale returns the generated files of a target that are not among files, sorted.
func (o outputDirectory) stale(target generateTarget, files generate.Files) (names []string, err error) {
	for _, pattern := range target.files {
		// Each package is in the directory GROUP/VERSION.
		found, err := fs.Glob(os.DirFS(o.at.Path(o.dir)), "*/*/"+pattern)
		if err != nil {
			return nil, err
		}
		for _, name := range found {
			if files[name] != nil {
				continue
			}
			text, err := o.read(name)
			if err != nil {
				return nil, err
			}
			if isGenerated(text) {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	return names, nil
}

// isGenerated reports whether a file was generated: one of its first lines says so.
func isGenerated(text []byte) bool {
	const head = 1000
	return bytes.Contains(text[:min(len(text), head)], []byte(generate.Marker))
}

// write writes the files that have changed, each of them atomically, and returns their names. It
// writes nothing if a file was not generated, unless force is set.
func (o outputDirectory) write(files generate.Files, force bool) (changed []string, err error) {
	for _, name := range slices.Sorted(maps.Keys(files)) {
		old, err := o.read(name)
		switch {
		case err != nil:
			return nil, err
		case old != nil && !isGenerated(old) && !force:
			return nil, fmt.Errorf("%s was not generated by espalier: choose another directory, or overwrite it with --force", o.path(name))
		}
		if !bytes.Equal(old, files[name]) {
			changed = append(changed, name)
		}
	}
	for _, name := range changed {
		if err := replaceFile(o.at, o.path(name), files[name]); err != nil {
			return nil, err
		}
	}
	return changed, nil
}

// replaceFile writes a file atomically, and creates its directory.
func replaceFile(dir workdir.Dir, path string, text []byte) error {
	if err := dir.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		return err
	}
	return writeAtomically(dir, path, text, 0o644)
}

// importPath returns the import path of the output directory for a target, or "" if it has none:
// that of --go-package or, without the flag, that in the Go module of the directory.
func (o *generateOptions) importPath(dir workdir.Dir, c *cobra.Command, target generateTarget) (string, error) {
	given := c.Flags().Changed("go-package")
	switch {
	case target.name != protoTarget && given:
		return "", usageError(c, fmt.Errorf("--go-package needs the target %s", protoTarget))
	case target.name != protoTarget, given && o.goPackage == "":
		return "", nil
	case !given:
		return moduleImportPath(dir, o.output)
	case !importPathPattern.MatchString(o.goPackage):
		return "", fmt.Errorf("--go-package=%s: must be an import path, such as example.com/project/proto", o.goPackage)
	}
	return o.goPackage, nil
}
