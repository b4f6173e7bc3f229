package main

import (
	"context"
	"errors"
	"fmt"
	"path"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"espalier.dev/analysis"
	"espalier.dev/analysis/audit"
	"espalier.dev/analysis/object"
	"espalier.dev/cmd/espalier/internal/input"
	"espalier.dev/cmd/espalier/internal/report"
	"espalier.dev/cmd/espalier/internal/source"
	"espalier.dev/crd"
	"espalier.dev/crd/cel"
	"espalier.dev/crd/compliance"
)

// auditOptions are the flags of audit.
type auditOptions struct {
	source   sourceFlags
	files    input.Flags
	crds     input.Flags
	only     []string
	examples int
	report   reportFlags
}

func newAuditCommand(a *app) *cobra.Command {
	var o auditOptions
	c := &cobra.Command{
		Use:   "audit (--from-cluster | --snapshot FILE | --etcd-servers URLS | --dump PATH | PATH...)",
		Short: "Report which stored objects do not comply with their CRDs",
		Long: `Schemas change, and stored objects stay as they are. Audit inspects the stored objects of all
CRDs and reports fields that the CRD does not specify, which are stored but not served
(stored-unspecified), values of another type (stored-contradiction), values that are no
longer valid (stored-invalid), text that is dropped when an object is read
(stored-malformed), objects in another version than the storage version (stored-version),
and values that cannot be read (stored-unreadable).

Problems of the same kind at the same path of a CRD are one finding, with the number of
objects and some examples. Indices of lists and keys of maps are written as *.

Objects come from one source:
  --snapshot      a snapshot file of etcd, without an etcd
  --etcd-servers  a running etcd
  --from-cluster  a running cluster. Its API serves objects without unspecified fields and
                  in one version, so audit cannot see what is stored. A server of Espalier
                  that checks its stored objects tells what it has found
  --dump          a backup of Velero, which has what the API has served
  PATH            manifests, - for standard input
CRDs come from the same source, unless --crd names others. Objects are streamed: memory does
not grow with their number.

The schema semantics are those that the data of Espalier's etcd records, unless --semantics,
the environment or the configuration file sets others.

What cannot be read is reported, and the rest is audited: values that are encrypted and have
no key in --encryption-provider-config, resources that the user may not list, and CRDs that
are deleted meanwhile.

Exit codes: 0 no errors, 1 errors (or what --fail-on selects), ` + otherExitCodes + `.`,
		Example: `  # Audit a snapshot of etcd
  espalier audit --snapshot snapshot.db

  # Fail if fields are stored that the CRDs do not specify, and name more objects
  espalier audit --snapshot snapshot.db --fail-on warning --examples 20

  # Check stored objects against the CRDs of the next release
  espalier audit --snapshot snapshot.db --crd crontab-crd.yaml

  # Audit a running etcd with encrypted objects
  espalier audit --etcd-servers https://127.0.0.1:2379 --etcd-cafile ca.crt --etcd-certfile client.crt \
    --etcd-keyfile client.key --encryption-provider-config encryption.yaml

  # Audit the objects of a group in one namespace of a running cluster
  espalier audit --from-cluster --context staging --only '*.example.com' -n default

  # Audit manifests
  espalier audit --crd crontab-crd.yaml crontab.yaml`,
		ValidArgsFunction: completePaths,
		RunE: func(c *cobra.Command, args []string) error {
			o.files.Paths = append(o.files.Paths, args...)
			return a.audit(c, o)
		},
	}
	addSourceFlags(c, &o.source)
	addInputFlags(c, &o.files, "objects", input.Manifests)
	addCRDFlag(c, &o.crds)
	c.Flags().StringArrayVar(&o.only, "only", nil,
		"`NAME` of a CRD to audit, or a pattern such as *.example.com; repeatable (default: all)")
	groupFlags(c.Flags(), checkFlags, "only")
	_ = c.RegisterFlagCompletionFunc("only", cobra.NoFileCompletions)
	addReportFlags(c, &o.report)
	c.Flags().IntVar(&o.examples, "examples", 5, "maximum `number` of objects to name for each finding")
	groupFlags(c.Flags(), outputFlags, "examples")
	return c
}

func (o *auditOptions) check() error {
	if o.examples < 0 {
		return fmt.Errorf("--examples=%d: must not be negative", o.examples)
	}
	for _, pattern := range o.only {
		if _, err := path.Match(pattern, ""); err != nil {
			return fmt.Errorf("--only=%s: not a pattern", pattern)
		}
	}
	return stdinOnce(o.crds, o.files)
}

