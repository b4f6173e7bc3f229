package quota

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"sigs.k8s.io/yaml"
)

// memory has quotas in memory. Every second write has a conflict.
type memory struct {
	mu        sync.Mutex
	quotas    map[string]corev1.ResourceQuota
	conflicts int
	writes    int
}

func (m *memory) List(_ context.Context, namespace string) (all []corev1.ResourceQuota, _ error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, q := range m.quotas {
		if q.Namespace == namespace {
			all = append(all, *q.DeepCopy())
		}
	}
	return all, nil
}

func (m *memory) Sync(context.Context) error { return nil }

func (m *memory) WriteStatus(_ context.Context, q *corev1.ResourceQuota) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.writes++
	stored := m.quotas[q.Name]
	n, _ := strconv.Atoi(stored.ResourceVersion)
	if m.conflicts > 0 {
		// Another server changes the quota first.
		m.conflicts--
		stored.ResourceVersion = strconv.Itoa(n + 1)
		m.quotas[q.Name] = stored
	}
	if stored.ResourceVersion != q.ResourceVersion {
		return apierrors.NewConflict(quotas, q.Name, fmt.Errorf("changed"))
	}
	next := q.DeepCopy()
	next.ResourceVersion = strconv.Itoa(n + 1)
	m.quotas[q.Name] = *next
	return nil
}

// newMemory returns quotas. Each is a name and its limits; nothing is used.
func newMemory(t *testing.T, texts ...string) *memory {
	t.Helper()
	m := &memory{quotas: map[string]corev1.ResourceQuota{}}
	for _, text := range texts {
		q := parse[corev1.ResourceQuota](t, text)
		q.Namespace, q.ResourceVersion = "ns", "1"
		q.Status.Hard = q.Spec.Hard
		if q.Status.Used == nil {
			q.Status.Used = corev1.ResourceList{}
			for name := range q.Spec.Hard {
				q.Status.Used[name] = whole(0)
			}
		}
		m.quotas[q.Name] = *q
	}
	return m
}

func parse[T any](t *testing.T, text string) *T {
	t.Helper()
	obj := new(T)
	if err := yaml.UnmarshalStrict([]byte(text), obj); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return obj
}

