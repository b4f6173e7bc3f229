package quota

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/resourcequota"
	quotaapi "k8s.io/apiserver/pkg/admission/plugin/resourcequota/apis/resourcequota"
	"k8s.io/apiserver/pkg/admission/plugin/resourcequota/apis/resourcequota/validation"
	quota "k8s.io/apiserver/pkg/quota/v1"
)

// Quotas has the stored quotas.
type Quotas interface {
	// List returns the quotas of a namespace. They may be changed. They include everything
	// that this server has written.
	List(ctx context.Context, namespace string) ([]corev1.ResourceQuota, error)
	// Sync makes List include what other servers have written.
	Sync(ctx context.Context) error
	// WriteStatus stores the status of a quota. The error is a Conflict error if the quota
	// has changed since it was read.
	WriteStatus(ctx context.Context, q *corev1.ResourceQuota) error
}

// Config configures [NewAdmission].
type Config struct {
	Quotas Quotas
	// Objects lists stored objects.
	Objects List
	// Charges is where charges are kept for the controller. Keep is set if there is one.
	Charges *Charges
	Keep    bool
	// Key returns the key by which an object is stored.
	Key func(r schema.GroupResource, namespace, name string) string
	// Configuration is the configuration of the plugin, or empty.
	Configuration []byte
}

// Admission is the admission plugin ResourceQuota.
type Admission struct {
	*admission.Handler
	config  Config
	limited []quotaapi.LimitedResource
}

var _ admission.ValidationInterface = &Admission{}

// NewAdmission returns the admission plugin.
func NewAdmission(c Config) (*Admission, error) {
	var in io.Reader
	if len(c.Configuration) > 0 {
		in = bytes.NewReader(c.Configuration)
	}
	parsed, err := resourcequota.LoadConfiguration(in)
	if err != nil {
		return nil, err
	}
	if errs := validation.ValidateConfiguration(parsed); len(errs) > 0 {
		return nil, errs.ToAggregate()
	}
	return &Admission{admission.NewHandler(admission.Create, admission.Update), c, parsed.LimitedResources}, nil
}

// request is a request that waits to be charged.
type request struct {
	admission.Attributes
	ctx       context.Context
	evaluator quota.Evaluator
	used      map[string]corev1.ResourceList
	// done is closed when err is set.
	done chan struct{}
	err  error
}

// chargeTime limits the time of one change of the quotas of a namespace.
const chargeTime = 10 * time.Second

// Validate implements admission.ValidationInterface.
func (p *Admission) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	resource := a.GetResource().GroupResource()
	if a.GetNamespace() == "" || a.GetKind().GroupKind() == (schema.GroupKind{Kind: "Namespace"}) || ignored(resource) {
		return nil
	}
	evaluator := Evaluator(resource, p.config.Objects, nil)
	if !evaluator.Handles(a) {
		return nil
	}
	if len(p.limited) == 0 {
		if all, err := p.config.Quotas.List(ctx, a.GetNamespace()); err != nil || len(all) == 0 {
			return err
		}
	}
	r := &request{Attributes: a, ctx: ctx, evaluator: evaluator, used: map[string]corev1.ResourceList{}, done: make(chan struct{})}
	s := p.config.Charges.enter(a.GetNamespace())
	defer p.config.Charges.leave(a.GetNamespace(), s)
	p.config.Charges.wait(s, r)
	select {
	case s.turn <- struct{}{}:
		// It may be that another request has handled this one in its turn.
		p.handle(ctx, a.GetNamespace(), p.config.Charges.take(s))
		<-s.turn
	case <-r.done:
		return r.err
	case <-ctx.Done():
		if p.config.Charges.withdraw(s, r) {
			return apierrors.NewTimeoutError("the request waited too long for the resource quotas of its namespace", 1)
		}
	}
	<-r.done
	return r.err
}

// handle charges requests to the quotas of their namespace. It belongs to all of them, so it
// does not end with the one in whose turn it runs.
func (p *Admission) handle(ctx context.Context, namespace string, requests []*request) {
	if len(requests) == 0 {
		return
	}
	defer func() {
		for _, r := range requests {
			close(r.done)
		}
	}()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), chargeTime)
	defer cancel()
	open := requests
	written := map[string]bool{}
	for {
		all, err := p.config.Quotas.List(ctx, namespace)
		if err == nil {
			open, err = p.charge(ctx, namespace, all, open, written)
		}
		if err == nil && len(open) > 0 {
			// A quota has changed meanwhile.
			err = p.config.Quotas.Sync(ctx)
		}
		if err != nil {
			for _, r := range open {
				r.err = apierrors.NewInternalError(fmt.Errorf("charge the resource quotas of namespace %s: %w", namespace, err))
			}
			open = nil
		}
		if len(open) == 0 {
			break
		}
	}
	for _, r := range requests {
		p.keep(namespace, r)
	}
}

// charge checks requests against quotas, except those that were written before, and writes what is
// used then. It returns the requests that have to be checked again, because a quota has changed.
func (p *Admission) charge(ctx context.Context, namespace string, all []corev1.ResourceQuota,
	requests []*request, written map[string]bool) (again []*request, err error) {
	var quotas []corev1.ResourceQuota
	for _, q := range all {
		if !written[q.Name] {
			quotas = append(quotas, q)
		}
	}
	limited := p.limited
	if len(written) > 0 {
		limited = nil // that a quota covers the request was checked before
	}
	running := quotas
	var charged []*request
	for _, r := range requests {
		next, err := resourcequota.CheckRequest(running, r.Attributes, r.evaluator, limited)
		if err != nil {
			r.err = err
			continue
		}
		if r.IsDryRun() {
			continue
		}
		for i := range next {
			if delta := quota.RemoveZeros(quota.Subtract(next[i].Status.Used, running[i].Status.Used)); len(delta) > 0 {
				r.used[next[i].Name] = delta
			}
		}
		charged = append(charged, r)
		running = next
	}
	for i := range running {
		if quota.Equals(running[i].Status.Used, quotas[i].Status.Used) {
			continue
		}
		switch err := p.config.Quotas.WriteStatus(ctx, &running[i]); {
		case err == nil:
			written[running[i].Name] = true
		case apierrors.IsConflict(err), apierrors.IsNotFound(err):
			for _, r := range charged {
				delete(r.used, running[i].Name)
			}
			again = charged
		default:
			return charged, err
		}
	}
	return again, nil
}

// keep keeps the charge of a request until its object is stored.
func (p *Admission) keep(namespace string, r *request) {
	if !p.config.Keep || len(r.used) == 0 {
		return
	}
	ch := &charge{namespace: namespace, create: r.GetOperation() == admission.Create, used: r.used}
	if m, err := meta.Accessor(r.GetObject()); err == nil {
		ch.uid = m.GetUID()
		ch.key = p.config.Key(r.GetResource().GroupResource(), namespace, m.GetName())
	}
	ctx := r.ctx
	if r.err != nil {
		// It was charged to one quota and rejected by another one.
		ended, cancel := context.WithCancel(ctx)
		cancel()
		ctx = ended
	}
	p.config.Charges.add(ctx, ch)
}
