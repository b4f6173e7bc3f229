package policies

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/generic"
	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/warning"
	clienttesting "k8s.io/client-go/testing"

	"espalier.dev/crd"
)

// Oracle evaluates policies and webhooks with this package and with the plugins of k8s.io/apiserver, and
// compares.
type Oracle struct {
	e         *Evaluator
	reference *reference
	// Observed counts what the Observer was told, as the metrics of k8s.io/apiserver count it.
	Observed map[string]int
	// current is what happens to the request that is evaluated.
	current *outcome

	validatingPolicies []*ValidatingPolicy
	validatingBindings []*ValidatingBinding
	mutatingPolicies   []*MutatingPolicy
	mutatingBindings   []*MutatingBinding
	webhooks           []*webhook
}

// The namespaces of the Oracle beside those in objects.
const (
	LateNamespace       = "late"       // not in memory yet
	MissingNamespace    = "missing"    // does not exist
	UnreadableNamespace = "unreadable" // cannot be read
	UnreadableParam     = "unreadable"
)

var errUnreadable = errors.New("cannot be read")

// NewOracle returns an Oracle for objects, which have no policies.
func NewOracle(t testing.TB, list []Object, definition func(runtimeschema.GroupVersionKind) *crd.Definition) *Oracle {
	t.Helper()
	e, _, err := New(t.Context(), Config{Objects: list, Definition: definition})
	if err != nil {
		t.Fatal(err)
	}
	o := &Oracle{e: e, Observed: map[string]int{}}
	o.reference = newReference(t, o)
	return o
}

// Get implements [Namespaces].
func (o *Oracle) Get(name string) (*corev1.Namespace, error) {
	switch name {
	case LateNamespace, MissingNamespace, "":
		return nil, apierrors.NewNotFound(NamespaceResource(), name)
	case UnreadableNamespace:
		return nil, errUnreadable
	}
	return o.e.objects.Get(name)
}

// Read implements [Namespaces].
func (o *Oracle) Read(_ context.Context, name string) (*corev1.Namespace, error) {
	if name == LateNamespace {
		return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"tier": "front"},
			ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "m"}}}}, nil
	}
	return o.Get(name)
}

// oracleParams reads parameters, some of which cannot be read.
type oracleParams struct{ paramObjects }

func (r oracleParams) Get(p *Params, namespace, name string) (runtime.Object, error) {
	if name == UnreadableParam {
		return nil, errUnreadable
	}
	return r.paramObjects.Get(p, namespace, name)
}

func (r oracleParams) List(p *Params, namespace string, selector labels.Selector) ([]runtime.Object, error) {
	if selector.String() == UnreadableParam+"=yes" {
		return nil, errUnreadable
	}
	return r.paramObjects.List(p, namespace, selector)
}

func (o *Oracle) params(kind *admissionregistrationv1.ParamKind) (*Params, error) {
	p, err := o.e.objects.params(kind)
	if err != nil {
		return nil, err
	}
	p.reader = oracleParams{paramObjects{o.e.objects}}
	return p, nil
}

// Add adds a policy, a binding, or a webhook configuration.
func (o *Oracle) Add(obj runtime.Object) {
	switch obj := obj.(type) {
	case *ValidatingPolicy:
		o.validatingPolicies = append(o.validatingPolicies, obj)
	case *ValidatingBinding:
		o.validatingBindings = append(o.validatingBindings, obj)
	case *MutatingPolicy:
		o.mutatingPolicies = append(o.mutatingPolicies, obj)
	case *MutatingBinding:
		o.mutatingBindings = append(o.mutatingBindings, obj)
	case *admissionregistrationv1.MutatingWebhookConfiguration:
		o.e.webhooks = nil
		o.e.addWebhooks(&decoded{object: obj})
		o.webhooks = append(o.webhooks, o.e.webhooks...)
		o.reference.addMutating(obj)
	case *admissionregistrationv1.ValidatingWebhookConfiguration:
		o.e.webhooks = nil
		o.e.addWebhooks(&decoded{object: obj})
		o.webhooks = append(o.webhooks, o.e.webhooks...)
		o.reference.addValidating(obj)
	}
}

// Compile compiles all policies.
func (o *Oracle) Compile() *Dispatchers {
	compiled := &Dispatchers{Oracle: o}
	validating, mutating := Validating(o), Mutating(o)
	compiled.validatingHooks = validating.Hooks(o.validatingPolicies, o.validatingBindings,
		func(i int) Validator { return validating.Compile(o.validatingPolicies[i]) }, o.params)
	compiled.mutatingHooks = mutating.Hooks(o.mutatingPolicies, o.mutatingBindings,
		func(i int) Mutator { return mutating.Compile(o.mutatingPolicies[i]) }, o.params)
	o.reference.compile(o)
	return compiled
}

// The Oracle is the Observer of the policies.

func (o *Oracle) count(parts ...string) { o.Observed[strings.Join(parts, " ")]++ }

// Validated implements [Observer].
func (o *Oracle) Validated(_ context.Context, c Check) {
	action := string(c.Action)
	if action == "" {
		action = "allow"
	}
	o.count("validating", c.Policy, c.Binding, action, errorType(c.Message))
}

