package policies

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/warning"

	"espalier.dev/api"
	"espalier.dev/crd"
	"espalier.dev/kinds"
	"espalier.dev/schema"
)

// Request is a request that creates an object, or replaces another one.
type Request struct {
	// Object is the object in JSON, and Old the one that it replaces, or nil.
	Object, Old []byte
	// Subresource is status for an update of the status, or empty.
	Subresource string
	// Namespace is the namespace of an object that has none; "default" if it is empty.
	Namespace string
	// User sends the request: the administrator of a server, if it is nil.
	User *User
	// Definition is the CRD of the object; that of [Config], if it is nil.
	Definition *crd.Definition
	// Apply is set if the object is a manifest, which is applied: it keeps what the server has
	// generated for the old one.
	Apply bool
}

// User is a user who sends a request.
type User struct {
	Name, UID string
	// Groups are the groups of the user but for those that every user has. A service account without
	// groups has those of service accounts.
	Groups []string
}

// Administrator returns the user of requests that name none.
func Administrator() *User {
	return &User{Name: "espalier-admin", Groups: []string{user.SystemPrivilegedGroup, user.AllAuthenticated}}
}

// info returns the user for k8s.io/apiserver, with the groups that the API server adds to those of a
// user who is impersonated.
func (u *User) info() user.Info {
	groups := slices.Clip(u.Groups)
	if namespace, _, err := serviceaccount.SplitUsername(u.Name); err == nil && len(groups) == 0 {
		groups = serviceaccount.MakeGroupNames(namespace)
	}
	all := user.AllAuthenticated
	if u.Name == user.Anonymous {
		all = user.AllUnauthenticated
	}
	if !slices.Contains(groups, all) && !slices.Contains(groups, user.AllUnauthenticated) {
		groups = append(groups, all)
	}
	return &user.DefaultInfo{Name: u.Name, UID: u.UID, Groups: groups}
}

// UndecodableError is the error about a request that the API server rejects before admission.
type UndecodableError struct{ Err error }

func (e *UndecodableError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *UndecodableError) Unwrap() error { return e.Err }

// subject is the object of a request, of a CRD or of one of Kubernetes' own kinds.
type subject interface {
	kind() runtimeschema.GroupVersionKind
	resource() runtimeschema.GroupVersionResource
	objects() (obj, old runtime.Object)
	interfaces() admission.ObjectInterfaces
	// mutated is called after mutation, and returns why the result is malformed.
	mutated() error
	// encode returns the object in JSON of the version of the request.
	encode() ([]byte, error)
	// prepare does what the API server does before validation.
	prepare() error
	// result returns the object without what only a server knows.
	result() (schema.Object, error)
}

// Evaluate does what the policies do to a request. An object that cannot be decoded is an
// [UndecodableError]. The API server validates an object after mutating policies have changed it, and
// evaluates validating policies if it is valid. Evaluate does not validate it.
func (e *Evaluator) Evaluate(ctx context.Context, r Request) (*Result, error) {
	s, err := e.subject(&r)
	if err != nil {
		return nil, &UndecodableError{err}
	}
	result := &Result{}
	if Exempt(s.resource().GroupResource()) {
		result.Object, err = s.result()
		return result, err
	}
	rec := &record{result: result, types: e.customTypes(s)}
	ctx = warning.WithWarningRecorder(withRecord(ctx, rec), rec)
	err = e.mutate(ctx, r, s, rec)
	if err == nil {
		err = e.callWebhooks(ctx, r, s, rec, true)
	}
	if err != nil {
		return result, e.reject(result, s, err)
	}
	if err := s.prepare(); err != nil {
		return nil, &UndecodableError{err}
	}
	err = e.validate(ctx, r, s, rec)
	if err == nil {
		err = e.callWebhooks(ctx, r, s, rec, false)
	}
	return result, e.reject(result, s, err)
}

