package server

import (
	genericapiserver "k8s.io/apiserver/pkg/server"

	"espalier.dev/server/authentication"
	"espalier.dev/server/authorization"
	"espalier.dev/server/roles"
	"espalier.dev/server/tokens"
	"espalier.dev/store"
)

// access decides who sends a request, and what they may do.
type access struct {
	// authentication identifies users by their tokens, and issues the tokens of service accounts.
	authentication *authentication.Authentication
	authorizer     *authorization.Authorizer
	// roles are the stored roles and bindings, which RBAC and the checks of their writes use.
	roles *roles.Authorizer
}

// newAccess returns what the options configure, and makes the generic server use it. Everyone may
// read health, and the group system:masters has full access.
func newAccess(o *Options, c *genericapiserver.Config, stored tokens.Objects, label tokens.Label, s *store.Store) (a access, err error) {
	if a.authentication, err = newAuthentication(o, c, stored, label); err != nil {
		return a, err
	}
	a.roles = roles.New(s)
	a.authorizer, err = authorization.New(authorization.Config{Flags: o.Authorization, OpenPaths: healthPaths(), RBAC: a.roles})
	c.Authorization.Authorizer, c.RuleResolver = a.authorizer, a.authorizer
	return a, err
}
