package server_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"espalier.dev/schema"
	"espalier.dev/server/servertest"
)

// routedCRD returns a CRD for tests of paths.
func routedCRD(plural, kind, scope, subresources string) string {
	return fmt.Sprintf(`{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"%s.routes.example.com"},
		"spec":{"group":"routes.example.com","scope":%q,"names":{"plural":%q,"kind":%q},"versions":[{"name":"v1","served":true,"storage":true,
		"schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}%s}]}}`, plural, scope, plural, kind, subresources)
}

// TestNamedPost sends objects to the path of another object. The path is what is authorized, so it
// must not create what is in the body.
func TestNamedPost(t *testing.T) {
	t.Parallel()
	for _, sem := range []schema.Semantics{schema.KEP, schema.Kubernetes} {
		t.Run(sem.String(), func(t *testing.T) {
			t.Parallel()
			o := servertest.Options(t)
			o.Semantics = sem
			o.Authorization.Modes = []string{"RBAC"}
			s := servertest.Start(t, o)
			admin := servertest.Client(t, s, nil)
			must := func(code int, method, path, body string) {
				t.Helper()
				if got, text := servertest.Exchange(t, admin, method, s.URL()+path, body); got != code {
					t.Fatalf("%s %s: %d %s", method, path, got, text)
				}
			}
			for _, name := range []string{"a", "b"} {
				must(http.StatusCreated, http.MethodPost, "/api/v1/namespaces", `{"metadata":{"name":"`+name+`"}}`)
			}
			must(http.StatusCreated, http.MethodPost, servertest.CRDs, routedCRD("foos", "Foo", "Namespaced", `,"subresources":{"status":{}}`))
			must(http.StatusCreated, http.MethodPost, servertest.CRDs, routedCRD("bars", "Bar", "Cluster", ""))

			// One user is the administrator of a namespace, another may create objects of one name.
			set := servertest.Clientset(t, s, nil, runtime.ContentTypeJSON)
			servertest.Bind(t, set, "cluster-admin", "owner", "a")
			if _, err := set.RbacV1().ClusterRoles().Create(t.Context(), &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "named"}, Rules: []rbacv1.PolicyRule{
				{Verbs: []string{"*"}, APIGroups: []string{"*"}, Resources: []string{"*"}, ResourceNames: []string{"granted"}},
			}}, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			servertest.Bind(t, set, "named", "named", "")
			owner, named := servertest.Client(t, s, servertest.User(t, s, "owner")), servertest.Client(t, s, servertest.User(t, s, "named"))

			const core, custom = "/api/v1/namespaces/", "/apis/routes.example.com/v1/"
			for _, c := range []struct {
				user *http.Client
				path string
				body string
				// made is the path of the object in the body.
				made string
			}{
				{owner, core + "a", `{"metadata":{"name":"evil"}}`, core + "evil"},
				{owner, core + "a", `{"metadata":{"generateName":"evil"}}`, ""},
				{owner, core + "a/secrets/granted", `{"metadata":{"name":"evil"}}`, core + "a/secrets/evil"},
				{named, core + "granted", `{"metadata":{"name":"evil"}}`, core + "evil"},
				{named, core + "a/secrets/granted", `{"metadata":{"name":"evil"}}`, core + "a/secrets/evil"},
				{named, core + "a/secrets/granted", `{"metadata":{"name":"granted"}}`, core + "a/secrets/granted"},
				{named, core + "a/secrets/granted?dryRun=All", `{"metadata":{"name":"granted"}}`, core + "a/secrets/granted"},
				{named, core + "a/secrets/granted", `{"metadata":{"generateName":"granted"}}`, ""},
				{named, "/api/v1/nodes/granted", `{"metadata":{"name":"evil"}}`, "/api/v1/nodes/evil"},
				{named, "/apis/apps/v1/namespaces/a/deployments/granted", `{"metadata":{"name":"evil"},"spec":{"selector":{"matchLabels":{"a":"b"}},` +
					`"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}}`, "/apis/apps/v1/namespaces/a/deployments/evil"},
				{named, "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/granted", `{"metadata":{"name":"evil"},"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"named"}}`,
					"/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/evil"},
				{named, "/apis/apiregistration.k8s.io/v1/apiservices/granted", `{"metadata":{"name":"v1.evil.example.com"},"spec":{"group":"evil.example.com","version":"v1","groupPriorityMinimum":1,"versionPriority":1,` +
					`"service":{"name":"s","namespace":"n"},"insecureSkipTLSVerify":true}}`, "/apis/apiregistration.k8s.io/v1/apiservices/v1.evil.example.com"},
				{named, servertest.CRDs + "/granted", routedCRD("evils", "Evil", "Cluster", ""), servertest.CRDs + "/evils.routes.example.com"},
				{named, custom + "namespaces/a/foos/granted", `{"apiVersion":"routes.example.com/v1","kind":"Foo","metadata":{"name":"evil"}}`, custom + "namespaces/a/foos/evil"},
				{named, custom + "namespaces/a/foos/granted", `{"apiVersion":"routes.example.com/v1","kind":"Foo","metadata":{"generateName":"evil"}}`, ""},
				{named, custom + "bars/granted", `{"apiVersion":"routes.example.com/v1","kind":"Bar","metadata":{"name":"evil"}}`, custom + "bars/evil"},
			} {
				code, text := servertest.Exchange(t, c.user, http.MethodPost, s.URL()+c.path, c.body)
				if code != http.StatusMethodNotAllowed || !strings.Contains(text, `"message":"the server does not allow this method on the requested resource","reason":"MethodNotAllowed","details":{},"code":405`) {
					t.Errorf("POST %s: %d %s", c.path, code, text)
				}
				if c.made == "" {
					continue
				}
				if code, text := servertest.Get(t, s, admin, c.made); code != http.StatusNotFound {
					t.Errorf("POST %s has created %s: %d %s", c.path, c.made, code, text)
				}
			}
			for _, list := range []string{core + "a/secrets", custom + "namespaces/a/foos"} {
				if code, text := servertest.Get(t, s, admin, list); code != http.StatusOK || !strings.Contains(text, `"items":[]`) {
					t.Errorf("%s: %d %s", list, code, text)
				}
			}
		})
	}
}