// Mutated implements [Observer].
func (o *Oracle) Mutated(_ context.Context, c Check) {
	failure := "no_error"
	if c.Action != "" {
		failure = errorType(c.Message)
	}
	o.count("mutating", c.Policy, c.Binding, failure)
}

// Unmatched implements [Observer].
func (o *Oracle) Unmatched(_ context.Context, policy string, operation admission.Operation, _ time.Duration) {
	o.count("unmatched", policy, string(operation))
}

// ConditionFailed implements [Observer].
func (o *Oracle) ConditionFailed(_ context.Context, policy string, operation admission.Operation) {
	o.count("failed", policy, string(operation))
}

func errorType(message string) string {
	switch {
	case strings.HasPrefix(message, "compilation"):
		return "compile_error"
	case strings.HasPrefix(message, "validation failed due to running out of cost budget"):
		return "out_of_budget"
	}
	return "invalid_error"
}

// OracleRequest is a request.
type OracleRequest struct {
	// Object and Old are in JSON. Those of other operations than CREATE and UPDATE follow from Object.
	Object, Old            []byte
	Operation              admission.Operation
	Subresource, Namespace string
	Name                   string
	User                   user.Info
	DryRun                 bool
	// Between is set if another plugin changes the object before policies are applied again.
	Between bool
}

// outcome is what follows from a request.
type outcome struct {
	err         error
	object      runtime.Object
	annotations map[string][]string
	warnings    []string
	// asked are the questions to the authorizer.
	asked []string
	// again is set if other plugins have to be called again.
	again bool
}

// recordingAttributes record annotations.
type recordingAttributes struct {
	admission.Attributes
	*outcome
}

func (a *recordingAttributes) AddAnnotation(key, value string) error {
	a.annotations[key] = append(a.annotations[key], value)
	return nil
}

func (a *recordingAttributes) AddAnnotationWithLevel(key, value string, _ auditinternal.Level) error {
	return a.AddAnnotation(key, value)
}

func (x *outcome) AddWarning(_, text string) { x.warnings = append(x.warnings, text) }

// Authorize answers by the length of the verb, and records what it is asked.
func (o *Oracle) Authorize(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	o.current.asked = append(o.current.asked, fmt.Sprint(a.GetVerb(), a.GetAPIGroup(), a.GetResource(), a.GetNamespace(), a.GetName(), a.GetPath(), a.GetUser()))
	switch len(a.GetVerb()) % 3 {
	case 0:
		return authorizer.DecisionAllow, "allowed", nil
	case 1:
		return authorizer.DecisionDeny, "denied", errUnreadable
	}
	return authorizer.DecisionNoOpinion, "", nil
}

