package plugins_test

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"

	"espalier.dev/server/plugins"
)

// named returns a plugin.
func named(t *testing.T, name string, c plugins.Config) admission.Interface {
	t.Helper()
	for _, p := range plugins.All() {
		if p.Name == name {
			plugin, err := p.New(c)
			if err != nil {
				t.Fatal(err)
			}
			return plugin
		}
	}
	t.Fatalf("no plugin %s", name)
	return nil
}

// TestPlugins checks the plugins that are not compared with those of Kubernetes in test/oracle.
func TestPlugins(t *testing.T) {
	t.Parallel()
	const (
		namespace = `{apiVersion: v1, kind: Namespace, metadata: {name: ns}}`
		node      = `{apiVersion: v1, kind: Node, metadata: {name: node, labels: {topology.kubernetes.io/zone: z, topology.kubernetes.io/region: r, x: "y"}}, status: {allocatable: {cpu: "2", memory: 1Gi}}}`
		declaring = `{apiVersion: v1, kind: Node, metadata: {name: node}, status: {declaredFeatures: [InPlacePodLevelResourcesVerticalScaling]}}`
		forbidden = `pods "p" is forbidden: `
	)
	resizedPod := func(generation, cpu string) string {
		return `{apiVersion: v1, kind: Pod, metadata: {name: p, namespace: ns, generation: ` + generation + `}, spec: {nodeName: node, resources: {requests: {cpu: "` + cpu + `"}}, containers: [{name: c}]}}`
	}
	for _, r := range []request{
		{name: "namespace exists", plugin: "NamespaceLifecycle", stored: `{apiVersion: v1, kind: Namespace, metadata: {name: ns}}`, object: pod("")},
		{name: "no namespace", plugin: "NamespaceLifecycle", object: pod(""), err: `namespaces "ns" not found`},
		{name: "update without namespace", plugin: "NamespaceLifecycle", object: pod(""), old: pod("")},
		{name: "terminating namespace", plugin: "NamespaceLifecycle", stored: `{apiVersion: v1, kind: Namespace, metadata: {name: ns}, status: {phase: Terminating}}`, object: pod(""),
			err: `pods "p" is forbidden: unable to create new content in namespace ns because it is being terminated`},
		{name: "without namespaces", plugin: "NamespaceLifecycle", object: class},
		{name: "immortal namespace", plugin: "NamespaceLifecycle", object: `{apiVersion: v1, kind: Namespace, metadata: {name: kube-system}}`, delete: true,
			err: `namespaces "kube-system" is forbidden: this namespace may not be deleted`},
		{name: "mortal namespace", plugin: "NamespaceLifecycle", object: `{apiVersion: v1, kind: Namespace, metadata: {name: kube-node-lease}}`, delete: true},

		{name: "all", plugin: "AlwaysAdmit", object: pod(""), want: pod("")},
		{name: "none", plugin: "AlwaysDeny", object: pod(""), err: forbidden + "admission control is denying all modifications"},

		{name: "exists", plugin: "NamespaceExists", stored: namespace, object: pod("")},
		{name: "missing", plugin: "NamespaceExists", object: pod(""), old: pod(""), err: `namespaces "ns" not found`},
		{name: "namespace itself", plugin: "NamespaceExists", object: namespace},

		{name: "wrong configuration", plugin: "PodTolerationRestriction", configuration: "{apiVersion: v1, kind: Configuration}", object: pod(""),
			err: `the configuration is "v1" "Configuration": must be "podtolerationrestriction.admission.k8s.io/v1alpha1" "Configuration"`},

		{name: "declared", plugin: "NodeDeclaredFeatureValidator", stored: declaring, object: resizedPod("2", "2"), old: resizedPod("1", "1")},
		{name: "not declared", plugin: "NodeDeclaredFeatureValidator", stored: node, object: resizedPod("2", "2"), old: resizedPod("1", "1"),
			err: forbidden + `pod update requires features InPlacePodLevelResourcesVerticalScaling which are not available on node "node"`},
		{name: "nothing needed", plugin: "NodeDeclaredFeatureValidator", stored: node, object: resizedPod("2", "1"), old: resizedPod("1", "1")},
		{name: "same generation", plugin: "NodeDeclaredFeatureValidator", stored: node, object: resizedPod("1", "2"), old: resizedPod("1", "1")},
		{name: "unknown node", plugin: "NodeDeclaredFeatureValidator", object: resizedPod("2", "2"), old: resizedPod("1", "1"), err: forbidden + `node "node" not found`},

		{name: "no limits", plugin: "EventRateLimit", object: `{apiVersion: v1, kind: Event}`, err: "limits: Invalid value: null: must not be empty"},
		{name: "invalid limits", plugin: "EventRateLimit", object: `{apiVersion: v1, kind: Event}`, configuration: "{apiVersion: eventratelimit.admission.k8s.io/v1alpha1, kind: Configuration, limits: [{type: X, qps: 0, burst: 0, cacheSize: -1}]}",
			err: `[limits[0].type: Unsupported value: "X": supported values: "Namespace", "Server", "SourceAndObject", "User", limits[0].burst: Invalid value: 0: must be positive, limits[0].qps: Invalid value: 0: must be positive, limits[0].cacheSize: Invalid value: -1: must not be negative]`},
	} {
		t.Run(r.plugin+"/"+r.name, func(t *testing.T) {
			t.Parallel()
			if got := message(r.run(t, nil)); got != r.err {
				t.Errorf("got error %q, want %q", got, r.err)
			}
		})
	}
}

