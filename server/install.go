package server

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/registry/generic"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/healthz"
	"k8s.io/apiserver/pkg/server/mux"

	"espalier.dev/api"
	"espalier.dev/crd"
	"espalier.dev/crd/cel"
	"espalier.dev/schema"
	dynamicadmission "espalier.dev/server/admission"
	"espalier.dev/server/authentication"
	"espalier.dev/server/compliance"
	"espalier.dev/server/definitions"
	"espalier.dev/server/fence"
	"espalier.dev/server/peers"
	"espalier.dev/server/publish"
	"espalier.dev/server/quota"
	"espalier.dev/server/rbac"
	"espalier.dev/server/resource"
	"espalier.dev/server/resources"
	"espalier.dev/server/skeletons"
	"espalier.dev/server/webhooks"
	"espalier.dev/store"
)

// foundation holds what the parts of the server that serve resources need.
type foundation struct {
	// api is the generic server that is being built. Its Handler.NonGoRestfulMux accepts
	// handlers, which run behind all filters. It also has hooks after the start and before
	// the stop, health checks, and a client for the server's own use.
	api *genericapiserver.GenericAPIServer
	// config is the configuration of api: limits, timeouts, the serializer for errors, and
	// the request info resolver.
	config *genericapiserver.Config
	// storage returns the storage options of a resource, fences creates the storage.
	storage generic.RESTOptionsGetter
	fences  *fence.Fences
	// store has all stored resources in memory.
	store *store.Store
	// peers are the other servers on the same etcd; nil if there cannot be any.
	peers *peers.Peers
	// admission runs before a write. dynamic has those of its plugins that read stored
	// configurations.
	admission admission.Interface
	dynamic   *dynamicadmission.Dynamic
	// network connects to webhooks.
	network *webhooks.Network
	// authentication identifies users by their tokens, and issues the tokens of service accounts.
	authentication *authentication.Authentication
	// authorizer is for checks in handlers beyond those of the filters.
	authorizer authorizer.UnconditionalAuthorizer
	// roles are the stored roles and bindings, which RBAC and the checks of their writes use.
	roles *rbac.Authorizer
	// semantics is the schema semantics.
	semantics schema.Semantics
	// warnings returns additional warnings for the writer of a CRD; nil means none.
	warnings func(context.Context, *api.CustomResourceDefinition) []string
	// checks is set if stored objects are checked for compliance with their CRDs.
	checks bool
	// options are those of the server, port and url are those that it listens on, and clientCA
	// returns the certificates of authorities that sign client certificates.
	options  *Options
	port     int
	url      string
	clientCA func() []byte
	// rbac is set if roles and bindings are used.
	rbac bool
	// objects reads stored objects for admission.
	objects *objects
	// quotas has the stored resource quotas.
	quotas *quota.Stored
	// controllers runs the control loops.
	controllers *controllers
	// identity has the certificates of the server.
	identity *identity
	// scheme has the types of the server's own responses, codecs encodes them.
	scheme *runtime.Scheme
	codecs serializer.CodecFactory
}

// paths returns the paths of discovery, OpenAPI and resources, and the prefixes of further ones.
func paths() (exact, prefixes []string) {
	return []string{"/api", "/apis", "/openapi/v2", "/openapi/v3"}, []string{"/api/", "/apis/", "/openapi/v3/"}
}

// mount registers the paths of discovery, OpenAPI and resources.
func mount(mux *mux.PathRecorderMux, h http.Handler) {
	exact, prefixes := paths()
	for _, path := range exact {
		mux.Handle(path, h)
	}
	for _, prefix := range prefixes {
		mux.HandlePrefix(prefix, h)
	}
}

// mounted reports whether a path is one of those that mount registers.
func mounted(path string) bool {
	exact, prefixes := paths()
	return slices.Contains(exact, path) || slices.ContainsFunc(prefixes, func(prefix string) bool { return strings.HasPrefix(path, prefix) })
}

