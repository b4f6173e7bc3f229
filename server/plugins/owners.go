package plugins

import (
	"context"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// owners rejects changes of owner references by users who may not delete the object, and references
// that keep an owner from being deleted by users who may not change its finalizers.
type owners struct {
	*admission.Handler
	authz authorizer.Authorizer
	// resource returns the resource of a kind, and reports whether it is namespaced and exists.
	resource func(schema.GroupVersionKind) (r schema.GroupResource, namespaced, found bool)
}

var _ admission.ValidationInterface = &owners{}

func newOwners(authz authorizer.Authorizer, resource func(schema.GroupVersionKind) (schema.GroupResource, bool, bool)) *owners {
	return &owners{admission.NewHandler(admission.Create, admission.Update), authz, resource}
}

// references returns the owner references of an object.
func references(obj runtime.Object) []metav1.OwnerReference {
	if obj == nil {
		return nil
	}
	if m, err := meta.Accessor(obj); err == nil {
		return m.GetOwnerReferences()
	}
	return nil
}

// Validate implements admission.ValidationInterface.
func (p *owners) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if a.GetResource().GroupResource() == pods && a.GetSubresource() == "status" {
		return nil // writes of the status do not change metadata
	}
	old, refs := references(a.GetOldObject()), references(a.GetObject())
	if len(old) == len(refs) && (len(refs) == 0 || equality.Semantic.DeepEqual(old, refs)) {
		return nil
	}
	ask := func(verb string, r schema.GroupVersionResource, subresource, namespace, name string) (bool, string, error) {
		decision, reason, err := p.authz.Authorize(ctx, authorizer.AttributesRecord{
			User: a.GetUserInfo(), Verb: verb, Namespace: namespace, APIGroup: r.Group, APIVersion: r.Version, Resource: r.Resource,
			Subresource: subresource, Name: name, ResourceRequest: true,
		})
		return decision == authorizer.DecisionAllow, reason, err
	}
	// Users who create an object could as well not create it.
	if a.GetOperation() != admission.Create {
		if ok, reason, err := ask("delete", a.GetResource(), a.GetSubresource(), a.GetNamespace(), a.GetName()); !ok {
			return forbidden(a, "cannot set an ownerRef on a resource you can't delete: %v, %v", reason, err)
		}
	}
	blocking := newlyBlocking(refs, old)
	if len(blocking) == 0 {
		return nil
	}
	if ok, _, _ := ask("update", schema.GroupVersionResource{Group: "*", Version: "*", Resource: "*"}, "finalizers", "", "*"); ok {
		return nil
	}
	for _, ref := range blocking {
		r, namespaced, err := p.owner(ref)
		if err != nil {
			return forbidden(a,
				"cannot set blockOwnerDeletion in this case because cannot find RESTMapping for APIVersion %s Kind %s: %v",
				ref.APIVersion, ref.Kind, err)
		}
		namespace := ""
		if namespaced {
			namespace = a.GetNamespace()
		}
		if ok, reason, err := ask("update", r, "finalizers", namespace, ref.Name); !ok {
			return forbidden(a,
				"cannot set blockOwnerDeletion if an ownerReference refers to a resource you can't set finalizers on: %v, %v", reason, err)
		}
	}
	return nil
}

// owner returns the resource of an owner.
func (p *owners) owner(ref metav1.OwnerReference) (r schema.GroupVersionResource, namespaced bool, err error) {
	gv, err := schema.ParseGroupVersion(ref.APIVersion)
	if err != nil {
		return r, false, err
	}
	gr, namespaced, ok := p.resource(gv.WithKind(ref.Kind))
	if !ok {
		return r, false, &meta.NoKindMatchError{GroupKind: schema.GroupKind{Group: gv.Group,
			Kind: ref.Kind}, SearchedVersions: []string{gv.Version}}
	}
	return gr.WithVersion(gv.Version), namespaced, nil
}

// newlyBlocking returns the references that block the deletion of their owner, and did not before.
func newlyBlocking(refs, old []metav1.OwnerReference) (blocking []metav1.OwnerReference) {
	blocks := func(ref metav1.OwnerReference) bool { return ref.BlockOwnerDeletion != nil && *ref.BlockOwnerDeletion }
	before := map[string]bool{}
	for _, ref := range old {
		before[string(ref.UID)] = blocks(ref)
	}
	for _, ref := range refs {
		if blocks(ref) && !before[string(ref.UID)] {
			blocking = append(blocking, ref)
		}
	}
	return blocking
}
