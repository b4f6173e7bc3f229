package admission

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/policy/mutating"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	mutatingwebhook "k8s.io/apiserver/pkg/admission/plugin/webhook/mutating"
	validatingwebhook "k8s.io/apiserver/pkg/admission/plugin/webhook/validating"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/registry/rest"

	"espalier.dev/api"
	"espalier.dev/crd"
	"espalier.dev/policies"
	"espalier.dev/server/etcd/etcdtest"
	"espalier.dev/store"
)

// configMaps are kinds with some objects.
type configMaps struct {
	objects []runtime.Object
	err     error
}

func (c configMaps) Get(_ context.Context, _ runtimeschema.GroupResource, namespace, name string) (runtime.Object, error) {
	for _, obj := range c.objects {
		if m := obj.(metav1.Object); m.GetNamespace() == namespace && m.GetName() == name {
			return obj, c.err
		}
	}
	return nil, apierrors.NewNotFound(runtimeschema.GroupResource{}, name)
}

func (c configMaps) List(context.Context, runtimeschema.GroupResource, string) ([]runtime.Object, error) {
	return c.objects, c.err
}

func (c configMaps) Decode(_ runtimeschema.GroupResource, e *store.Entry) (runtime.Object, error) {
	for _, obj := range c.objects {
		if string(e.Value) == obj.(metav1.Object).GetName() {
			return obj, c.err
		}
	}
	return nil, errors.New("broken")
}

func (c configMaps) Convert(obj runtime.Object, _ runtimeschema.GroupVersion) (runtime.Object, error) {
	return obj, c.err
}

func (c configMaps) Types(string) (managedfields.TypeConverter, error) { return nil, c.err }

// TestParamsOfKinds checks which objects of Kubernetes' own kinds are parameters.
func TestParamsOfKinds(t *testing.T) {
	t.Parallel()
	object := func(name, team string) runtime.Object {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: name, Labels: map[string]string{"team": team}}}
	}
	c := &Config{Kinds: configMaps{objects: []runtime.Object{object("a", "x"), object("b", "y"), object("c", "x")}}, Catalog: func() *crd.Catalog { return crd.NewCatalog() }}
	p, err := c.params(&admissionregistrationv1.ParamKind{APIVersion: "v1", Kind: "ConfigMap"})
	if err != nil {
		t.Fatal(err)
	}
	names := func(selector string) (names []string) {
		s, err := labels.Parse(selector)
		if err != nil {
			t.Fatal(err)
		}
		list, err := paramReader{c}.List(p, "n", s)
		if err != nil {
			t.Fatal(err)
		}
		for _, obj := range list {
			if gvk := obj.GetObjectKind().GroupVersionKind(); gvk.Kind != "ConfigMap" || gvk.Version != "v1" {
				t.Errorf("a parameter is a %s", gvk)
			}
			names = append(names, obj.(metav1.Object).GetName())
		}
		return names
	}
	for selector, want := range map[string][]string{"": {"a", "b", "c"}, "team=x": {"a", "c"}, "team=z": nil} {
		if got := names(selector); !reflect.DeepEqual(got, want) {
			t.Errorf("%q: got %v", selector, got)
		}
	}
	obj, err := paramReader{c}.Get(p, "n", "b")
	if err != nil || obj.(*corev1.ConfigMap).Name != "b" || obj.GetObjectKind().GroupVersionKind().Kind != "ConfigMap" {
		t.Errorf("got %v, %v", obj, err)
	}
	if obj, err := (paramReader{c}).Get(p, "n", "missing"); !apierrors.IsNotFound(err) || obj != nil {
		t.Errorf("got %v, %v", obj, err)
	}
	broken := &Config{Kinds: configMaps{err: errors.New("broken")}}
	if _, err := (paramReader{broken}).List(p, "n", labels.Everything()); err == nil {
		t.Error("an error is lost")
	}
	if _, err := c.params(&admissionregistrationv1.ParamKind{APIVersion: "v1", Kind: "Nothing"}); err == nil {
		t.Error("an unknown kind has parameters")
	}
}