// TestPolicyParameters writes admission policies whose parameters the user may not read.
func TestPolicyParameters(t *testing.T) {
	t.Parallel()
	o := servertest.Options(t)
	o.Authorization.Modes = []string{"RBAC"}
	s := servertest.Start(t, o)
	set := servertest.Clientset(t, s, nil, runtime.ContentTypeJSON)
	for name, rules := range map[string][]rbacv1.PolicyRule{
		"writes-policies": {{Verbs: []string{"*"}, APIGroups: []string{"admissionregistration.k8s.io"}, Resources: []string{"*"}}},
		"reads-secrets":   {{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"secrets"}}},
	} {
		if _, err := set.RbacV1().ClusterRoles().Create(t.Context(), &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: rules}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	servertest.Bind(t, set, "writes-policies", "writer", "")
	servertest.Bind(t, set, "writes-policies", "reader", "")
	servertest.Bind(t, set, "reads-secrets", "reader", "")
	const group = "/apis/admissionregistration.k8s.io/v1/"
	policy := func(name, kind string) string {
		return `{"metadata":{"name":"` + name + `"},"spec":{"paramKind":{"apiVersion":"v1","kind":"` + kind + `"},` +
			`"matchConstraints":{"resourceRules":[{"apiGroups":[""],"apiVersions":["v1"],"resources":["configmaps"],"operations":["CREATE"]}]},"validations":[{"expression":"true"}]}}`
	}
	binding := func(name, ref string) string {
		return `{"metadata":{"name":"` + name + `"},"spec":{"policyName":"p","validationActions":["Deny"],"paramRef":{"parameterNotFoundAction":"Deny",` + ref + `}}}`
	}
	writer, reader, admin := servertest.Client(t, s, servertest.User(t, s, "writer")), servertest.Client(t, s, servertest.User(t, s, "reader")), servertest.Client(t, s, nil)
	for _, c := range []struct {
		user               *http.Client
		method, path, body string
		code               int
		says               string
	}{
		{writer, "POST", "validatingadmissionpolicies", policy("p", "Secret"), 422, `spec.paramKind: Forbidden: user`},
		{writer, "POST", "validatingadmissionpolicies", policy("p", "Unknown"), 422, `must have \"get\" permission on all objects of the referenced paramKind (kind=Unknown, apiVersion=v1)`},
		{reader, "POST", "validatingadmissionpolicies", policy("p", "Secret"), 201, ""},
		{writer, "PATCH", "validatingadmissionpolicies/p", `{"metadata":{"labels":{"a":"b"}}}`, 200, ""},
		{writer, "PATCH", "validatingadmissionpolicies/p", `{"spec":{"paramKind":{"kind":"ConfigMap"}}}`, 422, `(kind=ConfigMap, apiVersion=v1)`},
		{writer, "POST", "validatingadmissionpolicybindings", binding("b", `"name":"s","namespace":"default"`), 422, `spec.paramRef: Forbidden: user`},
		{reader, "POST", "validatingadmissionpolicybindings", binding("b", `"name":"s","namespace":"default"`), 201, ""},
		// A selector lists them.
		{reader, "POST", "validatingadmissionpolicybindings", binding("c", `"selector":{},"namespace":"default"`), 422, `does not have \"list\" permission`},
		{writer, "PATCH", "validatingadmissionpolicybindings/b", `{"metadata":{"labels":{"a":"b"}}}`, 200, ""},
		{writer, "PATCH", "validatingadmissionpolicybindings/b", `{"spec":{"paramRef":{"name":"other"}}}`, 422, `does not have \"get\" permission`},
		{writer, "PATCH", "validatingadmissionpolicybindings/b", `{"spec":{"policyName":"missing"}}`, 422, `unable to get policy missing`},
		{admin, "PATCH", "validatingadmissionpolicybindings/b", `{"spec":{"policyName":"missing"}}`, 200, ""},
	} {
		if code, text := servertest.Exchange(t, c.user, c.method, s.URL()+group+c.path, c.body); code != c.code || !strings.Contains(text, c.says) {
			t.Errorf("%s %s: %d %s\nwant %d %s", c.method, c.path, code, text, c.code, c.says)
		}
	}
}