func plugin(t *testing.T, m *memory, configuration string) *Admission {
	t.Helper()
	p, err := NewAdmission(Config{
		Quotas: m, Objects: func(schema.GroupResource, string) ([]runtime.Object, error) { return nil, nil }, Charges: NewCharges(), Keep: true,
		Key: func(r schema.GroupResource, namespace, name string) string {
			return r.String() + "/" + namespace + "/" + name
		}, Configuration: []byte(configuration),
	})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func attributes(obj, old runtime.Object, resource string, dry bool) admission.Attributes {
	op := admission.Create
	if old != nil {
		op = admission.Update
	}
	gr := schema.ParseGroupResource(resource)
	return admission.NewAttributesRecord(obj, old, schema.GroupVersionKind{Kind: "X"}, "ns", "x", gr.WithVersion("v1"), "", op, nil, dry, nil)
}

func TestAdmission(t *testing.T) {
	t.Parallel()
	pod := func(spec string) runtime.Object { return parse[corev1.Pod](t, "{metadata: {name: x}, spec: "+spec+"}") }
	service := func(spec string) runtime.Object {
		s := parse[corev1.Service](t, "{metadata: {name: x, resourceVersion: '1'}, spec: "+spec+"}")
		return s
	}
	const requests = "{containers: [{name: a, resources: {requests: {cpu: 2, memory: 1Gi}, limits: {cpu: 3, e.x/gpu: 1}}}]}"
	for _, c := range []struct {
		name, quota string
		obj, old    runtime.Object
		resource    string
		// used is what is used then, or the error.
		used, err string
	}{
		{name: "count", quota: "{count/crontabs.example.com: 1}", resource: "crontabs.example.com", used: "count/crontabs.example.com=1"},
		{name: "other resource", quota: "{count/crontabs.example.com: 1}", resource: "jobs.example.com", used: "count/crontabs.example.com=0"},
		{name: "exceeded", quota: "{count/crontabs.example.com: 0}", resource: "crontabs.example.com",
			err: `crontabs.example.com "x" is forbidden: exceeded quota: q, requested: count/crontabs.example.com=1, used: count/crontabs.example.com=0, limited: count/crontabs.example.com=0`},
		{name: "legacy name", quota: "{secrets: 2}", resource: "secrets", used: "secrets=1"},
		{name: "events are not counted", quota: "{count/events: 0}", resource: "events", used: "count/events=0"},
		{name: "pod", quota: "{pods: 1, requests.cpu: 2, limits.cpu: 4, cpu: 2, memory: 2Gi}", obj: pod(requests), resource: "pods", used: "cpu=2 limits.cpu=3 memory=1Gi pods=1 requests.cpu=2"},
		{name: "too much", quota: "{pods: 1, requests.cpu: 1, memory: 1}", obj: pod(requests), resource: "pods",
			err: `pods "x" is forbidden: exceeded quota: q, requested: memory=1Gi,requests.cpu=2, used: memory=0,requests.cpu=0, limited: memory=1,requests.cpu=1`},
		{name: "no request", quota: "{limits.memory: 1, requests.cpu: 1}", obj: pod("{containers: [{name: b}, {name: a}], initContainers: [{name: b}]}"), resource: "pods",
			err: `pods "x" is forbidden: failed quota: q: must specify limits.memory for: a,b; requests.cpu for: a,b`},
		{name: "resources of the pod", quota: "{requests.cpu: 1}", obj: pod("{resources: {requests: {cpu: 1}}, containers: [{name: b}]}"), resource: "pods", used: "requests.cpu=1"},
		{name: "ephemeral storage need not be requested", quota: "{requests.ephemeral-storage: 1}", obj: pod("{containers: [{name: b}]}"), resource: "pods", used: "requests.ephemeral-storage=0"},
		{name: "extended resource", quota: "{requests.e.x/gpu: 1}", obj: pod("{containers: [{name: a, resources: {requests: {e.x/gpu: 2}}}]}"), resource: "pods",
			err: `pods "x" is forbidden: exceeded quota: q, requested: requests.e.x/gpu=2, used: requests.e.x/gpu=0, limited: requests.e.x/gpu=1`},
		{name: "service", quota: "{services: 1, services.nodeports: 2}", obj: service("{type: NodePort, ports: [{port: 1}, {port: 2}]}"), resource: "services", used: "services=1 services.nodeports=2"},
		{name: "service type", quota: "{services: 0, services.nodeports: 2, services.loadbalancers: 1}", obj: service("{type: LoadBalancer, ports: [{port: 1}]}"), old: service("{ports: [{port: 1}]}"),
			resource: "services", used: "services=0 services.loadbalancers=1 services.nodeports=1"},
		{name: "load balancer without node ports", quota: "{services.nodeports: 2}", obj: service("{type: LoadBalancer, allocateLoadBalancerNodePorts: false, ports: [{port: 1}, {port: 2, nodePort: 3}]}"), resource: "services", used: "services.nodeports=1"},
		{name: "claim", quota: "{requests.storage: 3Gi, gold.storageclass.storage.k8s.io/requests.storage: 2Gi, gold.storageclass.storage.k8s.io/persistentvolumeclaims: 1, silver.storageclass.storage.k8s.io/persistentvolumeclaims: 0}",
			obj: parse[corev1.PersistentVolumeClaim](t, "{metadata: {name: x}, spec: {storageClassName: gold, resources: {requests: {storage: 2Gi}}}}"), resource: "persistentvolumeclaims",
			used: "gold.storageclass.storage.k8s.io/persistentvolumeclaims=1 gold.storageclass.storage.k8s.io/requests.storage=2Gi requests.storage=2Gi silver.storageclass.storage.k8s.io/persistentvolumeclaims=0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			m := newMemory(t, "{metadata: {name: q}, spec: {hard: "+c.quota+"}}")
			if c.obj == nil {
				c.obj = &corev1.ConfigMap{}
			}
			p := plugin(t, m, "")
			if err := p.Validate(context.Background(), attributes(c.obj, c.old, c.resource, true), nil); (err == nil) != (c.err == "") || m.writes != 0 {
				t.Errorf("a dry run: %v, %d writes", err, m.writes)
			}
			m.conflicts = 1
			err := p.Validate(context.Background(), attributes(c.obj, c.old, c.resource, false), nil)
			if c.err != "" {
				if err == nil || err.Error() != c.err || !apierrors.IsForbidden(err) {
					t.Errorf("got  %v\nwant %s", err, c.err)
				}
				return
			}
			if got := used(m, "q"); err != nil || got != c.used {
				t.Errorf("got %s %v, want %s", got, err, c.used)
			}
		})
	}
}

