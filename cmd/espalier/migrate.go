package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/util/flowcontrol"

	"espalier.dev/cmd/espalier/internal/migrate"
	"espalier.dev/cmd/espalier/internal/report"
	"espalier.dev/cmd/espalier/internal/source"
)

// migrateOptions are the flags of migrate.
type migrateOptions struct {
	cluster     source.Cluster
	stored      source.Etcd
	all         bool
	write       bool
	dryRun      bool
	backup      string
	undo        string
	recreate    bool
	rate        float64
	concurrency int
	retryFor    time.Duration
	output      string
	quiet       bool
}

func newMigrateCommand(a *app) *cobra.Command {
	var o migrateOptions
	c := &cobra.Command{
		Use:   "migrate [CRD...]",
		Short: "Rewrite the stored objects of CRDs: to the storage version, pruned and defaulted",
		Long: `A server stores an object in the storage version, pruned and defaulted, when it is written.
Objects that were written under an earlier schema stay as they are: fields that are not
specified any more are hidden, but still stored. Migrate writes every object of a CRD
without a change, so that the server stores it anew. It uses the API only, and works with
Espalier and with any Kubernetes cluster.

CRDs are named like crontabs.example.com. Without --write, migrate is a dry run: the server
checks all writes, but stores nothing.

Data that is stored but not served cannot be seen through the API. With --etcd-servers or
--snapshot, migrate reads how objects are stored, and reports as a diff what is dropped from
each of them. An object that was written after the snapshot is not compared.

A write has no effect on an object that another client has just written or deleted: migrate
reads it again. If the server rejects an object, migrate reports it and goes on. If it
rejects none, migrate then sets status.storedVersions of the CRD to the storage version, so
that other versions can be removed.

Migrate can be interrupted at any point: run the same command again. Objects that are
already stored as they should be are not changed. With --backup, every object is appended to
a file before it is written, and objects that the file says were written are skipped. The
file can hold secrets; only its owner can read it.

With --undo --write, migrate puts the objects of a backup back that it has changed, unless
another client has written or deleted them since. The server prunes them again: to put
dropped fields back, change the CRD first, so that it specifies or preserves them, or change
it later and run the same command again. A backup has these fields only if it was made with
--etcd-servers or --snapshot.

Exit codes: 0 success, 1 objects or fields were rejected or not put back, ` + otherExitCodes + `.`,
		Example: `  # Check whether the server would accept all objects
  espalier migrate crontabs.example.com

  # Rewrite them, and keep a copy of each
  espalier migrate crontabs.example.com --write --backup crontabs.jsonl

  # Show what would be dropped
  espalier migrate crontabs.example.com --etcd-servers https://127.0.0.1:2379 \
    --etcd-cafile ca.crt --etcd-certfile client.crt --etcd-keyfile client.key

  # Put the objects back, after a dry run
  espalier migrate --undo crontabs.jsonl
  espalier migrate --undo crontabs.jsonl --write

  # Rewrite the objects of all CRDs of another cluster, slowly
  espalier migrate --all --write --context staging --rate 10`,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(c *cobra.Command, args []string) error {
			return a.migrate(c, o, args)
		},
	}
	c.Flags().BoolVar(&o.all, "all", false, "migrate the objects of all CRDs")
	groupFlags(c.Flags(), inputFlags, "all")
	addClusterFlags(c, &o.cluster)
	addEtcdFlags(c, &o.stored)
	c.Flags().BoolVarP(&o.write, "write", "w", false, "write the objects, instead of a dry run")
	c.Flags().BoolVar(&o.dryRun, "dry-run", false, "write nothing: the default")
	c.Flags().StringVar(&o.backup, "backup", "",
		"`FILE` to which each object is appended before it is written; created if it does not exist")
	c.Flags().StringVar(&o.undo, "undo", "", "backup `FILE` whose objects are put back")
	c.Flags().BoolVar(&o.recreate, "recreate", false, "with --undo, create objects again that were deleted after the migration")
	c.Flags().Float64Var(&o.rate, "rate", 100, "maximum `number` of writes per second, 0 for no limit")
	c.Flags().IntVar(&o.concurrency, "concurrency", 4, "`number` of objects that are written at the same time")
	c.Flags().DurationVar(&o.retryFor, "retry-for", migrate.DefaultRetryFor,
		"`time` for which a request is repeated if the server is not available")
	groupFlags(c.Flags(), migrationFlags, "write", "dry-run", "backup", "undo", "recreate", "rate", "concurrency", "retry-for")
	addTextOutputFlag(c, &o.output)
	c.Flags().BoolVarP(&o.quiet, "quiet", "q", false, "write only what was dropped or rejected: no summary, no progress")
	groupFlags(c.Flags(), outputFlags, "quiet")
	return c
}

// migrationFlags is the group of flags that control a migration.
const migrationFlags = "Migration"

