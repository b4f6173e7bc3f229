package plugins_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"slices"
	"strings"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	nodev1 "k8s.io/api/node/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"sigs.k8s.io/yaml"

	"espalier.dev/server/plugins"
)

// kinds are the Go types and resources of the objects in the tests.
var kinds = map[string]struct {
	resource string
	object   func() runtime.Object
}{
	"Namespace":                 {"namespaces", func() runtime.Object { return &corev1.Namespace{} }},
	"Node":                      {"nodes", func() runtime.Object { return &corev1.Node{} }},
	"Service":                   {"services", func() runtime.Object { return &corev1.Service{} }},
	"Event":                     {"events", func() runtime.Object { return &corev1.Event{} }},
	"Binding":                   {"pods", func() runtime.Object { return &corev1.Binding{} }},
	"Pod":                       {"pods", func() runtime.Object { return &corev1.Pod{} }},
	"ServiceAccount":            {"serviceaccounts", func() runtime.Object { return &corev1.ServiceAccount{} }},
	"LimitRange":                {"limitranges", func() runtime.Object { return &corev1.LimitRange{} }},
	"PersistentVolume":          {"persistentvolumes", func() runtime.Object { return &corev1.PersistentVolume{} }},
	"PersistentVolumeClaim":     {"persistentvolumeclaims", func() runtime.Object { return &corev1.PersistentVolumeClaim{} }},
	"StorageClass":              {"storageclasses", func() runtime.Object { return &storagev1.StorageClass{} }},
	"VolumeAttributesClass":     {"volumeattributesclasses", func() runtime.Object { return &storagev1.VolumeAttributesClass{} }},
	"Ingress":                   {"ingresses", func() runtime.Object { return &networkingv1.Ingress{} }},
	"IngressClass":              {"ingressclasses", func() runtime.Object { return &networkingv1.IngressClass{} }},
	"PriorityClass":             {"priorityclasses", func() runtime.Object { return &schedulingv1.PriorityClass{} }},
	"RuntimeClass":              {"runtimeclasses", func() runtime.Object { return &nodev1.RuntimeClass{} }},
	"CertificateSigningRequest": {"certificatesigningrequests", func() runtime.Object { return &certificatesv1.CertificateSigningRequest{} }},
}

// decode reads objects from YAML, one in each line.
func decode(t *testing.T, text string) (objects []runtime.Object) {
	t.Helper()
	for line := range strings.Lines(text) {
		if strings.TrimSpace(line) == "" {
			continue
		}
		var head struct{ Kind string }
		if err := yaml.Unmarshal([]byte(line), &head); err != nil {
			t.Fatal(err)
		}
		obj := kinds[head.Kind].object()
		if err := yaml.UnmarshalStrict([]byte(line), obj); err != nil {
			t.Fatal(err)
		}
		objects = append(objects, obj)
	}
	return objects
}

// stored are the objects that exist.
type stored []runtime.Object

func (s stored) Get(ctx context.Context, resource schema.GroupResource, namespace, name string) (runtime.Object, error) {
	all, err := s.List(ctx, resource, namespace)
	for _, obj := range all {
		if m, _ := meta.Accessor(obj); m.GetName() == name {
			return obj, nil
		}
	}
	if err == nil {
		err = apierrors.NewNotFound(resource, name)
	}
	return nil, err
}

func (s stored) List(_ context.Context, resource schema.GroupResource, namespace string) (found []runtime.Object, err error) {
	for _, obj := range s {
		m, _ := meta.Accessor(obj)
		gvk := obj.GetObjectKind().GroupVersionKind()
		if kinds[gvk.Kind].resource == resource.Resource && gvk.Group == resource.Group && m.GetNamespace() == namespace {
			found = append(found, obj)
		}
	}
	return found, nil
}

// request is a request to the plugins. Objects are YAML.
type request struct {
	name        string
	plugin      string
	stored      string
	object      string
	old         string
	delete      bool
	subresource string
	// configuration is that of the plugin.
	configuration string
	// want is the object after admission, as far as it is given, or the error.
	want string
	err  string
}