func used(m *memory, name string) string {
	q := m.quotas[name]
	var texts []string
	for _, name := range slices.Sorted(maps.Keys(q.Status.Used)) {
		v := q.Status.Used[name]
		texts = append(texts, string(name)+"="+v.String())
	}
	return strings.Join(texts, " ")
}

func TestScopes(t *testing.T) {
	t.Parallel()
	const (
		terminating = "{activeDeadlineSeconds: 5}"
		burstable   = "{containers: [{name: a, resources: {requests: {cpu: 1}}}]}"
		high        = "{priorityClassName: high}"
		affine      = "{affinity: {podAntiAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1, podAffinityTerm: {topologyKey: a, namespaceSelector: {}}}]}}}"
	)
	for _, c := range []struct{ scope, in, out string }{
		{"scopes: [Terminating]", terminating, high},
		{"scopes: [NotTerminating]", high, terminating},
		{"scopes: [BestEffort]", high, burstable},
		{"scopes: [NotBestEffort]", burstable, high},
		{"scopes: [NotBestEffort, NotTerminating]", burstable, terminating},
		{"scopes: [CrossNamespacePodAffinity]", affine, high},
		{"scopeSelector: {matchExpressions: [{scopeName: PriorityClass, operator: In, values: [high]}]}", high, burstable},
		{"scopeSelector: {matchExpressions: [{scopeName: PriorityClass, operator: NotIn, values: [high]}]}", burstable, high},
		{"scopeSelector: {matchExpressions: [{scopeName: PriorityClass, operator: Exists}]}", high, burstable},
		{"scopeSelector: {matchExpressions: [{scopeName: PriorityClass, operator: DoesNotExist}]}", burstable, high},
	} {
		m := newMemory(t, "{metadata: {name: q}, spec: {hard: {pods: 0}, "+c.scope+"}}")
		p := plugin(t, m, "")
		for spec, want := range map[string]bool{c.in: true, c.out: false} {
			err := p.Validate(context.Background(), attributes(parse[corev1.Pod](t, "{metadata: {name: x}, spec: "+spec+"}"), nil, "pods", false), nil)
			if (err != nil) != want {
				t.Errorf("%s: %s: %v", c.scope, spec, err)
			}
		}
	}
	// Limits of a scope that has no quota.
	const limited = `{"apiVersion":"apiserver.config.k8s.io/v1","kind":"ResourceQuotaConfiguration","limitedResources":[{"resource":"pods","matchScopes":[{"scopeName":"PriorityClass","operator":"In","values":["high"]}]}]}`
	p := plugin(t, newMemory(t), limited)
	for spec, want := range map[string]string{high: "insufficient quota to match these scopes: [{PriorityClass In [high]}]", burstable: ""} {
		err := p.Validate(context.Background(), attributes(parse[corev1.Pod](t, "{metadata: {name: x}, spec: "+spec+"}"), nil, "pods", false), nil)
		if got := fmt.Sprint(err); err == nil && want != "" || err != nil && got != want {
			t.Errorf("%s: got %v, want %s", spec, err, want)
		}
	}
}
