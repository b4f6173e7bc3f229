package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"

	"github.com/spf13/cobra"

	"espalier.dev/analysis"
	"espalier.dev/analysis/object"
	"espalier.dev/cmd/espalier/internal/changes"
	"espalier.dev/cmd/espalier/internal/input"
	"espalier.dev/cmd/espalier/internal/report"
	"espalier.dev/cmd/espalier/internal/source"
	"espalier.dev/kinds/releases"
)

// newValidateCommand returns the command validate, whose flags set the options.
func newValidateCommand(a *app, o *validateOptions) *cobra.Command {
	c := &cobra.Command{
		Use:   "validate [--crd PATH...] PATH... [--base REV] | --from-cluster [PATH...]",
		Short: "Validate custom resources and built-in kinds, as an API server would",
		Long: `For each object, validate does what the API server does on create: it decodes the object,
prunes fields that the CRD does not specify, applies defaults, and validates the result,
including CEL rules. With --old it does what the API server does on update; the old object
is the one with the same group, kind, namespace and name. Transition rules see the old
value, and ratcheting tolerates errors in unchanged fields, which are infos (ratcheted). An
object without an old one is a warning, and it is an error if no object has one.

With --base REV, validate checks what has changed in Git since the merge base of REV and HEAD:
a created object as a create, an updated one as an update of the old one, and neither removed
nor unchanged objects. Changes that are not committed count, and so do untracked files, except
ignored ones. Objects are matched by group, kind, namespace and name, so that files can be
renamed and objects can be moved. A file that cannot be read at the merge base is a warning:
its objects count as created, and so does an object that moves to another version of a CRD with
a conversion webhook.

Built-in kinds, such as Deployments and Services, need no CRD and no download: their
rules are those of Kubernetes ` + kubernetesLevel + `. What depends on a cluster is not checked: admission
plugins, quotas, IPs and ports that are taken. Versions that Kubernetes does not serve any
more are errors. --skip-builtin-kinds skips these kinds. An update of one of them is checked
as if it were applied: a manifest keeps what the server has generated for the old object,
such as the selector of a Job.

--kubernetes-version names the version of the cluster, from ` + releases.First.String() + ` on. Kinds and versions
that it does not serve, yet or any more, are errors; those that it does not serve by default,
and deprecated ones, are warnings, and so are fields that it drops, because they are newer or
need a feature gate. CRDs in the input are checked for features and CEL functions that it does
not have, and before 1.30 updates of custom resources without ratcheting. All other rules are
those of Kubernetes ` + kubernetesLevel + `, also for older versions. Of kinds that ` + kubernetesLevel + ` does not serve by default, only
the fields are checked.

Pruned fields and duplicate fields are warnings. --field-validation=strict turns them
into errors and --field-validation=ignore skips them, like kubectl's --validate. Warnings
do not affect the exit code unless --fail-on=warning is set.

A field that the storage version does not specify is lost when the object is stored, without
a warning of the API server. Validate warns of it, unless --field-validation=ignore is set
or a webhook converts between the versions.

CRDs come from --crd and from the input itself, in any order, and can be v1 or v1beta1.
For a kind that both define, --crd takes precedence, and an info says so. If several CRDs
define a kind and differ, a warning says so. Of those of --crd, an object uses the first that
serves its version. Of those in the input, it uses one that is not test data (below testdata,
test, e2e, fixtures, examples and the like, unless the object is there too), then the one
whose directory is closest to that of the object, then the one that serves the newest
version. CRDs are assumed to be valid, as in a cluster; --check-crds also
reports why the API server would reject the CRDs in use (lint reports more). A CRD in the
input is validated as a CRD. Standard input is processed as it arrives until an object
needs a CRD that is not in --crd; the rest is then read first, and kept in a temporary file
if it is large.

With --from-cluster, CRDs that neither --crd nor the input has come from a running cluster.
With --old-from-cluster, the old objects do too: an object that the cluster has is validated
as an update of it, any other one as a create, as if it were applied. With --from-cluster
and without PATH, validate checks the objects of the cluster instead: all custom resources,
or those of the namespaces of -n, as the API serves them. espalier audit shows more of what
is stored. Without these flags, validate never uses the network.

Two objects with the same group, kind, namespace and name are a warning if they are in one
file, or in two files of one directory that have nothing else in common. Overlays,
alternatives, test data and examples have equal names on purpose.

With --policies, validate also does what admission policies do: it applies MutatingAdmissionPolicies
before it validates an object, and evaluates ValidatingAdmissionPolicies after that, with the code
and the messages of the API server. --policies names files or directories with policies, their
bindings and parameters, namespaces, and webhook configurations; parameters and namespaces may
also be among the objects; with --from-cluster, they must be in --policies. Policies are
not evaluated for CRDs. A denied object is an error that shows the expression and its cost, a
warning of a policy is a warning, and what a policy changes is an info, as is a webhook that
would be called: what it does is not known. An object is created by the administrator of
the server, or by the user of --as and --as-group. Expressions that ask the authorizer, and
policies that need a version to which a webhook converts the object, are not evaluated, and a
warning says so.

A custom resource without a CRD is an error. --ignore-missing-crds skips objects of groups
that no CRD has; unknown kinds and versions of a group that has CRDs, and misspelled groups
and kinds, are still errors. --skip-kind skips kinds in any case. The summary counts the
skipped objects.

` + otherFilesHelp + `

An info reports where the two semantics lead to different results for an object.

Exit codes: 0 no errors, 1 errors (or what --fail-on selects), ` + otherExitCodes + `.`,
		Example: `  # Validate one object
  espalier validate --crd crontab-crd.yaml crontab.yaml

  # Validate all manifests below a directory, of custom resources and of built-in kinds
  espalier validate --crd crds/ -R manifests/

  # Validate all objects below a directory, and fail on unknown fields
  espalier validate --crd crds/ -R objects/ --field-validation=strict

  # Validate what helm renders of a chart, with the CRDs among it
  espalier validate charts/operator --helm-values prod.yaml --ignore-missing-crds

  # Validate all charts and kustomizations of a repository
  espalier validate -R . --helm --kustomize --skip-other-files --ignore-missing-crds

  # Validate manifests for a cluster of an older version
  espalier validate -R manifests/ --kubernetes-version 1.31 --ignore-missing-crds

  # Skip generated files, and a kind
  espalier validate --crd crds/ -R objects/ --exclude '**/generated/*.yaml' --skip-kind example.com/Note

  # Validate an update as kube-apiserver would
  espalier validate --semantics kubernetes --crd crontab-crd.yaml --old crontab.yaml -f crontab-changed.yaml

  # Validate what a branch changes, each object as the create or update that it is
  espalier validate --base origin/main --crd crds/ -R objects/

  # Validate manifests with the CRDs of a running cluster, as updates of its objects
  espalier validate -R manifests/ --from-cluster --old-from-cluster --context staging

  # Validate the custom resources in a namespace of a running cluster with the CRDs of the next release
  espalier validate --from-cluster -n default --crd crds/

  # Validate deployments with the admission policies of the cluster
  espalier validate --policies policies/ deployment.yaml --as jane --as-group developers

  # Annotate a pull request, and write a report to upload
  espalier validate --crd crds/ -f objects/ -o github -o sarif=espalier.sarif

  # Read objects from a pipe
  cat crontab.yaml | espalier validate --crd crontab-crd.yaml -f -`,
		ValidArgsFunction: completePaths,
		RunE: func(c *cobra.Command, args []string) error {
			o.objects.Paths = append(o.objects.Paths, args...)
			return a.validate(c, *o)
		},
	}
	addCRDFlag(c, &o.crds)
	addInputFlags(c, &o.objects, "objects", input.Manifests)
	c.Flags().StringArrayVar(&o.old.Paths, "old", nil, "`PATH` of a file or directory with the objects before an update; repeatable")
	groupFlags(c.Flags(), inputFlags, "old")
	addBaseFlag(c, a, &o.base, "validate what has changed since")
	addFromClusterFlags(c, &o.source, "read missing CRDs and, without PATH, the objects from a running cluster")
	c.Flags().BoolVar(&o.oldFromCluster, "old-from-cluster", false,
		"validate objects as updates of those in the cluster, if it has them; implies --from-cluster")
	groupFlags(c.Flags(), sourceGroup, "old-from-cluster")
	addNamespaceFlag(c, &o.source)
	c.Flags().Lookup("namespace").Usage = "`NAME` of a namespace of the cluster whose objects are validated; repeatable (default: all objects)"
	c.Flags().StringVar(&o.fieldValidation, "field-validation", "warn", "handling of unknown and duplicate fields: `ignore|warn|strict`")
	addSkipFlags(c, &o.skip)
	addReleaseFlag(c, &o.release)
	c.Flags().BoolVar(&o.checkCRDs, "check-crds", false, "also report why the API server would reject the CRDs in use")
	groupFlags(c.Flags(), checkFlags, "field-validation", "check-crds")
	addPolicyFlags(c, &o.policies)
	addBaselineFlags(c, &a.baselineFlags)
	addReportFlags(c, &o.report)
	completeValues(c, "field-validation", "ignore", "warn", "strict")
	a.completeKinds(c, "skip-kind", func() input.Flags { return o.objects.With(o.crds.Paths...) })
	return c
}

