package main

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"espalier.dev/cmd/espalier/internal/config"
	"espalier.dev/cmd/espalier/internal/lsp"
	"espalier.dev/cmd/espalier/internal/report"
)

// lspFlags are the flags of validate and lint that lsp has too.
func lspFlags() []string {
	return []string{
		"crd", "exclude", "max-document-size", "field-validation", "check-crds", "ignore-missing-crds", "skip-builtin-kinds", "skip-kind",
		"kubernetes-version", "helm", "helm-values", "helm-set", "helm-release", "helm-namespace", "helm-api-versions", "enable", "disable", "severity", "baseline", "min-severity",
	}
}

func newLSPCommand(a *app) *cobra.Command {
	var listen string
	var verbose bool
	var from sourceFlags
	c := &cobra.Command{
		Use:   "lsp",
		Short: "Serve editors: diagnostics, completion and documentation for CRDs and manifests",
		Long: `Lsp is a language server (Language Server Protocol 3.17). An editor starts it and talks to it
through standard input and output. With --listen it waits for editors that connect.

Diagnostics are the findings of espalier validate -R --skip-other-files and of espalier lint in the
folder that is open in the editor, with the configuration file ` + config.Name + ` of the folder, its comments
that suppress findings, and the flags below. Files that are open count as they are in the editor:
a change of a CRD applies to its objects in other files at once.

The schema of a document is that of its apiVersion and kind, for each document of a file: of the
CRDs that --crd or the configuration file names, of those in the folder, of those of the cluster
of --from-cluster, or of built-in kinds.

With --from-cluster, the CRDs of a running cluster are read in the background, and again when
they change. No answer waits for them: they are kept in the user's cache directory, and used
from there until the cluster answers. Objects without a CRD are not reported before the CRDs
of the cluster are known. Without the flag, lsp never uses the network.

When a Helm template is opened or changes, the helm program renders its chart in the background:
findings are about the rendered objects, at the line of the template if that is certain.
--helm-values and --helm-set set values. It runs without the network. --helm=read does not run
helm: use it for folders that you do not trust. Without helm, templates are not checked.

Exit codes: 0 after shutdown and exit, 1 if the client ends without them, 2 usage or input error.`,
		Example: `  # For an editor that starts the server
  espalier lsp

  # With CRDs outside of the folder, and strict about unknown fields
  espalier lsp --crd ~/crds --field-validation strict

  # With the CRDs of a running cluster
  espalier lsp --from-cluster --context staging

  # For editors that connect
  espalier lsp --listen unix:/tmp/espalier.sock
  espalier lsp --listen 127.0.0.1:4389`,
		Args: noArgs(""),
		RunE: func(c *cobra.Command, _ []string) error { return a.lsp(c, &from, listen, verbose) },
	}
	c.Flags().StringVar(&listen, "listen", "", "`ADDRESS` to listen on instead of standard input: unix:PATH, or HOST:PORT on loopback")
	c.Flags().Bool("stdio", true, "use standard input and output; the default, for editors that pass it")
	c.Flags().BoolVarP(&verbose, "verbose", "v", false, "log messages of the protocol to standard error")
	groupFlags(c.Flags(), generalFlags, "listen", "stdio", "verbose")
	addFromClusterFlags(c, &from, "read CRDs that are neither in the folder nor in --crd from a running cluster, in the background")
	for _, of := range []*cobra.Command{newValidateCommand(a, new(validateOptions)), newLintCommand(a, new(lintOptions))} {
		for _, name := range lspFlags() {
			if flag := of.Flags().Lookup(name); flag != nil && c.Flags().Lookup(name) == nil {
				c.Flags().AddFlag(flag)
			}
		}
	}
	return c
}

// lsp runs the language server.
func (a *app) lsp(c *cobra.Command, from *sourceFlags, listen string, verbose bool) error {
	if a.silence != nil {
		a.silence()
	}
	flags := changedFlags(c, append(lspFlags(), "semantics"))
	// Errors in flags are reported before an editor waits for an answer.
	if _, err := a.newChecks(c.Context(), newWorkspace(os.TempDir(), false, nil, nil, nil), append(flags, flagValue{"no-config", "true"})); err != nil {
		return err
	}
	level := slog.LevelWarn
	if verbose {
		level = slog.LevelDebug
	}
	o := lsp.Options{Log: slog.New(slog.NewTextHandler(a.stderr, &slog.HandlerOptions{Level: level}))}
	options := lspOptions{flags: flags}
	if len(from.named(c)) > 0 {
		a.defaultKubeconfig(&from.cluster)
		options.cluster, options.caches = &from.cluster, a.clusterCacheDir()
	}
	session := func(client *lsp.Client) lsp.Session { return a.newLSPSession(client, options) }
	if listen != "" {
		if path, ok := strings.CutPrefix(listen, "unix:"); ok {
			listen = "unix:" + a.dir.Path(path)
		}
		l, err := lsp.Listen(c.Context(), listen)
		if err != nil {
			return err
		}
		return ended(c.Context(), lsp.ServeListener(c.Context(), l, o, session))
	}
	// A client that does not read anymore ends the session, and must not kill the process: programs that
	// it has started would go on.
	broken := make(chan os.Signal, 1)
	signal.Notify(broken, syscall.SIGPIPE)
	defer signal.Stop(broken)
	in, ok := a.stdin.(io.ReadCloser)
	if !ok {
		in = io.NopCloser(a.stdin)
	}
	out, ok := a.stdout.(io.WriteCloser)
	if !ok {
		out = nopWriteCloser{a.stdout}
	}
	return ended(c.Context(), lsp.Serve(c.Context(), lsp.Stdio(in, out), o, session))
}

// ended returns the error of a server that has ended.
func ended(ctx context.Context, err error) error {
	if errors.Is(err, lsp.ErrNoShutdown) && ctx.Err() == nil {
		return report.ExitError(report.Found)
	}
	return err
}

// nopWriteCloser is a writer that need not be closed.
type nopWriteCloser struct{ io.Writer }

func (nopWriteCloser) Close() error { return nil }

// changedFlags returns the flags with these names that the command line sets.
func changedFlags(c *cobra.Command, names []string) (all []flagValue) {
	for _, name := range names {
		flag := c.Flags().Lookup(name)
		if flag == nil || !flag.Changed {
			continue
		}
		values := []string{flag.Value.String()}
		if list, ok := flag.Value.(pflag.SliceValue); ok {
			values = list.GetSlice()
		} else if exclude, ok := flag.Value.(*excludeFlag); ok {
			values = exclude.input.Exclude
		}
		for _, value := range values {
			if flag.Value.Type() == "stringSlice" && strings.ContainsAny(value, ",\"") {
				value = `"` + strings.ReplaceAll(value, `"`, `""`) + `"`
			}
			all = append(all, flagValue{name, value})
		}
	}
	return all
}