// TestEventRateLimit checks that each limit has a bucket for each of its keys.
func TestEventRateLimit(t *testing.T) {
	t.Parallel()
	const head = "{apiVersion: eventratelimit.admission.k8s.io/v1alpha1, kind: Configuration, limits: ["
	event := func(namespace, who, object string, dry bool) admission.Attributes {
		e := &corev1.Event{ObjectMeta: metav1.ObjectMeta{Name: "e", Namespace: namespace}, InvolvedObject: corev1.ObjectReference{Name: object}}
		gvk := corev1.SchemeGroupVersion.WithKind("Event")
		return admission.NewAttributesRecord(e, nil, gvk, namespace, "e", corev1.SchemeGroupVersion.WithResource("events"), "", admission.Create, nil, dry, &user.DefaultInfo{Name: who})
	}
	for kind, accepted := range map[string]int{"Server": 2, "Namespace": 4, "User": 4, "SourceAndObject": 4} {
		p := named(t, "EventRateLimit", plugins.Config{Configuration: []byte(head + "{type: " + kind + ", qps: 1, burst: 2}]}")}).(admission.ValidationInterface)
		n, start := 0, time.Now()
		for range 4 {
			for _, key := range []string{"a", "b"} {
				if err := p.Validate(context.Background(), event(key, key, key, true), nil); err != nil {
					t.Errorf("%s: dry run: %v", kind, err)
				}
				err := p.Validate(context.Background(), event(key, key, key, false), nil)
				switch {
				case err == nil:
					n++
				case !apierrors.IsTooManyRequests(err):
					t.Errorf("%s: got %v", kind, err)
				}
			}
		}
		// A second that passes meanwhile adds a token to each of the two buckets.
		if late := 2 * int(time.Since(start).Seconds()); n < accepted || n > accepted+late {
			t.Errorf("%s: %d events were accepted, want %d", kind, n, accepted)
		}
	}
}

// TestAutoProvision checks that the namespace of a new object is created.
func TestAutoProvision(t *testing.T) {
	t.Parallel()
	var created []string
	create := func(_ context.Context, name string) error {
		created = append(created, name)
		return nil
	}
	p := named(t, "NamespaceAutoProvision", plugins.Config{Objects: stored(decode(t, `{apiVersion: v1, kind: Namespace, metadata: {name: a}}`)), CreateNamespace: create}).(admission.MutationInterface)
	for _, dry := range []bool{false, true} {
		for _, namespace := range []string{"a", "b", ""} {
			a := admission.NewAttributesRecord(&corev1.Pod{}, nil, corev1.SchemeGroupVersion.WithKind("Pod"), namespace, "p", corev1.SchemeGroupVersion.WithResource("pods"), "", admission.Create, nil, dry, nil)
			if err := p.Admit(context.Background(), a, nil); err != nil {
				t.Error(err)
			}
		}
	}
	if len(created) != 1 || created[0] != "b" {
		t.Errorf("created %v", created)
	}
}