func (r request) run(t *testing.T, authz authorizer.Authorizer) error {
	t.Helper()
	objects := decode(t, r.stored)
	obj := decode(t, r.object)[0]
	var old runtime.Object
	op := admission.Create
	if r.old != "" {
		old, op = decode(t, r.old)[0], admission.Update
	}
	if r.delete {
		op = admission.Delete
	}
	all := plugins.All()
	i := slices.IndexFunc(all, func(p plugins.Plugin) bool { return p.Name == r.plugin })
	if i < 0 {
		t.Fatalf("no plugin %s", r.plugin)
	}
	m, err := meta.Accessor(obj)
	if err != nil {
		t.Fatal(err)
	}
	gvk := obj.GetObjectKind().GroupVersionKind()
	a := admission.NewAttributesRecord(obj, old, gvk, m.GetNamespace(), m.GetName(), gvk.GroupVersion().WithResource(kinds[gvk.Kind].resource), r.subresource, op, nil, false, &user.DefaultInfo{Name: "u"})
	p, err := all[i].New(plugins.Config{Objects: stored(objects), Authorizer: authz, Configuration: []byte(r.configuration), Version: version.MustParse("1.37")})
	if err != nil {
		return err
	}
	if !p.Handles(op) {
		return nil
	}
	before, _ := json.Marshal(objects)
	if mutating, ok := p.(admission.MutationInterface); ok {
		if err := mutating.Admit(context.Background(), a, nil); err != nil {
			return err
		}
	}
	if validating, ok := p.(admission.ValidationInterface); ok {
		if err := validating.Validate(context.Background(), a, nil); err != nil {
			return err
		}
	}
	if after, _ := json.Marshal(objects); string(after) != string(before) {
		t.Errorf("the plugin has changed stored objects: %s\n%s", before, after)
	}
	if r.want != "" {
		got, _ := json.Marshal(obj)
		want, _ := json.Marshal(decode(t, r.want)[0])
		if string(got) != string(want) {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
	return nil
}

const (
	class   = `{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: high}, value: 10, preemptionPolicy: Never}`
	classes = class + `
{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: a}, value: 7, globalDefault: true, preemptionPolicy: PreemptLowerPriority}
{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: b}, value: 5, globalDefault: true}
`
	notReady    = `{key: node.kubernetes.io/not-ready, operator: Exists, effect: NoExecute, tolerationSeconds: 300}`
	unreachable = `{key: node.kubernetes.io/unreachable, operator: Exists, effect: NoExecute, tolerationSeconds: 300}`
	storage     = `
{apiVersion: storage.k8s.io/v1, kind: StorageClass, metadata: {name: old, creationTimestamp: "2020-01-01T00:00:00Z", annotations: {storageclass.kubernetes.io/is-default-class: "true"}}, provisioner: p}
{apiVersion: storage.k8s.io/v1, kind: StorageClass, metadata: {name: z, creationTimestamp: "2021-01-01T00:00:00Z", annotations: {storageclass.beta.kubernetes.io/is-default-class: "true"}}, provisioner: p, allowVolumeExpansion: true}
{apiVersion: storage.k8s.io/v1, kind: StorageClass, metadata: {name: x, creationTimestamp: "2021-01-01T00:00:00Z", annotations: {storageclass.kubernetes.io/is-default-class: "true"}}, provisioner: p}
{apiVersion: storage.k8s.io/v1, kind: StorageClass, metadata: {name: newest, creationTimestamp: "2022-01-01T00:00:00Z"}, provisioner: p}
`
	ingressClasses = `
{apiVersion: networking.k8s.io/v1, kind: IngressClass, metadata: {name: a, annotations: {ingressclass.kubernetes.io/is-default-class: "true"}}}
{apiVersion: networking.k8s.io/v1, kind: IngressClass, metadata: {name: b}}
`
	runtimes = `
{apiVersion: node.k8s.io/v1, kind: RuntimeClass, metadata: {name: r}, handler: h, overhead: {podFixed: {cpu: "1"}}, scheduling: {nodeSelector: {a: b}, tolerations: [{key: a, operator: Exists}, {key: b, operator: Equal, value: c}]}}
{apiVersion: node.k8s.io/v1, kind: RuntimeClass, metadata: {name: plain}, handler: h}
`
	ranges = `
{apiVersion: v1, kind: LimitRange, metadata: {name: a, namespace: ns}, spec: {limits: [{type: Container, default: {cpu: "2", memory: 2Gi}, defaultRequest: {cpu: "1"}, min: {cpu: 100m}, max: {cpu: "3"}, maxLimitRequestRatio: {cpu: "4"}}, {type: Pod, max: {cpu: "5"}}, {type: PersistentVolumeClaim, min: {storage: 1Gi}, max: {storage: 2Gi}}]}}
{apiVersion: v1, kind: LimitRange, metadata: {name: a, namespace: other}, spec: {limits: [{type: Pod, max: {cpu: "0"}}]}}
`
)

func pod(spec string) string {
	return `{apiVersion: v1, kind: Pod, metadata: {name: p, namespace: ns}, spec: {` + spec + `}}`
}

func claim(rest string) string {
	return `{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: c, namespace: ns}, ` + rest + `}`
}

// container returns a container with limits and requests of CPU.
func container(request, limit string) string {
	return pod(`containers: [{name: c, resources: {requests: {cpu: ` + request + `}, limits: {cpu: ` + limit + `, memory: 1Gi}}}]`)
}

func TestPlugins(t *testing.T) {
	t.Parallel()
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

		{name: "taint", plugin: "TaintNodesByCondition", object: `{apiVersion: v1, kind: Node, metadata: {name: node}}`,
			want: `{apiVersion: v1, kind: Node, metadata: {name: node}, spec: {taints: [{key: node.kubernetes.io/not-ready, effect: NoSchedule}]}}`},
		{name: "has taint", plugin: "TaintNodesByCondition", object: `{apiVersion: v1, kind: Node, metadata: {name: node}, spec: {taints: [{key: node.kubernetes.io/not-ready, effect: NoSchedule, value: x}]}}`,
			want: `{apiVersion: v1, kind: Node, metadata: {name: node}, spec: {taints: [{key: node.kubernetes.io/not-ready, effect: NoSchedule, value: x}]}}`},
		{name: "node is updated", plugin: "TaintNodesByCondition", object: `{apiVersion: v1, kind: Node, metadata: {name: node}}`, old: `{apiVersion: v1, kind: Node, metadata: {name: node}}`,
			want: `{apiVersion: v1, kind: Node, metadata: {name: node}}`},

		{name: "no priority classes", plugin: "Priority", object: pod(""), want: pod("priority: 0, preemptionPolicy: PreemptLowerPriority")},
		{name: "default class", plugin: "Priority", stored: classes, object: pod(""), want: pod("priorityClassName: b, priority: 5")},
		{name: "class", plugin: "Priority", stored: classes, object: pod("priorityClassName: high"), want: pod("priorityClassName: high, priority: 10, preemptionPolicy: Never")},
		{name: "no such class", plugin: "Priority", stored: classes, object: pod("priorityClassName: x"), err: `pods "p" is forbidden: no PriorityClass with name x was found`},
		{name: "other priority", plugin: "Priority", stored: classes, object: pod("priorityClassName: high, priority: 1"),
			err: `pods "p" is forbidden: the integer value of priority (1) must not be provided in pod spec; priority admission controller computed 10 from the given PriorityClass name`},
		{name: "other preemption", plugin: "Priority", stored: classes, object: pod("priorityClassName: high, preemptionPolicy: PreemptLowerPriority"),
			err: `pods "p" is forbidden: the string value of PreemptionPolicy (PreemptLowerPriority) must not be provided in pod spec; priority admission controller computed Never from the given PriorityClass name`},
		{name: "pod is updated", plugin: "Priority", stored: classes, object: pod(""), old: pod("priority: 3, preemptionPolicy: Never"), want: pod("priority: 3, preemptionPolicy: Never")},
		{name: "second default", plugin: "Priority", stored: classes, object: `{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: c}, value: 1, globalDefault: true}`,
			err: `priorityclasses.scheduling.k8s.io "c" is forbidden: PriorityClass b is already marked as default. Only one default can exist`},
		{name: "default is updated", plugin: "Priority", stored: classes, object: `{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: b}, value: 5, globalDefault: true}`, old: class},
		{name: "no default", plugin: "Priority", stored: classes, object: class},

		{name: "tolerations", plugin: "DefaultTolerationSeconds", object: pod(""), want: pod("tolerations: [" + notReady + ", " + unreachable + "]")},
		{name: "one toleration", plugin: "DefaultTolerationSeconds", object: pod("tolerations: [{key: node.kubernetes.io/not-ready}]"), want: pod("tolerations: [{key: node.kubernetes.io/not-ready}, " + unreachable + "]")},
		{name: "other effect", plugin: "DefaultTolerationSeconds", object: pod("tolerations: [{operator: Exists, effect: NoSchedule}]"), want: pod("tolerations: [{operator: Exists, effect: NoSchedule}, " + notReady + ", " + unreachable + "]")},
		{name: "all tolerations", plugin: "DefaultTolerationSeconds", object: pod("tolerations: [{operator: Exists}]"), old: pod(""), want: pod("tolerations: [{operator: Exists}]")},
		{name: "tolerations of a status", plugin: "DefaultTolerationSeconds", object: pod(""), old: pod(""), subresource: "status", want: pod("")},

		{name: "storage class", plugin: "DefaultStorageClass", stored: storage, object: claim(""), want: claim("spec: {storageClassName: x}")},
		{name: "no storage class", plugin: "DefaultStorageClass", object: claim(""), want: claim("")},
		{name: "empty storage class", plugin: "DefaultStorageClass", stored: storage, object: claim(`spec: {storageClassName: ""}`), want: claim(`spec: {storageClassName: ""}`)},
		{name: "storage class in an annotation", plugin: "DefaultStorageClass", stored: storage,
			object: `{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: c, annotations: {volume.beta.kubernetes.io/storage-class: x}}}`,
			want:   `{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: c, annotations: {volume.beta.kubernetes.io/storage-class: x}}}`},

		{name: "ingress class", plugin: "DefaultIngressClass", stored: ingressClasses, object: `{apiVersion: networking.k8s.io/v1, kind: Ingress, metadata: {name: i}}`,
			want: `{apiVersion: networking.k8s.io/v1, kind: Ingress, metadata: {name: i}, spec: {ingressClassName: a}}`},
		{name: "has ingress class", plugin: "DefaultIngressClass", stored: ingressClasses, object: `{apiVersion: networking.k8s.io/v1, kind: Ingress, metadata: {name: i}, spec: {ingressClassName: b}}`,
			want: `{apiVersion: networking.k8s.io/v1, kind: Ingress, metadata: {name: i}, spec: {ingressClassName: b}}`},
		{name: "ingress class in an annotation", plugin: "DefaultIngressClass", stored: ingressClasses,
			object: `{apiVersion: networking.k8s.io/v1, kind: Ingress, metadata: {name: i, annotations: {kubernetes.io/ingress.class: x}}}`,
			want:   `{apiVersion: networking.k8s.io/v1, kind: Ingress, metadata: {name: i, annotations: {kubernetes.io/ingress.class: x}}}`},

		{name: "volume", plugin: "StorageObjectInUseProtection", object: `{apiVersion: v1, kind: PersistentVolume, metadata: {name: v, finalizers: [a/b]}}`,
			want: `{apiVersion: v1, kind: PersistentVolume, metadata: {name: v, finalizers: [a/b, kubernetes.io/pv-protection]}}`},
		{name: "claim", plugin: "StorageObjectInUseProtection", object: `{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: v}}`,
			want: `{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: v, finalizers: [kubernetes.io/pvc-protection]}}`},
		{name: "protected claim", plugin: "StorageObjectInUseProtection", object: `{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: v, finalizers: [kubernetes.io/pvc-protection]}}`,
			want: `{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: v, finalizers: [kubernetes.io/pvc-protection]}}`},
		{name: "attributes", plugin: "StorageObjectInUseProtection", object: `{apiVersion: storage.k8s.io/v1, kind: VolumeAttributesClass, metadata: {name: v}, driverName: d}`,
			want: `{apiVersion: storage.k8s.io/v1, kind: VolumeAttributesClass, metadata: {name: v, finalizers: [kubernetes.io/vac-protection]}, driverName: d}`},

		{name: "smaller claim", plugin: "PersistentVolumeClaimResize", object: claim("spec: {resources: {requests: {storage: 1}}}"), old: claim("spec: {resources: {requests: {storage: 1}}}")},
		{name: "unbound claim", plugin: "PersistentVolumeClaimResize", object: claim("spec: {resources: {requests: {storage: 2}}}"), old: claim("spec: {resources: {requests: {storage: 1}}}"),
			err: `persistentvolumeclaims "c" is forbidden: Only bound persistent volume claims can be expanded`},
		{name: "fixed claim", plugin: "PersistentVolumeClaimResize", stored: storage, object: claim("spec: {storageClassName: x, resources: {requests: {storage: 2}}}"),
			old: claim("spec: {storageClassName: x, resources: {requests: {storage: 1}}}, status: {phase: Bound}"),
			err: `persistentvolumeclaims "c" is forbidden: only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize`},
		{name: "growing claim", plugin: "PersistentVolumeClaimResize", stored: storage, object: claim("spec: {storageClassName: z, resources: {requests: {storage: 2}}}"),
			old: claim("spec: {storageClassName: z, resources: {requests: {storage: 1}}}, status: {phase: Bound}")},

		{name: "runtime class", plugin: "RuntimeClass", stored: runtimes, object: pod("runtimeClassName: r, nodeSelector: {c: d}, tolerations: [{key: a, operator: Equal, value: x}, {key: b, operator: Equal, value: c}]"),
			want: pod(`runtimeClassName: r, nodeSelector: {a: b, c: d}, tolerations: [{key: b, operator: Equal, value: c}, {key: a, operator: Exists}], overhead: {cpu: "1"}`)},
		{name: "node selector of a runtime class", plugin: "RuntimeClass", stored: runtimes, object: pod("runtimeClassName: r"),
			want: pod(`runtimeClassName: r, nodeSelector: {a: b}, tolerations: [{key: a, operator: Exists}, {key: b, operator: Equal, value: c}], overhead: {cpu: "1"}`)},
		{name: "other node selector", plugin: "RuntimeClass", stored: runtimes, object: pod("runtimeClassName: r, nodeSelector: {a: x}"),
			err: `pods "p" is forbidden: conflict: runtimeClass.scheduling.nodeSelector[a] = b; pod.spec.nodeSelector[a] = x`},
		{name: "other overhead", plugin: "RuntimeClass", stored: runtimes, object: pod(`runtimeClassName: r, overhead: {cpu: "2"}`),
			err: `pods "p" is forbidden: pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead`},
		{name: "overhead without class", plugin: "RuntimeClass", stored: runtimes, object: pod(`overhead: {cpu: "2"}`),
			err: `pods "p" is forbidden: pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead`},
		{name: "plain runtime class", plugin: "RuntimeClass", stored: runtimes, object: pod("runtimeClassName: plain"), want: pod("runtimeClassName: plain")},
		{name: "no such runtime class", plugin: "RuntimeClass", object: pod("runtimeClassName: r"), err: `pods "p" is forbidden: pod rejected: RuntimeClass "r" not found`},

		{name: "default limits", plugin: "LimitRanger", stored: ranges, object: pod(`containers: [{name: c}], initContainers: [{name: i, resources: {limits: {memory: 1Gi}}}]`),
			want: `{apiVersion: v1, kind: Pod, metadata: {name: p, namespace: ns, annotations: {kubernetes.io/limit-ranger: "LimitRanger plugin set: cpu request for container c; cpu, memory limit for container c; cpu request for init container i; cpu limit for init container i"}}, ` +
				`spec: {containers: [{name: c, resources: {limits: {cpu: "2", memory: 2Gi}, requests: {cpu: "1"}}}], initContainers: [{name: i, resources: {limits: {cpu: "2", memory: 1Gi}, requests: {cpu: "1"}}}]}}`},
		{name: "small request", plugin: "LimitRanger", stored: ranges, object: container("50m", "60m"), err: `pods "p" is forbidden: minimum cpu usage per Container is 100m, but request is 50m`},
		{name: "small limit", plugin: "LimitRanger", stored: ranges, object: container("100m", "60m"), err: `pods "p" is forbidden: minimum cpu usage per Container is 100m, but limit is 60m`},
		{name: "large limit", plugin: "LimitRanger", stored: ranges, object: container("1", "4"), err: `pods "p" is forbidden: maximum cpu usage per Container is 3, but limit is 4`},
		{name: "large request and limit", plugin: "LimitRanger", stored: ranges, object: container("4", "3"), err: `pods "p" is forbidden: maximum cpu usage per Container is 3, but request is 4`},
		{name: "ratio", plugin: "LimitRanger", stored: ranges, object: container("100m", "500m"), err: `pods "p" is forbidden: cpu max limit to request ratio per Container is 4, but provided ratio is 5.000000`},
		{name: "pod", plugin: "LimitRanger", stored: ranges, object: pod(`containers: [{name: a, resources: {requests: {cpu: 3}, limits: {cpu: 3}}}, {name: b}], initContainers: [{name: s, restartPolicy: Always, resources: {limits: {cpu: 1}, requests: {cpu: 1}}}]`),
			err: `pods "p" is forbidden: maximum cpu usage per Pod is 5, but limit is 6`},
		{name: "init containers", plugin: "LimitRanger", stored: ranges, object: pod(`containers: [{name: a, resources: {requests: {cpu: 1}, limits: {cpu: 1}}}], initContainers: [{name: s, restartPolicy: Always, resources: {limits: {cpu: 3}, requests: {cpu: 3}}}, {name: i, resources: {requests: {cpu: 3}, limits: {cpu: 3}}}]`),
			err: `pods "p" is forbidden: maximum cpu usage per Pod is 5, but limit is 6`},
		{name: "resources of the pod", plugin: "LimitRanger", stored: ranges, object: pod(`resources: {limits: {cpu: 6}}, containers: [{name: a}]`),
			err: `pods "p" is forbidden: maximum cpu usage per Pod is 5, but limit is 6`},
		{name: "small claim", plugin: "LimitRanger", stored: ranges, object: claim("spec: {resources: {requests: {storage: 1Mi}}}"), err: `persistentvolumeclaims "c" is forbidden: minimum storage usage per PersistentVolumeClaim is 1Gi, but request is 1Mi`},
		{name: "large claim", plugin: "LimitRanger", stored: ranges, object: claim("spec: {resources: {requests: {storage: 3Gi}}}"), old: claim(""), err: `persistentvolumeclaims "c" is forbidden: maximum storage usage per PersistentVolumeClaim is 2Gi, but request is 3Gi`},
		{name: "claim without request", plugin: "LimitRanger", stored: ranges, object: claim(""),
			err: `persistentvolumeclaims "c" is forbidden: [minimum storage usage per PersistentVolumeClaim is 1Gi.  No request is specified, maximum storage usage per PersistentVolumeClaim is 2Gi.  No request is specified]`},
		{name: "large claim is deleted", plugin: "LimitRanger", stored: ranges, object: claim(""), old: `{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: c, deletionTimestamp: "2020-01-01T00:00:00Z"}}`},
		{name: "pod with limits is updated", plugin: "LimitRanger", stored: ranges, object: container("50m", "60m"), old: container("50m", "60m")},
		{name: "pod is resized", plugin: "LimitRanger", stored: ranges, object: container("50m", "60m"), old: container("1", "1"), subresource: "resize",
			err: `pods "p" is forbidden: minimum cpu usage per Container is 100m, but request is 50m`},
	} {
		t.Run(r.plugin+"/"+r.name, func(t *testing.T) {
			t.Parallel()
			err := r.run(t, nil)
			if got := message(err); got != r.err {
				t.Errorf("got error %q, want %q", got, r.err)
			}
		})
	}
}

func message(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// TestTerminating checks the cause by which controllers recognize that a namespace is going away.
func TestTerminating(t *testing.T) {
	t.Parallel()
	err := request{plugin: "NamespaceLifecycle", stored: `{apiVersion: v1, kind: Namespace, metadata: {name: ns}, status: {phase: Terminating}}`, object: pod("")}.run(t, nil)
	if !apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) || !apierrors.IsForbidden(err) {
		t.Errorf("got %#v", err)
	}
}

// allow authorizes one verb on one signer.
type allow struct{ verb, signer string }

func (a allow) Authorize(_ context.Context, attrs authorizer.Attributes) (authorizer.Decision, string, error) {
	if attrs.GetVerb() == a.verb && attrs.GetName() == a.signer && attrs.GetResource() == "signers" && attrs.GetAPIGroup() == "certificates.k8s.io" && attrs.GetUser().GetName() == "u" {
		return authorizer.DecisionAllow, "", nil
	}
	return authorizer.DecisionNoOpinion, "", errors.New("no rule")
}

func TestCertificates(t *testing.T) {
	t.Parallel()
	csr := func(rest string) string {
		return `{apiVersion: certificates.k8s.io/v1, kind: CertificateSigningRequest, metadata: {name: c}, spec: {request: "", usages: [], signerName: a.b/c}` + rest + `}`
	}
	const condition = `, status: {conditions: [{type: Failed, status: "True"}]}`
	const name = `certificatesigningrequests.certificates.k8s.io "c" is forbidden: `
	for _, c := range []struct {
		request
		allow
	}{
		{request{name: "approved", plugin: "CertificateApproval", object: csr(""), old: csr(""), subresource: "approval"}, allow{"approve", "a.b/c"}},
		{request{name: "approved for a domain", plugin: "CertificateApproval", object: csr(""), old: csr(""), subresource: "approval"}, allow{"approve", "a.b/*"}},
		{request{name: "not approved", plugin: "CertificateApproval", object: csr(""), old: csr(""), subresource: "approval",
			err: name + `user not permitted to approve requests with signerName "a.b/c"`}, allow{"sign", "a.b/c"}},
		{request{name: "other subresource", plugin: "CertificateApproval", object: csr(""), old: csr(""), subresource: "status"}, allow{}},
		{request{name: "signed", plugin: "CertificateSigning", object: csr(condition), old: csr(""), subresource: "status"}, allow{"sign", "a.b/c"}},
		{request{name: "not signed", plugin: "CertificateSigning", object: csr(condition), old: csr(""), subresource: "status",
			err: name + `user not permitted to sign requests with signerName "a.b/c"`}, allow{"approve", "a.b/c"}},
		{request{name: "unchanged", plugin: "CertificateSigning", object: csr(condition), old: csr(condition), subresource: "status"}, allow{}},
	} {
		if got := message(c.run(t, authorizer.AuthorizerFunc(c.Authorize))); got != c.err {
			t.Errorf("%s: got error %q, want %q", c.name, got, c.err)
		}
	}

	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ group, signer, err string }{
		{"system:masters", "kubernetes.io/kube-apiserver-client", name + `use of kubernetes.io/kube-apiserver-client signer with system:masters group is not allowed`},
		{"developers", "kubernetes.io/kube-apiserver-client", ""},
		{"system:masters", "example.com/other", ""},
		{"", "kubernetes.io/kube-apiserver-client", name + `failed to parse CSR: PEM block type must be CERTIFICATE REQUEST`},
	} {
		var text []byte
		if c.group != "" {
			der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{Organization: []string{c.group}}}, key)
			if err != nil {
				t.Fatal(err)
			}
			text = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
		}
		encoded, _ := json.Marshal(text)
		err := request{plugin: "CertificateSubjectRestriction", object: strings.ReplaceAll(csr(""), `request: ""`, "request: "+string(encoded))}.withSigner(c.signer).run(t, nil)
		if got := message(err); got != c.err {
			t.Errorf("group %s and signer %s: got error %q, want %q", c.group, c.signer, got, c.err)
		}
	}
}

func (r request) withSigner(name string) request {
	r.object = strings.ReplaceAll(r.object, "signerName: a.b/c", "signerName: "+name)
	return r
}
