package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sort"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/authentication/user"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/warning"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
)

const (
	// generatedSuffix ends the names that the server generates.
	generatedSuffix = "abcde"

	// defaultUID is the uid of created objects.
	defaultUID = "00000000-0000-4000-8000-000000000001"

	// conflictMessage is that of the registry, which does not export it with its error.
	conflictMessage = "the object has been modified; please apply your changes to the latest version and try again"
)

// creationTime is the creation time of created objects.
var creationTime = metav1.NewTime(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))

// call is a request for a resource, with everything that is looked up for it.
type call struct {
	resource
	gvr      schema.GroupVersionResource
	storage  schema.GroupVersion
	ctx      context.Context
	warnings []string
}

// AddWarning implements warning.Recorder.
func (c *call) AddWarning(_, text string) { c.warnings = append(c.warnings, text) }

// newCall looks up the resource of a request.
func newCall(req *request, verb string) (*call, error) {
	gv, err := schema.ParseGroupVersion(req.APIVersion)
	if err != nil {
		return nil, err
	}
	c := &call{gvr: gv.WithResource(req.Resource)}
	gr := c.gvr.GroupResource()
	if other, ok := cohabitants[gr]; ok {
		gr = other
	}
	found, ok := resources[gr]
	if !ok {
		return nil, fmt.Errorf("unknown resource %s", c.gvr)
	}
	c.resource = found
	c.storage = storageVersion(gr.Group)

	u := &user.DefaultInfo{Name: "admin", Groups: []string{"system:masters", "system:authenticated"}}
	if req.User != nil {
		u = req.User.info()
	}
	// The reference logs differences between its two kinds of validation.
	c.ctx = klog.NewContext(context.Background(), klog.Logger{})
	c.ctx = genericapirequest.WithUser(c.ctx, u)
	c.ctx = genericapirequest.WithNamespace(c.ctx, req.Namespace)
	c.ctx = warning.WithWarningRecorder(c.ctx, c)
	c.ctx = genericapirequest.WithRequestInfo(c.ctx, &genericapirequest.RequestInfo{
		IsResourceRequest: true, Verb: verb, APIPrefix: "apis",
		APIGroup: gv.Group, APIVersion: gv.Version, Namespace: req.Namespace,
		Resource: req.Resource, Subresource: req.Subresource,
	})
	return c, nil
}

// decode decodes an object into the internal version, with its defaults.
func decode(data []byte, gvk schema.GroupVersionKind) (runtime.Object, error) {
	decoder := legacyscheme.Codecs.UniversalDecoder(schema.GroupVersion{Group: gvk.Group, Version: runtime.APIVersionInternal})
	obj, actual, err := decoder.Decode(data, &gvk, nil)
	if err != nil {
		if actual == nil {
			actual = &gvk
		}
		return nil, errors.NewBadRequest(fmt.Sprintf("%s in version %q cannot be handled as a %s: %v", actual.Kind, actual.Version, gvk.Kind, err))
	}
	if actual.Kind != gvk.Kind {
		return nil, errors.NewBadRequest(fmt.Sprintf("%s in version %q cannot be handled as a %s", actual.Kind, actual.Version, gvk.Kind))
	}
	return obj, nil
}

// decodeNew decodes the object of a request.
func (c *call) decodeNew(data []byte) (runtime.Object, error) {
	return decode(data, c.gvr.GroupVersion().WithKind(c.kind))
}

// decodeStored decodes an object in the version that it says.
func (c *call) decodeStored(data []byte) (runtime.Object, error) {
	return decode(data, c.storage.WithKind(c.kind))
}

// encode converts an object to a version.
func encode(obj runtime.Object, gv schema.GroupVersion) (json.RawMessage, error) {
	return runtime.Encode(legacyscheme.Codecs.LegacyCodec(gv), obj)
}

// answer returns the answer with an object in the storage version, or with an error.
func (c *call) answer(obj runtime.Object, err error) (answer, error) {
	a := answer{Warnings: c.warnings}
	if err == nil {
		a.Object, err = encode(obj, c.storage)
		return a, err
	}
	a.Error = err.Error()
	if status, ok := err.(errors.APIStatus); ok {
		s := status.Status()
		a.Error, a.Reason, a.Code = s.Message, string(s.Reason), s.Code
		if s.Details != nil {
			for _, e := range s.Details.Causes {
				a.Errors = append(a.Errors, cause{Type: string(e.Type), Field: e.Field, Message: e.Message})
			}
		}
	}
	return a, nil
}

// fillDefaults decodes an object and encodes it in the version of the request.
func fillDefaults(req *request) (answer, error) {
	c, err := newCall(req, "get")
	if err != nil {
		return answer{}, err
	}
	obj, err := c.decodeNew(req.Object)
	if err == nil {
		c.storage = c.gvr.GroupVersion()
	}
	return c.answer(obj, err)
}

