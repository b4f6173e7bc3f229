package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"espalier.dev/analysis/impact"
	"espalier.dev/cmd/espalier/internal/input"
	"espalier.dev/cmd/espalier/internal/report"
	"espalier.dev/cmd/espalier/internal/source"
)

// diffOptions are the flags of diff.
type diffOptions struct {
	changeFlags
	objects input.Flags
	source  sourceFlags
	report  reportFlags
	base    string
}

func newDiffCommand(a *app) *cobra.Command {
	var o diffOptions
	c := &cobra.Command{
		Use:   "diff {[OLD] NEW | --base REV [NEW...]} [--objects PATH... | --from-cluster | --snapshot FILE | --etcd-servers URLS | --dump PATH]",
		Short: "Compare CRDs and report how each change affects stored objects and clients",
		Long: `Diff compares two CRDs, or two sets of CRDs, which it matches by name. A directory is a set,
and so is a file with several CRDs. Two files with one CRD each are compared even if the
names of the CRDs differ.

With --base, the new CRDs are those of the working tree of a Git repository: of the NEW
files and directories, or of everything below the current directory. The old CRDs are those
of the same paths in the merge base of REV and HEAD. Only files that differ are read, and
only documents that mention CRDs; files that Git ignores are skipped. A CRD that has moved
to or from other files is matched by its name.

Every change gets a verdict: its class, which is the worst possible effect. Each class has
a severity. The configuration file can set another one.

` + classTable() + `
Diff never answers "unknown": a change that is not proven safe gets a worse verdict. The
verdicts consider whether the old and the new CRD prune unknown fields. Changes that the
API server would reject as an update are errors too (update-refused). It rejects a CRD
without a version that status.storedVersions lists; a CRD in a file often has no status.

The worst come first: by severity, then those that affect objects, then by class. Changes
that are equal except for their place, also in different CRDs, are one finding with some
of the places, and so is a change that several versions have in common. Changes that affect
objects are never grouped with those of other fields. Safe changes are counted, and listed
if --fail-on selects them. --all lists every change. Formats for programs (json, yaml,
sarif, junit) always do.

With --objects, diff checks each object with both CRDs, and counts and lists the objects
that a change affects. Objects of other kinds are skipped; if there are no others, that is
an input error. Objects without a namespace are in the namespace default. CEL rules are not
evaluated on objects with other errors; such objects are counted.

With --only-affected, only changes that affect the objects are findings, and each is as
severe as its effect on them: the exit code is about these objects. The other changes are
counted. An update that the API server would reject stays an error.

With --snapshot, --etcd-servers, --from-cluster or --dump, diff checks all stored objects of
the CRDs: the impact of a change before it is applied. Without OLD, the old CRDs are those
of the source that have the names of the new ones. Only etcd and its snapshots have fields
that are stored, but not served; diff reports those that the new CRD would serve again
(revealed).

Exit codes: 0 no errors, 1 errors (or what --fail-on selects), ` + otherExitCodes + `.`,
		Example: `  # Check whether a change is safe
  espalier diff old-crd.yaml new-crd.yaml

  # Compare all CRDs of two releases
  espalier diff -R release-1/ release-2/

  # Compare the working tree with the branch that it will be merged into
  espalier diff --base origin/main

  # Compare the CRDs of a release with those of the working tree
  espalier diff git:v1.2.0:crds crds

  # List the objects that the change affects
  espalier diff old-crd.yaml new-crd.yaml --objects objects/

  # Fail only if the change breaks one of the objects
  espalier diff -R release-1/ release-2/ --objects objects/ --only-affected

  # Report what a change would do to all stored objects, for a pull request comment
  espalier diff crontab-crd.yaml --snapshot snapshot.db -o markdown

  # Do it with a running cluster
  espalier diff crontab-crd.yaml --from-cluster --context staging

  # Fail if clients may break, too
  espalier diff old-crd.yaml new-crd.yaml --fail-on warning

  # Annotate a pull request with what would happen in kube-apiserver
  espalier diff old-crd.yaml new-crd.yaml --semantics kubernetes -o github`,
		Args: func(c *cobra.Command, args []string) error {
			if o.base != "" {
				return nil
			}
			if len(args) < 2 && len(o.source.named(c)) > 0 {
				return exactArgs("NEW")(c, args)
			}
			return exactArgs("OLD", "NEW")(c, args)
		},
		RunE: func(c *cobra.Command, args []string) error { return a.diff(c, args, o) },
	}
	c.Flags().StringArrayVar(&o.objects.Paths, "objects", nil,
		"`PATH` of a file or directory with stored objects to test the change on, or - for standard input; repeatable")
	groupFlags(c.Flags(), inputFlags, "objects")
	addReadFlags(c, &o.objects, "recursive", input.Manifests)
	addBaseFlag(c, a, &o.base, "compare the working tree with")
	addSourceFlags(c, &o.source)
	addBaselineFlags(c, &a.baselineFlags)
	addReportFlags(c, &o.report)
	addChangeFlags(c, &o.changeFlags)
	_ = c.MarkFlagFilename("objects", "yaml", "yml", "json")
	return c
}