func (a *app) audit(c *cobra.Command, o auditOptions) (err error) {
	if err := o.check(); err != nil {
		return err
	}
	ctx := c.Context()
	src, name, err := a.openSource(ctx, c, &o.source, o.files, "PATH")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, src.Close()) }()
	if err := a.recordedSemantics(ctx, c, src); err != nil {
		return err
	}
	r, err := report.New(a.reportOptions(c, o.report, auditRules()))
	if err != nil {
		return err
	}
	defer func() { err = r.Finish(err) }()
	run := &auditor{
		r: r, source: src, name: name, only: o.only, namespaces: o.source.namespaces,
		options:    crd.Options{Semantics: a.semantics.Semantics, Rules: cel.Checker{}},
		audit:      audit.New(audit.Options{Examples: o.examples}),
		inspectors: map[string]*compliance.Inspector{}, unusable: map[string]bool{}, failures: sourceFailures{},
	}
	if len(o.crds.Paths) > 0 {
		err = run.definitionsFrom(ctx, a, o.files.With(o.crds.Paths...))
	} else {
		err = run.definitions(ctx)
	}
	if err != nil {
		return err
	}
	// A server has inspected its objects with its own CRDs and semantics.
	ownTerms := len(o.crds.Paths) > 0 || c.Flags().Changed("semantics")
	if err = source.ErrNotInspected; !ownTerms {
		err = run.noncompliant(ctx)
	}
	if errors.Is(err, source.ErrNotInspected) {
		err = run.objects(ctx)
	}
	if err != nil {
		return err
	}
	run.report()
	return nil
}

// auditor is one run of audit.
type auditor struct {
	r          *report.Reporter
	source     source.Source
	name       string
	only       []string
	namespaces []string
	options    crd.Options

	selected   []*crd.Definition
	inspectors map[string]*compliance.Inspector

	// mu guards what follows, and r while objects are inspected.
	mu    sync.Mutex
	audit *audit.Audit
	// inspected is set if the source itself has inspected the objects.
	inspected bool
	// unusable has the CRDs that cannot be compiled.
	unusable map[string]bool
	failures sourceFailures
}

