package espaliertest

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"espalier.dev/api"
)

// laterCRD returns the CRD later as a Go value.
func laterCRD() *api.CustomResourceDefinition {
	return &api.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "laters.example.com"},
		Spec: api.CustomResourceDefinitionSpec{
			Group: "example.com", Scope: "Cluster", Names: api.CustomResourceDefinitionNames{Plural: "laters", Kind: "Later"},
			Versions: []api.CustomResourceDefinitionVersion{{
				Name: "v1", Served: true, Storage: true,
				Schema: &api.CustomResourceValidation{OpenAPIV3Schema: &api.JSONSchemaProps{Type: api.StringOrArray{"object"}}},
			}},
		},
	}
}

func TestEnvironment(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	e := &Environment{
		CRDDirectoryPaths:     []string{"testdata/crds", "testdata/crds/sub"},
		ErrorIfCRDPathMissing: true,
		CRDs:                  []*api.CustomResourceDefinition{laterCRD()},
		BinaryAssetsDirectory: "no/such/directory",
	}
	e.ControlPlane.GetAPIServer().Configure().
		Set("service-cluster-ip-range", "10.9.0.0/24").Append("feature-gates", "DynamicResourceAllocation=true").Set("kubelet-timeout", "5s")
	config, err := e.Start()
	if err != nil {
		t.Fatal(err)
	}
	if config != e.Config || config.QPS != 1000 {
		t.Errorf("the configuration is %v", config)
	}
	if _, err := trees(t, config).Create(t.Context(), tree("oak"), metav1.CreateOptions{}); err != nil {
		t.Error(err)
	}
	if _, err := dynamic.NewForConfigOrDie(config).Resource(runtimeschema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "laters"}).List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Error(err)
	}
	client := kubernetes.NewForConfigOrDie(config)
	service, err := client.CoreV1().Services("default").Get(t.Context(), "kubernetes", metav1.GetOptions{})
	if err != nil || service.Spec.ClusterIP != "10.9.0.1" {
		t.Errorf("the service is %v, %v", service, err)
	}

	// No controllers run.
	if _, err := client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := client.CoreV1().Namespaces().Delete(t.Context(), "shop", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "a", Image: "a"}}}}
	if _, err := client.CoreV1().Pods("default").Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Error(err)
	}

	user, err := e.AddUser(User{Name: "ann", Groups: []string{"system:masters"}}, &rest.Config{QPS: 7, Burst: 9})
	if err != nil {
		t.Fatal(err)
	}
	file, err := user.KubeConfig()
	if err != nil {
		t.Fatal(err)
	}
	fromFile, err := clientcmd.RESTConfigFromKubeConfig(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []*rest.Config{user.Config(), fromFile} {
		got, err := kubernetes.NewForConfigOrDie(c).CoreV1().Namespaces().Get(t.Context(), "shop", metav1.GetOptions{})
		if err != nil || got.Status.Phase != corev1.NamespaceTerminating {
			t.Errorf("the namespace is %v, %v", got, err)
		}
	}
	if user.Config().QPS != 7 || len(e.KubeConfig) == 0 {
		t.Errorf("the configuration of the user is %v", user.Config())
	}
	e.Server().Reset(t)

	if err := e.Stop(); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("files are left: %v, %v", left, err)
	}
	if err := e.Stop(); err != nil {
		t.Errorf("a second stop: %v", err)
	}
}

// TestEnvironmentExisting uses a server as an existing cluster.
func TestEnvironmentExisting(t *testing.T) {
	s := Start(t)
	existing := true
	e := &Environment{UseExistingCluster: &existing, Config: s.Config(), CRDInstallOptions: CRDInstallOptions{Paths: []string{"testdata/crds", "testdata/crds/sub", "no/such/path"}, CleanUpAfterUse: true}}
	if _, err := e.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := trees(t, s.Config()).List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Error(err)
	}
	if _, err := e.AddUser(User{Name: "ann"}, nil); err == nil {
		t.Error("a user of an existing cluster")
	}
	if err := e.Stop(); err != nil {
		t.Fatal(err)
	}
	crd, err := dynamic.NewForConfigOrDie(s.Config()).Resource(crdResource("v1")).Get(t.Context(), "trees.example.com", metav1.GetOptions{})
	if err == nil && crd.GetDeletionTimestamp() == nil {
		t.Error("the CRD is there")
	}
}

func TestEnvironmentErrors(t *testing.T) {
	flags := func(name, value string) ControlPlane {
		var c ControlPlane
		c.GetAPIServer().Configure().Set(name, value)
		return c
	}
	for _, test := range []struct {
		environment *Environment
		want        string
	}{
		{&Environment{CRDDirectoryPaths: []string{"no/such/path"}, ErrorIfCRDPathMissing: true}, "no/such/path"},
		{&Environment{CRDs: laterCRD()}, "must be a slice of CRDs"},
		{&Environment{CRDs: []string{"a"}}, "a"},
		{&Environment{ControlPlane: flags("no-such-flag", "x")}, "unknown flag: --no-such-flag"},
		{&Environment{WebhookInstallOptions: WebhookInstallOptions{Paths: []string{"no/such/path"}}}, "no/such/path"},
	} {
		_, err := test.environment.Start()
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("got %v, want %s", err, test.want)
		}
		if err := test.environment.Stop(); err != nil {
			t.Error(err)
		}
	}
}

