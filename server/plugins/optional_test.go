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

func TestOptionalPlugins(t *testing.T) {
	t.Parallel()
	const (
		namespace = `{apiVersion: v1, kind: Namespace, metadata: {name: ns}}`
		selecting = `{apiVersion: v1, kind: Namespace, metadata: {name: ns, annotations: {scheduler.alpha.kubernetes.io/node-selector: "a=b"}}}`
		tolerant  = `{apiVersion: v1, kind: Namespace, metadata: {name: ns, annotations: {scheduler.alpha.kubernetes.io/defaultTolerations: '[{"key":"k","operator":"Exists"}]', scheduler.alpha.kubernetes.io/tolerationsWhitelist: '[{"key":"k","operator":"Exists"},{"key":"node.kubernetes.io/memory-pressure","operator":"Exists"}]'}}}`
		selectors = "podNodeSelectorPluginConfig: {clusterDefaultNodeSelector: c=d, ns: \"a=b,c=d,e=f\"}"
		limits    = "{apiVersion: podtolerationrestriction.admission.k8s.io/v1alpha1, kind: Configuration, default: [{key: d, operator: Exists}], whitelist: [{key: d, operator: Exists}]}"
		node      = `{apiVersion: v1, kind: Node, metadata: {name: node, labels: {topology.kubernetes.io/zone: z, topology.kubernetes.io/region: r, x: "y"}}, status: {allocatable: {cpu: "2", memory: 1Gi}}}`
		windows   = `{apiVersion: v1, kind: Node, metadata: {name: node, labels: {kubernetes.io/os: windows}}}`
		declaring = `{apiVersion: v1, kind: Node, metadata: {name: node}, status: {declaredFeatures: [InPlacePodLevelResourcesVerticalScaling]}}`
		forbidden = `pods "p" is forbidden: `
	)
	service := func(ips string) string {
		return `{apiVersion: v1, kind: Service, metadata: {name: s, namespace: ns}, spec: {externalIPs: [` + ips + `]}}`
	}
	resized := func(generation, cpu, memory string) string {
		return `{apiVersion: v1, kind: Pod, metadata: {name: p, namespace: ns, generation: ` + generation + `}, spec: {nodeName: node, containers: [{name: c, resources: {requests: {cpu: "` + cpu + `", memory: "` + memory + `"}}}]}}`
	}
	resizedPod := func(generation, cpu string) string {
		return `{apiVersion: v1, kind: Pod, metadata: {name: p, namespace: ns, generation: ` + generation + `}, spec: {nodeName: node, resources: {requests: {cpu: "` + cpu + `"}}, containers: [{name: c}]}}`
	}
	for _, r := range []request{
		{name: "all", plugin: "AlwaysAdmit", object: pod(""), want: pod("")},
		{name: "none", plugin: "AlwaysDeny", object: pod(""), err: forbidden + "admission control is denying all modifications"},

		{name: "pull", plugin: "AlwaysPullImages", object: pod("containers: [{name: a, imagePullPolicy: Never}], initContainers: [{name: b}], volumes: [{name: v, image: {reference: x}}]"),
			want: pod("containers: [{name: a, imagePullPolicy: Always}], initContainers: [{name: b, imagePullPolicy: Always}], volumes: [{name: v, image: {reference: x, pullPolicy: Always}}]")},
		{name: "same images", plugin: "AlwaysPullImages", object: pod("containers: [{name: a, image: x}]"), old: pod("containers: [{name: a, image: x}]"), want: pod("containers: [{name: a, image: x}]")},
		{name: "other images", plugin: "AlwaysPullImages", object: pod("containers: [{name: a, image: z}]"), old: pod("containers: [{name: a, image: x}]"), want: pod("containers: [{name: a, image: z, imagePullPolicy: Always}]")},

		{name: "exists", plugin: "NamespaceExists", stored: namespace, object: pod("")},
		{name: "missing", plugin: "NamespaceExists", object: pod(""), old: pod(""), err: `namespaces "ns" not found`},
		{name: "namespace itself", plugin: "NamespaceExists", object: namespace},

		{name: "hostname", plugin: "LimitPodHardAntiAffinityTopology", object: pod("affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: kubernetes.io/hostname}]}}")},
		{name: "zone", plugin: "LimitPodHardAntiAffinityTopology", object: pod("affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: zone}]}}"),
			err: forbidden + "affinity.PodAntiAffinity.RequiredDuringScheduling has TopologyKey zone but only key kubernetes.io/hostname is allowed"},

		{name: "annotation", plugin: "PodNodeSelector", stored: selecting, object: pod("nodeSelector: {x: y}"), want: pod("nodeSelector: {a: b, x: y}")},
		{name: "conflict", plugin: "PodNodeSelector", stored: selecting, object: pod("nodeSelector: {a: y}"), err: forbidden + "pod node label selector conflicts with its namespace node label selector"},
		{name: "default", plugin: "PodNodeSelector", stored: namespace, configuration: selectors, object: pod("nodeSelector: {e: f}"), want: pod("nodeSelector: {c: d, e: f}")},
		{name: "not allowed", plugin: "PodNodeSelector", stored: namespace, configuration: selectors, object: pod("nodeSelector: {e: x}"), err: forbidden + "pod node label selector labels conflict with its namespace whitelist"},

		{name: "annotation", plugin: "PodTolerationRestriction", stored: tolerant, object: pod(""), want: pod("tolerations: [{key: k, operator: Exists}]")},
		{name: "not best effort", plugin: "PodTolerationRestriction", stored: tolerant, object: pod("tolerations: [{key: k, operator: Equal}], containers: [{name: a, resources: {requests: {cpu: 1}}}]"),
			want: pod(`containers: [{name: a, resources: {requests: {cpu: 1}}}], tolerations: [{key: k, operator: Exists}, {key: node.kubernetes.io/memory-pressure, operator: Exists, effect: NoSchedule}]`)},
		{name: "not allowed", plugin: "PodTolerationRestriction", stored: tolerant, object: pod("tolerations: [{key: x}]"), err: "pod tolerations (possibly merged with namespace default tolerations) conflict with its namespace whitelist"},
		{name: "configuration", plugin: "PodTolerationRestriction", stored: namespace, configuration: limits, object: pod(""), want: pod("tolerations: [{key: d, operator: Exists}]")},
		{name: "not allowed by the configuration", plugin: "PodTolerationRestriction", stored: namespace, configuration: limits, object: pod("tolerations: [{key: x}]"), err: "pod tolerations (possibly merged with namespace default tolerations) conflict with its cluster whitelist"},
		{name: "wrong configuration", plugin: "PodTolerationRestriction", configuration: "{apiVersion: v1, kind: Configuration}", object: pod(""),
			err: `the configuration is "v1" "Configuration": must be "podtolerationrestriction.admission.k8s.io/v1alpha1" "Configuration"`},

		{name: "extended resource", plugin: "ExtendedResourceToleration", object: pod(`containers: [{name: a, resources: {requests: {cpu: 1, e.x/b: 1, e.x/a: 1}}}], tolerations: [{key: e.x/a, operator: Exists, effect: NoSchedule, tolerationSeconds: 3}]`),
			want: pod(`containers: [{name: a, resources: {requests: {cpu: 1, e.x/b: 1, e.x/a: 1}}}], tolerations: [{key: e.x/a, operator: Exists, effect: NoSchedule}, {key: e.x/b, operator: Exists, effect: NoSchedule}]`)},

		{name: "new IP", plugin: "DenyServiceExternalIPs", object: service("1.2.3.4"), err: `services "s" is forbidden: Use of external IPs is denied by admission control`},
		{name: "no IP", plugin: "DenyServiceExternalIPs", object: service("")},
		{name: "fewer IPs", plugin: "DenyServiceExternalIPs", object: service("1.2.3.4"), old: service("1.2.3.4, 1.2.3.5")},
		{name: "other IP", plugin: "DenyServiceExternalIPs", object: service("1.2.3.6"), old: service("1.2.3.4"), err: `services "s" is forbidden: Use of external IPs is denied by admission control`},

		{name: "node", plugin: "PodTopologyLabels", stored: node, object: pod("nodeName: node"), want: `{apiVersion: v1, kind: Pod, metadata: {name: p, namespace: ns, labels: {topology.kubernetes.io/zone: z, topology.kubernetes.io/region: r}}, spec: {nodeName: node}}`},
		{name: "unknown node", plugin: "PodTopologyLabels", object: pod("nodeName: node"), want: pod("nodeName: node")},
		{name: "no node", plugin: "PodTopologyLabels", stored: node, object: pod(""), want: pod("")},
		{name: "binding", plugin: "PodTopologyLabels", stored: node, object: `{apiVersion: v1, kind: Binding, metadata: {name: p, labels: {topology.kubernetes.io/zone: x}}, target: {kind: Node, name: node}}`, subresource: "binding",
			want: `{apiVersion: v1, kind: Binding, metadata: {name: p, labels: {topology.kubernetes.io/zone: z, topology.kubernetes.io/region: r}}, target: {kind: Node, name: node}}`},

		{name: "fits", plugin: "PodResizeValidator", stored: node, object: resized("2", "2", "1Gi"), old: resized("1", "1", "1"), subresource: "resize"},
		{name: "unchanged", plugin: "PodResizeValidator", stored: node, object: resized("1", "9", "1Gi"), old: resized("1", "1", "1"), subresource: "resize"},
		{name: "too large", plugin: "PodResizeValidator", stored: node, object: resized("2", "3", "2Gi"), old: resized("1", "1", "1"), subresource: "resize",
			err: forbidden + "node didn't have enough allocatable resources: cpu, requested: 3000, allocatable: 2000; memory, requested: 2147483648, allocatable: 1073741824"},
		{name: "unknown node", plugin: "PodResizeValidator", object: resized("2", "2", "1Gi"), old: resized("1", "1", "1"), subresource: "resize", err: forbidden + `node "node" not found`},
		{name: "other system", plugin: "PodResizeValidator", stored: windows, object: resized("2", "2", "1Gi"), old: resized("1", "1", "1"), subresource: "resize",
			err: forbidden + `pod resize is only supported on linux nodes, node "node" is "windows"`},

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
