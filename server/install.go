package server

import (
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/registry/generic"
	genericapiserver "k8s.io/apiserver/pkg/server"

	"espalier.dev/schema"
)

// foundation is what the parts of the server that serve resources stand on.
type foundation struct {
	// api is the server that is being built: its Handler.NonGoRestfulMux takes
	// handlers, which run behind all filters; it has hooks that run after the start
	// and before the stop, health checks, and the client for the server's own use.
	api *genericapiserver.GenericAPIServer
	// config is what api is built with: limits, timeouts, the serializer for errors,
	// and what resolves requests.
	config *genericapiserver.Config
	// storage gives every resource its storage.
	storage generic.RESTOptionsGetter
	// admission is what is asked before a write.
	admission admission.Interface
	// authorizer is what handlers ask that have more to ask than the filters did.
	authorizer authorizer.Authorizer
	// semantics is how schemas are read.
	semantics schema.Semantics
}

// install puts the parts of the server into it, before it runs.
func install(foundation) error {
	return nil
}
