package roles

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/klog/v2"
)

// Guard protects roles and bindings against users who want to grant more than they have. A user may
// write a role with the permissions that the user has, or with the verb escalate on it, and bind a
// role with such permissions, or with the verb bind on it. Members of system:masters may do
// everything. Whether the server uses RBAC or another authorizer makes no difference. In the same
// way, only users who may read the parameters of an admission policy may write it or its binding.
type Guard struct {
	rules      *Authorizer
	authorizer authorizer.UnconditionalAuthorizer
	parameters Parameters
}

// NewGuard returns a Guard. The authorizer decides about the verbs escalate and bind, and rules
// has the permissions of all users.
func NewGuard(rules *Authorizer, a authorizer.UnconditionalAuthorizer, p Parameters) *Guard {
	return &Guard{rules: rules, authorizer: a, parameters: p}
}

// Wrap returns the storage of a resource for requests of users. Their writes of roles and
// bindings are checked, and count for requests to this server as soon as they are answered. The
// storage of other resources is returned as it is.
func (g *Guard) Wrap(gr runtimeschema.GroupResource, s rest.StandardStorage) rest.StandardStorage {
	w := &guarded{StandardStorage: s, guard: g, resource: gr}
	switch gr {
	case rbacv1.Resource("roles"), rbacv1.Resource("clusterroles"):
		w.check = g.checkRole
	case rbacv1.Resource("rolebindings"), rbacv1.Resource("clusterrolebindings"):
		w.check = g.checkBinding
	case admissionregistrationv1.Resource("validatingadmissionpolicies"),
		admissionregistrationv1.Resource("validatingadmissionpolicybindings"),
		admissionregistrationv1.Resource("mutatingadmissionpolicies"), admissionregistrationv1.Resource("mutatingadmissionpolicybindings"):
		w.check = g.checkPolicy
	default:
		return s
	}
	return w
}

// guarded is the storage of roles, bindings or policies.
type guarded struct {
	rest.StandardStorage
	guard    *Guard
	resource runtimeschema.GroupResource
	// check returns an error if the user of the context may not write an object.
	check func(ctx context.Context, gr runtimeschema.GroupResource, obj, old runtime.Object) error
}

// Create creates a role or binding.
func (w *guarded) Create(ctx context.Context, obj runtime.Object, validate rest.ValidateObjectFunc,
	o *metav1.CreateOptions) (runtime.Object, error) {
	if !privileged(ctx) {
		if err := w.check(ctx, w.resource, obj, nil); err != nil {
			return nil, err
		}
	}
	out, err := w.StandardStorage.Create(ctx, obj, validate, o)
	if err == nil {
		w.guard.await(ctx, out)
	}
	return out, err
}

// Update updates a role or binding.
func (w *guarded) Update(ctx context.Context, name string, info rest.UpdatedObjectInfo, create rest.ValidateObjectFunc,
	update rest.ValidateObjectUpdateFunc, force bool, o *metav1.UpdateOptions) (runtime.Object, bool, error) {
	if !privileged(ctx) {
		info = rest.WrapUpdatedObjectInfo(info, func(ctx context.Context, obj, old runtime.Object) (runtime.Object, error) {
			if onlyCollected(obj, old) {
				return obj, nil
			}
			if err := w.check(ctx, w.resource, obj, old); err != nil {
				return nil, err
			}
			return obj, nil
		})
	}
	out, created, err := w.StandardStorage.Update(ctx, name, info, create, update, force, o)
	if err == nil {
		w.guard.await(ctx, out)
	}
	return out, created, err
}

// Delete deletes a role or binding.
func (w *guarded) Delete(ctx context.Context, name string, validate rest.ValidateObjectFunc,
	o *metav1.DeleteOptions) (runtime.Object, bool, error) {
	out, done, err := w.StandardStorage.Delete(ctx, name, validate, o)
	if err == nil {
		w.guard.await(ctx, nil)
	}
	return out, done, err
}

// DeleteCollection deletes roles or bindings.
func (w *guarded) DeleteCollection(ctx context.Context, validate rest.ValidateObjectFunc, o *metav1.DeleteOptions,
	which *metainternalversion.ListOptions) (runtime.Object, error) {
	out, err := w.StandardStorage.DeleteCollection(ctx, validate, o, which)
	if err == nil {
		w.guard.await(ctx, nil)
	}
	return out, err
}