// TestNamespaceObjects checks that namespaces are namespaces.
func TestNamespaceObjects(t *testing.T) {
	t.Parallel()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
	r := &namespaceReader{&Dynamic{config: Config{Kinds: configMaps{objects: []runtime.Object{ns, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "pod"}}}}}}}
	if got, err := r.Read(t.Context(), "a"); err != nil || got != ns {
		t.Errorf("got %v, %v", got, err)
	}
	if got, err := r.Read(t.Context(), "missing"); !apierrors.IsNotFound(err) || got != nil {
		t.Errorf("got %v, %v", got, err)
	}
	if got, err := r.Read(t.Context(), "pod"); err == nil || !strings.Contains(err.Error(), "is not a namespace") || got != nil {
		t.Errorf("got %v, %v", got, err)
	}
	var _ policies.Namespaces = r
}

// TestConfigure checks the parts of --admission-control-config-file that the plugins accept.
func TestConfigure(t *testing.T) {
	t.Parallel()
	const (
		valid   = "apiVersion: apiserver.config.k8s.io/v1\nkind: WebhookAdmissionConfiguration\nkubeConfigFile: /a\n"
		invalid = "apiVersion: apiserver.config.k8s.io/v1\nkind: Other\n"
	)
	static := valid + "staticManifestsDir: " + t.TempDir() + "\n"
	for _, test := range []struct{ plugin, file, says string }{
		{mutating.PluginName, "", ""},
		{mutating.PluginName, "a: b", "static policies is not supported"},
		{validating.PluginName, "", ""},
		{validating.PluginName, "a: b", "static policies is not supported"},
		{validating.PluginName, "a", "static policies is not supported"},
		{mutatingwebhook.PluginName, "", ""},
		{mutatingwebhook.PluginName, valid, ""},
		{mutatingwebhook.PluginName, static, "staticManifestsDir is not supported"},
		{mutatingwebhook.PluginName, invalid, "no kind"},
		{validatingwebhook.PluginName, "", ""},
		{validatingwebhook.PluginName, valid, ""},
		{validatingwebhook.PluginName, static, "staticManifestsDir is not supported"},
		{"Nothing", "", `there is no plugin "Nothing"`},
	} {
		d := New(Config{Store: &store.Store{}})
		p, err := d.Plugin(test.plugin, []byte(test.file))
		if (err == nil) != (test.says == "") || err != nil && !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s %s: %v", test.plugin, test.file, err)
		}
		if err == nil && p == nil {
			t.Errorf("%s: no plugin", test.plugin)
		}
		if got := len(d.mutating.file) > 0 || len(d.validating.file) > 0; got != (test.file == valid) {
			t.Errorf("%s %s: configured is %v", test.plugin, test.file, got)
		}
	}
}

// defined returns a CRD that is served.
func defined(t *testing.T, group, kind string) *crd.Definition {
	t.Helper()
	names := api.CustomResourceDefinitionNames{Plural: strings.ToLower(kind) + "s", Singular: strings.ToLower(kind), Kind: kind, ListKind: kind + "List"}
	d, err := crd.New(&api.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: names.Plural + "." + group},
		Spec: api.CustomResourceDefinitionSpec{Group: group, Scope: api.ClusterScoped, Names: names,
			Versions: []api.CustomResourceDefinitionVersion{{Name: "v1", Served: true, Storage: true}}},
		Status: api.CustomResourceDefinitionStatus{AcceptedNames: names, Conditions: []api.CustomResourceDefinitionCondition{
			{Type: api.NamesAccepted, Status: api.ConditionTrue}, {Type: api.Established, Status: api.ConditionTrue}}}}, crd.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// TestDefinitionOfKinds checks which CRDs describe a kind.
