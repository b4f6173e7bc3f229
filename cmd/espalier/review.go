package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"espalier.dev/analysis/lint"
	"espalier.dev/analysis/object"
	"espalier.dev/cmd/espalier/internal/input"
	"espalier.dev/cmd/espalier/internal/report"
	"espalier.dev/crd/cel"
)

// reviewOptions are the flags of review.
type reviewOptions struct {
	changeFlags
	crds, files     input.Flags
	base            string
	fieldValidation string
	skip            skipFlags
	report          reportFlags
	release         releaseFlag
}

func newReviewCommand(a *app) *cobra.Command {
	var o reviewOptions
	c := &cobra.Command{
		Use:   "review --base REV [DIR...]",
		Short: "Review a change in Git: CRDs, the objects that they affect, manifests, lint findings",
		Long: `Review compares the working tree with the merge base of REV and HEAD, as a pull request
does, and reports in three sections what the change does:

  CRD changes        each change of a CRD with its verdict, as in espalier diff, and the
                     objects of the repository that it affects, as they were before
  Manifests          objects that are now wrong: created and updated ones as in espalier
                     validate --base, and unchanged ones that a change of a CRD makes
                     invalid, or whose CRD was removed
  New lint findings  findings of espalier lint about changed CRDs that the merge base does
                     not have

What was wrong before is not reported. DIR is the working directory by default, with all
directories below it, and is read as a source repository (--skip-other-files). Changes that
are not committed count, and so do untracked files, except ignored ones. Objects are matched
by group, kind, namespace and name, so that files can be renamed and objects can be moved.
Comments and indentation are no changes of objects.

CRDs come from DIR and from --crd, which takes precedence. Objects without a CRD are
skipped unless --ignore-missing-crds=false is set, except those whose kind is misspelled. Files
that cannot be read at the merge base are warnings: their objects count as created.

The configuration of lint, validate and diff applies, and so do suppressions. With
-o markdown, the report fits into the comment of a pull request.

Exit codes: 0 no errors, 1 errors (or what --fail-on selects), ` + otherExitCodes + `.`,
		Example: `  # Review what a branch changes
  espalier review --base origin/main

  # Review the manifests of a directory, with CRDs that are not in the repository
  espalier review --base origin/main --crd crds/ objects/

  # Comment on a pull request, annotate it, and upload a report
  espalier review --base origin/main -o markdown=review.md -o github -o sarif=espalier.sarif

  # Review what is not committed, and fail on warnings too
  espalier review --base HEAD --fail-on warning`,
		ValidArgsFunction: completePaths,
		RunE: func(c *cobra.Command, args []string) error {
			if o.files.Paths = args; len(args) == 0 {
				o.files.Paths = []string{"."}
			}
			return a.review(c, o)
		},
	}
	addBaseFlag(c, a, &o.base, "review what has changed since")
	addCRDFlag(c, &o.crds)
	addReadFlags(c, &o.files, "recursive", input.Manifests)
	setDefault(c, "recursive", "true")
	setDefault(c, "skip-other-files", "true")
	c.Flags().StringVar(&o.fieldValidation, "field-validation", "warn", "handling of unknown and duplicate fields: `ignore|warn|strict`")
	groupFlags(c.Flags(), checkFlags, "field-validation")
	completeValues(c, "field-validation", "ignore", "warn", "strict")
	addSkipFlags(c, &o.skip)
	addReleaseFlag(c, &o.release)
	setDefault(c, "ignore-missing-crds", "true")
	c.Flags().Lookup("ignore-missing-crds").Usage = "skip objects of kinds that no CRD has"
	o.skip.undefined = true // repositories have kinds of their groups that are no resources
	addBaselineFlags(c, &a.baselineFlags)
	addReportFlags(c, &o.report)
	addChangeFlags(c, &o.changeFlags)
	a.completeKinds(c, "skip-kind", func() input.Flags { return o.files.With(o.crds.Paths...) })
	return c
}

// review reviews the changes of a working tree.
func (a *app) review(c *cobra.Command, o reviewOptions) (err error) {
	fields, err := object.ParseFieldValidation(o.fieldValidation)
	if err != nil {
		return fmt.Errorf("--field-validation=%s: must be ignore, warn or strict", o.fieldValidation)
	}
	if err := o.skip.check(); err != nil {
		return err
	}
	if o.base == "" {
		return usageError(c, errors.New("review needs --base REV, such as --base origin/main"))
	}
	ctx := c.Context()
	a.inputs = []input.Flags{o.files}
	rules, err := lint.Configured(a.config.Lint)
	if err != nil {
		return err
	}
	options := a.reportOptions(c, o.report, reviewRules(rules, a.config.Diff))
	options.Folded, options.Grouped = foldedChanges, groupedChanges
	options.Unordered = true // by section, the worst first
	r, err := report.New(options)
	if err != nil {
		return err
	}
	defer func() { err = r.Finish(err) }()
	base, err := a.openBase(ctx, o.base, o.files.Paths)
	if err != nil {
		return err
	}
	if o.files, err = base.withoutIgnored(ctx, o.files); err != nil {
		return err
	}
	set, err := a.loadChanges(ctx, base, o.files, r)
	if err != nil || set.Empty {
		return err
	}
	crds := o.files.With(o.crds.Paths...)
	crds.Keep = input.Everything
	rv := &reviewer{
		ctx: ctx, r: r, set: set,
		validator: validator{ctx: ctx, fields: fields, skip: o.skip, release: o.release.checks(), variables: o.files.Keep != input.Everything, skipped: o.files.Skipped},
		lint:      o.release.lintFor(lint.Options{Semantics: a.semantics.Semantics, Rules: cel.Checker{}, Configs: []lint.Config{a.config.Lint}}),
		differ:    a.newDiffer(r, o.changeFlags, options.FailOn),
	}
	if err := rv.load(a, crds, o.files); err != nil {
		return err
	}
	if err := rv.compare(); err != nil {
		return err
	}
	if err := rv.check(o.files); err != nil {
		return err
	}
	return rv.reportAll()
}