// GetCorruptObjDeleter returns what deletes objects that cannot be decoded, or nil.
func (w *guarded) GetCorruptObjDeleter() rest.GracefulDeleter {
	if p, ok := w.StandardStorage.(rest.CorruptObjectDeleterProvider); ok {
		return p.GetCorruptObjDeleter()
	}
	return nil
}

// await waits until the store has what was written: an object, or all if it is nil. The write has
// succeeded, so an error only means that it counts a little later.
func (g *Guard) await(ctx context.Context, written runtime.Object) {
	if m, err := meta.Accessor(written); err == nil && m.GetDeletionTimestamp() == nil {
		if revision, err := strconv.ParseInt(m.GetResourceVersion(), 10, 64); err == nil {
			_ = g.rules.store.Await(ctx, revision)
			return
		}
	}
	_, _ = g.rules.store.Sync(ctx)
}

// privileged reports whether the user of a request is an administrator.
func privileged(ctx context.Context) bool {
	who, ok := apirequest.UserFrom(ctx)
	return ok && slices.Contains(who.GetGroups(), user.SystemPrivilegedGroup)
}

// onlyCollected reports whether an update changes only what the garbage collector changes.
func onlyCollected(obj, old runtime.Object) bool {
	if old == nil {
		return false
	}
	copied := obj.DeepCopyObject()
	to, err := meta.Accessor(copied)
	if err != nil {
		return false
	}
	from, err := meta.Accessor(old)
	if err != nil {
		return false
	}
	to.SetOwnerReferences(from.GetOwnerReferences())
	to.SetFinalizers(from.GetFinalizers())
	to.SetSelfLink(from.GetSelfLink())
	to.SetManagedFields(from.GetManagedFields())
	return equality.Semantic.DeepEqual(copied, old)
}

// checkRole checks the write of a role.
func (g *Guard) checkRole(ctx context.Context, gr runtimeschema.GroupResource, obj, old runtime.Object) error {
	if g.mayEscalate(ctx, gr) {
		return nil
	}
	var name string
	var rules []rbacv1.PolicyRule
	aggregates := false
	switch r := obj.(type) {
	case *rbacv1.Role:
		name, rules = r.Name, r.Rules
	case *rbacv1.ClusterRole:
		before, _ := old.(*rbacv1.ClusterRole)
		name, rules, aggregates = r.Name, r.Rules, hasSelectors(r) || hasSelectors(before)
	default:
		return fmt.Errorf("%T is not a role", obj)
	}
	if err := g.confirm(ctx, rules); err != nil {
		return forbidden(gr, name, err)
	}
	if aggregates {
		// It may get every permission.
		everything := []rbacv1.PolicyRule{
			{Verbs: []string{all}, APIGroups: []string{all}, Resources: []string{all}},
			{Verbs: []string{all}, NonResourceURLs: []string{all}},
		}
		if err := g.confirm(ctx, everything); err != nil {
			return forbidden(gr, name, &escalation{"must have cluster-admin privileges to use the aggregationRule"})
		}
	}
	return nil
}

func hasSelectors(r *rbacv1.ClusterRole) bool {
	return r != nil && r.AggregationRule != nil && len(r.AggregationRule.ClusterRoleSelectors) > 0
}

// checkBinding checks the write of a binding.
func (g *Guard) checkBinding(ctx context.Context, gr runtimeschema.GroupResource, obj, _ runtime.Object) error {
	var name, namespace string
	var ref rbacv1.RoleRef
	switch b := obj.(type) {
	case *rbacv1.RoleBinding:
		name, ref = b.Name, b.RoleRef
		// A new object may not have its namespace yet.
		var ok bool
		if namespace, ok = apirequest.NamespaceFrom(ctx); !ok {
			return apierrors.NewBadRequest("namespace is required")
		}
	case *rbacv1.ClusterRoleBinding:
		name, ref = b.Name, b.RoleRef
	default:
		return fmt.Errorf("%T is not a binding", obj)
	}
	if g.mayBind(ctx, ref, namespace) {
		return nil
	}
	x, err := g.newest(ctx)
	if err != nil {
		return err
	}
	bound := newBinding(namespace, name, ref, nil)
	if ref.Kind == "Role" && namespace == "" {
		return apierrors.NewBadRequest("Namespace parameter required.")
	}
	r := x.roles.get(bound.role)
	if err := resolved(ref, r, storage); err != nil {
		return err
	}
	if err := g.confirm(ctx, r.policy); err != nil {
		return forbidden(gr, name, err)
	}
	return nil
}

