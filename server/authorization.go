package server

import (
	"fmt"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	"k8s.io/apiserver/pkg/authorization/path"
	unionauthz "k8s.io/apiserver/pkg/authorization/union"
)

// newAuthorizer allows everyone to read health, and gives the group system:masters full
// access. All other users have no access.
func newAuthorizer() (authorizer.Authorizer, error) {
	health, err := path.NewAuthorizer(healthPaths())
	if err != nil {
		return nil, fmt.Errorf("authorize health checks: %w", err)
	}
	return unionauthz.New(
		unionauthz.NamedAuthorizer{AuthorizerName: "Health", Authorizer: health},
		unionauthz.NamedAuthorizer{AuthorizerName: "Masters", Authorizer: authorizerfactory.NewPrivilegedGroups(user.SystemPrivilegedGroup)},
	)
}