// TestOversizedWrites writes objects that are smaller than a request may be, but too large for
// etcd.
func TestOversizedWrites(t *testing.T) {
	if testing.Short() {
		t.Skip("sends large requests")
	}
	t.Parallel()
	s := servertest.Start(t, servertest.Options(t))
	admin := servertest.Client(t, s, nil)
	const foos = "/apis/routes.example.com/v1/namespaces/default/foos"
	if code, text := servertest.Exchange(t, admin, http.MethodPost, s.URL()+servertest.CRDs, routedCRD("foos", "Foo", "Namespaced", "")); code != http.StatusCreated {
		t.Fatalf("%d %s", code, text)
	}
	object := func(name string, size int) string {
		return fmt.Sprintf(`{"apiVersion":"routes.example.com/v1","kind":"Foo","metadata":{"name":%q},"spec":{"text":%q}}`, name, strings.Repeat("x", size))
	}
	controller := func(name string, size int) string {
		return fmt.Sprintf(`{"metadata":{"name":%q},"spec":{"selector":{"a":"b"},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i","command":[%q]}]}}}}`,
			name, strings.Repeat("x", size))
	}
	const controllers = "/api/v1/namespaces/default/replicationcontrollers"
	// current adds the resource version that an update needs.
	current := func(path, body string) string {
		var stored metav1.PartialObjectMetadata
		if _, text := servertest.Get(t, s, admin, path+"/a"); json.Unmarshal([]byte(text), &stored) != nil {
			t.Fatal(text)
		}
		return strings.Replace(body, `"metadata":{`, `"metadata":{"resourceVersion":"`+stored.ResourceVersion+`",`, 1)
	}
	for path, make := range map[string]func(string, int) string{foos: object, controllers: controller} {
		if code, text := servertest.Exchange(t, admin, http.MethodPost, s.URL()+path, make("a", 1)); code != http.StatusCreated {
			t.Fatalf("%s: %d %s", path, code, text)
		}
		// etcd rejects the first, its client the second.
		for _, size := range []int{1_600_000, 2_200_000} {
			for method, request := range map[string][2]string{
				http.MethodPost: {path, make("b", size)}, http.MethodPut: {path + "/a", current(path, make("a", size))}, http.MethodPatch: {path + "/a", make("a", size)},
			} {
				code, text := servertest.Exchange(t, admin, method, s.URL()+request[0], request[1])
				if code != http.StatusRequestEntityTooLarge || !strings.Contains(text, `"reason":"RequestEntityTooLarge"`) ||
					!strings.Contains(text, "and etcd accepts 1572864 by default") || !strings.Contains(text, fmt.Sprintf("the object has %d", size/100_000)) {
					t.Errorf("%s %s with %d bytes: %d %.300s", method, request[0], size, code, text)
				}
			}
		}
		// A smaller one is rejected by nothing, with its managed fields or without them.
		if code, text := servertest.Exchange(t, admin, http.MethodPut, s.URL()+path+"/a", current(path, make("a", 1_500_000))); code != http.StatusOK {
			t.Errorf("%s: %d %.300s", path, code, text)
		}
	}
}