// reject completes a result. It returns errors that are not about the request.
func (e *Evaluator) reject(result *Result, s subject, err error) error {
	obj, failed := s.result()
	if failed != nil {
		return failed
	}
	result.Object = obj
	if err == nil {
		return nil
	}
	if !errors.As(err, &result.Rejected) {
		return err
	}
	// The first denial has the message. What has none failed before an expression was evaluated.
	for _, message := range causesOf(result.Rejected) {
		known := slices.ContainsFunc(result.Decisions, func(d Decision) bool { return d.Action == Deny && d.Message == message }) ||
			slices.ContainsFunc(result.Webhooks, func(w Webhook) bool { return w.Err != nil && w.Err.Error() == message })
		if known {
			continue
		}
		d := Decision{Policy: Place{Object: -1}, Action: Deny, Message: message, Failed: true}
		if p, binding, ok := e.namedIn(message); ok {
			d.Policy, d.Name, d.Binding, d.Mutating = p.place(""), p.name, binding, p.mutating
		}
		result.Decisions = append(result.Decisions, d)
	}
	return nil
}

// causesOf returns the messages of an error, without the name of the object if there are such. There
// is at least one.
func causesOf(err *apierrors.StatusError) (messages []string) {
	if details := err.ErrStatus.Details; details != nil {
		for _, c := range details.Causes {
			messages = append(messages, c.Message)
		}
	}
	if len(messages) == 0 {
		messages = []string{err.ErrStatus.Message}
	}
	return messages
}

// namedPolicy is a policy with its name.
type namedPolicy struct {
	source
	name     string
	mutating bool
}

// namedIn returns the policy that a message of the API server names.
func (e *Evaluator) namedIn(message string) (p namedPolicy, binding string, ok bool) {
	for _, v := range e.validating {
		if strings.HasPrefix(message, "ValidatingAdmissionPolicy '"+v.Name+"' ") {
			p, ok = namedPolicy{v.source, v.Name, false}, true
			for _, b := range v.bindings {
				if strings.HasPrefix(message, fmt.Sprintf("ValidatingAdmissionPolicy '%s' with binding '%s' ", v.Name, b.Name)) {
					return p, b.Name, true
				}
			}
			return p, "", true
		}
	}
	for _, m := range e.mutating {
		if strings.HasPrefix(message, fmt.Sprintf("policy %q ", m.Name)) {
			return namedPolicy{m.source, m.Name, true}, "", true
		}
		for _, b := range m.bindings {
			if strings.HasPrefix(message, fmt.Sprintf("policy '%s' with binding '%s' ", m.Name, b.Name)) {
				return namedPolicy{m.source, m.Name, true}, b.Name, true
			}
		}
	}
	return p, "", false
}

// subject decodes a request.
func (e *Evaluator) subject(r *Request) (subject, error) {
	if r.Namespace == "" {
		r.Namespace = metav1.NamespaceDefault
	}
	if r.User == nil {
		r.User = Administrator()
	}
	id, err := api.Identify(r.Object)
	if err != nil {
		return nil, err
	}
	gvk := id.GroupVersionKind()
	d := r.Definition
	if d == nil {
		d = e.config.Definition(gvk)
	}
	if d != nil {
		return e.newCustom(d, gvk, *r)
	}
	if kinds.ByKind(gvk) == nil {
		return nil, fmt.Errorf("there is no kind %s", gvk)
	}
	return e.newBuiltin(*r)
}

// attributes returns the attributes of a request, which change with its object.
func (e *Evaluator) attributes(r Request, s subject, rec *record) *attributes {
	obj, old := s.objects()
	operation, options := admission.Create, runtime.Object(&metav1.CreateOptions{
		TypeMeta: metav1.TypeMeta{APIVersion: metav1.SchemeGroupVersion.String(), Kind: "CreateOptions"}})
	if old != nil {
		operation, options = admission.Update, &metav1.UpdateOptions{
			TypeMeta: metav1.TypeMeta{APIVersion: metav1.SchemeGroupVersion.String(), Kind: "UpdateOptions"}}
	}
	m := metadataOf(obj)
	namespace := m.GetNamespace()
	if s.kind() == (runtimeschema.GroupVersionKind{Version: "v1", Kind: "Namespace"}) {
		namespace = m.GetName() // as in a request for a namespace
	}
	if namespace != "" && e.readsNamespaces && e.objects.namespace(namespace) == nil && s.kind().Kind != "Namespace" {
		rec.result.AssumedNamespace = namespace
	}
	return &attributes{admission.NewAttributesRecord(obj, old, s.kind(), namespace, m.GetName(), s.resource(), r.Subresource,
		operation, options, false, r.User.info()), rec}
}

