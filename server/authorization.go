package server

import (
	"espalier.dev/server/authorization"
	"espalier.dev/server/rbac"
)

// newAuthorizer returns the authorizer that the options configure. Everyone may read health, and
// the group system:masters has full access. RBAC uses the stored roles and bindings.
func newAuthorizer(o *Options, roles *rbac.Authorizer) (*authorization.Authorizer, error) {
	return authorization.New(authorization.Config{
		Flags:     o.Authorization,
		OpenPaths: healthPaths(),
		RBAC:      roles,
	})
}