// classTable returns the classes of changes and their severities for the help text.
func classTable() string {
	var b strings.Builder
	for _, class := range impact.Classes() {
		fmt.Fprintf(&b, "  %-14s  %-7s  %s\n", class.ID(), class.Severity(), class.Summary())
	}
	return b.String()
}

// diff compares the CRDs that the arguments name: OLD and NEW, or NEW with those of the source.
func (a *app) diff(c *cobra.Command, args []string, o diffOptions) (err error) {
	ctx := c.Context()
	if o.onlyAffected && len(o.objects.Paths) == 0 && len(o.source.named(c)) == 0 {
		return usageError(c, errors.New("--only-affected needs objects: --objects, --from-cluster, --snapshot, --etcd-servers or --dump"))
	}
	var sides []input.Flags
	var base *baseDiff
	if o.base != "" {
		if base, err = a.newBaseDiff(ctx, o.base, o.objects, args); err != nil {
			return err
		}
	} else {
		for _, path := range args {
			sides = append(sides, o.objects.With(path))
		}
		sides[len(sides)-1].Skipped = o.objects.Skipped
	}
	if err := stdinOnce(append(sides, o.objects)...); err != nil {
		return err
	}
	var src source.Source
	if len(o.source.named(c)) > 0 {
		if src, _, err = a.openSource(ctx, c, &o.source, o.objects, "--objects"); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, src.Close()) }()
		if err := a.recordedSemantics(ctx, c, src); err != nil {
			return err
		}
	} else if len(o.source.namespaces) > 0 {
		return usageError(c, errors.New("--namespace needs a source: --from-cluster, --snapshot, --etcd-servers or --dump"))
	}
	if base == nil { // else it has only files that differ
		a.inputs = sides[len(sides)-1:]
	}
	options := a.reportOptions(c, o.report, diffRules(a.config.Diff))
	options.What = "CRD"
	options.Folded = foldedChanges
	options.Grouped = groupedChanges
	options.Unordered = true // the worst first
	r, err := report.New(options)
	if err != nil {
		return err
	}
	defer func() { err = r.Finish(err) }()
	d := a.newDiffer(r, o.changeFlags, options.FailOn)
	var sets []diffSet
	if base != nil {
		if sets, err = base.load(ctx, r); err != nil {
			return err
		}
	}
	for _, flags := range sides {
		set, err := a.loadSides(ctx, flags, r.Failure, r.Report)
		if err != nil {
			return err
		}
		sets = append(sets, set)
	}
	if len(sets) == 1 {
		old, err := d.storedSides(ctx, src, sets[0])
		if err != nil {
			return err
		}
		sets = []diffSet{old, sets[0]}
	}
	if r.Summary().Failures > 0 {
		// CRDs that could not be read would be reported as removed.
		return nil
	}
	d.pair(ctx, sets[0], sets[1])
	switch {
	case src != nil:
		err = d.tryStored(ctx, src, o.source.namespaces)
	case len(o.objects.Paths) > 0:
		err = d.tryAll(ctx, a.stdin, o.objects)
	}
	if err != nil {
		return err
	}
	d.report(ctx)
	if src != nil && !src.Stored() {
		r.Add(servedFinding("use etcd (--etcd-servers) or a snapshot (--snapshot) to see what the new CRD would reveal"))
	}
	return nil
}
