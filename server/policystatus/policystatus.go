// Package policystatus writes the status of validating admission policies, as the controller
// validatingadmissionpolicy-status of kube-controller-manager does: warnings about type errors in their
// expressions, for the kinds that their rules name.
//
// The type checker is that of Kubernetes, so that limits and texts are the same, except that the names of types
// have no random number. In Kubernetes a policy is checked when its spec changes. Here it is also checked when a
// CRD that it concerns does.
//
// The status is written if the spec is newer than the status or the warnings have changed. The warnings depend only on the
// policy and the CRDs, so servers with the same etcd write the same.
package policystatus

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"

	v1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/klog/v2"

	"espalier.dev/crd"
	"espalier.dev/kinds"
	"espalier.dev/server/follow"
	"espalier.dev/server/keys"
	"espalier.dev/server/objects"
	"espalier.dev/store"
)

// Manager is the field manager of the status, as in Kubernetes.
const Manager = "validatingadmissionpolicy-status"

// Controller checks policies. The follower's goroutines write policies; see [follow.Follower].
type Controller struct {
	objects  *objects.Objects
	resource *objects.Resource
	follower *follow.Follower
	checker  *checker

	// mu guards what follows.
	mu       sync.Mutex
	policies map[string]*v1.ValidatingAdmissionPolicy
	// stale are the policies whose warnings may have changed although their spec has not.
	stale map[string]bool
}

// New returns a Controller. It begins when ready is closed. served are Kubernetes' own resources that are
// served.
func New(o *objects.Objects, served []*kinds.Resource, ready <-chan struct{}) *Controller {
	c := &Controller{objects: o, resource: o.Kind(v1.SchemeGroupVersion.WithKind("ValidatingAdmissionPolicy")), checker: newChecker(o.Catalog, served, o.Definition)}
	c.follower = follow.New(follow.Config{Store: o.Store, Ready: ready, Reset: c.reset, Take: c.take, Begin: c.begin})
	return c
}

// Run follows the policies until ctx or the store ends.
func (c *Controller) Run(ctx context.Context) error { return c.follower.Run(ctx) }

// Changed checks again the policies that CRDs concern. No names mean that all CRDs may have changed.
func (c *Controller) Changed(_ *crd.Catalog, names ...string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for name, p := range c.policies {
		if len(names) == 0 || slices.ContainsFunc(names, func(crd string) bool { return concerns(crd, p) }) {
			c.recheck(name)
		}
	}
}

// recheck checks a policy although its spec is the same. c.mu must be held.
func (c *Controller) recheck(name string) {
	c.stale[name] = true
	c.follower.Add(name)
}

// concerns reports whether the kind of a policy's params, or the kinds that its rules name, may be that of
// a CRD.
func concerns(crd string, p *v1.ValidatingAdmissionPolicy) bool {
	plural, group, _ := strings.Cut(crd, ".")
	if k := p.Spec.ParamKind; k != nil {
		if gv, err := runtimeschema.ParseGroupVersion(k.APIVersion); err == nil && gv.Group == group {
			return true
		}
	}
	return p.Spec.MatchConstraints != nil && slices.ContainsFunc(p.Spec.MatchConstraints.ResourceRules, func(r v1.NamedRuleWithOperations) bool {
		// The core group stands for all groups: see [kindMapper].
		return slices.Contains(r.APIGroups, group) || slices.Contains(r.APIGroups, "") && slices.Contains(r.Resources, plural)
	})
}

func (c *Controller) reset(s *store.Snapshot) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.policies, c.stale = map[string]*v1.ValidatingAdmissionPolicy{}, map[string]bool{}
	for e := range s.Range(string(c.resource.Prefix), "") {
		name := keys.Name(e.Key)
		c.put(name, e)
		if p := c.policies[name]; p != nil && !observed(p) {
			c.follower.Add(name)
		} else if p != nil && c.mayBeCustom(p) {
			c.recheck(name) // CRDs may have changed while no server was running
		}
	}
}

// mayBeCustom reports whether a policy may concern custom resources: those of groups that have a dot and are
// not Kubernetes' own.
func (c *Controller) mayBeCustom(p *v1.ValidatingAdmissionPolicy) bool {
	groups := []string{}
	if k := p.Spec.ParamKind; k != nil {
		group, _, _ := strings.Cut(k.APIVersion, "/")
		groups = append(groups, group)
	}
	if p.Spec.MatchConstraints != nil {
		for _, r := range p.Spec.MatchConstraints.ResourceRules {
			groups = append(groups, r.APIGroups...)
		}
	}
	return slices.ContainsFunc(groups, func(g string) bool { return strings.Contains(g, ".") && !c.checker.owns(g) })
}

