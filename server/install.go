package server

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/registry/generic"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/healthz"
	"k8s.io/apiserver/pkg/server/mux"

	"espalier.dev/api"
	"espalier.dev/crd"
	"espalier.dev/crd/cel"
	"espalier.dev/kinds/services"
	"espalier.dev/schema"
	dynamicadmission "espalier.dev/server/admission"
	"espalier.dev/server/aggregator"
	"espalier.dev/server/builtin"
	"espalier.dev/server/compiling"
	"espalier.dev/server/compliance"
	"espalier.dev/server/custom"
	"espalier.dev/server/definitions"
	"espalier.dev/server/fairness"
	"espalier.dev/server/ids"
	"espalier.dev/server/objects"
	"espalier.dev/server/plugins"
	"espalier.dev/server/publish"
	"espalier.dev/server/quota"
	"espalier.dev/server/served"
	"espalier.dev/server/skeletons"
	"espalier.dev/server/webhooks"
)

// foundation holds what the parts of the server that serve resources are built on.
type foundation struct {
	options *Options
	// config is the configuration of the generic server: limits, timeouts, the serializer for
	// errors, and the storage options of resources.
	config *genericapiserver.Config
	// db has the stored resources, and makes their storage.
	db *database
	// url and port are those that the server listens on, identity has its certificates.
	url      string
	port     int
	identity *identity
	access
	// stored reads the stored objects of Kubernetes' own kinds.
	stored *builtin.Reader
	// network connects to webhooks.
	network *webhooks.Network
	// compiling limits the writes of objects whose CEL expressions take long to compile.
	compiling *compiling.Limits
	// fairness divides the seats of requests among users. Nil means that nothing does.
	fairness *fairness.Control
	// controllers runs the control loops.
	controllers *controllers
	// scheme has the types of the server's own responses, codecs encodes them.
	scheme *runtime.Scheme
	codecs serializer.CodecFactory
	// ids makes the names and UIDs of new objects. Nil means random ones.
	ids *ids.Source
	// others proxies requests to other servers. It is nil until install has made it.
	others *aggregator.Aggregator
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
	return slices.Contains(exact, path) || slices.ContainsFunc(prefixes,
		func(prefix string) bool { return strings.HasPrefix(path, prefix) })
}

