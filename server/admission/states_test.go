package admission

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/pprof"
	"strings"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	mutatingwebhook "k8s.io/apiserver/pkg/admission/plugin/webhook/mutating"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/features"
	"k8s.io/apiserver/pkg/registry/rest"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	webhookutil "k8s.io/apiserver/pkg/util/webhook"
	featuregatetesting "k8s.io/component-base/featuregate/testing"
	"k8s.io/component-base/metrics/legacyregistry"

	"espalier.dev/crd"
	"espalier.dev/policies"
	"espalier.dev/server/etcd/etcdtest"
	"espalier.dev/store"
)

// TestPolicyMetrics checks how the results of policies are counted.
func TestPolicyMetrics(t *testing.T) {
	t.Parallel()
	const compilation, budget = "compilation failed: x", "validation failed due to running out of cost budget, no further"
	for i, tt := range []struct {
		mutating      bool
		action        policies.Action
		message, want string
	}{
		{false, "", "other", "allow invalid_error"},
		{false, policies.Deny, "other", "deny invalid_error"},
		{false, policies.Warn, "other", "warn invalid_error"},
		{false, policies.Audit, "other", "audit invalid_error"},
		{false, policies.Deny, compilation, "deny compile_error"},
		{false, policies.Deny, budget, "deny out_of_budget"},
		{true, "", "other", "no_error"},
		{true, policies.Deny, "other", "invalid_error"},
		{true, policies.Deny, compilation, "compile_error"},
		{true, policies.Deny, budget, "out_of_budget"},
	} {
		c := policies.Check{Policy: fmt.Sprintf("TestPolicyMetrics-%d", i), Binding: "b", Action: tt.action, Message: tt.message}
		name := "apiserver_validating_admission_policy_check_total"
		if tt.mutating {
			name = "apiserver_mutating_admission_policy_check_total"
			observer{}.Mutated(t.Context(), c)
		} else {
			observer{}.Validated(t.Context(), c)
		}
		if got := counted(t, name, c.Policy); got != tt.want {
			t.Errorf("%+v: got %q", tt, got)
		}
	}
}

// counted returns the other labels of the series of a policy.
func counted(t *testing.T, name, policy string) (text string) {
	t.Helper()
	families, err := legacyregistry.DefaultGatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, m := range f.GetMetric() {
			values := map[string]string{}
			for _, l := range m.GetLabel() {
				values[l.GetName()] = l.GetValue()
			}
			if values["policy"] == policy {
				text += strings.TrimSpace(values["enforcement_action"] + " " + values["error_type"])
			}
		}
	}
	return text
}

// TestDisabledPolicies checks that the plugin of mutating policies handles nothing if its feature gate is off.
func TestDisabledPolicies(t *testing.T) {
	for _, enabled := range []bool{true, false} {
		t.Run(fmt.Sprint(enabled), func(t *testing.T) {
			featuregatetesting.SetFeatureGateDuringTest(t, utilfeature.DefaultFeatureGate, features.MutatingAdmissionPolicy, enabled)
			d := New(Config{Store: &store.Store{}})
			p, err := d.Plugin(policies.MutatingPluginName, nil)
			if err != nil || p.Handles(admission.Create) != enabled {
				t.Errorf("got %v, %v", p, err)
			}
		})
	}
}

// failingConversion are kinds that cannot be converted.
type failingConversion struct{ configMaps }

func (failingConversion) Convert(runtime.Object, runtimeschema.GroupVersion) (runtime.Object, error) {
	return nil, errors.New("no conversion")
}

// TestParamsOfStoredKinds checks parameters of kinds that are stored as others: they are converted.
func TestParamsOfStoredKinds(t *testing.T) {
	t.Parallel()
	objects := configMaps{objects: []runtime.Object{&corev1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "a"}}}}
	for _, tt := range []struct {
		kinds Kinds
		kind  admissionregistrationv1.ParamKind
		fails bool
	}{
		{objects, admissionregistrationv1.ParamKind{APIVersion: "events.k8s.io/v1", Kind: "Event"}, false},
		{failingConversion{objects}, admissionregistrationv1.ParamKind{APIVersion: "events.k8s.io/v1", Kind: "Event"}, true},
		{failingConversion{objects}, admissionregistrationv1.ParamKind{APIVersion: "v1", Kind: "Event"}, false},
	} {
		c := &Config{Kinds: tt.kinds, Catalog: func() *crd.Catalog { return crd.NewCatalog() }}
		p, err := c.params(&tt.kind)
		if err != nil {
			t.Fatal(err)
		}
		obj, err := paramReader{c}.Get(p, "n", "a")
		if (err != nil) != tt.fails || (obj == nil) != tt.fails || obj != nil && obj.GetObjectKind().GroupVersionKind() != p.Kind {
			t.Errorf("%v: got %v, %v", tt.kind, obj, err)
		}
		list, err := paramReader{c}.List(p, "n", labels.Everything())
		if (err != nil) != tt.fails || (len(list) == 1) == tt.fails || len(list) == 1 && list[0].GetObjectKind().GroupVersionKind() != p.Kind {
			t.Errorf("%v: got %v, %v", tt.kind, list, err)
		}
	}
}

