package roles

import (
	"context"
	"fmt"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"
)

// Parameters finds the parameters of admission policies.
type Parameters struct {
	// Resource returns the resource of a kind, and reports whether it is namespaced and exists.
	Resource func(runtimeschema.GroupVersionKind) (r runtimeschema.GroupResource, namespaced, found bool)
	// Get returns a stored object.
	Get func(ctx context.Context, r runtimeschema.GroupResource, namespace, name string) (runtime.Object, error)
}

// policy is what the check of a policy needs to know about it.
type policy struct {
	kind      string
	paramKind *admissionregistrationv1.ParamKind
	paramRef  *admissionregistrationv1.ParamRef
	// name and resource are those of the policy that a binding binds.
	name     string
	resource runtimeschema.GroupResource
}

func newPolicy(obj runtime.Object) policy {
	resource := admissionregistrationv1.Resource
	switch o := obj.(type) {
	case *admissionregistrationv1.ValidatingAdmissionPolicy:
		return policy{kind: "ValidatingAdmissionPolicy", paramKind: o.Spec.ParamKind}
	case *admissionregistrationv1.MutatingAdmissionPolicy:
		return policy{kind: "MutatingAdmissionPolicy", paramKind: o.Spec.ParamKind}
	case *admissionregistrationv1.ValidatingAdmissionPolicyBinding:
		return policy{kind: "ValidatingAdmissionPolicyBinding", paramRef: o.Spec.ParamRef,
			name: o.Spec.PolicyName, resource: resource("validatingadmissionpolicies")}
	case *admissionregistrationv1.MutatingAdmissionPolicyBinding:
		return policy{kind: "MutatingAdmissionPolicyBinding", paramRef: o.Spec.ParamRef,
			name: o.Spec.PolicyName, resource: resource("mutatingadmissionpolicies")}
	}
	return policy{}
}

// checkPolicy returns an error if a policy, or its binding, would read parameters that the user of
// the request may not read: its expressions and messages would show them.
func (g *Guard) checkPolicy(ctx context.Context, gr runtimeschema.GroupResource, obj, old runtime.Object) error {
	p, before := newPolicy(obj), newPolicy(old)
	unchanged := p.name == before.name && equality.Semantic.DeepEqual(p.paramKind, before.paramKind) &&
		equality.Semantic.DeepEqual(p.paramRef, before.paramRef)
	if p.paramKind == nil && p.paramRef == nil || old != nil && unchanged {
		return nil
	}
	who, ok := apirequest.UserFrom(ctx)
	if !ok {
		return apierrors.NewInternalError(fmt.Errorf("no user wants to write %s", gr))
	}
	attributes := authorizer.AttributesRecord{User: who, Verb: "get", Name: all, Namespace: all, ResourceRequest: true}
	path, message := field.NewPath("spec", "paramKind"), ""
	if p.paramRef != nil {
		path = field.NewPath("spec", "paramRef")
		attributes.Name, attributes.Namespace = p.paramRef.Name, p.paramRef.Namespace
		if p.paramRef.Name == "" {
			attributes.Verb = "list"
		}
		var unknown string
		p.paramKind, unknown = g.paramKindOf(ctx, p)
		message = fmt.Sprintf("user %v does not have %q permission on the object referenced by paramRef", who, attributes.Verb)
		if unknown != "" {
			message = fmt.Sprintf("%s to determine minimum required permissions and user %v does not have %q permission for all groups, versions and resources", unknown, who, attributes.Verb)
		}
	} else {
		message = fmt.Sprintf(`user %v must have "get" permission on all objects of the referenced paramKind (kind=%s, apiVersion=%s)`,
			who, p.paramKind.Kind, p.paramKind.APIVersion)
	}
	attributes.APIGroup, attributes.APIVersion, attributes.Resource = all, all, all
	if p.paramKind != nil {
		if gv, err := runtimeschema.ParseGroupVersion(p.paramKind.APIVersion); err == nil {
			attributes.APIGroup, attributes.APIVersion = gv.Group, gv.Version
			if r, _, found := g.parameters.Resource(gv.WithKind(p.paramKind.Kind)); found {
				attributes.Resource = r.Resource
			}
		}
	}
	decision, _, err := g.authorizer.Authorize(ctx, attributes)
	switch {
	case decision == authorizer.DecisionAllow && err == nil:
		return nil
	case err != nil:
		message = err.Error()
	}
	name := ""
	if m, err := meta.Accessor(obj); err == nil {
		name = m.GetName()
	}
	return apierrors.NewInvalid(runtimeschema.GroupKind{Group: gr.Group, Kind: p.kind}, name,
		field.ErrorList{field.Forbidden(path, message)})
}

// paramKindOf returns the kind of the parameters of a binding, which its policy has. If it is not
// known, the second result says why.
func (g *Guard) paramKindOf(ctx context.Context, p policy) (kind *admissionregistrationv1.ParamKind, unknown string) {
	obj, err := g.parameters.Get(ctx, p.resource, "", p.name)
	if err != nil {
		return nil, "unable to get policy " + p.name
	}
	if kind = newPolicy(obj).paramKind; kind == nil {
		return nil, ""
	}
	gv, err := runtimeschema.ParseGroupVersion(kind.APIVersion)
	if err != nil {
		return nil, fmt.Sprintf("unable to parse paramKind %v", kind)
	}
	if _, _, found := g.parameters.Resource(gv.WithKind(kind.Kind)); !found {
		return kind, fmt.Sprintf("unable to resolve paramKind %v", kind)
	}
	return kind, ""
}
