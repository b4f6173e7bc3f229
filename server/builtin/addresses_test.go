package builtin_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"espalier.dev/server"
	"espalier.dev/server/etcd/etcdtest"
	"espalier.dev/server/etcd/kine/kinetest"
	"espalier.dev/server/servertest"
)

// network is a client of a server whose services have cluster IPs.
type network struct {
	*testing.T
	*kubernetes.Clientset
}

func newNetwork(t *testing.T, o *server.Options, ranges string) *network {
	t.Helper()
	o.ServiceClusterIPRange = ranges
	return &network{t, servertest.Clientset(t, servertest.Start(t, o), nil, "application/json")}
}

// create creates a service.
func (n *network) create(name string, spec corev1.ServiceSpec) *corev1.Service {
	n.Helper()
	svc, err := n.try(name, spec)
	if err != nil {
		n.Fatal(err)
	}
	return svc
}

func (n *network) try(name string, spec corev1.ServiceSpec) (*corev1.Service, error) {
	spec.Ports = []corev1.ServicePort{{Port: 80}}
	return n.CoreV1().Services("default").Create(n.Context(), &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec}, metav1.CreateOptions{})
}

// addresses returns the names of all IPAddresses but those of the service of the server, with their parents.
func (n *network) addresses() string {
	n.Helper()
	list, err := n.NetworkingV1().IPAddresses().List(n.Context(), metav1.ListOptions{})
	if err != nil {
		n.Fatal(err)
	}
	all := map[string]string{}
	for _, a := range list.Items {
		if p := a.Spec.ParentRef; p.Name != "kubernetes" {
			all[a.Name] = p.Resource + "/" + p.Namespace + "/" + p.Name
		}
	}
	return fmt.Sprint(all)
}

// want checks that there are IPAddresses for the IPs of services, and no others.
func (n *network) want(all ...*corev1.Service) {
	n.Helper()
	if got, want := n.addresses(), expected(all); got != want {
		n.Errorf("the IPAddresses are %s, want %s", got, want)
	}
}

// eventually waits until want holds.
func (n *network) eventually(all ...*corev1.Service) {
	n.Helper()
	servertest.Eventually(n.T, func() error {
		if got, want := n.addresses(), expected(all); got != want {
			return fmt.Errorf("the IPAddresses are %s, want %s", got, want)
		}
		return nil
	})
}

func expected(all []*corev1.Service) string {
	wanted := map[string]string{}
	for _, svc := range all {
		for _, ip := range svc.Spec.ClusterIPs {
			wanted[ip] = "services/default/" + svc.Name
		}
	}
	return fmt.Sprint(wanted)
}

func (n *network) delete(name string) {
	n.Helper()
	if err := n.CoreV1().Services("default").Delete(n.Context(), name, metav1.DeleteOptions{}); err != nil {
		n.Fatal(err)
	}
}

// patch merges a patch into a service.
func (n *network) patch(name, patch string) *corev1.Service {
	n.Helper()
	svc, err := n.CoreV1().Services("default").Patch(n.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	if err != nil {
		n.Fatal(err)
	}
	return svc
}

var dual = corev1.ServiceSpec{IPFamilyPolicy: new(corev1.IPFamilyPolicyRequireDualStack)}

// TestAddresses checks that each cluster IP has an IPAddress as long as a service has it.
func TestAddresses(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, servertest.Options(t), "10.0.0.0/24,fd00::/112")
	first, err := n.NetworkingV1().IPAddresses().Get(t.Context(), "10.0.0.1", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if p := first.Spec.ParentRef; *p != (networkingv1.ParentReference{Resource: "services", Namespace: "default", Name: "kubernetes"}) {
		t.Errorf("the parent is %+v", p)
	}
	if want := map[string]string{"ipaddress.kubernetes.io/ip-family": "IPv4", "ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io"}; !maps.Equal(first.Labels, want) {
		t.Errorf("the labels are %v", first.Labels)
	}
	const fields = `{"f:metadata":{"f:labels":{".":{},"f:ipaddress.kubernetes.io/ip-family":{},"f:ipaddress.kubernetes.io/managed-by":{}}},` +
		`"f:spec":{"f:parentRef":{".":{},"f:name":{},"f:namespace":{},"f:resource":{}}}}`
	if m := first.ManagedFields; len(m) != 1 || m[0].Manager != "kube-apiserver" || string(m[0].FieldsV1.Raw) != fields || first.UID == "" || first.CreationTimestamp.IsZero() {
		t.Errorf("the metadata is %+v", first.ObjectMeta)
	}

	a, b := n.create("a", corev1.ServiceSpec{}), n.create("b", dual)
	n.want(a, b)
	headless := n.create("headless", corev1.ServiceSpec{ClusterIP: "None"})
	headless.Spec.ClusterIPs = nil
	if _, err := n.CoreV1().Services("default").Create(t.Context(), &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "dry"},
		Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}}, metav1.CreateOptions{DryRun: []string{"All"}}); err != nil {
		t.Fatal(err)
	}
	n.want(a, b, headless)
	a = n.patch("a", `{"spec": {"ipFamilyPolicy": "RequireDualStack"}}`)
	if len(a.Spec.ClusterIPs) != 2 {
		t.Fatalf("got %+v", a.Spec)
	}
	n.want(a, b)
	b = n.patch("b", `{"spec": {"ipFamilyPolicy": "SingleStack"}}`)
	n.want(a, b)
	b = n.patch("b", `{"spec": {"type": "ExternalName", "externalName": "example.com"}}`)
	n.want(a, b)
	b = n.patch("b", `{"spec": {"type": "ClusterIP", "externalName": null, "ipFamilyPolicy": "RequireDualStack"}}`)
	n.want(a, b)

	n.patch("a", `{"metadata": {"finalizers": ["example.com/hold"]}}`)
	n.delete("a")
	n.want(a, b)
	n.patch("a", `{"metadata": {"finalizers": null}}`)
	n.want(b)
	n.delete("b")
	n.want()
}

