package server

import (
	"cmp"
	"context"
	"errors"
	"net"
	"slices"

	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/healthz"

	"espalier.dev/internal/memnet"
)

// bubblePort is the port in the URL of a server in a bubble, unless the options have one. Nothing
// listens there, so that a client that connects over the network fails at once.
const bubblePort = 1

// validateBubble reports options that a server in a bubble of testing/synctest cannot have. The clock of a bubble
// stops while a goroutine waits for a socket or for the notification of a changed file.
func (o *Options) validateBubble(bad func(format string, args ...any)) {
	if !o.Bubble {
		return
	}
	if o.Storage != StorageMemory {
		bad("etcd cannot run in a bubble of testing/synctest, because it waits for sockets and the disk: keep the objects in memory (--storage %s; "+
			"in espaliertest, remove WithEtcd, --etcd-servers, --quota-backend-bytes and --data-dir), or start the server outside of the bubble", StorageMemory)
	}
	if o.KubeconfigOut != "" {
		bad("--kubeconfig-out cannot be set in a bubble of testing/synctest, because no other program can connect to the server: remove it, or start the server outside of the bubble")
	}
	for _, f := range []struct {
		flag string
		set  bool
		does string
	}{
		{"tls-cert-file", o.TLSCertFile != "", "watches the file"},
		{"client-ca-file", o.ClientCAFile != "", "watches the file"},
		{"proxy-client-cert-file", o.ProxyClientCertFile != "", "watches the file"},
		{"audit-log-path", o.AuditLogPath != "", "has a goroutine that never ends"},
		{"audit-webhook-config-file", o.AuditWebhookConfigFile != "", "connects to a socket"},
		{"encryption-provider-config", o.EncryptionProviderConfig != "", "may connect to a socket"},
		{"authentication-config", o.Authentication.ConfigFile != "", "may connect to a socket"},
		{"authentication-token-webhook-config-file", o.Authentication.WebhookConfigFile != "", "connects to a socket"},
		{"oidc-issuer-url", o.Authentication.OIDC.IssuerURL != "", "connects to a socket"},
		{"requestheader-client-ca-file", o.Authentication.RequestHeader.ClientCAFile != "", "watches the file"},
		{"authorization-config", o.Authorization.File != "", "may connect to a socket"},
		{"authorization-webhook-config-file", o.Authorization.WebhookConfigFile != "", "connects to a socket"},
	} {
		if f.set {
			bad("--%s cannot be set in a bubble of testing/synctest, because it %s, and the clock of the bubble would stop: remove it, or start the server outside of the bubble",
				f.flag, f.does)
		}
	}
}

// errBubbleWebhook is returned for calls of webhooks in a bubble.
var errBubbleWebhook = errors.New("a server in a bubble of testing/synctest cannot call webhooks, " +
	"because they need sockets: remove the webhook, or start the server outside of the bubble")

// listenInBubble returns a listener in memory.
func listenInBubble(o *Options) *listener {
	l := memnet.Listen(&net.TCPAddr{IP: net.ParseIP(clientHost(o.BindAddress)), Port: cmp.Or(o.SecurePort, bubblePort)})
	return &listener{Listener: l, conns: map[net.Conn]struct{}{},
		dial: func(ctx context.Context, _, _ string) (net.Conn, error) { return l.Dial(ctx) }}
}

// removeLogCheck removes the health check of the log. It starts a goroutine at its first use that
// never ends, and that all servers in the process share.
func removeLogCheck(c *genericapiserver.Config) {
	log := func(check healthz.HealthChecker) bool { return check.Name() == healthz.LogHealthz.Name() }
	for _, checks := range []*[]healthz.HealthChecker{&c.HealthzChecks, &c.ReadyzChecks, &c.LivezChecks} {
		*checks = slices.DeleteFunc(*checks, log)
	}
}