func (a *app) validate(c *cobra.Command, o validateOptions) (err error) {
	fields, err := object.ParseFieldValidation(o.fieldValidation)
	if err != nil {
		return fmt.Errorf("--field-validation=%s: must be ignore, warn or strict", o.fieldValidation)
	}
	if err := o.skip.check(); err != nil {
		return err
	}
	if err := stdinOnce(o.crds, o.objects, o.old, o.policies.from); err != nil {
		return err
	}
	if err := o.policies.complete(c); err != nil {
		return err
	}
	if err := o.checkSource(c); err != nil {
		return err
	}
	if o.base != "" {
		switch {
		case len(o.objects.Paths) == 0:
			return needsPath(c)
		case o.oldFromCluster:
			return usageError(c, errors.New("--base and --old-from-cluster exclude each other: both name the objects before an update"))
		case len(o.old.Paths) > 0:
			return usageError(c, errors.New("--base and --old exclude each other: both name the objects before an update"))
		case a.baselineFlags.write:
			return usageError(c, errors.New("--base and --write-baseline exclude each other: a baseline has the findings of all objects"))
		}
	}
	o.crds, o.old = o.objects.With(o.crds.Paths...), o.objects.With(o.old.Paths...)
	o.crds.Keep, o.old.Keep = input.Everything, input.Everything
	a.inputs = []input.Flags{o.objects}
	r, err := report.New(a.reportOptions(c, o.report, validationRules()))
	if err != nil {
		return err
	}
	defer func() { err = r.Finish(err) }()
	ctx := c.Context()
	var src source.Finder
	if o.fromCluster(c) {
		if src, err = a.openCluster(&o.source); err != nil {
			return err
		}
	}
	var ahead input.Ahead
	defer func() { err = errors.Join(err, ahead.Close()) }()
	ds, err := a.loadDefinitionsFor(ctx, o.crds, o.objects, &ahead, a.servedDefinitions(ctx, src), r.Failure)
	if err != nil {
		return err
	}
	v := &validator{ctx: ctx, definitions: ds, fields: fields, skip: o.skip, release: o.release.checks(),
		variables: o.objects.Keep != input.Everything, skipped: o.objects.Skipped}
	if len(o.policies.from.Paths) > 0 {
		if v.policies, err = a.loadPolicies(ctx, o.policies, o.objects, &ahead, ds, r); err != nil {
			return err
		}
	}
	results := &validationReporter{ctx: ctx, r: r, definitions: ds, checkCRDs: o.checkCRDs, reported: map[*definition]bool{}, namespaces: map[string]bool{}}
	if len(o.objects.Paths) == 0 {
		return a.validateCluster(v, src, o.source.namespaces, results)
	}
	if o.base != "" {
		return a.validateChanges(ctx, o, v, results)
	}
	if o.oldFromCluster {
		objects := &clusterObjects{source: src, definitions: ds}
		ctx, objects.stop = context.WithCancel(ctx)
		objects.ctx = ctx
		defer objects.stop()
		defer func() { err = objects.failure(err) }()
		v.ctx, v.before = ctx, objects.of
	}
	return a.validateAll(ctx, o, v, results, ahead.Input(o.objects))
}