// TestAddressesTaken checks that an IPAddress makes an IP taken, and that ServiceCIDRs are ranges.
func TestAddressesTaken(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, servertest.Options(t), "10.0.0.0/30")
	gateway := &networkingv1.ParentReference{Group: "gateway.networking.k8s.io", Resource: "gateways", Namespace: "default", Name: "g"}
	if _, err := n.NetworkingV1().IPAddresses().Create(t.Context(), &networkingv1.IPAddress{ObjectMeta: metav1.ObjectMeta{Name: "10.0.0.2"},
		Spec: networkingv1.IPAddressSpec{ParentRef: gateway}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	fails := func(ip, want string) {
		t.Helper()
		if _, err := n.try("fails", corev1.ServiceSpec{ClusterIP: ip}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", ip, err, want)
		}
	}
	fails("", "range is full")
	fails("10.0.0.2", "provided IP is already allocated")
	fails("10.1.0.2", "the provided network does not match the current range")
	cidrs := n.NetworkingV1().ServiceCIDRs()
	extend := func(name, cidr string) {
		t.Helper()
		if _, err := cidrs.Create(t.Context(), &networkingv1.ServiceCIDR{ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: networkingv1.ServiceCIDRSpec{CIDRs: []string{cidr}}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	extend("more", "10.1.0.0/29")
	extend("other-family", "fd00::/112")
	more := n.create("more", corev1.ServiceSpec{ClusterIP: "10.1.0.2"})
	fails("10.1.0.2", "provided IP is already allocated")
	fails("10.1.0.7", "The range of valid IPs is 10.1.0.0/29")
	var names []*corev1.Service
	for i := range 5 {
		names = append(names, n.create(fmt.Sprintf("s%d", i), corev1.ServiceSpec{}))
	}
	fails("", "range is full")
	if err := n.NetworkingV1().IPAddresses().Delete(t.Context(), "10.0.0.2", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if last := n.create("last", corev1.ServiceSpec{}); last.Spec.ClusterIP != "10.0.0.2" {
		t.Errorf("the last service has %s", last.Spec.ClusterIP)
	}
	n.delete("last")
	n.want(append(names, more)...)
	if err := cidrs.Delete(t.Context(), "more", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	n.delete("more")
	fails("10.1.0.2", "the provided network does not match the current range")
}

// TestAddressRepair checks that what clients, other programs and older servers leave is repaired, while
// the server runs and when it starts.
func TestAddressRepair(t *testing.T) {
	t.Parallel()
	const prefix = "/registry/ipaddresses/"
	etcd := etcdtest.Start(t)
	o := servertest.ShareEtcd(t, etcd.Endpoints())
	o.ServiceClusterIPRange = "10.0.0.0/24,fd00::/112"
	s := servertest.Start(t, o)
	n := &network{t, servertest.Clientset(t, s, nil, "application/json")}
	a, b := n.create("a", corev1.ServiceSpec{}), n.create("b", dual)
	ips := n.NetworkingV1().IPAddresses()
	ip := a.Spec.ClusterIP
	if err := ips.Delete(t.Context(), ip, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	n.eventually(a, b)
	labels := func(patch string) {
		t.Helper()
		if _, err := ips.Patch(t.Context(), ip, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	before, err := ips.Get(t.Context(), ip, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	labels(`{"metadata": {"labels": null}}`)
	servertest.Eventually(t, func() error {
		now, err := ips.Get(t.Context(), ip, metav1.GetOptions{})
		if err == nil && (now.UID == before.UID || !maps.Equal(now.Labels, before.Labels)) {
			err = fmt.Errorf("the IPAddress is %+v", now)
		}
		return err
	})

	// put stores an IPAddress as another program would.
	put := func(name, created, parent string) {
		t.Helper()
		text := fmt.Sprintf(`{"apiVersion":"networking.k8s.io/v1","kind":"IPAddress","metadata":{"name":%q,"uid":"u","creationTimestamp":%q,
			"labels":{"ipaddress.kubernetes.io/managed-by":"ipallocator.k8s.io"}},"spec":{"parentRef":{"resource":"services","namespace":"default","name":%q}}}`, name, created, parent)
		if _, err := etcd.Put(t.Context(), prefix+name, text); err != nil {
			t.Fatal(err)
		}
	}
	now := metav1.Now().UTC().Format("2006-01-02T15:04:05Z")
	put("10.0.0.77", now, "soon")
	put("10.0.0.78", "2020-01-01T00:00:00Z", "never")
	put("10.0.0.79", "2020-01-01T00:00:00Z", "a")
	put(ip, "2020-01-01T00:00:00Z", "b") // which has other IPs
	soon := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "soon"}, Spec: corev1.ServiceSpec{ClusterIPs: []string{"10.0.0.77"}}}
	n.eventually(a, b, soon)
	if err := ips.Delete(t.Context(), "10.0.0.77", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}

	if _, err := etcd.Delete(t.Context(), prefix, clientv3.WithPrefix()); err != nil {
		t.Fatal(err)
	}
	n.eventually(a, b)
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	if _, err := etcd.Delete(t.Context(), prefix, clientv3.WithPrefix()); err != nil {
		t.Fatal(err)
	}
	again := servertest.ShareEtcd(t, etcd.Endpoints())
	n = newNetwork(t, again, "10.0.0.0/24,fd00::/112")
	n.eventually(a, b)
	if _, err := n.NetworkingV1().IPAddresses().Get(t.Context(), "10.0.0.1", metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
}

// TestAddressesNotServed checks that services work where no version of IPAddress is served.
func TestAddressesNotServed(t *testing.T) {
	t.Parallel()
	o := servertest.Options(t)
	o.RuntimeConfig = map[string]string{"networking.k8s.io/v1": "false"}
	n := newNetwork(t, o, "10.0.0.0/29")
	svc := n.create("a", corev1.ServiceSpec{})
	if _, err := n.NetworkingV1().IPAddresses().Get(t.Context(), svc.Spec.ClusterIP, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("got %v", err)
	}
	n.delete("a")
}

// TestAddressesInKine checks the IPAddresses where a transaction can write one object.
func TestAddressesInKine(t *testing.T) {
	if testing.Short() {
		t.Skip("runs kine")
	}
	t.Parallel()
	o := servertest.EtcdOptions(t)
	o.Etcd.URLs = []string{kinetest.Start(t).URL}
	n := newNetwork(t, o, "10.0.0.0/29,fd00::/112")
	a, b := n.create("a", corev1.ServiceSpec{}), n.create("b", dual)
	n.want(a, b)
	b = n.patch("b", `{"spec": {"ipFamilyPolicy": "SingleStack"}}`)
	n.want(a, b)
	n.delete("a")
	n.want(b)
	if err := n.NetworkingV1().IPAddresses().Delete(t.Context(), b.Spec.ClusterIP, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	n.eventually(b)
}

// sameAddresses returns an error if the IPAddresses of a revision are not those of IPs.
func sameAddresses(ctx context.Context, etcd *clientv3.Client, revision int64, ips []string) error {
	resp, err := etcd.Get(ctx, "/registry/ipaddresses/", clientv3.WithPrefix(), clientv3.WithRev(revision), clientv3.WithKeysOnly())
	if err != nil {
		return err
	}
	var names []string
	for _, kv := range resp.Kvs {
		names = append(names, strings.TrimPrefix(string(kv.Key), "/registry/ipaddresses/"))
	}
	slices.Sort(names)
	slices.Sort(ips)
	if !slices.Equal(names, ips) {
		return fmt.Errorf("the IPAddresses are %v, the cluster IPs %v", names, ips)
	}
	return nil
}
