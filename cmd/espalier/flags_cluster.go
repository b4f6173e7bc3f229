package main

import (
	"github.com/spf13/cobra"

	"espalier.dev/cmd/espalier/internal/source"
)

// addClusterFlags adds the flags that select an API server.
func addClusterFlags(c *cobra.Command, flags *source.Cluster) {
	c.Flags().StringVar(&flags.Kubeconfig, "kubeconfig", "", "`FILE` with the address and the credentials of the API server (default: $KUBECONFIG, then ~/.kube/config)")
	c.Flags().StringVar(&flags.Context, "context", "", "`NAME` of a context in the kubeconfig (default: the current one)")
	groupFlags(c.Flags(), inputFlags, "kubeconfig", "context")
}

// addEtcdFlags adds the flags that select an etcd, or a snapshot of one.
func addEtcdFlags(c *cobra.Command, flags *source.Etcd) {
	c.Flags().StringVar(&flags.Snapshot, "snapshot", "", "`FILE` with a snapshot of etcd, to read objects as they are stored")
	c.Flags().StringSliceVar(&flags.Endpoints.URLs, "etcd-servers", nil, "comma-separated `URLs` of etcd, to read objects as they are stored")
	c.Flags().StringVar(&flags.Endpoints.CAFile, "etcd-cafile", "", "`FILE` with the CA certificate for connections to etcd")
	c.Flags().StringVar(&flags.Endpoints.CertFile, "etcd-certfile", "", "`FILE` with the client certificate for connections to etcd")
	c.Flags().StringVar(&flags.Endpoints.KeyFile, "etcd-keyfile", "", "`FILE` with the private key for --etcd-certfile")
	c.Flags().StringVar(&flags.Prefix, "etcd-prefix", "/registry", "`prefix` of all resource keys in etcd")
	c.Flags().StringVar(&flags.EncryptionConfig, "encryption-provider-config", "", "`FILE` that configures the encryption of objects in etcd")
	groupFlags(c.Flags(), inputFlags, "snapshot", "etcd-servers", "etcd-cafile", "etcd-certfile", "etcd-keyfile", "etcd-prefix", "encryption-provider-config")
}