// install builds the parts that serve resources, before the server runs.
func install(f *foundation, server *genericapiserver.GenericAPIServer) (*definitions.Definitions, error) {
	switch {
	case f.options.isFork():
		f.ids = f.options.origin.ids
	case f.options.Seed != nil && f.db.loaded > 0:
		f.ids = ids.After(*f.options.Seed, f.db.loaded)
	case f.options.Seed != nil:
		f.ids = ids.New(*f.options.Seed)
	}
	// Two functions close cycles, and are called when the server runs: the handlers call the
	// admission plugins, some of which use the handlers; and a handler serves the CRDs of the
	// Definitions, which use its storage.
	var chain admission.Interface
	var resources *custom.Handler
	admit := func() admission.Interface { return chain }
	defs, scanner, err := newDefinitions(f, func() *custom.Handler { return resources })
	if err != nil {
		return nil, err
	}
	allocator, err := services.NewAllocator(f.options.ServiceClusterIPRange, f.options.ServiceNodePortRange)
	if err != nil {
		return nil, err
	}
	if f.ids != nil {
		allocator.Random = f.ids.Uint64N
	}
	kubernetes := newKubernetes(f, defs, allocator, admit)
	virtual, err := newVirtual(scanner, defs)
	if err != nil {
		return nil, err
	}
	if resources, err = newCustom(f, defs, virtual, kubernetes.Serves, admit); err != nil {
		return nil, err
	}
	server.RegisterDestroyFunc(func() {
		f.controllers.stop()
		resources.Close()
		f.network.Close()
	})
	defs.Subscribe(resources.Changed)
	quotas := &quota.Stored{Store: f.db.store, Kinds: kubernetes, Charges: quota.NewCharges()}
	if chain, err = newPlugins(f, defs, kubernetes, resources, quotas); err != nil {
		return nil, err
	}

	first, err := firstObjects(f, allocator)
	if err != nil {
		return nil, err
	}
	if f.options.past() == 0 {
		f.controllers.add(newBootstrap(f, kubernetes, first))
		if repair := kubernetes.NewAddressRepair(); repair != nil {
			f.controllers.add(controller{name: "service-ips", run: repair.Run})
		}
	}
	published, err := newPublished(f, defs, kubernetes, virtual)
	if err != nil {
		return nil, err
	}
	others, err := newAggregator(f, defs, published)
	if err != nil {
		return nil, err
	}
	f.others = others
	addControllers(f, objects.New(objects.Config{
		Store: f.db.store, Kinds: kubernetes, Custom: resources,
		Definition: defs.Resource().Definition, Catalog: defs.Catalog, Remote: others.Serves, Admission: chain,
	}), quotas, defs, others)
	if f.fairness != nil {
		f.fairness.Use(kubernetes)
		f.controllers.add(controller{name: "flowcontrol", synced: f.fairness.Ready(), run: f.fairness.Follow})
	}
	if scanner != nil {
		defs.Subscribe(scanner.Changed)
		f.controllers.add(controller{name: "compliance", run: scanner.Run})
	}
	publisher := publish.New(publish.Config{
		Source: defs, Fixed: published, Remote: others.Remote, Priority: aggregator.Priority,
		Addresses: f.config.DiscoveryAddresses, Version: f.config.EffectiveVersion.Info().GitVersion, Codecs: f.codecs,
	})
	// As in kube-apiserver, only / lists paths.
	server.Handler.NonGoRestfulMux.NotFoundHandler(http.NotFoundHandler())
	// Other servers check what they get themselves.
	own := boundBodies(publisher.Wrap(kubernetes.Wrap(resources)), f.codecs, f.options.Semantics)
	mount(server.Handler.NonGoRestfulMux, others.Wrap(own))

	mountTokenMetadata(server.Handler.NonGoRestfulMux, f.authentication, f.url)
	if f.options.followsKeys() {
		f.controllers.add(controller{name: "service-account-keys", run: f.authentication.Issuer.Keys.Run})
	}
	if f.authentication.Reloads() {
		f.controllers.add(controller{name: "authentication", synced: f.authentication.Ready(), run: f.authentication.Run})
	}

	// CRDs are reconciled until the last request is answered, which may change one.
	f.controllers.add(controller{name: "crds", synced: defs.Ready(), run: defs.Run})
	f.controllers.add(controller{name: "idle", run: resources.Run})
	if peers := f.db.peers; peers != nil {
		f.controllers.add(controller{name: "servers", synced: peers.Joined(), run: peers.Run})
		if err := server.AddReadyzChecks(healthz.NamedCheck("servers", func(*http.Request) error { return peers.Check() })); err != nil {
			return nil, err
		}
	}
	if err := server.AddReadyzChecks(f.controllers.checks()...); err != nil {
		return nil, err
	}
	// A hook that fails ends the process, so this hook never fails.
	return defs, server.AddPostStartHook("controllers", func(hook genericapiserver.PostStartHookContext) error {
		f.controllers.start(hook.Context)
		// As in kube-apiserver, /healthz fails until requests are answered.
		select {
		case <-f.controllers.Ready():
			f.db.warnOfUnencrypted(hook.Context, defs.Catalog())
		case <-hook.Done():
		}
		return nil
	})
}

// newDefinitions returns the CRDs, and what checks stored objects against them, or nil. handler
// returns the handler of custom resources.
func newDefinitions(f *foundation, handler func() *custom.Handler) (defs *definitions.Definitions, scanner *compliance.Scanner,
	err error) {
	config := definitions.Config{
		Options:   crd.Options{Semantics: f.options.Semantics, Rules: cel.Checker{}, Patterns: new(schema.Patterns)},
		Storage:   f.db.fences.Definitions(f.config.RESTOptionsGetter),
		Fences:    f.db.fences,
		Store:     f.db.store,
		Handler:   handler,
		Compiling: f.compiling,
	}
	if f.options.isFork() {
		config.From = f.options.origin.definitions
		config.Options = config.From.Options(config.Options)
		config.ReadOnly = f.options.past() > 0
	}
	if f.options.Semantics.WarnsOfDifferences() {
		config.Warnings = f.options.Warnings
	}
	if f.db.peers != nil {
		config.Peers = f.db.peers
	}
	if f.options.checksStoredObjects() {
		scanner = compliance.New(compliance.Config{
			Store: f.db.store, Options: config.Options,
			Catalog: func() *crd.Catalog { return defs.Catalog() },
			Write: func(ctx context.Context, d *crd.Definition, c api.CustomResourceDefinitionCondition) error {
				return defs.WriteCondition(ctx, d, c)
			},
		})
		config.Compliance = scanner
	}
	defs, err = definitions.New(config)
	return defs, scanner, err
}

