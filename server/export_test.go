package server

import (
	"time"

	"k8s.io/apiserver/pkg/authorization/authorizer"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/client-go/rest"

	"espalier.dev/server/definitions"
	"espalier.dev/server/pki"
	"espalier.dev/store"
)

// This file gives the tests in package server_test what users have no need for.

// MaxRequestBody and MaxQuery are the size limits of a request body and of the parameters of a URL.
const (
	MaxRequestBody = maxRequestBody
	MaxQuery       = maxQuery
)

// Loopback returns the configuration of the server's own client.
func (s *Server) Loopback() *rest.Config { return s.api.LoopbackClientConfig }

// Handler returns what answers all requests.
func (s *Server) Handler() *genericapiserver.APIServerHandler { return s.api.Handler }

// Authorizer returns what authorizes all requests.
func (s *Server) Authorizer() authorizer.UnconditionalAuthorizer { return s.api.Authorizer }

// Definitions returns the CRDs.
func (s *Server) Definitions() *definitions.Definitions { return s.definitions }

// Store returns the objects.
func (s *Server) Store() *store.Store { return s.db.store }

// CloseEtcd stops the embedded etcd.
func (s *Server) CloseEtcd() { s.db.member.Close() }

// Renew renews the certificates at a time. changed is called if there are new ones; nil means that
// they are written to the kubeconfig.
func (s *Server) Renew(now func() time.Time, changed func(*pki.Bundle) error) error {
	s.identity.config.Now = now
	if changed == nil {
		changed = s.writeKubeconfig
	}
	return s.identity.renewOnce(changed)
}

// SetPodQuarantine sets the time for which the node of a pod must be absent before the pod is deleted.
func (o *Options) SetPodQuarantine(d time.Duration) { o.podQuarantine = d }

// SetEncryptionPoll sets the interval of checks for changes of the encryption configuration.
func (o *Options) SetEncryptionPoll(d time.Duration) { o.encryptionPoll = d }