// TestEnvironmentAgain checks an environment that is started again, with flags that have default
// values.
func TestEnvironmentAgain(t *testing.T) {
	e := &Environment{CRDInstallOptions: CRDInstallOptions{CleanUpAfterUse: true}, CRDDirectoryPaths: []string{"testdata/crds"}}
	e.ControlPlane.GetAPIServer().Configure().
		Set("authorization-mode", "Node", "RBAC").Append("disable-admission-plugins", "PodSecurity").Enable("anonymous-auth")
	for range 2 {
		config, err := e.Start()
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(e.KubeConfig), config.Host) {
			t.Errorf("the kubeconfig is not that of %s:\n%s", config.Host, e.KubeConfig)
		}
		// The plugin ServiceAccount would reject the pod.
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "a", Image: "a"}}}}
		if _, err := kubernetes.NewForConfigOrDie(config).CoreV1().Pods("default").Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
			t.Error(err)
		}
		for range 2 {
			if err := e.Stop(); err != nil {
				t.Error(err)
			}
		}
	}
}

// convertibleTree and hubTree implement the interfaces of controller-runtime's conversions.
type convertibleTree struct{ unstructured.Unstructured }

func (*convertibleTree) ConvertTo(any) error   { return nil }
func (*convertibleTree) ConvertFrom(any) error { return nil }

type hubTree struct{ unstructured.Unstructured }

func (*hubTree) Hub() {}

const webhooks = `
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingWebhookConfiguration
metadata: {name: defaulting}
webhooks:
- name: trees.example.com
  admissionReviewVersions: [v1]
  sideEffects: None
  clientConfig: {service: {name: webhook-service, namespace: system, path: /mutate}}
  rules: [{apiGroups: [example.com], apiVersions: [v1], operations: [CREATE], resources: [trees]}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: validating}
webhooks:
- name: trees.example.com
  admissionReviewVersions: [v1]
  sideEffects: None
  clientConfig: {service: {name: webhook-service, namespace: system, path: /validate}}
  rules: [{apiGroups: [example.com], apiVersions: [v1], operations: [CREATE], resources: [trees]}]
`

func TestEnvironmentWebhooks(t *testing.T) {
	path := filepath.Join(t.TempDir(), "webhooks.yaml")
	if err := os.WriteFile(path, []byte(webhooks), 0o600); err != nil {
		t.Fatal(err)
	}
	types := runtime.NewScheme()
	types.AddKnownTypeWithName(runtimeschema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Later"}, &hubTree{})
	types.AddKnownTypeWithName(runtimeschema.GroupVersionKind{Group: "example.com", Version: "v2", Kind: "Later"}, &convertibleTree{})
	e := &Environment{
		Scheme: types, CRDs: []any{laterCRD()}, CRDDirectoryPaths: []string{"testdata/crds", "testdata/crds/sub"},
		WebhookInstallOptions: WebhookInstallOptions{Paths: []string{path, "no/such/path"}, IgnoreErrorIfPathMissing: true},
	}
	config, err := e.Start()
	defer func() {
		if err := e.Stop(); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(e.WebhookInstallOptions.LocalServingCertDir); !os.IsNotExist(err) {
			t.Errorf("the certificates are left: %v", err)
		}
	}()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"tls.crt", "tls.key"} {
		if _, err := os.Stat(filepath.Join(e.WebhookInstallOptions.LocalServingCertDir, name)); err != nil {
			t.Error(err)
		}
	}
	address, err := e.WebhookInstallOptions.address()
	if err != nil {
		t.Fatal(err)
	}
	check := func(c admissionv1.WebhookClientConfig, path string) {
		t.Helper()
		if c.Service != nil || c.URL == nil || *c.URL != "https://"+address+path || !bytes.Equal(c.CABundle, e.WebhookInstallOptions.LocalServingCAData) {
			t.Errorf("the webhook is %v", c)
		}
	}
	client := kubernetes.NewForConfigOrDie(config).AdmissionregistrationV1()
	mutating, err := client.MutatingWebhookConfigurations().Get(t.Context(), "defaulting", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	check(mutating.Webhooks[0].ClientConfig, "/mutate")
	validating, err := client.ValidatingWebhookConfigurations().Get(t.Context(), "validating", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	check(validating.Webhooks[0].ClientConfig, "/validate")

	crds := dynamic.NewForConfigOrDie(config).Resource(crdResource("v1"))
	for name, want := range map[string]string{"laters.example.com": "https://" + address + "/convert", "trees.example.com": ""} {
		crd, err := crds.Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if url, _, _ := unstructured.NestedString(crd.Object, "spec", "conversion", "webhook", "clientConfig", "url"); url != want {
			t.Errorf("the conversion webhook of %s is %q, not %q", name, url, want)
		}
	}
	// A second installation replaces the first.
	if err := e.WebhookInstallOptions.Install(config); err != nil {
		t.Error(err)
	}
}