// newNetwork returns what connects to webhooks, some of which are stored services.
func newNetwork(o *Options, stored webhooks.Lister) (*webhooks.Network, error) {
	urls, err := webhooks.ParseServices(o.ServiceResolver)
	if err != nil {
		return nil, fmt.Errorf("--service-resolver: %w", err)
	}
	n := webhooks.NewNetwork(&webhooks.Services{Objects: stored, URLs: urls})
	if o.Bubble {
		n.Reject(errBubbleWebhook)
	}
	return n, nil
}

// newVirtual returns the virtual resources. There are none if stored objects are not checked.
func newVirtual(s *compliance.Scanner, defs *definitions.Definitions) ([]*custom.Virtual, error) {
	if s == nil {
		return nil, nil
	}
	noncompliant, err := s.Resource()
	if err != nil {
		return nil, err
	}
	skeletons, err := skeletons.New(defs.Catalog)
	if err != nil {
		return nil, err
	}
	return []*custom.Virtual{noncompliant, skeletons}, nil
}

// newCustom returns the handler of custom resources, CRDs and virtual resources. serves reports
// whether the handler of Kubernetes' own kinds serves a group.
func newCustom(f *foundation, defs *definitions.Definitions, virtual []*custom.Virtual,
	serves func(group string) bool, admit func() admission.Interface) (*custom.Handler, error) {
	return custom.New(custom.Config{
		Source:  defs,
		Fixed:   []*custom.Fixed{defs.Resource()},
		Virtual: virtual,
		Store:   f.db.store,
		Storage: func(d *crd.Definition) generic.RESTOptionsGetter {
			return f.db.fences.Objects(f.config.RESTOptionsGetter, d.GroupResource(), d.CRD().UID, d.Namespaced())
		},
		Admission:           admit,
		Authorizer:          f.authorizer,
		Webhooks:            f.network,
		Serves:              serves,
		NotFound:            http.NotFoundHandler(),
		IDs:                 f.ids,
		Scheme:              f.scheme,
		RequestTimeout:      f.config.RequestTimeout,
		MinWatch:            time.Duration(f.config.MinRequestTimeout) * time.Second,
		MaxRequestBodyBytes: f.config.MaxRequestBodyBytes,
	})
}

// newPlugins returns the chain of admission plugins.
func newPlugins(f *foundation, defs *definitions.Definitions, kubernetes *builtin.Handler,
	resources *custom.Handler, quotas *quota.Stored) (admission.Interface, error) {
	return plugins.NewChain(plugins.Config{
		Objects: f.stored, Authorizer: f.authorizer,
		CreateNamespace: kubernetes.EnsureNamespace,
		Resource:        resourceOf(defs),
		Version:         f.config.EffectiveVersion.EmulationVersion(),
		Quota:           quotas.Config(f.options.runs(controllerQuota)),
		IDs:             f.ids,
		Dynamic: dynamicadmission.New(dynamicadmission.Config{
			Store: f.db.store, Authorizer: f.authorizer, Guard: f.network.Guard, Services: f.network.Services(), NoCalls: f.network.Rejects(),
			Kinds: kubernetes, Storage: resources.Storage, Catalog: defs.Catalog, Definition: defs.Resource().Definition,
		}).Plugin,
	}, f.options.admits, f.options.AdmissionControlConfigFile)
}

// newPublished returns the resources that no CRD defines, for discovery and OpenAPI.
func newPublished(f *foundation, defs *definitions.Definitions, kubernetes *builtin.Handler,
	virtual []*custom.Virtual) (published []publish.Fixed, err error) {
	all, err := builtin.Definitions(f.stored.Served())
	if err != nil {
		return nil, err
	}
	for _, d := range all {
		published = append(published, publish.Fixed{Definition: d, Describe: kubernetes.Describe})
	}
	published = append(published, publish.Fixed{Definition: defs.Resource().Definition, Describe: defs.Resource().Describe})
	for _, v := range virtual {
		published = append(published, publish.Fixed{Definition: v.Definition, Describe: served.DescribeReadOnly})
	}
	return published, nil
}