// noList is a storage whose list is none.
type noList struct{ rest.StandardStorage }

func (noList) List(context.Context, *metainternalversion.ListOptions) (runtime.Object, error) {
	return &corev1.Pod{}, nil
}

// TestParamsOfNoList checks that a list without items is an error.
func TestParamsOfNoList(t *testing.T) {
	t.Parallel()
	r := paramReader{&Config{Storage: func(*crd.Definition, string) (rest.StandardStorage, func(), error) {
		return noList{}, func() {}, nil
	}}}
	if list, err := r.List(&policies.Params{Version: defined(t, "example.com", "Widget").Version("v1")}, "n", labels.Everything()); err == nil {
		t.Errorf("got %v", list)
	}
}

// TestNamespacesOfPlugins checks how the plugins of webhooks read namespaces: from memory first.
func TestNamespacesOfPlugins(t *testing.T) {
	t.Parallel()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
	n := &namespaceReader{&Dynamic{config: Config{Store: &store.Store{}, Kinds: configMaps{objects: []runtime.Object{ns}}}}}
	if got, err := (client{n: n}).CoreV1().Namespaces().Get(t.Context(), "a", metav1.GetOptions{}); err != nil || got != ns {
		t.Errorf("got %v, %v", got, err)
	}
	f := &factory{namespaces: namespaceLister{n: n}}
	lister := f.Core().V1().Namespaces().Lister()
	if list, err := lister.List(labels.Everything()); !apierrors.IsMethodNotSupported(err) || list != nil {
		t.Errorf("got %v, %v", list, err)
	}
}

