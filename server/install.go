package server

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/registry/generic"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/mux"

	"espalier.dev/analysis/lint"
	"espalier.dev/api"
	"espalier.dev/crd"
	"espalier.dev/crd/cel"
	"espalier.dev/schema"
	"espalier.dev/server/definitions"
	"espalier.dev/server/fence"
	"espalier.dev/server/publish"
	"espalier.dev/server/resources"
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
	// storage is how resources are stored, and fences makes their storage.
	storage generic.RESTOptionsGetter
	fences  *fence.Fences
	// admission is what is asked before a write.
	admission admission.Interface
	// authorizer is what handlers ask that have more to ask than the filters did.
	authorizer authorizer.UnconditionalAuthorizer
	// semantics is how schemas are read.
	semantics schema.Semantics
}

// maxDifferences is how many differences whoever writes a definition is told of: headers
// have little room.
const maxDifferences = 5

// differences says what a definition means differently in the two semantics.
func differences(ctx context.Context, c *api.CustomResourceDefinition) (warnings []string) {
	found, err := lint.Differences(ctx, c)
	if err != nil {
		return nil // whoever cannot read it refuses it
	}
	for i, f := range found {
		if i == maxDifferences {
			return append(warnings, fmt.Sprintf("and %d more differences between the semantics kep and kubernetes: `espalier lint` lists them", len(found)-i))
		}
		warnings = append(warnings, f.Path+": "+f.Message)
	}
	return warnings
}

// mount puts discovery, OpenAPI and resources where clients look for them.
func mount(mux *mux.PathRecorderMux, publisher *publish.Publisher, resources http.Handler) {
	for _, path := range []string{"/api", "/api/v1", "/apis", "/openapi/v2", "/openapi/v3"} {
		mux.Handle(path, publisher)
	}
	mux.HandlePrefix("/openapi/v3/", publisher)
	mux.HandlePrefix("/apis/", publisher.Wrap(resources))
}

// install puts the parts of the server into it, before it runs.
func install(f foundation) error {
	defs, err := definitions.New(definitions.Config{
		Options:     crd.Options{Semantics: f.semantics, Rules: cel.Checker{}},
		Differences: differences,
		Storage:     f.fences.Definitions(f.storage),
		Fences:      f.fences,
	})
	if err != nil {
		return err
	}
	handler, err := resources.New(resources.Config{
		Source: defs,
		Storage: func(d *crd.Definition) generic.RESTOptionsGetter {
			return f.fences.Objects(f.storage, d.GroupResource(), d.CRD().UID)
		},
		Admission:           f.admission,
		Authorizer:          f.authorizer,
		NotFound:            http.NotFoundHandler(),
		RequestTimeout:      f.config.RequestTimeout,
		MinWatch:            time.Duration(f.config.MinRequestTimeout) * time.Second,
		MaxRequestBodyBytes: f.config.MaxRequestBodyBytes,
	})
	if err != nil {
		return err
	}
	defs.Attach(handler)
	publisher := publish.New(publish.Config{
		Source:    defs,
		Builtin:   []*crd.Definition{defs.Builtin().Definition},
		Addresses: f.config.DiscoveryAddresses,
		Version:   f.config.EffectiveVersion.Info().GitVersion,
	})
	mount(f.api.Handler.NonGoRestfulMux, publisher, handler)

	var running sync.WaitGroup
	f.api.RegisterDestroyFunc(func() {
		running.Wait()
		handler.Close()
	})
	// The server is ready when all stored definitions are served. They are followed
	// until the last request is answered, which may have changed one.
	return f.api.AddPostStartHook("definitions", func(hook genericapiserver.PostStartHookContext) error {
		running.Go(func() { defs.Run(hook.Context) })
		select {
		case <-defs.Ready():
			return nil
		case <-hook.Done():
			return fmt.Errorf("stopped before the definitions were read: %w", context.Cause(hook.Context))
		}
	})
}