// create does what the API server does to a new object before it is stored.
func create(req *request) (answer, error) {
	if req.Subresource != "" {
		return answer{}, fmt.Errorf("unknown subresource %q", req.Subresource)
	}
	c, err := newCall(req, "create")
	if err != nil {
		return answer{}, err
	}
	obj, err := c.decodeNew(req.Object)
	if err != nil {
		return c.answer(nil, err)
	}
	accessor, err := meta.Accessor(obj)
	if err != nil {
		return answer{}, err
	}
	c.inNamespaceOf(req, accessor)
	rest.WipeObjectMetaSystemFields(accessor)
	if err := rest.EnsureObjectNamespaceMatchesRequestNamespace(rest.ExpectedNamespaceForResource(genericapirequest.NamespaceValue(c.ctx), c.gvr), accessor); err != nil {
		return c.answer(nil, err)
	}
	accessor.SetUID(defaultUID)
	if req.UID != "" {
		accessor.SetUID(types.UID(req.UID))
	}
	accessor.SetCreationTimestamp(creationTime)
	if prefix := accessor.GetGenerateName(); prefix != "" && accessor.GetName() == "" {
		name := c.strategy.GenerateName(prefix)
		if name != prefix {
			name = name[:len(name)-len(generatedSuffix)] + generatedSuffix
		}
		accessor.SetName(name)
	}
	err = rest.BeforeCreate(c.strategy, c.ctx, obj)
	return c.answer(obj, err)
}

// inNamespaceOf sets the namespace of requests for a Namespace to its name, like the handlers.
func (c *call) inNamespaceOf(req *request, accessor metav1.Object) {
	if c.kind == "Namespace" && req.Namespace == "" {
		c.ctx = genericapirequest.WithNamespace(c.ctx, accessor.GetName())
	}
}

// update does what the API server does to an object that replaces a stored one.
func update(req *request) (answer, error) {
	c, err := newCall(req, "update")
	if err != nil {
		return answer{}, err
	}
	updater := rest.RESTUpdateStrategy(c.strategy)
	scale := req.Subresource == "scale"
	if req.Subresource != "" && !scale {
		var ok bool
		if updater, ok = c.subresources[req.Subresource]; !ok {
			return answer{}, fmt.Errorf("unknown subresource %q", req.Subresource)
		}
	}
	old, err := c.decodeStored(req.Old)
	if err != nil {
		return answer{}, fmt.Errorf("old: %w", err)
	}
	oldMeta, err := meta.Accessor(old)
	if err != nil {
		return answer{}, err
	}
	if oldMeta.GetResourceVersion() == "" {
		oldMeta.SetResourceVersion("1")
	}
	var obj runtime.Object
	if scale {
		obj, err = scaled(req.Object, req.Namespace, old)
	} else {
		obj, err = c.decodeNew(req.Object)
	}
	if err != nil {
		return c.answer(nil, err)
	}
	accessor, err := meta.Accessor(obj)
	if err != nil {
		return answer{}, err
	}
	c.inNamespaceOf(req, oldMeta)
	if err := rest.EnsureObjectNamespaceMatchesRequestNamespace(rest.ExpectedNamespaceForResource(genericapirequest.NamespaceValue(c.ctx), c.gvr), accessor); err != nil {
		return c.answer(nil, err)
	}
	if err := c.checkResourceVersion(accessor, oldMeta, updater); err != nil {
		return c.answer(nil, err)
	}
	err = rest.BeforeUpdate(updater, c.ctx, obj, old)
	return c.answer(obj, err)
}

// checkResourceVersion compares the versions of two objects like the store, and sets that of
// the new one if it may be left out.
func (c *call) checkResourceVersion(accessor, old metav1.Object, updater rest.RESTUpdateStrategy) error {
	version := accessor.GetResourceVersion()
	gr := c.gvr.GroupResource()
	switch {
	case version == "" && updater.AllowUnconditionalUpdate():
		accessor.SetResourceVersion(old.GetResourceVersion())
	case version == "":
		return errors.NewInvalid(schema.GroupKind{Group: gr.Group, Kind: gr.Resource}, old.GetName(), field.ErrorList{
			field.Invalid(field.NewPath("metadata", "resourceVersion"), uint64(0), "must be specified for an update"),
		})
	case version != old.GetResourceVersion():
		return errors.NewConflict(gr, old.GetName(), fmt.Errorf("%s", conflictMessage))
	}
	return nil
}

// listResources returns all resources, sorted.
func listResources() answer {
	var a answer
	for gr, r := range resources {
		info := resourceInfo{Group: gr.Group, Version: storageVersion(gr.Group).Version, Resource: gr.Resource, Kind: r.kind, Namespaced: r.strategy.NamespaceScoped()}
		for name := range r.subresources {
			info.Subresources = append(info.Subresources, name)
		}
		if scalable(r.kind) {
			info.Subresources = append(info.Subresources, "scale")
		}
		sort.Strings(info.Subresources)
		a.Resources = append(a.Resources, info)
	}
	slices.SortFunc(a.Resources, func(x, y resourceInfo) int {
		return strings.Compare(x.Group+"/"+x.Resource, y.Group+"/"+y.Resource)
	})
	return a
}