// validateAll validates all objects, which are created unless there are old ones.
func (a *app) validateAll(ctx context.Context, o validateOptions, v *validator, results *validationReporter, objects input.Flags) error {
	var old *oldObjects
	if len(o.old.Paths) > 0 {
		var err error
		if old, err = a.loadOld(ctx, o.old, results.r.Failure); err != nil {
			return err
		}
		v.before = old.of
	}
	if err := input.Parallel(ctx, a.stdin, objects, v.document, results.report, results.r.Failure); err != nil {
		return err
	}
	results.duplicates.report(results.r)
	if p := old.problem(); p != nil {
		results.r.Failure(*p)
	}
	checkedNothing(results.r, objects)
	return nil
}

// validateChanges validates the objects that were created or updated since the base.
func (a *app) validateChanges(ctx context.Context, o validateOptions, v *validator, results *validationReporter) error {
	base, err := a.openBase(ctx, o.base, o.objects.Paths)
	if err != nil {
		return err
	}
	set, err := a.loadChanges(ctx, base, o.objects, results.r)
	if err != nil {
		return err
	}
	v.before, v.unconverted = beforeChange(set), true
	found, err := changes.Parallel(ctx, set, v.items)
	if err != nil {
		return err
	}
	for _, d := range found {
		if err := results.report(d); err != nil {
			return err
		}
	}
	return nil
}