// mutate applies the mutating policies, and those again that ask for it, as the API server does.
func (e *Evaluator) mutate(ctx context.Context, r Request, s subject, rec *record) error {
	if len(e.mutating) == 0 {
		return nil
	}
	a, o := e.attributes(r, s, rec), s.interfaces()
	// What a policy has changed may match others when the policies are applied again.
	apply := func() error {
		var hooks []MutatingHook
		for _, p := range e.mutating {
			if len(p.bindings) == 0 {
				continue
			}
			if found := e.unconvertible(ctx, a, o, s, p.Spec.MatchConstraints); found != nil {
				for _, b := range p.bindings {
					e.unconverted(ctx, a, o, rec, b.Spec.MatchResources,
						Unjudged{Policy: p.place(""), Name: p.Name, Binding: b.Name, Mutating: true, Reason: needsConversion(found.kind)})
				}
				continue
			}
			hooks = append(hooks, p.hook)
		}
		if len(hooks) == 0 {
			return nil
		}
		return e.mutatingDispatch.Dispatch(ctx, a, o, hooks)
	}
	err := apply()
	if again := a.GetReinvocationContext(); err == nil && again.ShouldReinvoke() {
		again.SetIsReinvoke()
		rec.again = true
		err = apply()
		rec.again = false
	}
	if malformed := s.mutated(); malformed != nil {
		return malformed
	}
	if err != nil {
		return err
	}
	if len(rec.result.Mutations) == 0 {
		return nil
	}
	if rec.result.Mutated, err = s.encode(); err != nil {
		return err
	}
	e.settle(ctx, r, rec)
	return nil
}

// settle tries whether the policies change their own result.
func (e *Evaluator) settle(ctx context.Context, r Request, rec *record) {
	trial := &record{result: &Result{}, settling: true, types: rec.types}
	r.Object = rec.result.Mutated
	s, err := e.subject(&r)
	if err != nil {
		return // the result is validated later
	}
	a, o := e.attributes(r, s, trial), s.interfaces()
	for _, p := range e.mutating {
		applied := slices.ContainsFunc(rec.result.Mutations, func(m Mutation) bool { return m.Name == p.Name })
		if applied && e.mutatingDispatch.Dispatch(withRecord(ctx, trial), a, o, []MutatingHook{p.hook}) != nil {
			return
		}
	}
	rec.result.Unsettled = trial.result.Unsettled
}

// validate evaluates the validating policies.
func (e *Evaluator) validate(ctx context.Context, r Request, s subject, rec *record) error {
	a, o := e.attributes(r, s, rec), s.interfaces()
	var hooks []ValidatingHook
	for _, p := range e.validating {
		if len(p.bindings) == 0 {
			continue
		}
		if found := e.unconvertible(ctx, a, o, s, p.Spec.MatchConstraints); found != nil {
			for _, b := range p.bindings {
				e.unconverted(ctx, a, o, rec, b.Spec.MatchResources,
					Unjudged{Policy: p.place(""), Name: p.Name, Binding: b.Name, Reason: needsConversion(found.kind)})
			}
			continue
		}
		hooks = append(hooks, p.hook)
	}
	if len(hooks) == 0 {
		return nil
	}
	return e.validatingDispatch.Dispatch(ctx, a, o, hooks)
}

// unconvertible returns what a policy matches if the object cannot be converted to it without a server,
// or nil.
func (e *Evaluator) unconvertible(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces, s subject, constraints *admissionregistrationv1.MatchResources) *match {
	if c, ok := s.(*customSubject); !ok || !convertsByWebhook(c.version.Definition()) {
		return nil
	}
	found, err := e.matcher.policy(ctx, a, o, constraints)
	if err != nil || found == nil || found.kind == s.kind() {
		return nil
	}
	return found
}

// unconverted records a policy that needs the object in a version to which it cannot be converted, if
// the binding matches.
func (e *Evaluator) unconverted(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces, rec *record, binding *admissionregistrationv1.MatchResources, u Unjudged) {
	if matches, err := e.matcher.binding(ctx, a, o, binding); matches || err != nil {
		rec.unjudged(u)
	}
}
