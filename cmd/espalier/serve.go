package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"unicode"

	"github.com/spf13/cobra"

	"espalier.dev/analysis/lint"
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
		Short: "Run an API server for custom resources",
		Long: `Run a Kubernetes-style API server for CustomResourceDefinitions and their objects.
kubectl, client-go and controllers work with it as with any cluster.

Without flags it keeps everything in ./espalier-data: a database (etcd), which nobody
else can reach, an authority with certificates for the server and its administrator,
and a kubeconfig, which appears when the server is ready. It listens on 127.0.0.1:6443,
with TLS. Members of system:masters may do everything, everybody else may ask whether
the server is healthy.

It stops on SIGTERM and SIGINT: requests finish first. A second signal ends it at once.`,
		Example: `  espalier serve
  espalier serve --data-dir /var/lib/espalier --bind-address 0.0.0.0
  espalier serve --etcd-servers https://etcd-0:2379,https://etcd-1:2379 \
    --etcd-cafile ca.crt --etcd-certfile client.crt --etcd-keyfile client.key`,
		Args: cobra.NoArgs,
		// It takes the place of the one that tunes the process for short commands.
		PersistentPreRun: func(*cobra.Command, []string) {},
		RunE: func(c *cobra.Command, _ []string) error {
			o.Semantics = a.semantics.Semantics
			o.Warnings = lint.Warnings
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
	o.AddFlags(c.Flags())
	c.Flags().Uint32VarP(&verbosity, "v", "v", 0, "how much to log: a `number`, more is more")
	c.Flags().StringVar(&logFormat, "log-format", "text", "how to log: `text|json`")
	return c
}

// serve runs a server until a signal tells the program to stop.
func (a *app) serve(ctx context.Context, o *server.Options) error {
	s, err := server.Start(ctx, o)
	if err != nil {
		return err
	}
	kubeconfig, err := filepath.Abs(s.Kubeconfig())
	if err != nil {
		return errors.Join(err, s.Stop())
	}
	fmt.Fprintf(a.stdout, `The server is ready at %s. Use it with

  export KUBECONFIG=%s
  kubectl get customresourcedefinitions

`, s.URL(), shellQuote(kubeconfig))
	select {
	case <-ctx.Done():
		// Requests may take their time to finish: the next signal ends the program.
		signal.Reset(os.Interrupt, syscall.SIGTERM)
	case <-s.Done():
	}
	return s.Stop()
}

// shellQuote writes a word so that a shell reads it as one.
func shellQuote(word string) string {
	plain := strings.IndexFunc(word, func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("/._-+=:@", r)
	}) < 0
	if plain && word != "" {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
