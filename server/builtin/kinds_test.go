package builtin_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"espalier.dev/server"
	"espalier.dev/server/servertest"
)

// kindRequests sends requests for built-in kinds to one server.
type kindRequests struct {
	*testing.T
	server *server.Server
	client *http.Client
	etcd   *clientv3.Client
}

// send sends a request and returns the status code and the body of the response.
func (k *kindRequests) send(method, path, contentType, accept, body string) (int, string) {
	k.Helper()
	req, err := http.NewRequestWithContext(k.Context(), method, k.server.URL()+path, strings.NewReader(body))
	if err != nil {
		k.Fatal(err)
	}
	req.Header.Set("Content-Type", contentType)
	req.Header.Set("Accept", accept)
	resp, err := k.client.Do(req)
	if err != nil {
		k.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		k.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

// must sends JSON, and expects a status code. It returns the body.
func (k *kindRequests) must(code int, method, path, body string) string {
	k.Helper()
	got, text := k.send(method, path, "application/json", "application/json", body)
	if got != code {
		k.Fatalf("%s %s: %d: %s", method, path, got, text)
	}
	return text
}

// firstEvent returns the first event of a watch.
func (k *kindRequests) firstEvent(path string) string {
	k.Helper()
	req, err := http.NewRequestWithContext(k.Context(), http.MethodGet, k.server.URL()+path, nil)
	if err != nil {
		k.Fatal(err)
	}
	resp, err := k.client.Do(req)
	if err != nil {
		k.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	var event json.RawMessage
	if err := json.NewDecoder(resp.Body).Decode(&event); err != nil || resp.StatusCode != http.StatusOK {
		k.Fatalf("GET %s: %d %v", path, resp.StatusCode, err)
	}
	return string(event)
}

// table returns the cells of a table, row by row.
func (k *kindRequests) table(path string) string {
	k.Helper()
	code, text := k.send(http.MethodGet, path, "", "application/json;as=Table;v=v1;g=meta.k8s.io", "")
	var table metav1.Table
	if err := json.Unmarshal([]byte(text), &table); err != nil || code != http.StatusOK || table.Kind != "Table" {
		k.Fatalf("%s: %d %v: %s", path, code, err, text)
	}
	var out []string
	for _, c := range table.ColumnDefinitions {
		out = append(out, c.Name)
	}
	for _, row := range table.Rows {
		out = append(out, strings.TrimSuffix(fmt.Sprintln(row.Cells...), "\n"))
	}
	return strings.Join(out, "|")
}

// TestKinds checks what is special about some built-in kinds, with requests.
func TestKinds(t *testing.T) {
	t.Parallel()
	o := servertest.Options(t)
	o.DisableAdmissionPlugins = nil
	s := servertest.Start(t, o)
	k := &kindRequests{T: t, server: s, client: servertest.Client(t, s, nil), etcd: servertest.Etcd(t, o)}
	t.Run("first objects", k.firstObjects)
	t.Run("API services", k.apiServices)
	t.Run("bindings", k.bindings)
	t.Run("evictions", k.evictions)
	t.Run("other kinds", k.otherKinds)
	t.Run("autoscalers", k.autoscalers)
	t.Run("status of services", k.serviceStatus)
	t.Run("deletion of events", k.eventDeletion)
	t.Run("kubelets", k.kubelets)
	t.Run("warnings", k.warnings)
	t.Run("scales", k.scales)
}

func (k *kindRequests) firstObjects(t *testing.T) {
	k = &kindRequests{T: t, server: k.server, client: k.client, etcd: k.etcd}
	var cidr struct {
		Metadata metav1.ObjectMeta
		Status   struct{ Conditions []metav1.Condition }
	}
	if err := json.Unmarshal([]byte(k.must(200, "GET", "/apis/networking.k8s.io/v1/servicecidrs/kubernetes", "")), &cidr); err != nil {
		t.Fatal(err)
	}
	if c := cidr.Status.Conditions; len(c) != 1 || c[0].Type != "Ready" || c[0].Status != "True" || c[0].LastTransitionTime.IsZero() {
		t.Errorf("the conditions of the range: %+v", c)
	}
	managers := func(fields []metav1.ManagedFieldsEntry) (all []string) {
		for _, f := range fields {
			all = append(all, fmt.Sprint(f.Manager, " ", f.Operation, " ", f.Subresource))
		}
		return all
	}
	if got := fmt.Sprint(managers(cidr.Metadata.ManagedFields)); got != "[kubernetes-service-cidr-controller Apply status kube-apiserver Update ]" {
		t.Errorf("the managers of the range: %s", got)
	}
	if text := k.firstEvent("/api/v1/namespaces?watch=1&resourceVersion=1&timeoutSeconds=60"); !strings.Contains(text, `"type":"ADDED"`) {
		t.Errorf("watch from the first revision: %s", text)
	}
	for _, path := range []string{"/api/v1/namespaces/default", "/api/v1/namespaces/default/services/kubernetes", "/apis/scheduling.k8s.io/v1/priorityclasses/system-node-critical"} {
		var obj metav1.PartialObjectMetadata
		if err := json.Unmarshal([]byte(k.must(200, "GET", path, "")), &obj); err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(managers(obj.ManagedFields)); got != "[kube-apiserver Update ]" {
			t.Errorf("the managers of %s: %s", path, got)
		}
	}
	var tracking struct{ Data map[string]string }
	if err := json.Unmarshal([]byte(k.must(200, "GET", "/api/v1/namespaces/kube-system/configmaps/kube-apiserver-legacy-service-account-token-tracking", "")), &tracking); err != nil {
		t.Fatal(err)
	}
	if _, err := time.Parse(time.DateOnly, tracking.Data["since"]); err != nil {
		t.Error("the start of the tracking of tokens:", err)
	}
	var service struct {
		Spec struct {
			ClusterIP              string
			ClusterIPs, IPFamilies []string
		}
	}
	if err := json.Unmarshal([]byte(k.must(200, "GET", "/api/v1/namespaces/default/services/kubernetes", "")), &service); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(service.Spec); got != "{10.0.0.1 [10.0.0.1] [IPv4]}" {
		t.Error("the addresses of the service:", got)
	}
}

// apiServices checks that API services are stored as kube-apiserver stores them.
func (k *kindRequests) apiServices(t *testing.T) {
	k = &kindRequests{T: t, server: k.server, client: k.client, etcd: k.etcd}
	const path = "/apis/apiregistration.k8s.io/v1/apiservices"
	// The server has stored those of its own groups.
	if text := k.must(200, "GET", path+"/v1.apps", ""); !strings.Contains(text,
		`"spec":{"group":"apps","version":"v1","groupPriorityMinimum":17800,"versionPriority":15}`) {
		t.Error(text)
	}
	code, text := k.send("PATCH", path+"/v1beta1.metrics.k8s.io?fieldManager=me", "application/apply-patch+yaml", "application/json", `
apiVersion: apiregistration.k8s.io/v1
kind: APIService
metadata: {name: v1beta1.metrics.k8s.io}
spec: {group: metrics.k8s.io, version: v1beta1, groupPriorityMinimum: 100, versionPriority: 100, service: {name: metrics, namespace: kube-system}}
`)
	if code != 201 || !strings.Contains(text, `"port":443`) || !strings.Contains(text, `"f:service":{"f:name":{},"f:namespace":{}}`) {
		t.Fatalf("apply: %d %s", code, text)
	}
	code, text = k.send("PATCH", path+"/v1beta1.metrics.k8s.io/status?fieldManager=me", "application/apply-patch+yaml", "application/json", `
apiVersion: apiregistration.k8s.io/v1
kind: APIService
metadata: {name: v1beta1.metrics.k8s.io}
status: {conditions: [{type: Available, status: "False", reason: MissingEndpoints}]}
`)
	// The controller of the server may have been faster.
	if code != 409 && (code != 200 || !strings.Contains(text, `"k:{\"type\":\"Available\"}"`)) {
		t.Fatalf("apply the status: %d %s", code, text)
	}
	if got := k.table(path); !strings.HasPrefix(got, "Name|Service|Available|Age|v1. Local True ") || !strings.Contains(got, "|v1.apps Local True ") ||
		!strings.Contains(got, "|v1beta1.metrics.k8s.io kube-system/metrics False (") {
		t.Error("table:", got)
	}
	if text := k.must(422, "POST", path, `{"metadata":{"name":"a"}}`); !strings.Contains(text, "better be legacy kube") {
		t.Error(text)
	}
	// There is no such service, and groups of the server are served as before.
	k.must(503, "GET", "/apis/metrics.k8s.io/v1beta1/nodes", "")
	k.must(200, "GET", "/apis/apps/v1/deployments", "")
	stored, err := k.etcd.Get(t.Context(), "/registry/apiregistration.k8s.io/apiservices/v1.apps")
	if err != nil || len(stored.Kvs) != 1 {
		t.Fatal("it is not stored:", err)
	}
	if got := string(stored.Kvs[0].Value); !strings.HasPrefix(got, `{"kind":"APIService","apiVersion":"apiregistration.k8s.io/v1","metadata":{"name":"v1.apps"`) {
		t.Error("stored:", got)
	}
	published := k.must(200, "GET", "/openapi/v3/apis/apiregistration.k8s.io/v1", "")
	if !strings.Contains(published, "Service is a reference to the service for this API server.") {
		t.Error("OpenAPI has no descriptions of the fields")
	}
	// kubectl explain looks for it.
	if !strings.Contains(published, `"x-kubernetes-group-version-kind":[{"group":"apiregistration.k8s.io","kind":"APIService","version":"v1"}]`) {
		t.Error("OpenAPI does not say which kind the type is")
	}
	k.must(200, "DELETE", path+"/v1.apps", "")
}

// bindings assigns pods to nodes, with and without the name in the path.
func (k *kindRequests) bindings(t *testing.T) {
	k = &kindRequests{T: t, server: k.server, client: k.client, etcd: k.etcd}
	const root = "/api/v1/namespaces/default"
	for _, name := range []string{"a", "b"} {
		k.must(201, "POST", root+"/pods", fmt.Sprintf(`{"metadata":{"name":%q},"spec":{"containers":[{"name":"a","image":"a"}]}}`, name))
	}
	bind := func(name string) string {
		return fmt.Sprintf(`{"apiVersion":"v1","kind":"Binding","metadata":{"name":%q},"target":{"kind":"Node","name":"node"}}`, name)
	}
	k.must(201, "POST", root+"/pods/a/binding", bind("a"))
	k.must(201, "POST", root+"/bindings", bind("b"))
	for _, name := range []string{"a", "b"} {
		if text := k.must(200, "GET", root+"/pods/"+name, ""); !strings.Contains(text, `"nodeName":"node"`) {
			t.Errorf("the pod %s is not assigned: %s", name, text)
		}
	}
	if text := k.must(409, "POST", root+"/bindings", bind("b")); !strings.Contains(text, `pod b is already assigned to node \"node\"`) {
		t.Error(text)
	}
	k.must(409, "POST", root+"/pods/a/binding", strings.Replace(bind("a"), `"name":"a"`, `"name":"a","uid":"other"`, 1))
	k.must(404, "POST", root+"/bindings", bind("c"))
	k.must(405, "GET", root+"/bindings", "")
	if text := k.must(200, "GET", "/api/v1", ""); !strings.Contains(text, `{"name":"bindings","singularName":"binding","namespaced":true,"kind":"Binding","verbs":["create"]}`) {
		t.Error("discovery:", text)
	}
}

// autoscalers checks the conversion between the versions of autoscalers.
func (k *kindRequests) autoscalers(t *testing.T) {
	k = &kindRequests{T: t, server: k.server, client: k.client, etcd: k.etcd}
	const v1, v2 = "/apis/autoscaling/v1/namespaces/default/horizontalpodautoscalers", "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers"
	hpa := func(name, behavior string) string {
		annotation, err := json.Marshal(behavior)
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprintf(`{"apiVersion":"autoscaling/v1","kind":"HorizontalPodAutoscaler","metadata":{"name":%q,"annotations":{"autoscaling.alpha.kubernetes.io/behavior":%s}},
			"spec":{"scaleTargetRef":{"kind":"Deployment","name":"d","apiVersion":"apps/v1"},"maxReplicas":3,"targetCPUUtilizationPercentage":50}}`, name, annotation)
	}
	// In v2 the policies would get defaults. The annotation of v1 has none.
	if text := k.must(422, "POST", v1, hpa("partial", `{"ScaleUp":{"StabilizationWindowSeconds":3}}`)); !strings.Contains(text, "spec.behavior.scaleUp.policies: Required value") {
		t.Error(text)
	}
	k.must(201, "POST", v1, hpa("whole", `{"ScaleUp":{"Policies":[{"Type":"Pods","Value":1,"PeriodSeconds":5}]}}`))
	if text := k.must(200, "GET", v2+"/whole", ""); !strings.Contains(text, `"scaleUp":{"policies":[{"type":"Pods","value":1,"periodSeconds":5}]}`) && !strings.Contains(text, `"periodSeconds":5`) {
		t.Error(text)
	}
	const want = "Name|Reference|Targets|MinPods|MaxPods|Replicas|Age|whole Deployment/d cpu: <unknown>/50% 1 3 0 "
	for _, path := range []string{v1, v2, v1 + "/whole", v2 + "/whole"} {
		if got := k.table(path); !strings.HasPrefix(got, want) {
			t.Errorf("%s: %s", path, got)
		}
	}
	code, text := k.send(http.MethodGet, v1+"?includeObject=Object", "", "application/json;as=Table;v=v1;g=meta.k8s.io", "")
	if code != 200 || !strings.Contains(text, `"apiVersion":"autoscaling/v1"`) || strings.Contains(text, `"apiVersion":"autoscaling/v2"`) {
		t.Errorf("objects of the table: %d %s", code, text)
	}
	// Applied objects are created from v1, and the fields of their managers are those of v1.
	code, text = k.send(http.MethodPatch, v1+"/applied?fieldManager=m", "application/apply-patch+yaml", "application/json", hpa("applied", "{}"))
	if code != 201 || !strings.Contains(text, `"operation":"Apply","apiVersion":"autoscaling/v1"`) {
		t.Errorf("apply: %d %s", code, text)
	}
	if text := k.must(200, "GET", v1, ""); strings.Count(text, `"kind":"HorizontalPodAutoscaler`) != 1 {
		t.Errorf("objects of lists have no kind: %s", text)
	}
	if text := k.must(200, "GET", v1+"?labelSelector=none", ""); !strings.Contains(text, `"items":[]`) {
		t.Errorf("empty list: %s", text)
	}
}

// serviceStatus checks that the status of a service is written without allocations.
func (k *kindRequests) serviceStatus(t *testing.T) {
	k = &kindRequests{T: t, server: k.server, client: k.client, etcd: k.etcd}
	const path = "/api/v1/namespaces/default/services"
	k.must(201, "POST", path, `{"metadata":{"name":"balanced"},"spec":{"type":"LoadBalancer","ports":[{"port":80}]}}`)
	for _, c := range []struct{ method, contentType, body string }{
		{"PUT", "application/json", strings.ReplaceAll(k.must(200, "GET", path+"/balanced", ""), `"loadBalancer":{}`, `"loadBalancer":{"ingress":[{"ip":"192.0.2.1"}]}`)},
		{"PATCH", "application/merge-patch+json", `{"status":{"loadBalancer":{"ingress":[{"ip":"192.0.2.1"}]}}}`},
		{"PATCH", "application/apply-patch+yaml", `{"apiVersion":"v1","kind":"Service","status":{"loadBalancer":{"ingress":[{"ip":"192.0.2.1"}]}}}`},
	} {
		url := path + "/balanced/status"
		if strings.Contains(c.contentType, "apply") {
			url += "?fieldManager=m&force=true"
		}
		code, text := k.send(c.method, url, c.contentType, "application/json", c.body)
		if code != 200 || !strings.Contains(text, `"ip":"192.0.2.1"`) {
			t.Errorf("%s %s: %d %s", c.method, c.contentType, code, text)
		}
	}
}

// eventDeletion checks that events are deleted at once: they have no dependents.
func (k *kindRequests) eventDeletion(t *testing.T) {
	k = &kindRequests{T: t, server: k.server, client: k.client, etcd: k.etcd}
	const path = "/api/v1/namespaces/default/events"
	for _, policy := range []string{"Foreground", "Orphan"} {
		k.must(201, "POST", path, `{"metadata":{"name":"e"},"involvedObject":{"kind":"Pod","namespace":"default","name":"p"},"reason":"R"}`)
		k.must(200, "DELETE", path+"/e?propagationPolicy="+policy, "")
		k.must(404, "GET", path+"/e", "")
	}
	applied := `{"apiVersion":"events.k8s.io/v1","kind":"Event","metadata":{"name":"applied"},"eventTime":"2026-01-01T00:00:00.000000Z","reason":"R","action":"A","type":"Normal",
		"reportingController":"example.com/c","reportingInstance":"i","regarding":{"kind":"Pod","namespace":"default","name":"p"}}`
	code, text := k.send(http.MethodPatch, "/apis/events.k8s.io/v1/namespaces/default/events/applied?fieldManager=m", "application/apply-patch+yaml", "application/json", applied)
	if code != 201 {
		t.Errorf("apply: %d %s", code, text)
	}
}

// kubelets checks the answers to requests that need a kubelet.
func (k *kindRequests) kubelets(t *testing.T) {
	k = &kindRequests{T: t, server: k.server, client: k.client, etcd: k.etcd}
	const path = "/api/v1/namespaces/default/pods"
	k.must(201, "POST", path, `{"metadata":{"name":"logged"},"spec":{"containers":[{"name":"a","image":"a"},{"name":"b","image":"b"}]}}`)
	for _, c := range []struct {
		code               int
		method, path, want string
	}{
		{404, "GET", "/none/log", `pods \"none\" not found`},
		{400, "GET", "/logged/log", "a container name must be specified for pod logged, choose one of: [a b]"},
		{400, "POST", "/logged/exec?container=c&command=ls", "container c is not valid for pod logged"},
		{501, "GET", "/logged/log?container=a", "nothing runs them: log needs a cluster"},
		{501, "POST", "/logged/portforward", "nothing runs them: portforward needs a cluster"},
	} {
		if text := k.must(c.code, c.method, path+c.path, ""); !strings.Contains(text, c.want) {
			t.Errorf("%s: %s", c.path, text)
		}
	}
}

// warnings checks the warnings that do not depend on the object.
func (k *kindRequests) warnings(t *testing.T) {
	for path, want := range map[string]string{
		"GET /api/v1/namespaces/default/endpoints":                                   "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice",
		"DELETE /apis/batch/v1/namespaces/default/jobs/none":                         "child pods are preserved by default when jobs are deleted",
		"DELETE /apis/batch/v1/namespaces/default/jobs":                              "child pods are preserved by default when jobs are deleted",
		"DELETE /apis/batch/v1/namespaces/default/jobs?propagationPolicy=Background": "",
	} {
		method, url, _ := strings.Cut(path, " ")
		req, err := http.NewRequestWithContext(t.Context(), method, k.server.URL()+url, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := k.client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if got := resp.Header.Get("Warning"); !strings.Contains(got, want) || want == "" && got != "" {
			t.Errorf("%s: warning %q", path, got)
		}
	}
}

func (k *kindRequests) scales(t *testing.T) {
	k = &kindRequests{T: t, server: k.server, client: k.client, etcd: k.etcd}
	const path = "/apis/apps/v1/namespaces/default/deployments"
	k.must(201, "POST", path, `{"metadata":{"name":"d"},"spec":{"replicas":2,"selector":{"matchLabels":{"a":"b"}},
		"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"a","image":"a"}]}}}}`)
	if got := k.table(path + "/d/scale"); !strings.HasPrefix(got, "Name|Desired|Available|Age|d 2 0 ") {
		t.Error(got)
	}
}

// otherKinds sends objects of other kinds than the path is for.
func (k *kindRequests) otherKinds(t *testing.T) {
	k = &kindRequests{T: t, server: k.server, client: k.client, etcd: k.etcd}
	const root = "/api/v1/namespaces/default"
	k.must(201, "POST", root+"/configmaps", `{"metadata":{"name":"kinds"}}`)
	for _, r := range []struct{ method, path, contentType, kind string }{
		{"POST", "/configmaps", "application/json", "Secret"},
		{"POST", "/configmaps", "application/json", "ConfigMapList"},
		{"POST", "/configmaps", "application/json", "Status"},
		{"PUT", "/configmaps/kinds", "application/json", "Secret"},
		{"PATCH", "/configmaps/kinds", "application/merge-patch+json", "Namespace"},
		{"POST", "/pods/kinds/binding", "application/json", "Pod"},
		{"POST", "/serviceaccounts/default/token", "application/json", "ServiceAccount"},
	} {
		code, text := k.send(r.method, root+r.path, r.contentType, "application/json", fmt.Sprintf(`{"apiVersion":"v1","kind":%q,"metadata":{"name":"kinds"}}`, r.kind))
		if code != 400 && code != 422 || !strings.Contains(text, `"kind":"Status"`) {
			t.Errorf("%+v: %d %s", r, code, text)
		}
	}
	_, text := k.send("POST", root+"/configmaps", "application/json", "application/json", `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"kinds"}}`)
	if !strings.Contains(text, `Secret in version \"v1\" cannot be handled as a ConfigMap: converting (v1.Secret) to (core.ConfigMap): unknown conversion`) {
		t.Error(text)
	}
	// The fields of a request for a token are managed like those of other objects.
	if text := k.must(201, "POST", root+"/serviceaccounts/default/token", `{"spec":{"audiences":["a"]}}`); !strings.Contains(text, `"f:audiences"`) {
		t.Error(text)
	}
}