func (c *Controller) take(e *store.Event) {
	_, name, ok := c.resource.Prefix.Cut(e.Key())
	if !ok {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.put(name, e.Entry)
	if p := c.policies[name]; p != nil && !observed(p) {
		c.follower.Add(name)
	}
}

// put takes in the entry of a policy, which is nil if it was deleted. c.mu must be held.
func (c *Controller) put(name string, e *store.Entry) {
	delete(c.policies, name)
	if e == nil {
		delete(c.stale, name)
		return
	}
	obj, err := c.objects.Kinds.Decode(c.resource.GroupResource(), e)
	if err != nil {
		klog.ErrorS(err, "The types of a policy are not checked, because it cannot be read", "name", name)
		return
	}
	if p, ok := obj.(*v1.ValidatingAdmissionPolicy); ok {
		c.policies[name] = p
	}
}

// observed reports whether the status of a policy is as new as its spec.
func observed(p *v1.ValidatingAdmissionPolicy) bool {
	return p.Generation <= p.Status.ObservedGeneration
}

// errCurrent ends the update of a policy whose status is right, or which has changed: it is then checked
// again.
var errCurrent = errors.New("the status is current")

// begin returns what checks a policy, and writes its status. A check may take a while: it depends on the number
// of expressions, of variables and of kinds.
func (c *Controller) begin(_ context.Context, name string) (finish func(context.Context) error, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p, stale := c.policies[name], c.stale[name]
	delete(c.stale, name)
	if p == nil || observed(p) && !stale {
		return nil, nil
	}
	return func(ctx context.Context) error { return c.finish(ctx, p, stale) }, nil
}

// finish checks a policy, and writes its status. If it does neither, because of an error or a panic, the policy is
// checked again.
func (c *Controller) finish(ctx context.Context, p *v1.ValidatingAdmissionPolicy, stale bool) error {
	done := false
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if stale && !done && c.policies[p.Name] != nil {
			c.stale[p.Name] = true
		}
	}()
	warnings, err := c.checker.check(ctx, p)
	if err == nil {
		err = c.write(ctx, p, warnings)
	}
	if errors.Is(err, errCurrent) || apierrors.IsNotFound(err) {
		err = nil
	}
	done = err == nil
	return err
}

// write writes the status of a policy that has been checked, unless it is right.
func (c *Controller) write(ctx context.Context, checked *v1.ValidatingAdmissionPolicy, warnings []v1.ExpressionWarning) error {
	status, err := c.objects.Kinds.Subresource(c.resource.GroupVersionResource, "status")
	if err != nil {
		return err
	}
	return objects.Update(apirequest.WithNamespace(ctx, metav1.NamespaceNone), status, checked.Name, func(obj metav1.Object) error {
		p := obj.(*v1.ValidatingAdmissionPolicy)
		if p.UID != checked.UID || p.Generation != checked.Generation || isRight(p, warnings) {
			return errCurrent
		}
		p.Status.ObservedGeneration, p.Status.TypeChecking = p.Generation, &v1.TypeChecking{ExpressionWarnings: warnings}
		own(p, len(warnings) > 0)
		return nil
	})
}

// isRight reports whether a policy has the warnings, and its status is as new as its spec.
func isRight(p *v1.ValidatingAdmissionPolicy, warnings []v1.ExpressionWarning) bool {
	return observed(p) && p.Status.TypeChecking != nil && slices.Equal(p.Status.TypeChecking.ExpressionWarnings, warnings)
}

// own makes the manager the owner of what the status has, as its server-side apply would.
func own(p *v1.ValidatingAdmissionPolicy, warns bool) {
	fields := `{"f:status":{"f:observedGeneration":{},"f:typeChecking":{}}}`
	if warns {
		fields = `{"f:status":{"f:observedGeneration":{},"f:typeChecking":{"f:expressionWarnings":{}}}}`
	}
	now := metav1.Now()
	entry := metav1.ManagedFieldsEntry{
		Manager: Manager, Operation: metav1.ManagedFieldsOperationApply, APIVersion: v1.SchemeGroupVersion.String(), Time: &now,
		Subresource: "status", FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(fields),
	}
	p.ManagedFields = slices.DeleteFunc(p.ManagedFields, func(m metav1.ManagedFieldsEntry) bool {
		return m.Manager == Manager && m.Subresource == "status" && m.Operation == entry.Operation
	})
	p.ManagedFields = append([]metav1.ManagedFieldsEntry{entry}, p.ManagedFields...)
}
