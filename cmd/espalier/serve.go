//go:build !noserver

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"
	"k8s.io/klog/v2"

	"espalier.dev/analysis/lint"
	"espalier.dev/internal/shell"
	"espalier.dev/server"
)

func newServeCommand(a *app) *cobra.Command {
	o := server.NewOptions()
	var (
		verbosity uint32
		logFormat string
	)
	c := &cobra.Command{
		Use:   "serve",
		Short: "Run an API server for custom resources and built-in kinds",
		Long: `The API server serves CRDs, their custom resources, and built-in kinds such as
Deployments, as data: nothing runs a pod. kubectl, client-go and controllers work with it
as with any Kubernetes cluster.

By default it keeps all data in ./espalier-data: an embedded etcd that only the server can
access, a certificate authority (CA) with certificates for the server and its
administrator, and a kubeconfig that is written when the server is ready. It listens on
127.0.0.1:6443 with TLS. Requests are authorized with RBAC and Kubernetes' default roles:
members of system:masters, such as the administrator, have full access, and others what
roles and bindings give them.

With --storage memory it keeps objects only while it runs, which is quicker and leaves nothing
behind but certificates and the kubeconfig. With --history all, every revision since the start
can be read, until 4 GiB have been written: then the older half of the history is removed.

The data can only be used with the semantics that it was created with. --semantics and the
environment variable ` + semanticsVariable + ` select it; the file .espalier.yaml is not read.

On SIGTERM or SIGINT the server finishes running requests and stops. A second signal stops
it at once.`,
		Example: `  # Serve on 127.0.0.1:6443 and keep the data in ./espalier-data
  espalier serve

  # Listen on all interfaces
  espalier serve --data-dir /var/lib/espalier --bind-address 0.0.0.0

  # Keep nothing when the server stops
  espalier serve --storage memory

  # Use an external etcd
  espalier serve --etcd-servers https://etcd-0:2379,https://etcd-1:2379 \
    --etcd-cafile ca.crt --etcd-certfile client.crt --etcd-keyfile client.key`,
		Args: noArgs(""),
		// Overrides that of the root command, which tunes the process for short commands and
		// reads the configuration file. The semantics of a server belongs to its data, not to
		// the directory that it is started in.
		PersistentPreRunE: a.readDataSemantics,
		RunE: func(c *cobra.Command, _ []string) error {
			o.Semantics = a.semantics.Semantics
			o.Warnings = lint.Warnings
			b := buildVersion()
			o.Build = server.Build{Commit: b.revision, Date: b.time, Modified: b.modified}
			if err := o.Validate(); err != nil {
				return err
			}
			if err := server.SetupLogging(a.stderr, logFormat, verbosity); err != nil {
				return err
			}
			defer server.FlushLogs()
			return a.serve(c.Context(), o)
		},
	}
	groups := o.FlagGroups()
	for _, name := range groups.Order {
		groupAllFlags(groups.FlagSets[name], name)
		c.Flags().AddFlagSet(groups.FlagSets[name])
	}
	c.Flags().Uint32VarP(&verbosity, "v", "v", 0, "log verbosity, a `number`")
	c.Flags().StringVar(&logFormat, "log-format", "text", "log `format`: text or json")
	groupFlags(c.Flags(), "Logging", "v", "log-format")
	return c
}

// serve runs the API server until a signal stops it.
func (a *app) serve(ctx context.Context, o *server.Options) error {
	s, err := server.Start(ctx, o)
	if err != nil {
		return err
	}
	defer trimSoon().Stop()
	kubeconfig, err := filepath.Abs(s.Kubeconfig())
	if err != nil {
		return errors.Join(err, s.Stop())
	}
	fmt.Fprintf(a.stdout, `The API server is ready at %s. To use it:

  export KUBECONFIG=%s
  kubectl get customresourcedefinitions

`, s.URL(), shell.Quote(kubeconfig))
	if o.Storage == server.StorageMemory {
		fmt.Fprint(a.stdout, "Objects are in memory: nothing is kept when the server stops.\n\n")
	}
	select {
	case <-ctx.Done():
		// Running requests may take long to finish: the next signal kills the process, and then
		// this is the last line of the log.
		klog.InfoS("The API server is stopping", "cause", context.Cause(ctx))
		signal.Reset(os.Interrupt, syscall.SIGTERM)
	case <-s.Done():
	}
	return s.Stop()
}
