//go:build !noserver

package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"espalier.dev/server"
	"espalier.dev/server/pki"
)

func newKubeconfigCommand(a *app) *cobra.Command {
	o := server.NewOptions()
	var (
		url, user string
		groups    []string
	)
	c := &cobra.Command{
		Use:   "kubeconfig",
		Short: "Print a kubeconfig for a user of an API server",
		Long: `The kubeconfig has a new client certificate for the administrator of the server, or for
the user of --user, that is valid for a year. The CA of the server signs it: the command reads its
key in the data directory, so it runs where the server runs, or where --ca-cert-file and
--ca-key-file are. The server need not run.

Users other than members of the group system:masters have the access that roles and bindings
give them and their groups.

If the server has a certificate of another CA, set its --tls-cert-file; its key is not needed. The
kubeconfig then trusts the CA in the chain of that file or in --server-ca-file, so that it stays
valid when the certificate is renewed.

The certificate of the server must be valid for the host in --server: espalier serve --tls-san
adds names.`,
		Example: `  # The administrator, at the address of another host
  espalier kubeconfig --server https://espalier.example.com:6443

  # A user in two groups
  espalier kubeconfig --user ann --group dev --group on-call --server https://127.0.0.1:6443

  # In a pod
  kubectl exec -n espalier espalier-0 -- /usr/bin/espalier kubeconfig \
    --data-dir /var/lib/espalier/data --server https://espalier.espalier.svc:6443`,
		Args: noArgs(""),
		// The configuration file is for commands that check files.
		PersistentPreRunE: func(c *cobra.Command, _ []string) error {
			a.resolveFiles(c)
			return nil
		},
		RunE: func(c *cobra.Command, _ []string) error {
			if user == pki.AdminUser && !c.Flags().Changed("group") {
				groups = []string{pki.AdminGroup}
			}
			if err := o.Validate(); err != nil {
				return err
			}
			warning, err := server.KubeconfigWarning(o)
			if err != nil {
				return err
			}
			if warning != "" {
				fmt.Fprintln(a.stderr, "warning: "+warning)
			}
			text, err := server.UserKubeconfig(o, url, user, groups...)
			if err != nil {
				return err
			}
			_, err = a.stdout.Write(text)
			return err
		},
	}
	o.AddIdentityFlags(c.Flags())
	groupAllFlags(c.Flags(), inputFlags)
	c.Flags().StringVar(&url, "server", "", "https `URL` of the server (default: the one in the kubeconfig in the data directory, which the server writes when it is ready)")
	c.Flags().StringVar(&user, "user", pki.AdminUser, "`name` of the user")
	c.Flags().StringArrayVar(&groups, "group", nil, "`name` of a group of the user; repeatable (default: "+pki.AdminGroup+" for "+pki.AdminUser+", none for others)")
	groupFlags(c.Flags(), outputFlags, "server", "user", "group")
	return c
}
