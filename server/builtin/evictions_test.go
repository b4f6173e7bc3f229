package builtin_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// evictions evicts pods in all ways that the disruption budget and the options allow.
func (k *kindRequests) evictions(t *testing.T) {
	k = &kindRequests{T: t, server: k.server, client: k.client}
	const root = "/api/v1/namespaces/default/pods"
	const budgets = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
	// A finalizer keeps evicted pods, so that their status can be read.
	pod := func(name, app string) {
		k.must(201, "POST", root, fmt.Sprintf(`{"metadata":{"name":%q,"labels":{"app":%q},"finalizers":["example.com/keep"]},"spec":{"containers":[{"name":"a","image":"a"}]}}`, name, app))
	}
	status := func(path, status string) {
		k.Helper()
		if code, text := k.send("PATCH", path+"/status", "application/merge-patch+json", "application/json", `{"status":`+status+`}`); code != 200 {
			k.Fatalf("%d: %s", code, text)
		}
	}
	read := func(name string) (p corev1.Pod) {
		k.Helper()
		if err := json.Unmarshal([]byte(k.must(200, "GET", root+"/"+name, "")), &p); err != nil {
			k.Fatal(err)
		}
		return p
	}
	eviction := func(name, more string) string {
		return fmt.Sprintf(`{"apiVersion":"policy/v1","kind":"Eviction","metadata":{"name":%q}%s}`, name, more)
	}
	evict := func(code int, name, query, more string) string {
		k.Helper()
		return k.must(code, "POST", root+"/"+name+"/eviction"+query, eviction(name, more))
	}
	present := func(name string) {
		k.Helper()
		if p := read(name); p.DeletionTimestamp != nil || len(p.Status.Conditions) > 0 && p.Status.Conditions[len(p.Status.Conditions)-1].Type == corev1.DisruptionTarget {
			k.Errorf("the pod %s was evicted: %+v", name, p.Status)
		}
	}
	evicted := func(name string) {
		k.Helper()
		p := read(name)
		c := p.Status.Conditions
		if p.DeletionTimestamp == nil || len(c) == 0 || c[len(c)-1].Type != corev1.DisruptionTarget || c[len(c)-1].Status != corev1.ConditionTrue || c[len(c)-1].Reason != "EvictionByEvictionAPI" {
			k.Errorf("the pod %s was not evicted: %v %+v", name, p.DeletionTimestamp, c)
		}
	}

	pod("dry", "none")
	evict(201, "dry", "?dryRun=All", "")
	evict(201, "dry", "", `,"deleteOptions":{"dryRun":["All"]}`)
	evict(409, "dry", "", `,"deleteOptions":{"preconditions":{"uid":"other"}}`)
	evict(409, "dry", "", `,"deleteOptions":{"preconditions":{"resourceVersion":"1"}}`)
	present("dry")
	k.must(201, "POST", root+"/dry/eviction", strings.Replace(eviction("dry", ""), "policy/v1", "policy/v1beta1", 1))
	evicted("dry")

	k.must(201, "POST", budgets, `{"metadata":{"name":"web"},"spec":{"minAvailable":1,"selector":{"matchLabels":{"app":"web"}}}}`)
	pod("web", "web")
	ready := `{"phase":"Running","conditions":[{"type":"Ready","status":"True"}]}`
	status(root+"/web", ready)
	if text := evict(429, "web", "", ""); !strings.Contains(text, "The disruption budget web is still being processed by the server.") {
		t.Error(text)
	}
	status(budgets+"/web", `{"observedGeneration":1,"disruptionsAllowed":0,"currentHealthy":1,"desiredHealthy":1,"expectedPods":1}`)
	if text := evict(429, "web", "", ""); !strings.Contains(text, "The disruption budget web needs 1 healthy pods and has 1 currently") {
		t.Error(text)
	}
	status(budgets+"/web", `{"disruptionsAllowed":1,"currentHealthy":2}`)
	evict(201, "web", "?dryRun=All", "")
	present("web")
	if text := k.must(200, "GET", budgets+"/web", ""); !strings.Contains(text, `"disruptionsAllowed":1`) || strings.Contains(text, "disruptedPods") {
		t.Error("a dry run has changed the budget:", text)
	}
	evict(201, "web", "", "")
	evicted("web")
	if text := k.must(200, "GET", budgets+"/web", ""); !strings.Contains(text, `"disruptionsAllowed":0`) || !strings.Contains(text, `"disruptedPods":{"web":`) || !strings.Contains(text, `"reason":"InsufficientPods"`) {
		t.Error(text)
	}

	// Pods that are not ready: the budget is met without them, or its policy allows it.
	pod("sick", "web")
	status(root+"/sick", `{"phase":"Running","conditions":[{"type":"Ready","status":"False"}]}`)
	evict(201, "sick", "", "")
	evicted("sick")
	k.must(201, "POST", budgets, `{"metadata":{"name":"lax"},"spec":{"minAvailable":1,"unhealthyPodEvictionPolicy":"AlwaysAllow","selector":{"matchLabels":{"app":"lax"}}}}`)
	pod("lax", "lax")
	status(root+"/lax", ready)
	evict(429, "lax", "", "")
	status(root+"/lax", `{"conditions":[{"type":"Ready","status":"False"}]}`)
	evict(201, "lax", "", "")
	evicted("lax")

	k.must(201, "POST", budgets, `{"metadata":{"name":"second"},"spec":{"minAvailable":1,"selector":{"matchLabels":{"app":"web"}}}}`)
	pod("two", "web")
	status(root+"/two", ready)
	if text := evict(500, "two", "", ""); !strings.Contains(text, `"message":"This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."`) {
		t.Error(text)
	}
	present("two")
}