func TestDefinitionOfKinds(t *testing.T) {
	t.Parallel()
	widgets, crds := defined(t, "example.com", "Widget"), defined(t, "apiextensions.k8s.io", "CustomResourceDefinition")
	catalog := crd.NewCatalog(widgets)
	c := &Config{Catalog: func() *crd.Catalog { return catalog }, Definition: crds}
	for kind, want := range map[runtimeschema.GroupVersionKind]*crd.Definition{
		{Group: "example.com", Version: "v1", Kind: "Widget"}:                            widgets,
		{Group: "example.com", Version: "v1", Kind: "Gadget"}:                            nil,
		{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}: crds,
		{Version: "v1", Kind: "Pod"}:                                                     nil,
	} {
		if got := c.definition(kind); got != want {
			t.Errorf("%s: got %v", kind, got)
		}
	}
}

// TestUnreadableConfiguration checks that a stored configuration that cannot be decoded is an error,
// which names it.
func TestUnreadableConfiguration(t *testing.T) {
	t.Parallel()
	webhook := &admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "good"}}
	d := &Dynamic{config: Config{Store: &store.Store{}, Kinds: configMaps{objects: []runtime.Object{webhook, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "pod"}}}}}}
	s := newStored[*admissionregistrationv1.MutatingWebhookConfiguration](d, "mutatingwebhookconfigurations")
	for name, says := range map[string]string{"good": "", "pod": "/a is a *v1.Pod", "bad": "the stored object /a cannot be read, so requests cannot be admitted: delete it or restore it: broken"} {
		got, err := s.decode(&store.Entry{Key: "/a", Value: []byte(name)})
		if (err == nil) != (says == "") || err != nil && (!apierrors.IsInternalError(err) || !strings.Contains(err.Error(), says)) || err == nil && got != webhook {
			t.Errorf("%s: got %v, %v", name, got, err)
		}
	}
	// A decoded object is not decoded again.
	e := &store.Entry{Key: "/a", Value: []byte("bad")}
	before := &list[*admissionregistrationv1.MutatingWebhookConfiguration]{entries: []*store.Entry{{}, e}, items: []*admissionregistrationv1.MutatingWebhookConfiguration{nil, webhook}}
	if got, err := s.item(before, e); err != nil || got != webhook {
		t.Errorf("got %v, %v", got, err)
	}
	if got, err := s.item(before, before.entries[0]); err != nil || got != nil {
		t.Errorf("the first entry: got %v, %v", got, err)
	}
	if _, err := s.item(before, &store.Entry{Key: "/a", Value: []byte("bad")}); err == nil {
		t.Error("another entry is taken for one that was decoded")
	}
	if _, err := s.item(nil, e); err == nil {
		t.Error("an entry that was never decoded is returned")
	}
}

// paramStorage is a storage whose objects are in memory only since a read with no revision.
type paramStorage struct {
	rest.StandardStorage
	err   error
	reads *[]string
}

func (s paramStorage) Get(_ context.Context, name string, o *metav1.GetOptions) (runtime.Object, error) {
	*s.reads = append(*s.reads, o.ResourceVersion)
	if s.err != nil || name == "new" && o.ResourceVersion == "0" || name == "missing" {
		return nil, cmp.Or(s.err, error(apierrors.NewNotFound(runtimeschema.GroupResource{}, name)))
	}
	return &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": name}}}, nil
}

func (s paramStorage) List(_ context.Context, o *metainternalversion.ListOptions) (runtime.Object, error) {
	if s.err != nil {
		return nil, s.err
	}
	return &unstructured.UnstructuredList{Items: []unstructured.Unstructured{{Object: map[string]any{"metadata": map[string]any{"name": o.LabelSelector.String()}}}}}, nil
}