// TestMissingKind sends CRDs without their apiVersion and kind: the path has them.
func TestMissingKind(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t, servertest.Options(t))
	admin := servertest.Client(t, s, nil)
	const head = `"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition",`
	const answered = `"kind":"CustomResourceDefinition","apiVersion":"apiextensions.k8s.io/v1",`
	for i, c := range []struct{ send, beta string }{
		{"", ""}, {`"kind":"CustomResourceDefinition",`, `"kind":"CustomResourceDefinition",`}, {`"apiVersion":"apiextensions.k8s.io/v1",`, `"apiVersion":"apiextensions.k8s.io/v1beta1",`},
		{`"apiVersion":"","kind":null,`, `"kind":"","apiVersion":"apiextensions.k8s.io/v1beta1",`},
	} {
		plural := fmt.Sprintf("foo%ds", i)
		body := strings.Replace(routedCRD(plural, fmt.Sprintf("Foo%d", i), "Namespaced", ""), head, c.send, 1)
		path := s.URL() + servertest.CRDs
		if code, text := servertest.Exchange(t, admin, http.MethodPost, path, body); code != http.StatusCreated || !strings.Contains(text, answered) {
			t.Errorf("POST with %q: %d %s", c.send, code, text)
		}
		path += "/" + plural + ".routes.example.com"
		_, stored := servertest.Get(t, s, admin, strings.TrimPrefix(path, s.URL()))
		if code, text := servertest.Exchange(t, admin, http.MethodPut, path, strings.Replace(stored, answered, c.send, 1)); code != http.StatusOK || !strings.Contains(text, answered) {
			t.Errorf("PUT with %q: %d %s", c.send, code, text)
		}
		beta := strings.Replace(path, "/v1/", "/v1beta1/", 1)
		_, stored = servertest.Get(t, s, admin, strings.TrimPrefix(beta, s.URL()))
		const betaHead = `"kind":"CustomResourceDefinition","apiVersion":"apiextensions.k8s.io/v1beta1",`
		if code, text := servertest.Exchange(t, admin, http.MethodPut, beta, "  "+strings.Replace(stored, betaHead, c.beta, 1)); code != http.StatusOK || !strings.Contains(text, betaHead) {
			t.Errorf("PUT with %q: %d %s", c.beta, code, text)
		}
	}
	for _, body := range []string{`{}`, ` { } `, `[]`, `""`, ``, `{"apiVersion":1,"kind":2}`, `{"apiVersion":"v1"}`, `{"kind":"Pod"}`} {
		if code, text := servertest.Exchange(t, admin, http.MethodPost, s.URL()+servertest.CRDs, body); code != http.StatusBadRequest && code != http.StatusUnprocessableEntity {
			t.Errorf("%s: %d %s", body, code, text)
		}
	}
	// Custom resources need both: nothing else says what they are.
	if code, text := servertest.Exchange(t, admin, http.MethodPost, s.URL()+"/apis/routes.example.com/v1/namespaces/default/foo0s", `{"metadata":{"name":"a"}}`); code != http.StatusBadRequest {
		t.Errorf("a custom resource: %d %s", code, text)
	}
}

