// Package aggregation fills in the rules of aggregated cluster roles.
package aggregation

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/klog/v2"

	"espalier.dev/server/follow"
	"espalier.dev/server/keys"
	"espalier.dev/server/objects"
	"espalier.dev/server/roles"
	"espalier.dev/store"
)

// Controller keeps the rules of cluster roles with an aggregationRule equal to those of the
// cluster roles that it selects. If several servers run it, all of them write the same rules.
type Controller struct {
	objects  *objects.Objects
	follower *follow.Follower
	resource *objects.Resource

	// roles has all cluster roles that can be read, and selectors those with an aggregationRule.
	// The follower changes them between the calls of handle.
	roles     map[string]*rbacv1.ClusterRole
	selectors map[string][]labels.Selector
}

// New returns the controller. It begins when ready is closed.
func New(o *objects.Objects, ready <-chan struct{}) *Controller {
	c := &Controller{objects: o, resource: o.Kind(rbacv1.SchemeGroupVersion.WithKind("ClusterRole"))}
	c.follower = follow.New(follow.Config{Store: o.Store, Ready: ready, Reset: c.reset, Take: c.take, Handle: c.handle})
	return c
}

// Run follows the cluster roles until ctx or the store ends.
func (c *Controller) Run(ctx context.Context) error { return c.follower.Run(ctx) }

func (c *Controller) reset(s *store.Snapshot) {
	c.roles, c.selectors = map[string]*rbacv1.ClusterRole{}, map[string][]labels.Selector{}
	for e := range s.Range(string(c.resource.Prefix), "") {
		c.put(keys.Name(e.Key), e)
	}
	for name := range c.selectors {
		c.follower.Add(name)
	}
}

func (c *Controller) take(e *store.Event) {
	_, name, ok := c.resource.Prefix.Cut(e.Key())
	if !ok {
		return
	}
	old := c.roles[name]
	c.put(name, e.Entry)
	c.changed(name, old, c.roles[name])
}

// put takes in the entry of a cluster role, which is nil if it was deleted.
func (c *Controller) put(name string, e *store.Entry) {
	delete(c.roles, name)
	delete(c.selectors, name)
	if e == nil {
		return
	}
	role := &rbacv1.ClusterRole{}
	if err := roles.Decode(e, "ClusterRole", role); err != nil {
		klog.ErrorS(err, "A cluster role is not aggregated, because it cannot be read", "name", name)
		return
	}
	c.roles[name] = role
	if role.AggregationRule == nil {
		return
	}
	selectors, err := compile(role.AggregationRule)
	if err != nil {
		klog.ErrorS(err, "A cluster role is not filled in, because its aggregationRule is invalid", "name", name)
		return
	}
	c.selectors[name] = selectors
}

// compile returns the selectors of an aggregation rule.
func compile(r *rbacv1.AggregationRule) (out []labels.Selector, err error) {
	for i := range r.ClusterRoleSelectors {
		s, err := metav1.LabelSelectorAsSelector(&r.ClusterRoleSelectors[i])
		if err != nil {
			return nil, fmt.Errorf("aggregationRule.clusterRoleSelectors[%d]: %w", i, err)
		}
		out = append(out, s)
	}
	return out, nil
}

// changed puts the cluster roles into the queue that a change concerns: the changed one, and those
// that selected it before or do so now.
func (c *Controller) changed(name string, old, changed *rbacv1.ClusterRole) {
	if c.selectors[name] != nil {
		c.follower.Add(name)
	}
	if old != nil && changed != nil && maps.Equal(old.Labels, changed.Labels) && equality.Semantic.DeepEqual(old.Rules, changed.Rules) {
		return
	}
	for other, selectors := range c.selectors {
		if other != name && (selects(selectors, old) || selects(selectors, changed)) {
			c.follower.Add(other)
		}
	}
}

func selects(selectors []labels.Selector, role *rbacv1.ClusterRole) bool {
	return role != nil && slices.ContainsFunc(selectors, func(s labels.Selector) bool { return s.Matches(labels.Set(role.Labels)) })
}

// errCorrect ends the update of a cluster role that has the right rules.
var errCorrect = errors.New("the rules are correct")

// handle fills in the rules of a cluster role.
func (c *Controller) handle(ctx context.Context, name string) error {
	if role := c.roles[name]; role == nil || c.correct(role) {
		return nil
	}
	err := c.objects.Update(ctx, c.resource, "", name, func(obj metav1.Object) error {
		role, ok := obj.(*rbacv1.ClusterRole)
		if !ok || c.correct(role) {
			return errCorrect
		}
		role.Rules = c.rules(role)
		return nil
	})
	if errors.Is(err, errCorrect) || apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// correct reports whether a cluster role has the rules that it should have.
func (c *Controller) correct(role *rbacv1.ClusterRole) bool {
	if role.AggregationRule == nil {
		return true
	}
	if _, err := compile(role.AggregationRule); err != nil {
		return true
	}
	return equality.Semantic.DeepEqual(role.Rules, c.rules(role))
}

// rules returns the rules of the cluster roles that an aggregated one selects: in the order of its
// selectors, then of their names, and each of them once.
func (c *Controller) rules(role *rbacv1.ClusterRole) []rbacv1.PolicyRule {
	selectors, _ := compile(role.AggregationRule) // checked by correct
	out, seen := []rbacv1.PolicyRule{}, map[string]bool{}
	names := slices.Sorted(maps.Keys(c.roles))
	for _, s := range selectors {
		for _, name := range names {
			if name == role.Name || !s.Matches(labels.Set(c.roles[name].Labels)) {
				continue
			}
			for _, r := range c.roles[name].Rules {
				if key := identity(&r); !seen[key] {
					seen[key] = true
					out = append(out, *r.DeepCopy())
				}
			}
		}
	}
	return out
}

// identity returns a text that is equal for equal rules.
func identity(r *rbacv1.PolicyRule) string {
	return fmt.Sprintf("%q %q %q %q %q", r.Verbs, r.APIGroups, r.Resources, r.ResourceNames, r.NonResourceURLs)
}