// attributes returns the attributes of a request and how plugins handle its object, each time new ones.
func (o *Oracle) attributes(r OracleRequest) (admission.Attributes, admission.ObjectInterfaces, error) {
	s, err := o.e.subject(&Request{Object: r.Object, Old: r.Old, Namespace: r.Namespace, User: Administrator()})
	if err != nil {
		return nil, nil, err
	}
	obj, old := s.objects()
	kind, resource, namespace := s.kind(), s.resource(), metadataOf(obj).GetNamespace()
	if kind.Kind == "Namespace" {
		namespace = r.Name
	}
	var options runtime.Object
	switch r.Operation {
	case admission.Create:
		old, options = nil, &metav1.CreateOptions{}
	case admission.Update:
		options = &metav1.UpdateOptions{}
	case admission.Delete:
		obj, old, options = nil, obj, &metav1.DeleteOptions{}
	case admission.Connect:
		obj, old, r.Subresource = &corev1.PodExecOptions{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodExecOptions"}, Container: r.Name}, nil, "exec"
		kind, resource = corev1.SchemeGroupVersion.WithKind("PodExecOptions"), corev1.SchemeGroupVersion.WithResource("pods")
	}
	return admission.NewAttributesRecord(obj, old, kind, namespace, r.Name, resource, r.Subresource, r.Operation, options, r.DryRun, r.User), s.interfaces(), nil
}

// Dispatchers evaluate compiled policies.
type Dispatchers struct {
	*Oracle
	validatingHooks []ValidatingHook
	mutatingHooks   []MutatingHook
}

// run calls a plugin, and calls it again if it asks for it.
func (o *Oracle) run(ctx context.Context, r OracleRequest, dispatch func(context.Context, admission.Attributes, admission.ObjectInterfaces) error) (*outcome, error) {
	a, interfaces, err := o.attributes(r)
	if err != nil {
		return nil, err
	}
	x := &outcome{annotations: map[string][]string{}}
	recorded := &recordingAttributes{a, x}
	o.current = x
	ctx = warning.WithWarningRecorder(ctx, x)
	x.err = dispatch(ctx, recorded, interfaces)
	again := a.GetReinvocationContext()
	x.again = again.ShouldReinvoke()
	if x.err == nil && (x.again || r.Between) {
		if m, ok := a.GetObject().(metav1.Object); ok && r.Between {
			m.SetAnnotations(map[string]string{"between": "yes"})
		}
		again.SetIsReinvoke()
		x.err = dispatch(ctx, recorded, interfaces)
	}
	x.object = a.GetObject()
	return x, nil
}

// Compare evaluates a request with both. It returns what happened, for statistics, and how the two
// differ. An object that cannot be decoded is an error.
func (d *Dispatchers) Compare(ctx context.Context, r OracleRequest) (happened []string, difference string, err error) {
	m := NewMatcher(d)
	validating, mutating := NewValidatingDispatcher(d, m, d), NewMutatingDispatcher(d, m, d.e.types(), d)
	compare := func(name string, own, reference func(context.Context, admission.Attributes, admission.ObjectInterfaces) error) {
		var a, b *outcome
		if a, err = d.run(ctx, r, own); err != nil {
			return
		}
		if b, err = d.run(ctx, r, reference); err != nil {
			return
		}
		if text := a.difference(b); text != "" {
			difference += name + ": " + text + "\n"
		}
		happened = append(happened, a.kinds(name)...)
	}
	compare("validating", func(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
		return validating.Dispatch(ctx, a, o, d.validatingHooks)
	}, d.reference.validate)
	if r.Operation != admission.Delete {
		compare("mutating", func(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
			return mutating.Dispatch(ctx, a, o, d.mutatingHooks)
		}, d.reference.mutate)
	}
	for i, w := range d.webhooks {
		var own, reference bool
		compare("webhook", func(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
			yes, status := w.called(ctx, m, newVersions(a, o), d)
			own = yes
			return orNil(status)
		}, func(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
			invocation, status := d.reference.shouldCall(ctx, i, a, o)
			reference = invocation != nil
			return orNil(status)
		})
		if own != reference {
			difference += fmt.Sprintf("webhook %d: called: %v, reference %v\n", i, own, reference)
		}
		happened = append(happened, fmt.Sprintf("webhook called: %v", own))
	}
	return happened, difference, err
}

// orNil returns an error that is nil if its pointer is.
func orNil(err *apierrors.StatusError) error {
	if err == nil {
		return nil
	}
	return err
}

func newVersions(a admission.Attributes, o admission.ObjectInterfaces) *versions {
	return &versions{Attributes: a, o: o, made: map[runtimeschema.GroupVersionKind]*admission.VersionedAttributes{}}
}

var _ generic.VersionedAttributeAccessor = referenceVersions{}

// referenceVersions converts for the webhooks of k8s.io/apiserver.
type referenceVersions struct{ *versions }

func (v referenceVersions) VersionedAttribute(gvk runtimeschema.GroupVersionKind) (*admission.VersionedAttributes, error) {
	return v.version(gvk)
}

// difference returns how two outcomes differ.
func (x *outcome) difference(other *outcome) string {
	switch {
	case fmt.Sprintf("%T %v", x.err, x.err) != fmt.Sprintf("%T %v", other.err, other.err) || !reflect.DeepEqual(statusOf(x.err), statusOf(other.err)):
		return fmt.Sprintf("error %#v\nreference: %#v", statusOf(x.err), statusOf(other.err))
	case !apiequality.Semantic.DeepEqual(x.object, other.object):
		return fmt.Sprintf("object %v\nreference: %v", x.object, other.object)
	case !maps.EqualFunc(x.annotations, other.annotations, slices.Equal):
		return fmt.Sprintf("annotations %q\nreference: %q", x.annotations, other.annotations)
	case !slices.Equal(x.warnings, other.warnings):
		return fmt.Sprintf("warnings %q\nreference: %q", x.warnings, other.warnings)
	case !slices.Equal(x.asked, other.asked):
		return fmt.Sprintf("asked the authorizer %q\nreference: %q", x.asked, other.asked)
	case x.again != other.again:
		return fmt.Sprintf("again: %v\nreference: %v", x.again, other.again)
	}
	return ""
}

func statusOf(err error) any {
	if status, ok := errors.AsType[*apierrors.StatusError](err); ok {
		return status.ErrStatus
	}
	return fmt.Sprint(err)
}

// kinds returns what happened.
func (x *outcome) kinds(plugin string) (all []string) {
	add := func(is bool, what string) {
		if is {
			all = append(all, plugin+" "+what)
		}
	}
	add(x.err == nil, "allowed")
	add(x.err != nil, "denied")
	add(len(x.annotations) > 0, "annotated")
	add(len(x.warnings) > 0, "warned")
	add(len(x.asked) > 0, "authorized")
	add(x.again, "again")
	if status, ok := errors.AsType[*apierrors.StatusError](x.err); ok {
		add(true, string(status.ErrStatus.Reason))
		add(true, status.ErrStatus.Message)
	}
	return all
}

// reaction makes a fake client fail for namespaces that the Oracle cannot read.
func (o *Oracle) reaction(action clienttesting.Action) (handled bool, ret runtime.Object, err error) {
	ns, err := o.Read(context.Background(), action.(clienttesting.GetAction).GetName())
	return true, ns, err
}
