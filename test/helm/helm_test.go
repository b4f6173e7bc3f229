package helm

import (
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"espalier.dev/espaliertest"
)

const chart = "testdata/chart"

var (
	configMaps  = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	secrets     = schema.GroupVersionResource{Version: "v1", Resource: "secrets"}
	services    = schema.GroupVersionResource{Version: "v1", Resource: "services"}
	jobs        = schema.GroupVersionResource{Group: "batch", Version: "v1", Resource: "jobs"}
	deployments = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
	widgets     = schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}
)

// TestHelm runs releases through their life. Helm applies objects on the server or in the client.
func TestHelm(t *testing.T) {
	server := espaliertest.Start(t)
	for name, serverSide := range map[string]string{"server-side": "true", "client-side": "false"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSession(t, server, name)
			s.install(t, "--server-side="+serverSide)
			s.upgrade(t)
			s.fail(t)
			s.uninstall(t)
		})
	}
	t.Run("workloads", func(t *testing.T) {
		t.Parallel()
		testWorkloads(t, newSession(t, server, "workloads"))
	})
}

// install installs the chart, and checks its objects and the release.
func (s *session) install(t *testing.T, flags ...string) {
	t.Helper()
	out := s.helm(t, append([]string{"install", "site", chart, "--create-namespace"}, flags...)...)
	contains(t, out, "STATUS: deployed", "REVISION: 1", "Visit http://site."+s.namespace+".svc")
	s.fails(t, "cannot reuse a name that is still in use", "install", "site", chart)
	s.fails(t, "value must be one of", "install", "other", chart, "--set", "color=pink")

	for _, gvr := range []schema.GroupVersionResource{configMaps, secrets, services, deployments, widgets} {
		obj := s.get(t, gvr, "site")
		if obj == nil {
			t.Fatalf("there is no object in %s", gvr.Resource)
		}
		meta := (&unstructured.Unstructured{Object: obj})
		equal(t, meta.GetAnnotations()["meta.helm.sh/release-name"], "site")
		equal(t, meta.GetLabels()["app.kubernetes.io/managed-by"], "Helm")
	}
	s.values(t, "1 red 1 [map[color:white name:first]] 1")

	s.allowed(t, true, "list", widgets.GroupResource(), s.namespace)
	s.allowed(t, true, "list", schema.GroupResource{Resource: "namespaces"}, "")
	s.allowed(t, false, "list", secrets.GroupResource(), s.namespace)

	release := s.get(t, secrets, "sh.helm.release.v1.site.v1")
	equal(t, fmt.Sprint(release["type"]), "helm.sh/release.v1")
	equal(t, (&unstructured.Unstructured{Object: release}).GetLabels()["status"], "deployed")
	contains(t, s.helm(t, "list"), "site", "deployed", "site-1.0.0")
	contains(t, s.helm(t, "list", "--all-namespaces"), "site", s.namespace)
	contains(t, s.helm(t, "status", "site", "-o", "json"), `"status":"deployed"`)
	contains(t, s.helm(t, "get", "all", "site"), "kind: Widget", "helm.sh/hook: pre-install,pre-upgrade", "COMPUTED VALUES")
}

// values checks values in the objects of the release: the replicas of the Deployment, the color
// in the ConfigMap, the size and the parts of the Widget, and the revision in the hook.
func (s *session) values(t *testing.T, want string) {
	t.Helper()
	at := func(gvr schema.GroupVersionResource, name string, path ...string) any {
		value, _, _ := unstructured.NestedFieldNoCopy(s.get(t, gvr, name), path...)
		return value
	}
	equal(t, fmt.Sprintln(at(deployments, "site", "spec", "replicas"), at(configMaps, "site", "data", "color"),
		at(widgets, "site", "spec", "size"), at(widgets, "site", "spec", "parts"), at(configMaps, "site-hook", "data", "revision")), want+"\n")
}

