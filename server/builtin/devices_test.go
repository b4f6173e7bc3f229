package builtin_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"espalier.dev/server"
	"espalier.dev/server/servertest"
)

// wants compares an error with a part of it, which is empty if there must be none.
func wants(t *testing.T, err error, part string) {
	t.Helper()
	if (err == nil) != (part == "") || err != nil && !strings.Contains(err.Error(), part) {
		t.Errorf("got %v, want %s", err, part)
	}
}

// TestDeviceClaims creates and allocates claims for devices: only some namespaces have access for administrators, and
// only some users may allocate devices or write the status of those of a driver.
func TestDeviceClaims(t *testing.T) {
	s := servertest.Start(t, servertest.Options(t))
	admin := servertest.Clientset(t, s, nil, runtime.ContentTypeJSON)
	for name, labels := range map[string]map[string]string{"plain": nil, "trusted": {resourcev1.DRAAdminNamespaceLabelKey: "true"}} {
		if _, err := admin.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	claim := func(access bool) *resourcev1.ResourceClaim {
		return &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: "c"}, Spec: resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{
			Requests: []resourcev1.DeviceRequest{{Name: "r", Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: "c", AdminAccess: &access}}}}}}
	}
	const label = ".adminAccess: Forbidden: admin access to devices requires the `resource.kubernetes.io/admin-access: true` label on the containing namespace"
	for ns, want := range map[string]string{"plain": "spec.devices.requests[0]" + label, "trusted": ""} {
		_, err := admin.ResourceV1().ResourceClaims(ns).Create(t.Context(), claim(true), metav1.CreateOptions{})
		wants(t, err, want)
		template := &resourcev1.ResourceClaimTemplate{ObjectMeta: metav1.ObjectMeta{Name: "t"}, Spec: resourcev1.ResourceClaimTemplateSpec{Spec: claim(true).Spec}}
		_, err = admin.ResourceV1().ResourceClaimTemplates(ns).Create(t.Context(), template, metav1.CreateOptions{})
		wants(t, err, want)
	}
	if _, err := admin.ResourceV1().ResourceClaims("plain").Create(t.Context(), claim(false), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	update := func(c kubernetes.Interface, ns string, change func(*resourcev1.ResourceClaimStatus)) error {
		stored, err := admin.ResourceV1().ResourceClaims(ns).Get(t.Context(), "c", metav1.GetOptions{})
		if err != nil {
			return err
		}
		change(&stored.Status)
		_, err = c.ResourceV1().ResourceClaims(ns).UpdateStatus(t.Context(), stored, metav1.UpdateOptions{})
		return err
	}
	allocate := func(access bool) func(*resourcev1.ResourceClaimStatus) {
		return func(status *resourcev1.ResourceClaimStatus) {
			status.Allocation = &resourcev1.AllocationResult{
				Devices: resourcev1.DeviceAllocationResult{Results: []resourcev1.DeviceRequestAllocationResult{
					{Request: "r", Driver: "d", Pool: "p", Device: "e", AdminAccess: &access}}},
				NodeSelector: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchFields: []corev1.NodeSelectorRequirement{
					{Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{"node-1"}}}}}},
			}
		}
	}
	wants(t, update(admin, "plain", allocate(true)), "status.allocation.devices.results[0]"+label)
	wants(t, update(admin, "trusted", allocate(true)), "")

	const user = "system:serviceaccount:plain:driver"
	grant := granter(t, admin, user)
	grant("status", rbacv1.PolicyRule{Verbs: []string{"update"}, Resources: []string{"resourceclaims/status"}})
	driver := impersonated(t, s, user, "node-1")
	wants(t, update(driver, "plain", allocate(false)),
		`status.allocation: Forbidden: changing status.allocation or status.reservedFor requires resource="resourceclaims/binding", verb="update" permission: `)
	grant("binding", rbacv1.PolicyRule{Verbs: []string{"update"}, Resources: []string{"resourceclaims/binding"}})
	wants(t, update(driver, "plain", allocate(false)), "")

	// What a driver says about its devices.
	say := func(text string) func(*resourcev1.ResourceClaimStatus) {
		return func(status *resourcev1.ResourceClaimStatus) {
			status.Devices = []resourcev1.AllocatedDeviceStatus{{Driver: "d", Pool: "p", Device: "e", Data: &runtime.RawExtension{Raw: []byte(text)}}}
		}
	}
	const denied = `status.devices: Forbidden: changing status.devices requires resource="resourceclaims/driver", verb="`
	wants(t, update(driver, "plain", say(`{"a":1}`)), denied+`[associated-node:update arbitrary-node:update]" permission: `)
	grant("node", rbacv1.PolicyRule{Verbs: []string{"associated-node:update"}, Resources: []string{"resourceclaims/driver"}, ResourceNames: []string{"d"}})
	wants(t, update(driver, "plain", say(`{"a":1}`)), "")
	wants(t, update(driver, "plain", say(`{"a":1}`)), "")
	elsewhere := impersonated(t, s, user, "node-2")
	wants(t, update(elsewhere, "plain", say(`{"a":1}`)), "")
	wants(t, update(elsewhere, "plain", say(`{"a":2}`)), denied+`[arbitrary-node:update]" permission: `)
	wants(t, update(elsewhere, "plain", func(status *resourcev1.ResourceClaimStatus) { status.Devices = nil }), denied)
	grant("nodes", rbacv1.PolicyRule{Verbs: []string{"arbitrary-node:update"}, Resources: []string{"resourceclaims/driver"}, ResourceNames: []string{"d"}})
	wants(t, update(elsewhere, "plain", say(`{"a":2}`)), "")
}

// granter returns a function that grants a permission to a user, in all namespaces.
func granter(t *testing.T, admin kubernetes.Interface, user string) func(name string, rule rbacv1.PolicyRule) {
	return func(name string, rule rbacv1.PolicyRule) {
		t.Helper()
		rule.APIGroups = []string{resourcev1.GroupName}
		role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: []rbacv1.PolicyRule{rule}}
		if _, err := admin.RbacV1().ClusterRoles().Create(t.Context(), role, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		servertest.Bind(t, admin, name, user, "")
	}
}

// impersonated returns a client for a user with a token that is bound to a node.
func impersonated(t *testing.T, s *server.Server, user, node string) kubernetes.Interface {
	t.Helper()
	config, err := s.ClientConfig()
	if err != nil {
		t.Fatal(err)
	}
	config = rest.CopyConfig(config)
	config.Impersonate = rest.ImpersonationConfig{UserName: user, Extra: map[string][]string{"authentication.kubernetes.io/node-name": {node}}}
	return servertest.Clientset(t, s, config, runtime.ContentTypeJSON)
}
