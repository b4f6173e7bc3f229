package rest

import (
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/endpoints/handlers"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/registry/rest"
)

// Endpoint makes the handlers of one version of a resource, or of a subresource.
type Endpoint struct {
	Scope *handlers.RequestScope
	// Kind is that of the stored objects. The kind of a subresource may be another one.
	Kind       runtimeschema.GroupKind
	Admission  admission.Interface
	PatchTypes []string
	// MinWatch is the minimum time after which the server ends a watch.
	MinWatch time.Duration
}

// Storage is the storage of a resource, by what requests do with it.
type Storage struct {
	Reads interface {
		rest.Getter
		rest.Lister
	}
	Watches         rest.Watcher
	Writes, Deletes rest.StandardStorage
}

// Handler returns the handler of the requests with a verb, or nil.
func (e *Endpoint) Handler(verb string, s Storage) http.HandlerFunc {
	switch verb {
	case "get":
		return handlers.GetResource(s.Reads, e.Scope)
	case "list", "watch":
		return handlers.ListResource(s.Reads, s.Watches, e.Scope, verb == "watch", e.MinWatch)
	case "create":
		return handlers.CreateResource(workStorage{s.Writes, e.Kind}, e.Scope, e.Admission)
	case "update":
		return handlers.UpdateResource(workStorage{s.Writes, e.Kind}, e.Scope, e.Admission)
	case "patch":
		return handlers.PatchResource(workStorage{s.Writes, e.Kind}, e.Scope, e.Admission, e.PatchTypes)
	case "delete":
		return handlers.DeleteResource(workStorage{s.Deletes, e.Kind}, true, e.Scope, e.Admission)
	case "deletecollection":
		return handlers.DeleteCollection(workStorage{s.Deletes, e.Kind}, true, e.Scope, e.Admission)
	}
	return nil
}

// Subresource returns the handler of the requests with a verb to a subresource, or nil. It updates
// the object, or creates something from it.
func (e *Endpoint) Subresource(verb string, patcher rest.Patcher, creater rest.NamedCreater) http.HandlerFunc {
	switch verb {
	case "get":
		return handlers.GetResource(patcher, e.Scope)
	case "update":
		return handlers.UpdateResource(workPatcher{patcher, e.Kind}, e.Scope, e.Admission)
	case "patch":
		return handlers.PatchResource(workPatcher{patcher, e.Kind}, e.Scope, e.Admission, e.PatchTypes)
	case "create":
		return handlers.CreateNamedResource(creater, e.Scope, e.Admission)
	}
	return nil
}

// Options sets the codec of one resource, and its directory if that is not empty, in the options of
// its storage.
type Options struct {
	generic.RESTOptionsGetter
	Codec     runtime.Codec
	Directory string
}

// GetRESTOptions implements generic.RESTOptionsGetter.
func (o *Options) GetRESTOptions(gr runtimeschema.GroupResource, example runtime.Object) (generic.RESTOptions, error) {
	opts, err := o.RESTOptionsGetter.GetRESTOptions(gr, example)
	if err != nil {
		return generic.RESTOptions{}, err
	}
	config := *opts.StorageConfig // the options are shared
	config.Codec = o.Codec
	opts.StorageConfig = &config
	if o.Directory != "" {
		opts.ResourcePrefix = o.Directory
	}
	return opts, nil
}
