package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"espalier.dev/analysis"
	"espalier.dev/analysis/lookup"
	"espalier.dev/analysis/object"
	"espalier.dev/espaliertest"
)

// builtinRequests are requests that write objects of built-in kinds. A request without an old
// object is a POST; a request with one is a PUT after a POST of the old object.
func builtinRequests() []struct{ path, old, object string } {
	const (
		deployments = "/apis/apps/v1/namespaces/default/deployments"
		template    = `template: {metadata: {labels: {app: web}}, spec: {containers: [{name: web, image: nginx}]}}`
	)
	return []struct{ path, old, object string }{
		{deployments, "", `{apiVersion: apps/v1, kind: Deployment, metadata: {name: valid}, spec: {selector: {matchLabels: {app: web}}, ` + template + `}}`},
		{deployments, "", `{apiVersion: apps/v1, kind: Deployment, metadata: {name: Web, labels: {"a b": c}}, spec: {replicas: -1, selector: {matchLabels: {app: other}}, ` + template + `}}`},
		{deployments, "", `{apiVersion: apps/v1, kind: Deployment, metadata: {name: empty}}`},
		{deployments, "", `{apiVersion: apps/v1, kind: Deployment, metadata: {name: typo}, spec: {replcas: 1, selector: {matchLabels: {app: web}}, template: {metadata: {labels: {app: web}}, spec: {containers: [{name: web, image: nginx, port: 80}]}}}}`},
		{deployments, "", `{apiVersion: apps/v1, kind: Deployment, metadata: {name: strategy}, spec: {strategy: {type: Recreate, rollingUpdate: {maxSurge: 120%, maxUnavailable: 0}}, selector: {matchLabels: {app: web}}, ` + template + `}}`},
		{deployments,
			`{apiVersion: apps/v1, kind: Deployment, metadata: {name: changed}, spec: {selector: {matchLabels: {app: web}}, ` + template + `}}`,
			`{apiVersion: apps/v1, kind: Deployment, metadata: {name: changed}, spec: {selector: {matchLabels: {app: other}}, template: {metadata: {labels: {app: other}}, spec: {containers: []}}}}`},
		{"/api/v1/namespaces/default/pods", "", `{apiVersion: v1, kind: Pod, metadata: {name: pod}, spec: {
			restartPolicy: Sometimes, nodeSelector: {beta.kubernetes.io/arch: amd64}, volumes: [{name: v, emptyDir: {}}, {name: v, hostPath: {path: ../x}}],
			containers: [{name: UPPER, image: a, env: [{name: "", value: b}], resources: {limits: {cpu: 1}, requests: {cpu: 2, what: 1}}, livenessProbe: {httpGet: {port: 0}, tcpSocket: {port: 1}}, volumeMounts: [{name: none, mountPath: /x}]}]}}`},
		{"/api/v1/namespaces/default/pods", "", `{apiVersion: v1, kind: Pod, metadata: {name: warned}, spec: {automountServiceAccountToken: false, nodeSelector: {beta.kubernetes.io/os: linux}, containers: [{name: a, image: a, env: [{name: A, value: a}, {name: A, value: b}]}]}}`},
		{"/api/v1/namespaces/default/pods", "", `{apiVersion: v1, kind: Pod, metadata: {name: token}, spec: {containers: [{name: a, image: a}], volumes: [{name: v, projected: {sources: [{serviceAccountToken: {path: token}}]}}]}}`},
		{"/api/v1/namespaces/default/services", "", `{apiVersion: v1, kind: Service, metadata: {name: "1a"}, spec: {type: NodePrt, ports: [{port: 0}, {port: 99999, protocol: ICMP}], sessionAffinity: Always}}`},
		{"/api/v1/namespaces/default/services", "", `{apiVersion: v1, kind: Service, metadata: {name: families}, spec: {ports: [{port: 80}], clusterIPs: [10.0.0.1], ipFamilyPolicy: Maybe}}`},
		{"/api/v1/namespaces/default/configmaps", "", `{apiVersion: v1, kind: ConfigMap, metadata: {name: managed, managedFields: [{manager: a, operation: What, fieldsType: X}]}}`},
		{"/api/v1/namespaces/default/configmaps", "", `{apiVersion: v1, kind: ConfigMap, metadata: {name: keys}, data: {"a b": c, x: z}, binaryData: {x: eA==}}`},
		{"/api/v1/namespaces/default/configmaps",
			`{apiVersion: v1, kind: ConfigMap, metadata: {name: fixed}, immutable: true, data: {a: b}}`,
			`{apiVersion: v1, kind: ConfigMap, metadata: {name: fixed}, immutable: false, data: {a: c}}`},
		{"/api/v1/namespaces/default/configmaps", "", `{apiVersion: v1, kind: ConfigMap, metadata: {name: types}, data: {a: 1}}`},
		{"/api/v1/namespaces/default/secrets", "", `{apiVersion: v1, kind: Secret, metadata: {name: tls}, type: kubernetes.io/tls, data: {a: eA==}}`},
		{"/api/v1/namespaces/default/persistentvolumeclaims", "", `{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: claim}, spec: {accessModes: [ReadWrite], resources: {requests: {storage: -1}}}}`},
		{"/apis/batch/v1/namespaces/default/cronjobs", "", `{apiVersion: batch/v1, kind: CronJob, metadata: {name: job}, spec: {schedule: "* * *", concurrencyPolicy: Maybe, jobTemplate: {spec: {backoffLimit: -1, template: {spec: {containers: [{name: a, image: a}]}}}}}}`},
		{"/apis/networking.k8s.io/v1/namespaces/default/ingresses", "", `{apiVersion: networking.k8s.io/v1, kind: Ingress, metadata: {name: in}, spec: {rules: [{host: "*.", http: {paths: [{path: x, backend: {service: {name: a}}}]}}]}}`},
		{"/apis/autoscaling/v1/namespaces/default/horizontalpodautoscalers", "", `{apiVersion: autoscaling/v1, kind: HorizontalPodAutoscaler, metadata: {name: hpa}, spec: {maxReplicas: 0, scaleTargetRef: {kind: Deployment}}}`},
		{"/apis/rbac.authorization.k8s.io/v1/clusterroles", "", `{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: "a/b", namespace: ignored}, rules: [{apiGroups: [""], resources: [pods]}]}`},
		{"/apis/policy/v1/namespaces/default/poddisruptionbudgets", "", `{apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {name: pdb}, spec: {minAvailable: 120%, maxUnavailable: -1, selector: {matchExpressions: [{key: a, operator: Is}]}}}`},
		{"/api/v1/namespaces", "", `{apiVersion: v1, kind: Namespace, metadata: {name: A_B}}`},
		{"/apis/storage.k8s.io/v1/storageclasses", "", `{apiVersion: storage.k8s.io/v1, kind: StorageClass, metadata: {name: sc}, provisioner: "", reclaimPolicy: Burn}`},
	}
}

