package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/flowcontrol"

	"espalier.dev/cmd/espalier/internal/migrate"
	"espalier.dev/cmd/espalier/internal/report"
	"espalier.dev/crd"
	"espalier.dev/crd/cel"
	"espalier.dev/crd/compliance"
)

// migrateOptions are the flags of migrate.
type migrateOptions struct {
	kubeconfig, context string
	all, write          bool
	backup              string
	rate                float64
	concurrency         int
	retryFor            time.Duration
	output              string
	quiet               bool
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

A write has no effect on an object that somebody else has just written or deleted: migrate
reads it again. If the server rejects an object, migrate reports it and goes on. If it
rejects none, migrate then sets status.storedVersions of the CRD to the storage version, so
that other versions can be removed.

Migrate can be interrupted at any point: run the same command again. Objects that are
already stored as they should be are not changed. With --backup, every object is appended to
a file before it is written, and objects that the file says were written are skipped. The
file can hold secrets; only its owner can read it.

Exit codes: 0 success, 1 objects were rejected, ` + otherExitCodes + `.`,
		Example: `  # Check whether the server would accept all objects
  espalier migrate crontabs.example.com

  # Rewrite them, and keep a copy of each
  espalier migrate crontabs.example.com --write --backup crontabs.jsonl

  # Rewrite the objects of all CRDs of another cluster, slowly
  espalier migrate --all --write --context staging --rate 10`,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(c *cobra.Command, args []string) error {
			return a.migrate(c, o, args)
		},
	}
	c.Flags().StringVar(&o.kubeconfig, "kubeconfig", "", "`FILE` with the address and credentials of the server (default: $KUBECONFIG, then ~/.kube/config)")
	c.Flags().StringVar(&o.context, "context", "", "`NAME` of the context in the kubeconfig (default: the current one)")
	c.Flags().BoolVar(&o.all, "all", false, "migrate the objects of all CRDs")
	groupFlags(c.Flags(), inputFlags, "kubeconfig", "context", "all")
	c.Flags().BoolVarP(&o.write, "write", "w", false, "write the objects, instead of a dry run")
	c.Flags().StringVar(&o.backup, "backup", "", "`FILE` to which each object is appended before it is written; created if it does not exist")
	c.Flags().Float64Var(&o.rate, "rate", 100, "maximum `number` of writes per second, 0 for no limit")
	c.Flags().IntVar(&o.concurrency, "concurrency", 4, "`number` of objects that are written at the same time")
	c.Flags().DurationVar(&o.retryFor, "retry-for", migrate.DefaultRetryFor, "`time` for which a request is repeated if the server is not available")
	groupFlags(c.Flags(), migrationFlags, "write", "backup", "rate", "concurrency", "retry-for")
	c.Flags().StringVarP(&o.output, "output", "o", "text", "output `FORMAT`: text, json or yaml")
	c.Flags().BoolVarP(&o.quiet, "quiet", "q", false, "write only what was dropped or rejected: no summary, no progress")
	groupFlags(c.Flags(), outputFlags, "output", "quiet")
	completeValues(c, "output", "text", "json", "yaml")
	return c
}

// migrationFlags is the group of flags that control a migration.
const migrationFlags = "Migration"

func (o *migrateOptions) check(c *cobra.Command, crds []string) error {
	switch {
	case len(crds) == 0 && !o.all:
		return usageError(c, errors.New("migrate needs the name of a CRD, such as crontabs.example.com, or --all"))
	case len(crds) > 0 && o.all:
		return usageError(c, errors.New("--all and the names of CRDs exclude each other"))
	case o.backup != "" && !o.write:
		return usageError(c, errors.New("--backup needs --write: a dry run changes nothing"))
	case o.rate < 0:
		return usageError(c, fmt.Errorf("--rate %v: must not be negative", o.rate))
	case o.concurrency < 1:
		return usageError(c, fmt.Errorf("--concurrency %d: must be at least 1", o.concurrency))
	case !slices.Contains([]string{"text", "json", "yaml"}, o.output):
		return fmt.Errorf("-o %s: must be text, json or yaml", o.output)
	}
	return nil
}

// requestTimeout limits a request to a server.
const requestTimeout = time.Minute

// migrateConfig returns the configuration of the client.
func (a *app) migrateConfig(o *migrateOptions) (*rest.Config, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = o.kubeconfig
	if paths, ok := a.environ(clientcmd.RecommendedConfigPathEnvVar); ok && o.kubeconfig == "" {
		rules.Precedence = strings.Split(paths, ":")
	}
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: o.context}).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("cannot read the kubeconfig: %w", err)
	}
	config.Timeout = requestTimeout
	config.UserAgent = "espalier/" + buildVersion().version
	return config, nil
}

func (a *app) migrate(c *cobra.Command, o migrateOptions, crds []string) (err error) {
	if err := o.check(c, crds); err != nil {
		return err
	}
	config, err := a.migrateConfig(&o)
	if err != nil {
		return err
	}
	client, err := migrate.NewClient(config)
	if err != nil {
		return err
	}
	client.RetryFor = o.retryFor
	ctx := c.Context()
	if o.all {
		if crds, err = client.Resources(ctx); err != nil {
			return err
		}
	}
	m := &migrate.Migration{Client: client, DryRun: !o.write, Concurrency: o.concurrency, Inspector: a.migrateInspector}
	if o.rate > 0 {
		m.Limiter = flowcontrol.NewTokenBucketRateLimiter(float32(o.rate), max(1, int(o.rate/10)))
		defer m.Limiter.Stop()
	}
	if o.backup != "" {
		if m.Backup, err = migrate.OpenBackup(o.backup, client.Server()); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, m.Backup.Close()) }()
	}
	w := &migrationWriter{a: a, output: o.output, quiet: o.quiet, dryRun: !o.write, progress: a.newProgress(o.quiet), crds: []migratedCRD{}}
	m.Report = w.object
	err = a.migrateAll(ctx, m, w, crds)
	return errors.Join(err, w.close(err == nil))
}

// migrateAll migrates the objects of CRDs, one CRD after the other. If one of them cannot be
// migrated, it goes on with the next one, unless the server is not available.
func (a *app) migrateAll(ctx context.Context, m *migrate.Migration, w *migrationWriter, crds []string) error {
	var errs []error
	rejected := false
	for _, name := range crds {
		r, err := m.Client.Resource(ctx, name)
		if err == nil {
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
	case len(errs) > 0 && !m.DryRun:
		return fmt.Errorf("%w\nrun the same command again to continue", errors.Join(errs...))
	case len(errs) == 0 && rejected:
		return report.ExitError(report.Found)
	}
	return errors.Join(errs...)
}

// migrateInspector returns the inspector of the stored objects of a CRD.
func (a *app) migrateInspector(r *migrate.Resource) (*compliance.Inspector, error) {
	d, err := crd.New(r.CRD, crd.Options{Semantics: a.semantics.Semantics, Rules: cel.Checker{}})
	if err != nil {
		return nil, err
	}
	return compliance.New(d), nil
}
