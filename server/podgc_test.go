package server_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"espalier.dev/server/servertest"
)

// pod returns a pod on a node, or on none if that is empty.
func pod(name, node, metadata string) string {
	return fmt.Sprintf(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":%q%s},"spec":{"nodeName":%q,"containers":[{"name":"c","image":"i"}]}}`, name, metadata, node)
}

// TestPodsWithoutNodes checks that pods on nodes that do not exist go, with their namespace, and
// that others stay.
func TestPodsWithoutNodes(t *testing.T) {
	t.Parallel()
	o := servertest.Options(t)
	o.SetPodQuarantine(200 * time.Millisecond)
	g := servertest.StartGarden(t, o)
	g.Namespace("one")
	pods := "/api/v1/namespaces/one/pods"
	g.Create("/api/v1/nodes", `{"apiVersion":"v1","kind":"Node","metadata":{"name":"here"}}`)
	g.Create(pods, pod("stays", "here", ""))
	g.Create(pods, pod("unbound", "", ""))
	const held = `,"finalizers":["example.com/hold"]`
	g.Create(pods, pod("never", "nowhere", ""))
	g.Create(pods, pod("held", "nowhere", held))
	g.Create(pods, pod("held-unbound", "", held))
	g.Gone(pods + "/never")

	// A finalizer keeps the object, but its containers count as ended.
	failed := func(name string, conditions int) {
		t.Helper()
		servertest.Eventually(t, func() error {
			_, obj, err := g.Try(http.MethodGet, pods+"/"+name, "")
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
		g.Do(http.MethodPatch, pods+"/"+name, `{"metadata":{"finalizers":null}}`)
		g.Gone(pods + "/" + name)
	}
	failed("held", 1)
	g.Do(http.MethodDelete, pods+"/held-unbound", "")
	failed("held-unbound", 0)

	// What was seen before a restart is seen again.
	o.SetPodQuarantine(time.Hour)
	g.Restart()
	g.Create(pods, pod("late", "nowhere", ""))
	o.SetPodQuarantine(200 * time.Millisecond)
	g.Restart()
	g.Gone(pods + "/late")
	for _, name := range []string{"stays", "unbound"} {
		if obj := g.Do(http.MethodGet, pods+"/"+name, ""); obj.Metadata.DeletionTimestamp != nil || obj.Status.Phase != "Pending" {
			t.Errorf("%s: %+v", name, obj)
		}
	}

	// A node goes, and so does the namespace that its pod would keep.
	g.Do(http.MethodDelete, "/api/v1/namespaces/one", "")
	g.Do(http.MethodDelete, "/api/v1/nodes/here", "")
	g.Gone("/api/v1/namespaces/one")
}

// TestPodQuarantine checks that the pods of a node that appears in time stay, and that the
// collector can be switched off.
func TestPodQuarantine(t *testing.T) {
	t.Parallel()
	o := servertest.Options(t)
	const quarantine = 2 * time.Second
	o.SetPodQuarantine(quarantine)
	g := servertest.StartGarden(t, o)
	pods := "/api/v1/namespaces/default/pods"
	inTime := false
	for i := 0; !inTime && i < 20; i++ {
		name := fmt.Sprintf("early-%d", i)
		began := time.Now()
		g.Create(pods, pod(name, name, ""))
		g.Create("/api/v1/nodes", fmt.Sprintf(`{"apiVersion":"v1","kind":"Node","metadata":{"name":%q}}`, name))
		inTime = time.Since(began) < quarantine/2 // unless the machine is slow
		// The quarantine of this one ends later.
		g.Create(pods, pod("never", "nowhere", ""))
		g.Gone(pods + "/never")
		if code, _, err := g.Try(http.MethodGet, pods+"/"+name, ""); inTime && (code != http.StatusOK || err != nil) {
			t.Errorf("the pod of a node that exists: %d %v", code, err)
		}
	}
	if !inTime {
		t.Error("the machine is too slow to create a node in time")
	}

	g.Options.Controllers = []string{"*", "-pod-garbage-collector-controller"}
	g.Restart()
	if _, body := servertest.Get(t, g.Server, g.Client, "/readyz?verbose"); strings.Contains(body, "controller/pod-garbage") || !strings.Contains(body, "controller/namespace") {
		t.Error("the wrong controllers run:", body)
	}
}
