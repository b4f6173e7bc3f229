package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"espalier.dev/cmd/espalier/internal/input"
	"espalier.dev/cmd/espalier/internal/report"
	"espalier.dev/cmd/espalier/internal/source"
)

// upgradeOptions are the flags of upgrade.
type upgradeOptions struct {
	objects input.Flags
	source  sourceFlags
	report  reportFlags
	names   int
}

func newUpgradeCommand(a *app) *cobra.Command {
	var o upgradeOptions
	c := &cobra.Command{
		Use:   "upgrade [OLD] NEW [--objects PATH... | --from-cluster | --snapshot FILE | --etcd-servers URLS | --dump PATH]",
		Short: "List what an operator's upgrade does to objects, and the steps to take",
		Long: `Upgrade compares the CRDs of two releases of an operator, and checks what the new ones do to
the objects that exist. It prints the steps to take, in their order: before the upgrade, the
upgrade, and after it, each with its commands. It changes nothing itself.

OLD and NEW are files, directories, Helm charts, kustomizations or revisions (git:REV:PATH).
Charts and kustomizations are rendered, also with -R. Without OLD, the old CRDs are those of
the cluster, etcd, snapshot or backup that have the names of the new ones. If both are given,
OLD says which CRDs belong to the operator, so that CRDs that NEW does not have are found,
and those that are installed say in which versions objects are stored.

Objects come from --objects, --from-cluster, --snapshot, --etcd-servers or --dump. Each is
read as the API server reads it under the old and under the new CRD:

  object-deleted      its CRD is removed, or cannot be updated (scope, kind)
  loses-data          a field is hidden, and dropped with the next write
  invalid             a value is no longer valid; with whether updates of other fields
                      still pass (ratcheting), or every update is rejected
  needs-migration     it is stored in a version that the new CRD does not have, or that
                      is not the storage version
  version-not-served  a manifest, or the manager of a field, uses a version that the new
                      CRD does not serve
  revealed            hidden data is served again
  defaulted           a default is new or different, and the object does not set the field
  transition-rule     a new rule restricts updates of a value that the object has
  not-judged          a conversion webhook decides

What was wrong before is not reported, and neither is what a schema might do to objects that
do not exist. The API server rejects a CRD without a version that status.storedVersions
lists, a change of scope or kind, and an invalid CRD (update-refused): these are errors
without objects, too. Without objects, only steps that the CRDs need are listed. Objects of
the new release itself, such as custom resources and webhooks in NEW, are validated with its
CRDs (invalid-manifest).

Objects are streamed: memory does not grow with their number. Text and Markdown show groups
of objects with some names; json, yaml, sarif and junit list every object. The summary of
json and yaml has the steps.

Only etcd and its snapshots say in which version an object is stored, and have fields that
are not served.

Exit codes: 0 no object needs a step that is an error, 1 errors (or what --fail-on selects),
` + otherExitCodes + `.`,
		Example: `  # List what the upgrade does to the manifests in a directory
  espalier upgrade -R release-1/ release-2/ --objects objects/

  # Check the objects of a running cluster
  espalier upgrade release-2/ --from-cluster --context staging

  # Check all stored objects, and write the steps for a change request
  espalier upgrade release-2/ --snapshot snapshot.db -o markdown=upgrade.md

  # Compare two revisions, without objects
  espalier upgrade git:v1.2.0:crds git:HEAD:crds

  # Let every object that needs attention fail the build
  espalier upgrade old-crd.yaml new-crd.yaml --objects objects/ --fail-on warning`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) < 2 && len(o.source.named(c)) > 0 {
				return exactArgs("NEW")(c, args)
			}
			return exactArgs("OLD", "NEW")(c, args)
		},
		ValidArgsFunction: completePaths,
		RunE:              func(c *cobra.Command, args []string) error { return a.upgrade(c, args, o) },
	}
	c.Flags().StringArrayVar(&o.objects.Paths, "objects", nil,
		"`PATH` of a file or directory with objects, or - for standard input; repeatable")
	groupFlags(c.Flags(), inputFlags, "objects")
	addReadFlags(c, &o.objects, "recursive", input.Manifests)
	addSourceFlags(c, &o.source)
	addReportFlags(c, &o.report)
	c.Flags().IntVar(&o.names, "names", 5, "maximum `number` of objects to name for each finding in text and Markdown")
	groupFlags(c.Flags(), outputFlags, "names")
	_ = c.MarkFlagFilename("objects", manifestExtensions()...)
	return c
}

// upgrade reports what the upgrade does that the arguments name: OLD and NEW, or NEW alone.
func (a *app) upgrade(c *cobra.Command, args []string, o upgradeOptions) (err error) {
	ctx := c.Context()
	if o.names < 0 {
		return fmt.Errorf("--names=%d: must not be negative", o.names)
	}
	var sides []input.Flags
	for _, path := range args {
		side := o.objects.With(path)
		// -R is about directories with objects: a release that is a chart or a kustomization is
		// rendered as without it.
		side.Recursive = side.Recursive && a.formOf(side, path) == input.Plain
		sides = append(sides, side)
	}
	sides[len(sides)-1].Skipped = o.objects.Skipped
	if err := stdinOnce(append(sides, o.objects)...); err != nil {
		return err
	}
	u := &upgrader{app: a, objects: o.objects, newPath: args[len(args)-1], flags: o.source}
	u.newForm = a.formOf(o.objects, u.newPath)
	if len(o.source.named(c)) > 0 {
		var src source.Source
		if src, u.sourceName, err = a.openSource(ctx, c, &o.source, o.objects, "--objects"); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, src.Close()) }()
		if err := a.recordedSemantics(ctx, c, src); err != nil {
			return err
		}
		u.source, u.named = src, o.source.named(c)[0]
	} else if len(o.source.namespaces) > 0 {
		return usageError(c, errors.New("--namespace needs a source: --from-cluster, --snapshot, --etcd-servers or --dump"))
	}
	a.inputs = append(sides[len(sides)-1:], o.objects)
	options := a.reportOptions(c, o.report, upgradeRules())
	options.Unordered = true // by step, the worst first
	if u.source == nil && len(o.objects.Paths) == 0 {
		options.What = "CRD"
	}
	r, err := report.New(options)
	if err != nil {
		return err
	}
	defer func() { err = r.Finish(err) }()
	u.r = r
	return u.run(ctx, sides, o.names)
}

// formOf returns what a path is rendered as.
func (a *app) formOf(flags input.Flags, path string) input.Form {
	form := a.repositories.FormOf(path)
	if form == input.Chart && flags.Helm == nil || form == input.Kustomization && flags.Build == nil {
		return input.Plain
	}
	return form
}