// mayEscalate reports whether the user of a request may write roles with any permissions.
func (g *Guard) mayEscalate(ctx context.Context, gr runtimeschema.GroupResource) bool {
	who, ok := apirequest.UserFrom(ctx)
	info, of := apirequest.RequestInfoFrom(ctx)
	if !ok || !of || !info.IsResourceRequest || info.APIGroup != gr.Group || info.Resource != gr.Resource {
		return false
	}
	return g.authorized(ctx, authorizer.AttributesRecord{
		User: who, Verb: "escalate", APIGroup: gr.Group, APIVersion: all, Resource: gr.Resource,
		Name: info.Name, Namespace: info.Namespace, ResourceRequest: true,
	})
}

// mayBind reports whether the user of a request may bind a role with any permissions.
func (g *Guard) mayBind(ctx context.Context, ref rbacv1.RoleRef, namespace string) bool {
	who, ok := apirequest.UserFrom(ctx)
	resource := map[string]string{"Role": "roles", "ClusterRole": "clusterroles"}[ref.Kind]
	if !ok || resource == "" {
		return false
	}
	return g.authorized(ctx, authorizer.AttributesRecord{
		User: who, Verb: "bind", APIGroup: ref.APIGroup, APIVersion: all, Resource: resource,
		Name: ref.Name, Namespace: namespace, ResourceRequest: true,
	})
}

func (g *Guard) authorized(ctx context.Context, a authorizer.AttributesRecord) bool {
	decision, _, err := g.authorizer.Authorize(ctx, a)
	if err != nil {
		klog.FromContext(ctx).Error(err, "Cannot authorize a write of a role or binding", "user", a.User.GetName(), "verb",
			a.Verb, "resource", a.Resource, "namespace", a.Namespace, "name", a.Name)
	}
	return decision == authorizer.DecisionAllow
}

// newest returns an index that is as new as etcd.
func (g *Guard) newest(ctx context.Context) (*index, error) {
	if _, err := g.rules.store.Sync(ctx); err != nil {
		return nil, apierrors.NewInternalError(fmt.Errorf("read roles and bindings: %w", err))
	}
	return g.rules.current()
}

// escalation is the reason why a user may not grant permissions.
type escalation struct{ text string }

func (e *escalation) Error() string { return e.text }

// forbidden returns the error of a request that an escalation prevents. Other errors stay as they
// are.
func forbidden(gr runtimeschema.GroupResource, name string, err error) error {
	if e := (*escalation)(nil); !errors.As(err, &e) {
		return err
	}
	return apierrors.NewForbidden(gr, name, err)
}

// confirm returns an escalation if the user of a request does not have the permissions of rules.
func (g *Guard) confirm(ctx context.Context, rules []rbacv1.PolicyRule) error {
	who, ok := apirequest.UserFrom(ctx)
	if !ok {
		return &escalation{"no user on context"}
	}
	x, err := g.newest(ctx)
	if err != nil {
		return err
	}
	return x.confirm(who, apirequest.NamespaceValue(ctx), rules)
}

// confirm returns an escalation if a user does not have the permissions of rules in a namespace.
func (x *index) confirm(who user.Info, namespace string, rules []rbacv1.PolicyRule) error {
	missing, more := uncovered(x.rules(who, namespace), rules)
	if len(missing) == 0 && !more {
		return nil
	}
	text := fmt.Sprintf("user %q (groups=%q) is attempting to grant RBAC permissions not currently held:\n%s", who.GetName(),
		who.GetGroups(), describe(missing))
	switch {
	case more && len(missing) == 0:
		text = fmt.Sprintf("user %q (groups=%q) is attempting to grant more RBAC permissions than can be checked: use several roles, or rules with shorter lists", who.GetName(), who.GetGroups())
	case more:
		text += "\nand more"
	}
	if errs := x.unresolved(who, namespace, storage); errs != nil {
		text += fmt.Sprintf("; resolution errors: %v", []error{errs})
	}
	return &escalation{text}
}

// Confirm returns an error with Kubernetes' message if a user does not have the permissions of
// rules in a namespace.
func (a *Authorizer) Confirm(who user.Info, namespace string, rules []rbacv1.PolicyRule) error {
	x, err := a.current()
	if err != nil {
		return err
	}
	return x.confirm(who, namespace, rules)
}