// definitions reads the CRDs of the source.
func (u *auditor) definitions(ctx context.Context) error {
	failed := false
	unread := func(failure *source.Failure) {
		if failed = true; u.wants(failure.Object.Name) {
			u.failures.add(u.r, failure)
		}
	}
	err := source.Each(u.source.Definitions(ctx), unread, func(o source.Object) error {
		if !u.wants(o.Name) {
			return nil
		}
		if err := u.define(o.JSON); err != nil {
			failed = true
			p := input.Problem{Rule: object.RuleInvalidDefinition,
				Message: fmt.Sprintf("the CRD %s cannot be used: %v", o.Name, err), Object: definitionIdentity(o.Name)}
			if o.Item != nil {
				p.File, p.Line = o.Item.File, o.Item.Position("").Value.Line
			}
			u.r.Failure(p)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return u.checkDefinitions(failed)
}

// definitionsFrom reads the CRDs that --crd names.
func (u *auditor) definitionsFrom(ctx context.Context, a *app, flags input.Flags) error {
	failed := false
	fail := func(p input.Problem) {
		failed = true
		u.r.Failure(p)
	}
	ds, err := a.loadDefinitions(ctx, flags, fail)
	if err != nil {
		return err
	}
	for _, d := range ds.All() {
		if !u.wants(d.identity().Name) {
			continue
		}
		if err := u.define(d.readable()); err != nil {
			fail(input.Problem{Rule: object.RuleInvalidDefinition, File: d.file, Line: d.item().Position("").Value.Line,
				Message: "the CRD cannot be used: " + err.Error(), Object: d.identity()})
		}
	}
	return u.checkDefinitions(failed)
}

// checkDefinitions returns an error if no CRD is left, unless the reason was reported.
func (u *auditor) checkDefinitions(failed bool) error {
	switch {
	case len(u.selected) > 0 || failed || u.r.Summary().Failures > 0:
		return nil
	case len(u.only) > 0:
		return fmt.Errorf("no CRD in %s matches --only %s", u.name, strings.Join(u.only, ", "))
	}
	return fmt.Errorf("no CRD found in %s: add CRDs with --crd", u.name)
}

// wants reports whether --only selects a CRD.
func (u *auditor) wants(name string) bool {
	return len(u.only) == 0 || slices.ContainsFunc(u.only, func(pattern string) bool {
		ok, _ := path.Match(pattern, name)
		return ok
	})
}

// define adds a CRD. If there are several with a name, the first is used.
func (u *auditor) define(src []byte) error {
	d, err := storedDefinition(src, u.options)
	if err != nil {
		return err
	}
	if u.inspectors[d.Name()] != nil {
		return nil
	}
	u.selected = append(u.selected, d)
	u.inspectors[d.Name()] = compliance.New(d)
	return nil
}

// objects inspects the selected objects. It reads them in its own goroutine. The goroutines that
// inspect them end when all have been read or one has failed, and objects waits for them. A few
// objects for each goroutine are in memory at a time.
func (u *auditor) objects(ctx context.Context) error {
	if len(u.selected) == 0 {
		return nil
	}
	n := runtime.GOMAXPROCS(0)
	queue := make(chan source.Object, 4*n)
	workers, working := errgroup.WithContext(ctx)
	for range n {
		workers.Go(func() error {
			for o := range queue {
				if err := u.inspect(working, o); err != nil {
					return err
				}
			}
			return nil
		})
	}
	err := u.read(working, queue)
	close(queue)
	if failed := workers.Wait(); failed != nil {
		return failed
	}
	return err
}

// read reads the objects into a queue.
func (u *auditor) read(ctx context.Context, queue chan<- source.Object) error {
	failed := func(failure *source.Failure) {
		u.mu.Lock()
		defer u.mu.Unlock()
		u.failures.add(u.r, failure)
	}
	all := u.source.Objects(ctx, source.Selection{Definitions: u.selected, Namespaces: u.namespaces})
	err := source.Each(all, failed, func(o source.Object) error {
		select {
		case queue <- o:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	})
	if err == nil {
		err = ctx.Err()
	}
	return err
}

// inspect inspects one object.
func (u *auditor) inspect(ctx context.Context, o source.Object) error {
	inspector := u.inspectors[o.Definition]
	found, err := inspector.Inspect(ctx, o.JSON)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if !u.source.Stored() {
		// The version is that of the request.
		found.Problems = slices.DeleteFunc(found.Problems, func(p compliance.Problem) bool { return p.Kind == compliance.OtherVersion })
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if err != nil {
		if !u.unusable[o.Definition] {
			u.unusable[o.Definition] = true
			u.r.Failure(input.Problem{Rule: object.RuleInvalidDefinition,
				Message: fmt.Sprintf("the CRD %s cannot be used: %v", o.Definition, err), Object: definitionIdentity(o.Definition)})
		}
		return nil
	}
	u.r.Progress("objects")
	u.audit.Add(inspector.Definition(), audit.Object{Namespace: o.Namespace, Name: o.Name, Where: o.Where}, &found)
	return nil
}

// noncompliant reads what the source itself has found in the selected objects. It returns
// [source.ErrNotInspected] if it has not inspected them.
func (u *auditor) noncompliant(ctx context.Context) error {
	inspected, ok := u.source.(source.Inspector)
	if !ok {
		return source.ErrNotInspected
	}
	for i, d := range u.selected {
		selected := source.Selection{Definitions: []*crd.Definition{d}, Namespaces: u.namespaces}
		failing := int64(0)
		for o, err := range inspected.Noncompliant(ctx, selected) {
			switch {
			case errors.Is(err, source.ErrNotInspected) && i > 0:
				return fmt.Errorf("the objects of %s: %v", d.Name(), err)
			case err != nil:
				return err
			}
			failing++
			u.r.Progress("objects")
			u.audit.Add(d, audit.Object{Namespace: o.Object.Namespace, Name: o.Object.Name,
				Where: o.Object.Where}, &compliance.Report{Problems: audit.ServerProblems(d, o.Problems)})
		}
		n, err := inspected.Count(ctx, selected)
		if err != nil {
			return err
		}
		u.audit.AddCompliant(d.Name(), max(n-failing, 0))
	}
	u.inspected = true
	return nil
}

// report reports everything that was found.
func (u *auditor) report() {
	u.failures.report(u.r)
	for _, g := range u.audit.Groups() {
		u.r.Add(groupFinding(g))
	}
	if !u.source.Stored() && !u.inspected {
		u.reportServed()
	}
	total := u.audit.Total()
	extra := map[string]any{"crds": len(u.selected), "nonCompliant": total.Failing}
	for _, k := range compliance.Kinds() {
		extra[k.String()] = total.Of[k]
	}
	u.r.Summary().Objects = int(total.Objects)
	u.r.Summary().Extra = extra
}

// groupFinding returns the finding about a group.
func groupFinding(g *audit.Group) report.Finding {
	id := input.Identity{APIVersion: g.Definition.Group(), Kind: g.Definition.CRD().Spec.Names.Kind}
	if g.Version != "" {
		id.APIVersion += "/" + g.Version
	}
	return report.Finding{
		Finding: g.Finding(), Object: id,
		Affected: &report.Affected{Definition: g.Definition.Name(), Objects: g.Objects, Values: g.Values, Examples: g.Examples},
	}
}

// reportServed reports what the objects of an API server do not show.
func (u *auditor) reportServed() {
	u.r.Add(servedFinding("audit etcd (--etcd-servers) or a snapshot (--snapshot) to see them"))
	for _, d := range u.selected {
		others := slices.DeleteFunc(slices.Clone(d.CRD().Status.StoredVersions), func(v string) bool { return v == d.Storage().Name() })
		if len(others) > 0 {
			u.r.Add(report.Finding{Object: definitionIdentity(d.Name()), Finding: analysis.Finding{
				Rule: audit.RuleID(compliance.OtherVersion), Severity: analysis.Info,
				Path: "status.storedVersions", Pointer: "/status/storedVersions",
				Message: fmt.Sprintf("objects may be stored in version %s; the storage version is %s", strings.Join(others, ", "),
					d.Storage().Name()),
			}})
		}
	}
}