// TestReviewTables accepts nothing but tables from resources that have none.
func TestReviewTables(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t, servertest.Options(t))
	admin := servertest.Client(t, s, nil)
	for path, body := range map[string]string{
		"/apis/authorization.k8s.io/v1/selfsubjectaccessreviews":                     `{"spec":{"nonResourceAttributes":{"path":"/","verb":"get"}}}`,
		"/apis/authorization.k8s.io/v1/selfsubjectrulesreviews":                      `{"spec":{"namespace":"default"}}`,
		"/apis/authentication.k8s.io/v1/selfsubjectreviews":                          `{}`,
		"/apis/authentication.k8s.io/v1/tokenreviews":                                `{"spec":{"token":"t"}}`,
		"/api/v1/namespaces/kube-system/serviceaccounts/default/token":               `{}`,
		"/api/v1/namespaces/default/bindings":                                        `{"metadata":{"name":"x"},"target":{"name":"x"}}`,
		"/api/v1/namespaces/default/pods/x/eviction":                                 `{"metadata":{"name":"x"}}`,
		"/apis/authorization.k8s.io/v1/namespaces/default/localsubjectaccessreviews": `{"spec":{"user":"u","resourceAttributes":{"namespace":"default"}}}`,
	} {
		for accept, want := range map[string]bool{
			"application/json;as=Table;v=v1;g=meta.k8s.io": false, "application/json;as=Table;v=v1;g=meta.k8s.io,application/json": true,
		} {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL()+path, strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Content-Type", "application/json")
			req.Header.Set("Accept", accept)
			resp, err := admin.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			text, _ := io.ReadAll(resp.Body)
			_ = resp.Body.Close()
			if (resp.StatusCode != http.StatusNotAcceptable) != want || !strings.HasPrefix(string(text), "{") {
				t.Errorf("POST %s, accepting %s: %d %s", path, accept, resp.StatusCode, text)
			}
		}
	}
}

// TestTruncatedErrors checks that the answer to an object with very many violations, most of them in
// branches that are not reported, says that there may be more errors.
func TestTruncatedErrors(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t, servertest.Options(t))
	admin := servertest.Client(t, s, nil)
	branches := `{"maxLength":1}` + strings.Repeat(`,{"maxLength":1}`, schema.MaxViolations/80)
	crd := strings.Replace(servertest.ThingCRD("truncated.example.com"), `{"type":"object"}`, `{"type":"object","properties":{"a":{"type":"array","items":{"type":"string","anyOf":[`+branches+`]}}}}`, 1)
	if code, text := servertest.Exchange(t, admin, http.MethodPost, s.URL()+servertest.CRDs, crd); code != http.StatusCreated {
		t.Fatalf("%d %s", code, text)
	}
	for _, n := range []int{10, 90} {
		body := `{"apiVersion":"truncated.example.com/v1","kind":"Thing","metadata":{"name":"a"},"a":["zz"` + strings.Repeat(`,"zz"`, n-1) + `]}`
		code, text := servertest.Exchange(t, admin, http.MethodPost, s.URL()+"/apis/truncated.example.com/v1/things", body)
		if more := strings.Contains(text, "there may be more errors"); code != http.StatusUnprocessableEntity || more != (n > 10) {
			t.Errorf("%d items: %d, more are announced: %t: … %s", n, code, more, text[max(0, len(text)-300):])
		}
	}
}