func (o *migrateOptions) check(c *cobra.Command, crds []string) error {
	undo := o.undo != ""
	switch {
	case undo && (len(crds) > 0 || o.all || o.backup != "" || o.hasStored()):
		return usageError(c, errors.New("--undo takes everything from the backup: no CRDs, --all, --backup, --snapshot or --etcd-servers"))
	case !undo && o.recreate:
		return usageError(c, errors.New("--recreate needs --undo"))
	case o.write && o.dryRun:
		return usageError(c, errors.New("--write and --dry-run exclude each other"))
	case o.stored.Snapshot != "" && len(o.stored.Endpoints.URLs) > 0:
		return usageError(c, errors.New("--snapshot and --etcd-servers exclude each other"))
	case !undo && len(crds) == 0 && !o.all:
		return usageError(c, errors.New("migrate needs the name of a CRD, such as crontabs.example.com, or --all"))
	case len(crds) > 0 && o.all:
		return usageError(c, errors.New("--all and the names of CRDs exclude each other"))
	case o.backup != "" && !o.write:
		return usageError(c, errors.New("--backup needs --write: a dry run changes nothing"))
	case o.hasStored() && strings.Trim(o.stored.Prefix, "/") == "":
		return errors.New("--etcd-prefix must not be empty or the root")
	case o.rate < 0:
		return usageError(c, fmt.Errorf("--rate %v: must not be negative", o.rate))
	case o.concurrency < 1:
		return usageError(c, fmt.Errorf("--concurrency %d: must be at least 1", o.concurrency))
	}
	return checkTextOutput(o.output)
}

// hasStored reports whether the flags say where objects are stored.
func (o *migrateOptions) hasStored() bool {
	return o.stored.Snapshot != "" || len(o.stored.Endpoints.URLs) > 0
}

func (a *app) migrate(c *cobra.Command, o migrateOptions, crds []string) (err error) {
	if err := o.check(c, crds); err != nil {
		return err
	}
	a.defaultKubeconfig(&o.cluster)
	config, err := o.cluster.Config()
	if err != nil {
		return err
	}
	client, err := migrate.NewClient(config)
	if err != nil {
		return err
	}
	client.RetryFor = o.retryFor
	limiter := flowcontrol.NewFakeAlwaysRateLimiter()
	if o.rate > 0 {
		limiter = flowcontrol.NewTokenBucketRateLimiter(float32(o.rate), max(1, int(o.rate/10)))
	}
	defer limiter.Stop()
	ctx := c.Context()
	if o.undo != "" {
		return a.undo(ctx, &o, &migrate.Undo{Client: client, DryRun: !o.write, Recreate: o.recreate, Limiter: limiter})
	}
	m := &migrate.Migration{Client: client, DryRun: !o.write, Concurrency: o.concurrency,
		Limiter: limiter, Semantics: a.semantics.Semantics}
	if o.hasStored() {
		if m.Stored, err = a.openEtcd(ctx, o.stored); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, m.Stored.Close()) }()
		if err := a.recordedSemantics(ctx, c, m.Stored); err != nil {
			return err
		}
		m.Semantics = a.semantics.Semantics
	}
	if o.all {
		if crds, err = client.Resources(ctx); err != nil {
			return err
		}
	}
	if o.backup != "" {
		if m.Backup, err = migrate.OpenBackup(a.dir, o.backup, client.Server()); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, m.Backup.Close()) }()
	}
	w := &migrationWriter{a: a, quiet: o.quiet, dryRun: m.DryRun, stored: m.Stored != nil, crds: []migratedCRD{},
		list: listWriter{a: a, output: o.output, progress: a.newProgress(o.quiet)}}
	m.Report = w.object
	err = a.migrateAll(ctx, m, w, crds)
	return errors.Join(err, w.close(err == nil))
}

// migrateAll migrates the objects of CRDs, one CRD after the other. If one of them cannot be
// migrated, it goes on with the next one, unless the server is not available.
func (a *app) migrateAll(ctx context.Context, m *migrate.Migration, w *migrationWriter, crds []string) error {
	var errs []error
	rejected, begun := false, false
	for _, name := range crds {
		r, err := m.Client.Resource(ctx, name)
		if err == nil {
			begun = true
			var counts *migrate.Counts
			counts, err = m.Run(ctx, r)
			rejected = rejected || counts.Of[migrate.Failed] > 0
			if failure := w.summary(r, counts, err); failure != nil {
				return errors.Join(append(errs, err, failure)...)
			}
		}
		if err == nil {
			continue
		}
		errs = append(errs, err)
		if unavailable := (*migrate.UnavailableError)(nil); errors.As(err, &unavailable) || ctx.Err() != nil {
			break
		}
	}
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case len(errs) > 0 && begun && !m.DryRun:
		return fmt.Errorf("%w\nrun the same command again to continue", errors.Join(errs...))
	case len(errs) == 0 && rejected:
		return report.ExitError(report.Found)
	}
	return errors.Join(errs...)
}

// undo puts the objects of a backup back.
func (a *app) undo(ctx context.Context, o *migrateOptions, u *migrate.Undo) error {
	w := &undoWriter{a: a, quiet: o.quiet, dryRun: u.DryRun, list: listWriter{a: a, output: o.output,
		progress: a.newProgress(o.quiet)}, counts: map[migrate.Undone]int64{}}
	u.Report = w.object
	err := u.Run(ctx, a.dir, o.undo)
	if failure := w.close(err); failure != nil {
		return errors.Join(err, failure)
	}
	if err != nil && ctx.Err() == nil && !u.DryRun && len(w.counts) > 0 {
		return fmt.Errorf("%w\nrun the same command again to continue", err)
	}
	if err == nil && w.counts[migrate.Rejected]+w.counts[migrate.Changed]+w.counts[migrate.Gone]+w.incomplete > 0 {
		return report.ExitError(report.Found)
	}
	return err
}