// install installs the parts that serve resources, before the server runs.
func install(f foundation) (*definitions.Definitions, error) {
	config := definitions.Config{
		Options: crd.Options{Semantics: f.semantics, Rules: cel.Checker{}, Patterns: new(schema.Patterns)},
		Storage: f.fences.Definitions(f.storage),
		Fences:  f.fences,
		Store:   f.store,
	}
	if f.semantics.WarnsOfDifferences() {
		config.Warnings = f.warnings
	}
	if f.peers != nil {
		config.Peers = f.peers
	}
	var scanner *compliance.Scanner
	var defs *definitions.Definitions
	if f.checks {
		scanner = compliance.New(compliance.Config{
			Store: f.store, Options: config.Options,
			Catalog: func() *crd.Catalog { return defs.Catalog() },
			Write: func(ctx context.Context, d *crd.Definition, c api.CustomResourceDefinitionCondition) error {
				return defs.WriteCondition(ctx, d, c)
			},
		})
		config.Compliance = scanner
	}
	defs, err := definitions.New(config)
	if err != nil {
		return nil, err
	}
	kubernetes, published, err := installBuiltin(f)
	if err != nil {
		return nil, err
	}
	handler, err := resources.New(resources.Config{
		Source: defs,
		Store:  f.store,
		Storage: func(d *crd.Definition) generic.RESTOptionsGetter {
			return f.fences.Objects(f.storage, d.GroupResource(), d.CRD().UID, d.Namespaced())
		},
		Admission:           f.admission,
		Authorizer:          f.authorizer,
		Webhooks:            f.network,
		Serves:              kubernetes.Serves,
		NotFound:            http.NotFoundHandler(),
		Scheme:              f.scheme,
		RequestTimeout:      f.config.RequestTimeout,
		MinWatch:            time.Duration(f.config.MinRequestTimeout) * time.Second,
		MaxRequestBodyBytes: f.config.MaxRequestBodyBytes,
	})
	if err != nil {
		return nil, err
	}
	defs.Attach(handler)
	f.objects.definitions = defs
	f.dynamic.Attach(dynamicadmission.Parts{Kubernetes: kubernetes, Custom: handler, Catalog: defs.Catalog, Definition: defs.Builtin().Definition})
	installControllers(f, kubernetes, handler, defs)
	published = append(published, publish.Builtin{Definition: defs.Builtin().Definition, Describe: defs.Builtin().Describe})
	if scanner != nil {
		virtual, err := installVirtual(handler, scanner, defs)
		if err != nil {
			return nil, err
		}
		published = append(published, virtual...)
		defs.Subscribe(scanner.Changed)
		f.controllers.add(controller{name: "compliance", run: scanner.Run})
	}
	publisher := publish.New(publish.Config{
		Source:    defs,
		Builtin:   published,
		Addresses: f.config.DiscoveryAddresses,
		Version:   f.config.EffectiveVersion.Info().GitVersion,
		Codecs:    f.codecs,
	})
	mount(f.api.Handler.NonGoRestfulMux, publisher.Wrap(kubernetes.Wrap(handler)))

	mountTokenMetadata(f.api.Handler.NonGoRestfulMux, f.authentication, f.url)
	if f.authentication.Reloads() {
		f.controllers.add(controller{name: "authentication", synced: f.authentication.Ready(), run: f.authentication.Run})
	}

	// CRDs are reconciled until the last request is answered, which may change one.
	f.controllers.add(controller{name: "crds", synced: defs.Ready(), run: defs.Run})
	f.controllers.add(controller{name: "idle", run: handler.Run})
	if f.peers != nil {
		f.controllers.add(controller{name: "servers", synced: f.peers.Joined(), run: f.peers.Run})
		if err := f.api.AddReadyzChecks(healthz.NamedCheck("servers", func(*http.Request) error { return f.peers.Check() })); err != nil {
			return nil, err
		}
	}
	f.api.RegisterDestroyFunc(func() {
		f.controllers.stop()
		handler.Close()
		f.network.Close()
	})
	if err := f.api.AddReadyzChecks(f.controllers.checks()...); err != nil {
		return nil, err
	}
	// A hook that fails ends the process, so this hook never fails.
	return defs, f.api.AddPostStartHook("controllers", func(hook genericapiserver.PostStartHookContext) error {
		f.controllers.start(hook.Context)
		// As in kube-apiserver, /healthz fails until requests are answered.
		select {
		case <-f.controllers.Ready():
		case <-hook.Done():
		}
		return nil
	})
}

// installVirtual installs the virtual resources, and returns how they are published.
func installVirtual(h *resources.Handler, s *compliance.Scanner, defs *definitions.Definitions) (published []publish.Builtin, err error) {
	objects, err := s.Resource()
	if err != nil {
		return nil, err
	}
	skeletons, err := skeletons.New(defs.Catalog)
	if err != nil {
		return nil, err
	}
	for _, v := range []*resources.Virtual{objects, skeletons} {
		if err := h.InstallVirtual(v); err != nil {
			return nil, err
		}
		published = append(published, publish.Builtin{Definition: v.Definition, Describe: resource.DescribeReadOnly})
	}
	return published, nil
}
