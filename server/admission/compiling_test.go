package admission_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"espalier.dev/server/servertest"
)

const claims = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"

// claim returns a claim with expressions: at most 32 for each of at most 32 requests.
func claim(name string, expressions ...string) string {
	c := resourcev1.ResourceClaim{TypeMeta: metav1.TypeMeta{APIVersion: "resource.k8s.io/v1", Kind: "ResourceClaim"}, ObjectMeta: metav1.ObjectMeta{Name: name}}
	for i, e := range expressions {
		if i%32 == 0 {
			c.Spec.Devices.Requests = append(c.Spec.Devices.Requests, resourcev1.DeviceRequest{Name: fmt.Sprint("r", i),
				Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: "class", AllocationMode: "ExactCount", Count: 1}})
		}
		r := c.Spec.Devices.Requests[i/32].Exactly
		r.Selectors = append(r.Selectors, resourcev1.DeviceSelector{CEL: &resourcev1.CELDeviceSelector{Expression: e}})
	}
	data, _ := json.Marshal(c)
	return string(data)
}

// TestExpensiveClaims has a user who may edit one namespace send selectors that would take long to compile, or much memory.
func TestExpensiveClaims(t *testing.T) {
	if testing.Short() {
		t.Skip("expressions that are expensive to compile")
	}
	t.Parallel()
	s := servertest.Start(t, servertest.Options(t))
	servertest.Bind(t, servertest.Clientset(t, s, nil, "application/json"), "edit", "eve", "default")
	admin, eve := servertest.Client(t, s, nil), servertest.Client(t, s, servertest.User(t, s, "eve"))
	var many []string
	for i := range 240 {
		many = append(many, fmt.Sprintf("[%s{}].size() > %d", strings.Repeat("{},", 1_500), i))
	}
	for name, tt := range map[string]struct {
		expressions []string
		want        string
	}{
		"opt-map": {[]string{"optional.of(1)" + strings.Repeat(".optMap(x,x)", 30) + ".hasValue()"},
			"spec.devices.requests[0].exactly.selectors[0].cel.expression: Forbidden: the expression is too complex to be compiled: use fewer nested or chained calls"},
		"opt-flat-map": {[]string{"optional.of(1)" + strings.Repeat(".optFlatMap(x,optional.of(x))", 30) + ".hasValue()"},
			"the expression is too complex to be compiled"},
		"empty-maps": {[]string{"[" + strings.Repeat("{},", 3_400) + "{}].size() > 0"}, "the expression is too complex to be compiled"},
		"many":       {many, "cel.expression: Forbidden: all CEL expressions of the object together are too complex to be compiled"},
	} {
		code, text := servertest.Exchange(t, eve, http.MethodPost, s.URL()+claims, claim(name, tt.expressions...))
		if code != http.StatusUnprocessableEntity || !strings.Contains(text, tt.want) {
			t.Errorf("%s: %d %.500s", name, code, text)
		}
		if code, text := servertest.Exchange(t, admin, http.MethodPost, s.URL()+claims, claim("admin-"+name, "device.driver == 'a'")); code != http.StatusCreated {
			t.Errorf("%s: an administrator gets %d %.500s", name, code, text)
		}
	}
}

// TestExpensiveStored starts a server with a CRD and a policy that were stored before there was a bound. The CRD is served and can be
// updated, and its rule rejects each object that it is for. So does the policy.
func TestExpensiveStored(t *testing.T) {
	t.Parallel()
	const crd, things = servertest.CRDs + "/things.example.com", "/apis/example.com/v1/namespaces/default/things"
	const policies, registry = "/apis/admissionregistration.k8s.io/v1/", "/registry/"
	chained := "optional.of(1)" + strings.Repeat(".optMap(x,x)", 30) + ".hasValue()"
	c := servertest.NewCluster(t)
	p := c.Start()
	spec := map[string]any{"type": "object", "properties": map[string]any{"n": map[string]any{"type": "integer"}},
		"x-kubernetes-validations": []any{map[string]any{"rule": "true"}}}
	p.Want(http.StatusCreated, http.MethodPost, servertest.CRDs, map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": map[string]any{"name": "things.example.com"},
		"spec": map[string]any{"group": "example.com", "scope": "Namespaced", "names": map[string]any{"plural": "things", "kind": "Thing"},
			"versions": []any{map[string]any{"name": "v1", "served": true, "storage": true, "schema": map[string]any{
				"openAPIV3Schema": map[string]any{"type": "object", "properties": map[string]any{"spec": spec}}}}}}})
	p.StopSoon()
	c.Edit(registry+"apiextensions.k8s.io/customresourcedefinitions/things.example.com", func(obj map[string]any) {
		data, err := json.Marshal(obj)
		if err == nil {
			err = json.Unmarshal([]byte(strings.Replace(string(data), `"rule":"true"`, `"rule":"`+chained+`"`, 1)), &obj)
		}
		if err != nil {
			t.Fatal(err)
		}
	})
	meta := func(name string) map[string]any {
		return map[string]any{"name": name, "uid": name, "creationTimestamp": "2026-01-01T00:00:00Z"}
	}
	c.Put(registry+"validatingadmissionpolicies/chained", map[string]any{
		"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy", "metadata": meta("chained"),
		"spec": map[string]any{"failurePolicy": "Fail", "validations": []any{map[string]any{"expression": chained}},
			"matchConstraints": map[string]any{"resourceRules": []any{map[string]any{"apiGroups": []any{""}, "apiVersions": []any{"v1"},
				"operations": []any{"CREATE"}, "resources": []any{"secrets"}}}}}})
	c.Put(registry+"validatingadmissionpolicybindings/chained", map[string]any{
		"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding", "metadata": meta("chained"),
		"spec": map[string]any{"policyName": "chained", "validationActions": []any{"Deny"}}})
	p = c.Start()
	thing := func(name string, fields map[string]any) map[string]any {
		return map[string]any{"apiVersion": "example.com/v1", "kind": "Thing", "metadata": map[string]any{"name": name}, "spec": fields}
	}
	p.Want(http.StatusCreated, http.MethodPost, things, thing("without", nil))
	for path, obj := range map[string]map[string]any{
		things:                               thing("with", map[string]any{"n": 1}),
		"/api/v1/namespaces/default/secrets": {"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": "a"}},
	} {
		if a := p.Want(http.StatusUnprocessableEntity, http.MethodPost, path, obj); !strings.Contains(string(a.Body), "the expression is too complex to be compiled") {
			t.Errorf("%s: got %s", path, a.Body)
		}
	}
	for _, path := range []string{crd, policies + "validatingadmissionpolicies/chained"} {
		var obj map[string]any
		if err := json.Unmarshal([]byte(p.Want(http.StatusOK, http.MethodGet, path, nil).Body), &obj); err != nil {
			t.Fatal(err)
		}
		obj["metadata"].(map[string]any)["labels"] = map[string]any{"a": "b"}
		p.Want(http.StatusOK, http.MethodPut, path, obj)
	}
}
