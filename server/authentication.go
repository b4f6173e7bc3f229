package server

import (
	"fmt"

	apiserverapi "k8s.io/apiserver/pkg/apis/apiserver"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/group"
	"k8s.io/apiserver/pkg/authentication/request/anonymous"
	"k8s.io/apiserver/pkg/authentication/request/bearertoken"
	unionauthn "k8s.io/apiserver/pkg/authentication/request/union"
	"k8s.io/apiserver/pkg/authentication/request/websocket"
	"k8s.io/apiserver/pkg/authentication/token/tokenfile"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
)

// healthPaths returns the paths that are accessible without credentials.
func healthPaths() []string { return []string{"/healthz", "/livez", "/readyz"} }

// newAuthenticator authenticates users by a client certificate of one of the CAs, or by a
// token of the file. Requests for health paths may be anonymous.
func newAuthenticator(o *Options, clientCA dynamiccertificates.CAContentProvider) (authenticator.Request, error) {
	known := []authenticator.Request{newCertificates(clientCA)}
	if o.TokenAuthFile != "" {
		tokens, err := tokenfile.NewCSV(o.TokenAuthFile)
		if err != nil {
			return nil, fmt.Errorf("read --token-auth-file: %w", err)
		}
		known = append(known, bearertoken.New(tokens), websocket.NewProtocolAuthenticator(tokens))
	}
	var nobody []apiserverapi.AnonymousAuthCondition
	for _, p := range healthPaths() {
		nobody = append(nobody, apiserverapi.AnonymousAuthCondition{Path: p})
	}
	return withStack(unionauthn.NewFailOnError(
		group.NewAuthenticatedGroupAdder(unionauthn.New(known...)),
		anonymous.NewAuthenticator(nobody),
	)), nil
}
