package server

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

// pod returns a pod on a node, or on none if that is empty.
func pod(name, node, metadata string) string {
	return fmt.Sprintf(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":%q%s},"spec":{"nodeName":%q,"containers":[{"name":"c","image":"i"}]}}`, name, metadata, node)
}

// TestPodsWithoutNodes checks that pods on nodes that do not exist go, with their namespace, and
// that others stay.
func TestPodsWithoutNodes(t *testing.T) {
	t.Parallel()
	g := &garbage{TB: t, options: testOptions(t)}
	g.options.podQuarantine = 200 * time.Millisecond
	g.start()
	t.Cleanup(func() {
		if err := g.server.Stop(); err != nil {
			t.Errorf("stop: %v", err)
		}
	})
	g.namespace("one")
	pods := "/api/v1/namespaces/one/pods"
	g.create("/api/v1/nodes", `{"apiVersion":"v1","kind":"Node","metadata":{"name":"here"}}`)
	g.create(pods, pod("stays", "here", ""))
	g.create(pods, pod("unbound", "", ""))
	const held = `,"finalizers":["example.com/hold"]`
	g.create(pods, pod("never", "nowhere", ""))
	g.create(pods, pod("held", "nowhere", held))
	g.create(pods, pod("held-unbound", "", held))
	g.gone(pods + "/never")

	// A finalizer keeps the object, but its containers count as ended.
	failed := func(name string, conditions int) {
		t.Helper()
		eventually(t, func() error {
			_, obj, err := g.try(http.MethodGet, pods+"/"+name, "")
			if err != nil || obj.Metadata.DeletionTimestamp == nil || obj.Status.Phase != "Failed" {
				return fmt.Errorf("%s has not failed: %+v %w", name, obj, err)
			}
			n := 0
			for _, c := range obj.Status.Conditions {
				if c.Type == "DisruptionTarget" && c.Status == "True" && c.Reason == "DeletionByPodGC" && c.Message == "PodGC: node no longer exists" {
					n++
				}
			}
			if n != conditions {
				return fmt.Errorf("%s: %+v", name, obj.Status.Conditions)
			}
			return nil
		})
		g.do(http.MethodPatch, pods+"/"+name, `{"metadata":{"finalizers":null}}`)
		g.gone(pods + "/" + name)
	}
	failed("held", 1)
	g.do(http.MethodDelete, pods+"/held-unbound", "")
	failed("held-unbound", 0)

	// What was seen before a restart is seen again.
	g.options.podQuarantine = time.Hour
	g.restart()
	g.create(pods, pod("late", "nowhere", ""))
	g.options.podQuarantine = 200 * time.Millisecond
	g.restart()
	g.gone(pods + "/late")
	for _, name := range []string{"stays", "unbound"} {
		if obj := g.do(http.MethodGet, pods+"/"+name, ""); obj.Metadata.DeletionTimestamp != nil || obj.Status.Phase != "Pending" {
			t.Errorf("%s: %+v", name, obj)
		}
	}

	// A node goes, and so does the namespace that its pod would keep.
	g.do(http.MethodDelete, "/api/v1/namespaces/one", "")
	g.do(http.MethodDelete, "/api/v1/nodes/here", "")
	g.gone("/api/v1/namespaces/one")
}

// TestPodQuarantine checks that the pods of a node that appears in time stay, and that the
// collector can be switched off.
func TestPodQuarantine(t *testing.T) {
	t.Parallel()
	g := &garbage{TB: t, options: testOptions(t)}
	g.options.podQuarantine = 2 * time.Second
	g.start()
	t.Cleanup(func() {
		if err := g.server.Stop(); err != nil {
			t.Errorf("stop: %v", err)
		}
	})
	pods := "/api/v1/namespaces/default/pods"
	inTime := false
	for i := 0; !inTime && i < 20; i++ {
		name := fmt.Sprintf("early-%d", i)
		began := time.Now()
		g.create(pods, pod(name, name, ""))
		g.create("/api/v1/nodes", fmt.Sprintf(`{"apiVersion":"v1","kind":"Node","metadata":{"name":%q}}`, name))
		inTime = time.Since(began) < g.options.podQuarantine/2 // unless the machine is slow
		// The quarantine of this one ends later.
		g.create(pods, pod("never", "nowhere", ""))
		g.gone(pods + "/never")
		if code, _, err := g.try(http.MethodGet, pods+"/"+name, ""); inTime && (code != http.StatusOK || err != nil) {
			t.Errorf("the pod of a node that exists: %d %v", code, err)
		}
	}
	if !inTime {
		t.Error("the machine is too slow to create a node in time")
	}

	g.options.Controllers = []string{"*", "-pod-garbage-collector-controller"}
	g.restart()
	if _, body := get(t, g.server, g.client, "/readyz?verbose"); strings.Contains(body, "controller/pod-garbage") || !strings.Contains(body, "controller/namespace") {
		t.Error("the wrong controllers run:", body)
	}
}
