package server

import (
	"espalier.dev/server/authorization"
	"espalier.dev/server/rbac"
	"espalier.dev/store"
)

// newAuthorizer returns the authorizer that the options configure. Everyone may read health, and
// the group system:masters has full access. RBAC reads roles and bindings in the store.
func newAuthorizer(o *Options, s *store.Store) (*authorization.Authorizer, error) {
	return authorization.New(authorization.Config{
		Flags:     o.Authorization,
		OpenPaths: healthPaths(),
		RBAC:      func() (authorization.Rules, error) { return rbac.New(s), nil },
	})
}