// oldObjects are the objects before an update, by identity.
type oldObjects struct {
	byIdentity map[input.Identity]*input.Item
	paths      []string
	// asked is set if the old one of an object was needed, and matched if there was one.
	asked, matched atomic.Bool
}

// loadOld reads the objects before an update.
func (a *app) loadOld(ctx context.Context, flags input.Flags, problem func(input.Problem)) (*oldObjects, error) {
	old := &oldObjects{byIdentity: map[input.Identity]*input.Item{}, paths: flags.Paths}
	err := input.Read(ctx, a.stdin, flags, func(it *input.Item) error {
		id := changes.Identity(it)
		if first := old.byIdentity[id]; first != nil {
			if named := id.Kind != "" && id.Name != "" && !strings.HasSuffix(id.Name, "*"); !named || bytes.Equal(first.JSON, it.JSON) {
				return nil
			}
			at := report.At(first, analysis.Finding{})
			problem(*problemAt(it, ruleSeveralOld, fmt.Sprintf("%s is also in %s, line %d: --old must have each object once", it,
				at.File, at.Span.Line)))
			return nil
		}
		old.byIdentity[id] = it
		return nil
	}, problem)
	return old, err
}

// of returns the object before the update, or nil and a warning if there is none: the object
// is then created.
func (o *oldObjects) of(it *input.Item) (old *input.Item, warnings []analysis.Finding) {
	o.asked.Store(true)
	if old = o.byIdentity[changes.Identity(it)]; old == nil {
		return nil, []analysis.Finding{{Rule: ruleNoOldObject, Severity: analysis.Warning, Path: "metadata.name", Pointer: "/metadata/name",
			Message: fmt.Sprintf("--old has no %s: validated as a create, not as an update", it)}}
	}
	o.matched.Store(true)
	return old, nil
}

// problem returns the problem if no object has an old one. Objects that were not validated, for
// example without a CRD, do not count.
func (o *oldObjects) problem() *input.Problem {
	if o == nil || !o.asked.Load() || o.matched.Load() {
		return nil
	}
	return &input.Problem{Rule: ruleNoOldObject, File: strings.Join(o.paths, ", "),
		Message: "--old matches none of the objects: an old object has the same group, kind, namespace and name"}
}

// fromCluster reports whether the flags name a cluster.
func (o *validateOptions) fromCluster(c *cobra.Command) bool {
	return o.oldFromCluster || len(o.source.named(c)) > 0
}

// checkSource returns an error if the flags do not say where the objects are.
func (o *validateOptions) checkSource(c *cobra.Command) error {
	paths, cluster := len(o.objects.Paths) > 0, o.fromCluster(c)
	switch {
	case !paths && !cluster:
		return needsPath(c)
	case o.oldFromCluster && len(o.old.Paths) > 0:
		return usageError(c, errors.New("--old and --old-from-cluster exclude each other"))
	case !paths && (o.oldFromCluster || len(o.old.Paths) > 0):
		return usageError(c, errors.New("--old and --old-from-cluster need PATH: objects of the cluster are not updated"))
	case len(o.source.namespaces) > 0 && (paths || !cluster):
		return usageError(c, errors.New("--namespace selects objects of a cluster: use it with --from-cluster and without PATH"))
	}
	return nil
}
