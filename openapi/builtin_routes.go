package openapi

import (
	"net/http"
	"reflect"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/util"
)

// modelOf returns the definition of a Go type as the model of a body.
func modelOf(t reflect.Type) any {
	return model(util.GetCanonicalTypeName(reflect.Zero(t).Interface()))
}

// routes returns the operations on a kind and its subresources, as kube-apiserver documents
// them.
func (k *Kind) routes() routes {
	object := modelOf(k.Object)
	root := "/apis/" + k.Group + "/" + k.Version + "/"
	if k.Group == "" {
		root = "/api/" + k.Version + "/"
	}
	var out routes
	collection, scope := root+k.Plural, ""
	can := func(verb string) bool { return slices.Contains(k.Verbs, verb) }
	if k.Namespaced {
		if can("list") {
			everywhere := k.route(http.MethodGet, collection, "list", "list", modelOf(k.List))
			everywhere.operation = "list" + k.Kind + "ForAllNamespaces"
			out = append(out, everywhere)
		}
		collection, scope = root+"namespaces/{namespace}/"+k.Plural, "Namespaced"
	}
	add := func(method, path, action, verb string, reads, returns any) {
		r := k.route(method, path, action, verb, returns)
		r.operation = verb + scope + k.Kind
		if reads != nil {
			r.read(reads, true)
		}
		out = append(out, r)
	}
	if can("list") {
		add(http.MethodGet, collection, "list", "list", nil, modelOf(k.List))
	}
	if can("create") {
		add(http.MethodPost, collection, "post", "create", object, object)
	}
	if can("deletecollection") {
		add(http.MethodDelete, collection, "deletecollection", "deletecollection", nil, metav1.Status{})
	}
	one := collection + "/{name}"
	if can("get") {
		add(http.MethodGet, one, "get", "read", nil, object)
	}
	if can("update") {
		add(http.MethodPut, one, "put", "replace", object, object)
	}
	if can("delete") {
		var deleted any = metav1.Status{}
		if k.DeletesObject {
			deleted = object
		}
		add(http.MethodDelete, one, "delete", "delete", nil, deleted)
	}
	if can("patch") {
		add(http.MethodPatch, one, "patch", "patch", metav1.Patch{}, object)
	}
	for _, s := range k.Subresources {
		out = append(out, k.subresource(one, scope, &s)...)
	}
	return out
}

// subresource returns the operations on a subresource.
func (k *Kind) subresource(one, scope string, s *Subresource) (out routes) {
	object := modelOf(s.Object)
	for _, o := range []struct {
		verb, method, action, operation string
		reads                           any
	}{
		{"create", http.MethodPost, "post", "create", object},
		{"get", http.MethodGet, "get", "read", nil},
		{"update", http.MethodPut, "put", "replace", object},
		{"patch", http.MethodPatch, "patch", "patch", metav1.Patch{}},
	} {
		if !slices.Contains(s.Verbs, o.verb) {
			continue
		}
		// The endpoint may read and write another kind; the description names that of the
		// resource.
		r := (&Kind{GroupVersionKind: s.Kind}).route(o.method, one+"/"+s.Name, o.action, o.operation, object)
		r.description = describe(o.operation, s.Name, k.Kind)
		r.operation = o.operation + scope + k.Kind + strings.ToUpper(s.Name[:1]) + s.Name[1:]
		if o.reads != nil {
			r.read(o.reads, true)
		}
		out = append(out, r)
	}
	return out
}

// route returns one operation, without its body.
func (k *Kind) route(method, path, action, verb string, returns any) *route {
	r := (&resource{kind: k.GroupVersionKind}).route(method, path, action, verb, "", returns)
	r.consumes = []string{"*/*"}
	r.produces = []string{runtime.ContentTypeJSON, runtime.ContentTypeYAML, runtime.ContentTypeProtobuf}
	switch action {
	case "get":
		r.params = slices.DeleteFunc(r.params, func(p common.Parameter) bool { return p.Name() == "resourceVersion" })
	case "list":
		r.produces = append(r.produces, runtime.ContentTypeJSON+";stream=watch", runtime.ContentTypeProtobuf+";stream=watch")
		if slices.Contains(k.Verbs, "watch") {
			r.description = "list or watch objects of kind " + k.Kind
		}
	case "deletecollection":
		// A collection that is deleted is listed, but not watched.
		r.params = slices.DeleteFunc(r.params, func(p common.Parameter) bool { return p.Name() == "watch" || p.Name() == "allowWatchBookmarks" })
		r.options(metav1.DeleteOptions{})
		r.read(metav1.DeleteOptions{}, false)
	case "patch":
		r.responses = append(r.responses, response{http.StatusCreated, returns})
		r.consumes = []string{
			string(types.JSONPatchType), string(types.MergePatchType), string(types.StrategicMergePatchType), string(types.ApplyYAMLPatchType),
		}
	}
	return r
}
