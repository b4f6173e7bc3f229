package roles

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"espalier.dev/server/keys"
	"espalier.dev/store"
)

// ErrLoading is returned before all roles and bindings are loaded.
var ErrLoading = errors.New("roles and bindings are being loaded: try again")

// Authorizer authorizes requests by the roles and bindings in a store. It is safe for concurrent
// use. It has no goroutines, and needs no Close: its watchers end with the store.
type Authorizer struct {
	store *store.Store
	// roles and bindings are their prefixes in the store.
	roles, bindings []keys.Prefix
	// index is the newest index, or nil before the first one. stale is set while it is being
	// replaced.
	index atomic.Pointer[index]
	stale atomic.Bool
	// watchers has those of all prefixes, or nil before the first index.
	watchers atomic.Pointer[[]*store.Watcher]

	// mu guards the replacement of the index.
	mu sync.Mutex
	// later has the events that were received after the revision of the index.
	later []*store.Event
}

var (
	_ authorizer.Authorizer   = &Authorizer{}
	_ authorizer.RuleResolver = &Authorizer{}
)

// New returns an Authorizer. It reads the store when a request needs it.
func New(s *store.Store) *Authorizer {
	prefix := func(plural string) keys.Prefix {
		return keys.Root(s.Prefix()).Builtin(rbacv1.Resource(plural))
	}
	return &Authorizer{
		store: s, roles: []keys.Prefix{prefix("clusterroles"), prefix("roles")},
		bindings: []keys.Prefix{prefix("clusterrolebindings"), prefix("rolebindings")},
	}
}

// Authorize allows what a rule of the user's roles allows, and has no opinion about everything
// else.
func (a *Authorizer) Authorize(_ context.Context, attributes authorizer.Attributes) (authorizer.Decision, string, error) {
	x, err := a.current()
	if err != nil {
		return authorizer.DecisionNoOpinion, "", err
	}
	who := attributes.GetUser()
	if who == nil {
		return authorizer.DecisionNoOpinion, "", errors.New("the request has no user")
	}
	q := newRequest(attributes)
	reason, unresolved := x.allowed(&q, who, attributes.GetNamespace())
	if reason != "" {
		return authorizer.DecisionAllow, reason, nil
	}
	if unresolved {
		reason = fmt.Sprintf("RBAC: %v", x.unresolved(who, attributes.GetNamespace(), lister))
	}
	return authorizer.DecisionNoOpinion, reason, nil
}

// ConditionsAwareAuthorize is the same as Authorize: there are no conditions.
func (a *Authorizer) ConditionsAwareAuthorize(ctx context.Context, attributes authorizer.Attributes) authorizer.ConditionsAwareDecision {
	return authorizer.ConditionsAwareDecisionFromParts(a.Authorize(ctx, attributes))
}

// EvaluateConditions denies: no decision has conditions.
func (a *Authorizer) EvaluateConditions(context.Context, authorizer.ConditionsAwareDecision,
	authorizer.ConditionsData) (authorizer.Decision, string, error) {
	return authorizer.DecisionDeny, "", authorizer.ErrorConditionEvaluationNotSupported
}

// RulesFor returns the rules that a user has in a namespace. An error names the roles that could
// not be resolved; the rules of all others are returned with it.
func (a *Authorizer) RulesFor(_ context.Context, who user.Info,
	namespace string) (resources []authorizer.ResourceRuleInfo, paths []authorizer.NonResourceRuleInfo, incomplete bool, err error) {
	x, err := a.current()
	if err != nil {
		return nil, nil, true, err
	}
	for _, p := range x.rules(who, namespace) {
		if len(p.Resources) > 0 {
			resources = append(resources, &authorizer.DefaultResourceRuleInfo{Verbs: p.Verbs,
				APIGroups: p.APIGroups, Resources: p.Resources, ResourceNames: p.ResourceNames})
		}
		if len(p.NonResourceURLs) > 0 {
			paths = append(paths, &authorizer.DefaultNonResourceRuleInfo{Verbs: p.Verbs, NonResourceURLs: p.NonResourceURLs})
		}
	}
	if missing := x.unresolved(who, namespace, lister); missing != nil {
		err = missing
	}
	return resources, paths, false, err
}

// rules returns the rules that a user has in a namespace. They must not be changed.
func (x *index) rules(who user.Info, namespace string) (out []rbacv1.PolicyRule) {
	x.visit(who, namespace, func(_ *binding, r *role) bool {
		if r != nil && r.err == nil {
			out = append(out, r.policy...)
		}
		return true
	})
	return out
}

// naming returns the name of a resource in errors.
type naming func(plural string) string

// Kubernetes' errors name the kind if they come from an informer, and the resource if they come
// from the storage.
func lister(plural string) string  { return plural[:len(plural)-1] }
func storage(plural string) string { return plural }

// unresolved returns an error about the roles of a user that could not be resolved, or nil.
func (x *index) unresolved(who user.Info, namespace string, name naming) utilerrors.Aggregate {
	var errs []error
	x.visit(who, namespace, func(b *binding, r *role) bool {
		if err := resolved(b.ref, r, name); err != nil {
			errs = append(errs, err)
		}
		return true
	})
	return utilerrors.NewAggregate(errs)
}

// resolved returns an error if the role of a reference does not exist or cannot be read.
func resolved(ref rbacv1.RoleRef, r *role, name naming) error {
	switch {
	case ref.Kind != "Role" && ref.Kind != "ClusterRole":
		return fmt.Errorf("unsupported role reference kind: %q", ref.Kind)
	case r == nil && ref.Kind == "Role":
		return apierrors.NewNotFound(rbacv1.Resource(name("roles")), ref.Name)
	case r == nil:
		return apierrors.NewNotFound(rbacv1.Resource(name("clusterroles")), ref.Name)
	}
	return r.err
}