// TestParamsOfCRDs checks how custom resources are read as parameters.
func TestParamsOfCRDs(t *testing.T) {
	t.Parallel()
	p := &policies.Params{Version: defined(t, "example.com", "Widget").Version("v1")}
	broken := errors.New("broken")
	for name, test := range map[string]struct {
		object         string
		storage, fails error
		reads          int
	}{
		"in memory":  {"a", nil, nil, 1},
		"new":        {"new", nil, nil, 2},
		"missing":    {"missing", nil, apierrors.NewNotFound(runtimeschema.GroupResource{}, "missing"), 2},
		"broken":     {"a", nil, broken, 1},
		"no storage": {"a", broken, broken, 0},
	} {
		var reads []string
		released := 0
		failure := test.fails
		if test.object != "a" {
			failure = nil
		}
		r := paramReader{&Config{Storage: func(*crd.Definition, string) (rest.StandardStorage, func(), error) {
			return paramStorage{err: failure, reads: &reads}, func() { released++ }, test.storage
		}}}
		obj, err := r.Get(p, "n", test.object)
		if (err != nil) != (test.fails != nil) || err != nil && err.Error() != test.fails.Error() || len(reads) != test.reads || err == nil && obj.(metav1.Object).GetName() != test.object {
			t.Errorf("%s: %v, %v, reads %q", name, obj, err, reads)
		}
		list, err := r.List(p, "n", labels.SelectorFromSet(labels.Set{"a": "b"}))
		if failure == nil && test.storage == nil {
			if err != nil || len(list) != 1 || list[0].(metav1.Object).GetName() != "a=b" {
				t.Errorf("%s: list %v, %v", name, list, err)
			}
		} else if !errors.Is(err, broken) || len(list) != 0 {
			t.Errorf("%s: list %v, %v", name, list, err)
		}
		if test.storage == nil && released != 2 || test.storage != nil && released != 0 {
			t.Errorf("%s: released %d times", name, released)
		}
	}
}

// jsonKinds reads stored objects that are JSON.
type jsonKinds struct{ configMaps }

func (jsonKinds) Decode(gr runtimeschema.GroupResource, e *store.Entry) (runtime.Object, error) {
	obj := map[string]runtime.Object{
		"namespaces": &corev1.Namespace{}, "mutatingwebhookconfigurations": &admissionregistrationv1.MutatingWebhookConfiguration{},
		"validatingadmissionpolicies": &validating.Policy{}, "validatingadmissionpolicybindings": &validating.PolicyBinding{},
	}[gr.Resource]
	return obj, json.Unmarshal(e.Value, obj)
}