// upgrade upgrades the release and rolls it back.
func (s *session) upgrade(t *testing.T) {
	t.Helper()
	password := fmt.Sprint(s.get(t, secrets, "site")["data"])
	change := []string{"upgrade", "site", chart, "--set", "replicas=3,color=blue,size=2,service.enabled=false"}
	contains(t, s.helm(t, append(change, "--dry-run=server")...), "replicas: 3")
	s.values(t, "1 red 1 [map[color:white name:first]] 1")
	contains(t, s.helm(t, change...), "REVISION: 2")
	s.values(t, "3 blue 2 [map[color:white name:first] map[color:black name:second]] 2")
	if s.get(t, services, "site") != nil {
		t.Error("the upgrade did not delete the service")
	}
	equal(t, fmt.Sprint(s.get(t, secrets, "site")["data"]), password)
	contains(t, s.helm(t, "get", "values", "site"), "color: blue")

	s.helm(t, "rollback", "site", "1")
	s.values(t, "1 red 1 [map[color:white name:first]] 2") // a rollback runs other hooks
	if s.get(t, services, "site") == nil {
		t.Error("the rollback did not create the service")
	}
	equal(t, s.history(t, "site"), "1 superseded, 2 superseded, 3 deployed")
	contains(t, s.helm(t, "history", "site"), "Rollback to 1")
}

// fail makes an upgrade that the server rejects, and recovers.
func (s *session) fail(t *testing.T) {
	t.Helper()
	s.fails(t, "spec.size in body should be less than or equal to 10", "upgrade", "site", chart, "--set", "size=11")
	equal(t, s.history(t, "site"), "1 superseded, 2 superseded, 3 deployed, 4 failed")
	s.fails(t, "spec.replicas: Invalid value: -1", "upgrade", "site", chart, "--set", "replicas=-1")
	s.helm(t, "upgrade", "--install", "site", chart, "--set", "size=3", "--history-max=3")
	s.values(t, "1 red 3 [map[color:white name:first] map[color:black name:second]] 6")
	equal(t, s.history(t, "site"), "3 superseded, 5 failed, 6 deployed")
}

// uninstall uninstalls the release. The CRD stays.
func (s *session) uninstall(t *testing.T) {
	t.Helper()
	contains(t, s.helm(t, "uninstall", "site", "--wait", "--cascade=foreground"), `release "site" uninstalled`)
	for _, gvr := range []schema.GroupVersionResource{configMaps, secrets, services, deployments, widgets} {
		if s.get(t, gvr, "site") != nil {
			t.Errorf("an object in %s is left", gvr.Resource)
		}
	}
	if _, err := s.typed.RbacV1().ClusterRoles().Get(t.Context(), s.namespace+"-site", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the cluster role is left: %v", err)
	}
	s.allowed(t, false, "list", widgets.GroupResource(), s.namespace)
	if s.get(t, configMaps, "site-deleted") == nil {
		t.Error("the hook after the deletion did not run")
	}
	equal(t, revisions(t, s.helm(t, "list", "-o", "json")), "")
	list, err := s.typed.CoreV1().Secrets(s.namespace).List(t.Context(), metav1.ListOptions{LabelSelector: "owner=helm"})
	if err != nil || len(list.Items) != 0 {
		t.Errorf("%d secrets of releases are left: %v", len(list.Items), err)
	}
}

// testWorkloads waits for workloads, whose status the test writes: a Deployment, a Job in a
// hook, and the Pod of helm test.
func testWorkloads(t *testing.T, s *session) {
	s.fails(t, "context deadline exceeded", "install", "site", chart, "--create-namespace", "--wait", "--timeout=1s")
	equal(t, s.history(t, "site"), "1 failed")
	s.helm(t, "uninstall", "site", "--wait")
	s.workloads(t)
	s.helm(t, "install", "site", chart, "--wait", "--timeout=50s")
	s.helm(t, "upgrade", "site", chart, "--wait", "--timeout=50s", "--set", "migrate=true,replicas=2")
	equal(t, s.history(t, "site"), "1 superseded, 2 deployed")
	if s.get(t, jobs, "site-migrate") != nil {
		t.Error("the hook's job was not deleted")
	}
	out := s.helm(t, "test", "site", "--timeout=50s")
	contains(t, out, "site-test")
	contains(t, strings.ReplaceAll(out, " ", ""), "Phase:Succeeded")
	s.helm(t, "uninstall", "site", "--keep-history", "--wait")
	equal(t, s.history(t, "site"), "1 superseded, 2 uninstalled")
	s.helm(t, "rollback", "site", "1", "--wait", "--timeout=50s")
	equal(t, s.history(t, "site"), "1 superseded, 2 uninstalled, 3 deployed")
}
