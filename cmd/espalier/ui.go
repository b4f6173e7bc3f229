package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"espalier.dev/cmd/espalier/internal/ui"
	"espalier.dev/crd"
	"espalier.dev/crd/cel"
	kindscel "espalier.dev/kinds/cel"
	"espalier.dev/schema"
	"espalier.dev/web/protocol"
)

func newUICommand(a *app) *cobra.Command {
	var listen string
	var from sourceFlags
	c := &cobra.Command{
		Use:   "ui [DIR]",
		Short: "Serve a web page that shows what an API server does to objects, and why",
		Long: `Ui prints a link to a web page on this machine. Its playground shows a CRD, an object, and what
would be stored: pruned fields with the reason, defaults, violations, for a create and an
update, in both schema semantics. Its explorer shows the schema of a CRD as a tree, samples,
the skeleton, OpenAPI, JSON Schema and generated types. Compare shows what a change of a CRD
means, and lint what is wrong with it.

With DIR, the page offers the CRDs and objects of the files below the directory, and loads
them again when they change. It never changes them. Directories whose names start with a dot,
node_modules and vendor are skipped.

With --from-cluster, the page shows the CRDs of a running cluster with their conditions and the
number of objects, the objects as tables that follow their changes, which of them do not comply
with their CRDs, what each version serves, and why. It only reads, and with the permissions of
the kubeconfig. The playground opens what the cluster has.

The page is served on loopback only, and loads nothing from elsewhere. The link has a token.
Keep it secret: it gives access to the manifests below DIR, and to the
custom resources of the cluster, while the command runs. Ctrl-C ends
the command.

Exit codes: 2 usage or input error, 130 ended by Ctrl-C (SIGINT), 143 by SIGTERM.`,
		Example: `  # Open the page with examples
  espalier ui

  # With the CRDs and objects of a directory
  espalier ui config/

  # With a running cluster
  espalier ui --from-cluster --context staging

  # On a port of your choice
  espalier ui --listen 127.0.0.1:8080`,
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return nil, cobra.ShellCompDirectiveFilterDirs
		},
		Args: func(c *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usageError(c, fmt.Errorf("ui accepts one DIR, got %q too", args[1]))
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error { return a.ui(c, &from, listen, args) },
	}
	c.Flags().StringVar(&listen, "listen", "127.0.0.1:0", "`ADDRESS` to listen on: HOST:PORT on loopback; port 0 is any free one")
	groupFlags(c.Flags(), generalFlags, "listen")
	addFromClusterFlags(c, &from, "show the CRDs and custom resources of a running cluster; nothing is changed")
	_ = c.RegisterFlagCompletionFunc("listen", cobra.NoFileCompletions)
	return c
}

// ui serves the web page until it is interrupted.
func (a *app) ui(c *cobra.Command, from *sourceFlags, listen string, dirs []string) error {
	ctx := c.Context()
	var files *ui.Files
	if len(dirs) > 0 {
		var err error
		if files, err = ui.NewFiles(a.dir, dirs[0]); err != nil {
			return err
		}
	}
	l, err := listenOnLoopback(ctx, listen)
	if err != nil {
		return err
	}
	options := ui.Options{Engine: protocol.New(protocol.Options{Rules: cel.Checker{}, CEL: kindscel.New()}), Files: files, Semantics: a.semantics.Semantics}
	if len(from.named(c)) > 0 {
		a.defaultKubeconfig(&from.cluster)
		// A kubeconfig that cannot be read is an error of the command, not of the page.
		if _, err := from.cluster.Config(); err != nil {
			return errors.Join(err, l.Close())
		}
		options.Cluster = ui.NewCluster(ui.ClusterOptions{Cluster: from.cluster, Define: func(text []byte, sem schema.Semantics) (*crd.Definition, error) {
			return storedDefinition(text, crd.Options{Semantics: sem, Rules: cel.Checker{}})
		}})
		following, stop := context.WithCancel(ctx)
		var running sync.WaitGroup
		defer running.Wait()
		defer stop()
		running.Go(func() { options.Cluster.Run(following) })
	}
	handler := ui.New(options, l.Addr())
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: time.Minute, IdleTimeout: 2 * time.Minute,
		MaxHeaderBytes: 1 << 16}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() }) // the process ends
	defer stop()
	fmt.Fprintf(a.stdout, "Open %s\n", handler.URL())
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return ctx.Err()
}

// listenOnLoopback listens on an address, which must be on loopback: the page is for this machine only.
func listenOnLoopback(ctx context.Context, address string) (net.Listener, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("--listen=%s: must be HOST:PORT", address)
	}
	if host == "localhost" {
		host = "127.0.0.1"
	}
	if ip := net.ParseIP(host); ip == nil || !ip.IsLoopback() {
		return nil, fmt.Errorf("--listen=%s: must be a loopback address, such as 127.0.0.1", address)
	}
	var config net.ListenConfig
	return config.Listen(ctx, "tcp", net.JoinHostPort(host, port))
}