// TestStoredConfigurations checks that requests follow the configurations in the store, are rejected
// while one of them cannot be read, and that a policy is compiled once.
func TestStoredConfigurations(t *testing.T) {
	t.Parallel()
	s, err := store.Open(store.Config{Client: etcdtest.Start(t), Prefix: "/registry/"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	<-s.Loaded()
	catalog := crd.NewCatalog()
	d := New(Config{Store: s, Kinds: jsonKinds{}, Catalog: func() *crd.Catalog { return catalog }, Definition: defined(t, "apiextensions.k8s.io", "CustomResourceDefinition")})
	put := func(key, value string) {
		t.Helper()
		var err error
		if value == "" {
			_, err = s.Client().Delete(t.Context(), key)
		} else {
			_, err = s.Client().Put(t.Context(), key, value)
		}
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Sync(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	request := func(resource string) admission.Attributes {
		kind := corev1.SchemeGroupVersion.WithKind("Pod")
		if resource == "mutatingwebhookconfigurations" {
			kind = admissionregistrationv1.SchemeGroupVersion.WithKind("MutatingWebhookConfiguration")
		}
		return admission.NewAttributesRecord(&corev1.Pod{}, nil, kind, "n", "a",
			runtimeschema.GroupVersionResource{Group: admissionregistrationv1.GroupName, Version: "v1", Resource: resource}, "", admission.Create, &metav1.CreateOptions{}, false, &user.DefaultInfo{})
	}
	webhooks := func(resource string) error { return d.mutating.Admit(t.Context(), request(resource), nil) }
	evaluate := func(resource string) error { return d.validatingPolicies.Validate(t.Context(), request(resource), nil) }
	names := func(err error, key string) bool {
		return apierrors.IsInternalError(err) && strings.Contains(err.Error(), key)
	}

	const webhook = "/registry/mutatingwebhookconfigurations/a"
	if err := webhooks("pods"); err != nil {
		t.Error(err)
	}
	put(webhook, "x")
	if err := webhooks("pods"); !names(err, webhook) {
		t.Error(err)
	}
	if err := webhooks("mutatingwebhookconfigurations"); err != nil {
		t.Error("a configuration cannot be repaired:", err)
	}
	put(webhook, "")
	if err := webhooks("pods"); err != nil {
		t.Error(err)
	}
	put(webhook, `{"metadata":{"name":"a"}}`)
	list := d.mutating.configurations.read()
	if list.err != nil || len(list.items) != 1 || d.mutating.configurations.read() != list {
		t.Errorf("got %v", list)
	}
	d.mutating.plugin = func() (*plugins, error) { return nil, errors.New("broken") }
	if err := webhooks("pods"); err == nil || err.Error() != "broken" {
		t.Error(err)
	}

	// A policy that cannot be read matters if there are bindings.
	const policy, binding = "/registry/validatingadmissionpolicies/p", "/registry/validatingadmissionpolicybindings/b"
	put(policy, "x")
	if err := evaluate("pods"); err != nil {
		t.Error(err)
	}
	put(binding, `{"metadata":{"name":"b"},"spec":{"policyName":"p","validationActions":["Deny"]}}`)
	if err := evaluate("pods"); !names(err, policy) {
		t.Error(err)
	}
	if err := evaluate("validatingadmissionpolicies"); err != nil {
		t.Error("a policy cannot be repaired:", err)
	}
	put(policy, "")
	if err := evaluate("pods"); err != nil {
		t.Error(err)
	}
	compiled := 0
	compile := d.validatingPolicies.Compile
	d.validatingPolicies.Compile = func(p *policies.ValidatingPolicy) policies.Validator { compiled++; return compile(p) }
	const spec = `"spec":{"failurePolicy":"Fail","validations":[{"expression":"true"}]}`
	put(policy, `{"metadata":{"name":"p"},`+spec+`}`)
	hooks := func() []policies.ValidatingHook {
		return d.validatingPolicies.of(d.validatingPolicies.policies.read(), d.validatingPolicies.bindings.read())
	}
	first := hooks()
	if again := hooks(); compiled != 1 || len(first) != 1 || &again[0] != &first[0] {
		t.Errorf("compiled %d times, %d hooks", compiled, len(first))
	}
	put(binding, `{"metadata":{"name":"b","labels":{"a":"b"}},"spec":{"policyName":"p","validationActions":["Deny"]}}`)
	if next := hooks(); compiled != 1 || len(next) != 1 || &next[0] == &first[0] || len(next[0].Bindings) != 1 || next[0].Bindings[0].Labels["a"] != "b" {
		t.Errorf("compiled %d times, hooks %v", compiled, next)
	}
	first, catalog = hooks(), crd.NewCatalog(defined(t, "example.com", "Widget"))
	if next := hooks(); compiled != 1 || &next[0] == &first[0] {
		t.Errorf("compiled %d times: the CRDs have changed", compiled)
	}
	put(policy, `{"metadata":{"name":"p","labels":{"a":"b"}},`+spec+`}`)
	if next := hooks(); compiled != 2 || next[0].Policy.Labels["a"] != "b" {
		t.Errorf("compiled %d times", compiled)
	}
	put(binding, "x")
	if err := evaluate("pods"); !names(err, binding) {
		t.Error(err)
	}

	put("/registry/namespaces/n", `{"metadata":{"name":"n"}}`)
	r := &namespaceReader{d}
	if ns, err := r.Get("n"); err != nil || ns.Name != "n" {
		t.Error(ns, err)
	}
	if ns, err := r.Get("other"); !apierrors.IsNotFound(err) || ns != nil {
		t.Error(ns, err)
	}
}