// TestBuiltinAsServer compares what validate reports about objects of built-in kinds with the
// answers of a server.
func TestBuiltinAsServer(t *testing.T) {
	t.Parallel()
	server := espaliertest.Start(t)
	client, err := rest.HTTPClientFor(server.Config())
	if err != nil {
		t.Fatal(err)
	}
	send := func(method, path, object string) (status metav1.Status, warnings []string) {
		t.Helper()
		body, err := yaml.YAMLToJSON([]byte(object))
		if err != nil {
			t.Fatal(err)
		}
		req, err := http.NewRequestWithContext(t.Context(), method, server.URL()+path+"?fieldValidation=Warn", bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }()
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		if resp.StatusCode >= 300 {
			if err := json.Unmarshal(text, &status); err != nil {
				t.Fatalf("%v: %s", err, text)
			}
		}
		for _, value := range resp.Header.Values("Warning") {
			_, quoted, _ := strings.Cut(value, `299 - `)
			var text string
			if err := json.Unmarshal([]byte(quoted), &text); err != nil {
				t.Fatalf("%s: %v", value, err)
			}
			warnings = append(warnings, text)
		}
		return status, warnings
	}
	causes := 0
	for _, r := range builtinRequests() {
		source, err := yaml.YAMLToJSON([]byte(r.object))
		if err != nil {
			t.Fatal(err)
		}
		var named metav1.PartialObjectMetadata
		if err := json.Unmarshal(source, &named); err != nil {
			t.Fatal(err)
		}
		var old []byte
		method, path := http.MethodPost, r.path
		if r.old != "" {
			if status, _ := send(http.MethodPost, r.path, r.old); status.Status != "" {
				t.Fatal(status.Message)
			}
			method, path = http.MethodPut, r.path+"/"+url.PathEscape(named.Name)
			if old, err = yaml.YAMLToJSON([]byte(r.old)); err != nil {
				t.Fatal(err)
			}
		}
		status, warnings := send(method, path, r.object)
		var want []string
		if status.Details != nil {
			for _, cause := range status.Details.Causes {
				want = append(want, fmt.Sprintf("error %s: %s", cause.Field, cause.Message))
				causes++
			}
		}
		for _, text := range warnings {
			want = append(want, "warning "+text)
		}
		if status.Reason == metav1.StatusReasonBadRequest {
			want = append(want, object.RuleDecode)
		}
		var got []string
		for _, f := range builtinChecker().Check(t.Context(), source, old, object.Warn) {
			message := strings.Join(append([]string{f.Message}, f.Detail...), "\n")
			if f.Path != "" {
				message = f.Path + ": " + message
			}
			if f.Rule == object.RuleUnknownField {
				message = fmt.Sprintf("unknown field %q", f.Path)
			}
			if f.Rule == object.RuleDecode {
				got = append(got, f.Rule)
				continue
			}
			severity := "error"
			if f.Severity == analysis.Warning {
				severity = "warning"
			}
			got = append(got, severity+" "+message)
		}
		slices.Sort(want)
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("%s %s\n%s\ngot:\n%s\nwant:\n%s\n%s", method, path, r.object, strings.Join(got, "\n"), strings.Join(want, "\n"), status.Message)
		}
	}
	if causes < 40 {
		t.Errorf("the requests have only %d errors", causes)
	}
}

