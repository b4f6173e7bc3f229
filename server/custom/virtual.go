package custom

import (
	"context"
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints/handlers"
	"k8s.io/apiserver/pkg/endpoints/metrics"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"

	"espalier.dev/api"
	"espalier.dev/crd"
	"espalier.dev/crd/compliance"
	"espalier.dev/schema"
	"espalier.dev/server/served"
)

// VirtualGroup is the group of the virtual resources, which show what the server knows about
// CRDs and stored objects.
const VirtualGroup = compliance.Group

// Virtual is a resource whose objects are computed when they are read. They are not stored,
// and cannot be written or watched. The namespace of a request is in its context.
type Virtual struct {
	// Definition has one version. Its columns are those of kubectl get, and its selectable
	// fields are allowed in field selectors.
	Definition *crd.Definition
	// Get returns an object, and a not-found error if there is none.
	Get func(ctx context.Context, name string) (schema.Object, error)
	// List returns the selected objects. It sets the metadata of the list.
	List func(ctx context.Context, o *metainternalversion.ListOptions) (*unstructured.UnstructuredList, error)
}

// virtual is a Virtual that is served.
type virtual struct {
	*Virtual
	*table
	version     *crd.Version
	description *served.Description
	kind        *customKind
	scope       *handlers.RequestScope
}

var (
	_ rest.Getter = &virtual{}
	_ rest.Lister = &virtual{}
)

// newVirtual returns a virtual resource that is served.
func (h *Handler) newVirtual(r *Virtual) (*virtual, error) {
	d := r.Definition
	version := d.Storage()
	kinds := &customKinds{definition: d, converter: relabel{}}
	made, err := kinds.Kind(version)
	if err != nil {
		return nil, err
	}
	kinds.kind = func(string) (Kind, error) { return made, nil }
	v := &virtual{
		Virtual: r, version: version, kind: made.(*customKind), description: served.DescribeReadOnly(version),
		table: newTable(version.Spec().AdditionalPrinterColumns),
	}
	scope := h.newScope(version, made, &objectConvertor{definition: d, converter: kinds}, kinds.kind)
	scope.TableConvertor = v
	v.scope = &scope
	return v, nil
}

// virtual returns the virtual resource of a request, or nil.
func (h *Handler) virtual(r *apirequest.RequestInfo) *virtual {
	v := h.virtuals[runtimeschema.GroupResource{Group: r.APIGroup, Resource: r.Resource}.String()]
	if v == nil || v.version.Name() != r.APIVersion {
		return nil
	}
	return v
}

// serve handles a request.
func (v *virtual) serve(h *Handler, w http.ResponseWriter, req *http.Request, r *apirequest.RequestInfo) {
	err := v.description.Routes().Check(req, r)
	if err == nil && !v.description.Can(r.Verb, "") {
		err = apierrors.NewMethodNotSupported(v.Definition.GroupResource(), r.Verb)
	}
	if err != nil {
		h.fail(w, req, r, err)
		return
	}
	f := handlers.GetResource(v, v.scope)
	if r.Verb == "list" {
		f = handlers.ListResource(v, nil, v.scope, false, h.config.MinWatch)
	}
	metrics.InstrumentHandlerFunc(strings.ToUpper(r.Verb), r.APIGroup, r.APIVersion, r.Resource, "", metrics.CleanScope(r),
		metrics.APIServerComponent, false, "", f)(w, req)
}

// New implements rest.Storage.
func (v *virtual) New() runtime.Object { return v.kind.New() }

// Destroy implements rest.Storage: there is nothing to release.
func (v *virtual) Destroy() {}

// NewList implements rest.Lister.
func (v *virtual) NewList() runtime.Object { return v.kind.NewList() }

// Get implements rest.Getter.
func (v *virtual) Get(ctx context.Context, name string, _ *metav1.GetOptions) (runtime.Object, error) {
	obj, err := v.Virtual.Get(ctx, name)
	if err != nil {
		return nil, err
	}
	u := &unstructured.Unstructured{Object: obj}
	u.SetGroupVersionKind(v.version.GroupVersionKind())
	return u, nil
}

// List implements rest.Lister.
func (v *virtual) List(ctx context.Context, o *metainternalversion.ListOptions) (runtime.Object, error) {
	list, err := v.Virtual.List(ctx, o)
	if err != nil {
		return nil, err
	}
	gvk := v.version.GroupVersionKind()
	list.SetGroupVersionKind(gvk.GroupVersion().WithKind(v.Definition.Names().ListKind))
	for i := range list.Items {
		list.Items[i].SetGroupVersionKind(gvk)
	}
	return list, nil
}

// VirtualNames names a virtual resource.
type VirtualNames struct {
	Plural, Singular, Kind string
	Namespaced             bool
}

// NewVirtualDefinition returns the Definition of a virtual resource: the schema of its objects,
// the columns of kubectl get, and the fields of field selectors.
func NewVirtualDefinition(n VirtualNames, root *api.JSONSchemaProps,
	columns []api.CustomResourceColumnDefinition, selectable ...string) (*crd.Definition, error) {
	const version = "v1"
	names := api.CustomResourceDefinitionNames{Plural: n.Plural, Singular: n.Singular, Kind: n.Kind, ListKind: n.Kind + "List"}
	scope := api.ClusterScoped
	if n.Namespaced {
		scope = api.NamespaceScoped
	}
	v := api.CustomResourceDefinitionVersion{
		Name: version, Served: true, Storage: true, AdditionalPrinterColumns: columns,
		Schema: &api.CustomResourceValidation{OpenAPIV3Schema: root},
	}
	for _, field := range selectable {
		v.SelectableFields = append(v.SelectableFields, api.SelectableField{JSONPath: "." + field})
	}
	return crd.New(&api.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: n.Plural + "." + VirtualGroup},
		Spec: api.CustomResourceDefinitionSpec{Group: VirtualGroup, Scope: scope, Names: names,
			Versions: []api.CustomResourceDefinitionVersion{v}},
		Status: api.CustomResourceDefinitionStatus{
			AcceptedNames: names, StoredVersions: []string{version},
			Conditions: []api.CustomResourceDefinitionCondition{
				{Type: api.NamesAccepted, Status: api.ConditionTrue}, {Type: api.Established, Status: api.ConditionTrue},
			},
		},
	}, crd.Options{Semantics: schema.Kubernetes})
}