// TestPluginErrors checks the errors of plugins that cannot be made.
func TestPluginErrors(t *testing.T) {
	t.Parallel()
	n := &namespaceReader{&Dynamic{}}
	for _, newPlugins := range []func() (*plugins, error){
		func() (*plugins, error) { return newMutatingPlugins(strings.NewReader("kind: Other"), n, nil) },
		func() (*plugins, error) { return newValidatingPlugins(strings.NewReader("kind: Other"), n, nil) },
	} {
		if p, err := newPlugins(); err == nil || p != nil {
			t.Errorf("got %v, %v", p, err)
		}
	}
	for _, p := range []any{&struct{}{}, &struct{ filterCompiler int }{}} {
		if err := boundConditions(p); err == nil || !strings.Contains(err.Error(), "filterCompiler") {
			t.Errorf("%T: got %v", p, err)
		}
	}

	file := filepath.Join(t.TempDir(), "kubeconfig")
	configuration := "apiVersion: apiserver.config.k8s.io/v1\nkind: WebhookAdmissionConfiguration\nkubeConfigFile: " + file + "\n"
	c := Config{Store: &store.Store{}, Guard: func(r webhookutil.AuthenticationInfoResolver) webhookutil.AuthenticationInfoResolver { return r },
		Services: webhookutil.NewDefaultServiceResolver()}
	d := New(c)
	if _, err := d.Plugin(mutatingwebhook.PluginName, []byte(configuration)); err != nil {
		t.Fatal(err)
	}
	items := &list[*admissionregistrationv1.MutatingWebhookConfiguration]{items: []*admissionregistrationv1.MutatingWebhookConfiguration{{ObjectMeta: metav1.ObjectMeta{Name: "a"}}}}
	if p, err := d.mutating.of(items); err == nil || !strings.Contains(err.Error(), file) || p != nil {
		t.Errorf("a file that is missing: got %v, %v", p, err)
	}
	if err := os.WriteFile(file, []byte("apiVersion: v1\nkind: Config\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	first, err := d.mutating.of(items)
	if err != nil || first == nil {
		t.Fatal(err)
	}
	if again, err := d.mutating.of(items); err != nil || again != first {
		t.Errorf("the plugin is made again: %v", err)
	}
	// It is made once for a state of the configurations, and what it shares once for all.
	base := d.mutating.base
	if next, err := d.mutating.of(&list[*admissionregistrationv1.MutatingWebhookConfiguration]{items: items.items}); err != nil || next == first || d.mutating.base != base {
		t.Errorf("got the plugin of other configurations: %v", err)
	}

	wrong := newWebhooks(&c, n, (*stored[int])(nil), newMutatingPlugins)
	if p, err := wrong.of(&list[int]{items: []int{1}}); err == nil || p != nil {
		t.Errorf("configurations without names: got %v, %v", p, err)
	}
}

// blocked waits until a goroutine waits for a mutex in a function.
func blocked(t *testing.T, function string) {
	t.Helper()
	for ; t.Context().Err() == nil; time.Sleep(time.Millisecond) {
		var stacks strings.Builder
		if err := pprof.Lookup("goroutine").WriteTo(&stacks, 2); err != nil {
			t.Fatal(err)
		}
		for stack := range strings.SplitSeq(stacks.String(), "\n\n") {
			if strings.Contains(stack, "sync.(*Mutex).Lock") && strings.Contains(stack, function) {
				return
			}
		}
	}
}

// TestConcurrentStates checks that a request that waits while another one makes a state takes that one.
func TestConcurrentStates(t *testing.T) {
	t.Parallel()
	s, err := store.Open(store.Config{Client: etcdtest.Start(t), Prefix: "/registry/"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	<-s.Loaded()
	catalog := crd.NewCatalog()
	d := New(Config{Store: s, Kinds: jsonKinds{}, Catalog: func() *crd.Catalog { return catalog }})

	stored := d.mutating.configurations
	made := &list[*admissionregistrationv1.MutatingWebhookConfiguration]{}
	lists := make(chan *list[*admissionregistrationv1.MutatingWebhookConfiguration])
	stored.mu.Lock()
	go func() { lists <- stored.read() }()
	blocked(t, "admission.(*stored[...]).read")
	stored.current.Store(made)
	stored.mu.Unlock()
	if got := <-lists; got != made {
		t.Error("the configurations are read again")
	}

	state := &webhookState[*admissionregistrationv1.MutatingWebhookConfiguration]{list: made}
	d.mutating.plugin = func() (*plugins, error) { return nil, errors.New("the plugin is made again") }
	failures := make(chan error)
	d.mutating.mu.Lock()
	go func() {
		_, err := d.mutating.of(made)
		failures <- err
	}()
	blocked(t, "admission.(*webhooks[...]).of")
	d.mutating.current.Store(state)
	d.mutating.mu.Unlock()
	if err := <-failures; err != nil {
		t.Error(err)
	}

	p := d.validatingPolicies
	policyList, bindings := &list[*policies.ValidatingPolicy]{}, &list[*policies.ValidatingBinding]{}
	hooks := make(chan []policies.ValidatingHook)
	p.mu.Lock()
	go func() { hooks <- p.of(policyList, bindings) }()
	blocked(t, "admission.(*evaluation[...]).of")
	p.current.Store(&policyState[*policies.ValidatingPolicy, *policies.ValidatingBinding, policies.Validator]{
		policies: policyList, bindings: bindings, catalog: catalog, hooks: make([]policies.ValidatingHook, 3)})
	p.mu.Unlock()
	if got := <-hooks; len(got) != 3 {
		t.Error("the hooks are made again")
	}
}

// TestUnboundPolicies checks that nothing is evaluated if no policy has a binding.
func TestUnboundPolicies(t *testing.T) {
	t.Parallel()
	s, err := store.Open(store.Config{Client: etcdtest.Start(t), Prefix: "/registry/"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	<-s.Loaded()
	catalog := crd.NewCatalog()
	d := New(Config{Store: s, Kinds: jsonKinds{}, Catalog: func() *crd.Catalog { return catalog }})
	d.validatingPolicies.dispatcher = func() policies.Dispatcher[policies.ValidatingHook] {
		t.Error("policies are evaluated")
		return policies.NewValidatingDispatcher(nil, policies.NewMatcher(&namespaceReader{d}), observer{})
	}
	for key, value := range map[string]string{
		"/registry/validatingadmissionpolicies/p":       `{"metadata":{"name":"p"},"spec":{"validations":[{"expression":"false"}]}}`,
		"/registry/validatingadmissionpolicybindings/b": `{"metadata":{"name":"b"},"spec":{"policyName":"other","validationActions":["Deny"]}}`,
	} {
		if _, err := s.Client().Put(t.Context(), key, value); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	pod := admission.NewAttributesRecord(&corev1.Pod{}, nil, corev1.SchemeGroupVersion.WithKind("Pod"), "n", "a",
		corev1.SchemeGroupVersion.WithResource("pods"), "", admission.Create, &metav1.CreateOptions{}, false, &user.DefaultInfo{})
	if err := d.validatingPolicies.Validate(t.Context(), pod, nil); err != nil {
		t.Error(err)
	}
}