// TestBuiltinLevel checks that the built-in kinds are those of the Kubernetes version that the
// program names.
func TestBuiltinLevel(t *testing.T) {
	t.Parallel()
	if got := fmt.Sprintf("1.%d", lookup.KubernetesMinor); got != kubernetesLevel {
		t.Errorf("got %s, want %s", got, kubernetesLevel)
	}
}

// TestBuiltinHostile validates objects of built-in kinds that are broken in unusual ways, also as
// updates of themselves. Nothing panics, and what is rejected has a position.
func TestBuiltinHostile(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	const pod = "apiVersion: v1\nkind: Pod\n"
	deep := func(open, end string) string { return strings.Repeat(open, 5000) + strings.Repeat(end, 5000) }
	for name, c := range map[string]struct {
		text, want string
		code       int
	}{
		"nulls":              {pod + "metadata: null\nspec: null\nstatus: null\n", "metadata.name: Required value", 1},
		"null items":         {pod + "metadata: {name: a, finalizers: [null], ownerReferences: [null]}\nspec: {containers: [null], volumes: [null], tolerations: [null], hostAliases: [null]}\n", "spec.containers[0].name: Required value", 1},
		"null maps":          {"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, labels: {a: null}}\ndata: {a: null}\nbinaryData: {b: null}\nx: null\n", "unknown field", 0},
		"lists for objects":  {pod + "metadata: [[]]\nspec: [{}]\nstatus: [null]\n", "hostile.yaml:4:7: error: spec: must be an object, is a list [decode]", 1},
		"scalars":            {pod + "metadata: 1\nspec: true\nstatus: x\n", "hostile.yaml:4:7: error: spec: must be an object, is true [decode]", 1},
		"deep unknown":       {`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"},"x":` + deep("[", "]") + "}", "hostile.yaml", 1},
		"deep value":         {`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"},"spec":{"containers":` + deep(`{"a":`, "") + "1" + strings.Repeat("}", 5000) + "}}", "hostile.yaml", 1},
		"deep patch":         {`{"apiVersion":"apps/v1","kind":"ControllerRevision","metadata":{"name":"a"},"revision":1,"data":` + deep("[", "]") + "}", "hostile.yaml", 1},
		"huge numbers":       {pod + "metadata: {name: a, generation: 1e99}\nspec: {activeDeadlineSeconds: 1e400, priority: -99999999999999999999, containers: [{name: a, image: a, ports: [{containerPort: 4294967376}]}]}\n", "hostile.yaml:", 1},
		"huge quantities":    {pod + "metadata: {name: a}\nspec: {containers: [{name: a, image: a, resources: {limits: {cpu: 1e999999999, memory: 99999999999999999999999999999999Ei}, requests: {memory: .1n}}}]}\n", "hostile.yaml:4:", 0},
		"not UTF-8":          {pod + "metadata: {name: \"\xff\xfe\"}\n", "hostile.yaml:", 2},
		"escapes":            {`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"\ud800","labels":{"\u0000":"\u0000"}},"spec":{"containers":[{"name":"\u0000","image":"\n"}]}}`, "hostile.yaml:", 1},
		"duplicate keys":     {"{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":{\"name\":\"a\"},\"metadata\":{\"name\":\"b\"},\"spec\":{},\"spec\":{\"containers\":[]},\"spec\":{}}", "duplicate field \"spec\"", 1},
		"aliases":            {"a: &a [x, x, x, x, x, x, x, x]\nb: &b [*a, *a, *a, *a, *a, *a, *a, *a]\nc: &c [*b, *b, *b, *b, *b, *b, *b, *b]\napiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {containers: *c}\n", "hostile.yaml:", 1},
		"broken YAML":        {pod + "metadata: {name: a\nspec: }\n", "hostile.yaml:", 2},
		"list of itself":     {"apiVersion: v1\nkind: PodList\nitems: {a: b}\n", "hostile.yaml:", 1},
		"review":             {"apiVersion: authorization.k8s.io/v1\nkind: SubjectAccessReview\nspec: []\n", "hostile.yaml:3:7: error: spec: must be an object, is a list", 1},
		"lower-case version": {"apiVersion: V1\nkind: Pod\nmetadata: {name: a}\n", "hostile.yaml:1:13: error:", 1},
		"names":              {"apiVersion: v1\nkind: Pod\nmetadata: {name: " + strings.Repeat("a", 100_000) + "}\nspec: {containers: [{name: a, image: a}]}\n", "must be no more than 253 characters", 1},
	} {
		p.write("hostile.yaml", c.text)
		out, code := p.run("validate", "hostile.yaml")
		if code != c.code || !strings.Contains(out, c.want) {
			t.Errorf("%s: exits with %d, want %d and %q:\n%.2000s", name, code, c.code, c.want, out)
		}
		p.run("validate", "--old", "hostile.yaml", "hostile.yaml")
	}
}
