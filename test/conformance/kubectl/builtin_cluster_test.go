package kubectl

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"strings"
	"testing"
	"time"
)

// testCascade deletes an owner in the three ways that --cascade has.
func testCascade(t *testing.T, s *session) {
	for _, cascade := range []string{"background", "foreground", "orphan"} {
		owner, dependent := "configmap/"+cascade, "secret/"+cascade
		s.ok(t, "create", "configmap", cascade)
		s.create(t, fmt.Sprintf(`apiVersion: v1
kind: Secret
metadata:
  name: %s
  ownerReferences: [{apiVersion: v1, kind: ConfigMap, name: %[1]s, uid: %s, blockOwnerDeletion: true}]
`, cascade, s.path(t, owner, "{.metadata.uid}")))
		contains(t, s.ok(t, "delete", owner, "--cascade="+cascade), " deleted")
		if cascade != "orphan" {
			s.ok(t, "wait", "--for=delete", dependent, "--timeout=50s")
			continue
		}
		s.ok(t, "wait", "--for=delete", owner, "--timeout=50s")
		equal(t, s.path(t, dependent, "{.metadata.ownerReferences}"), "")
	}
	s.fails(t, `configmaps "orphan" not found`, "delete", "configmap", "orphan")
	s.ok(t, "delete", "configmap", "orphan", "--ignore-not-found")

	// A finalizer keeps an object until it is removed.
	s.ok(t, "create", "configmap", "kept")
	s.ok(t, "patch", "configmap", "kept", "-p", `{"metadata":{"finalizers":["example.com/wait"]}}`)
	s.ok(t, "delete", "configmap", "kept", "--wait=false")
	if s.path(t, "configmap/kept", "{.metadata.deletionTimestamp}") == "" {
		t.Error("a deleted object with a finalizer has no deletionTimestamp")
	}
	s.ok(t, "patch", "configmap", "kept", "-p", `{"metadata":{"finalizers":null}}`)
	s.fails(t, "not found", "get", "configmap", "kept")

	// delete all removes what get all shows.
	s.ok(t, "create", "deployment", "web", "--image=nginx")
	s.ok(t, "expose", "deployment", "web", "--port=80")
	s.ok(t, "run", "pod", "--image=nginx")
	contains(t, s.ok(t, "delete", "all", "--all"), `pod "pod" deleted`, `service "web" deleted`, `deployment.apps "web" deleted`)
	contains(t, s.ok(t, "get", "all"), "No resources found")
}

// testWait waits for conditions, fields, creation and deletion.
func testWait(t *testing.T, s *session) {
	created := s.start(t, "wait", "--for=create", "pod/web", "--timeout=50s")
	s.ok(t, "run", "web", "--image=nginx")
	contains(t, created(), "pod/web condition met")
	s.fails(t, "timed out waiting for the condition on pods/web", "wait", "--for=condition=Ready", "pod/web", "--timeout=100ms")
	ready := s.start(t, "wait", "--for=condition=Ready", "pod/web", "--timeout=50s")
	running := s.start(t, "wait", "--for=jsonpath={.status.phase}=Running", "pod", "--all", "--timeout=50s")
	s.ok(t, "patch", "pod", "web", "--subresource=status", "--type=merge", "-p", `{"status":{"phase":"Running","conditions":[{"type":"Ready","status":"True"}]}}`)
	contains(t, ready(), "pod/web condition met")
	contains(t, running(), "pod/web condition met")
	// kubectl wait says nothing of a pod that is gone before it looks, so a finalizer keeps the pod
	// for a while, and longer if that was not enough.
	for keep := 500 * time.Millisecond; ; keep *= 2 {
		s.ok(t, "patch", "pod", "web", "-p", `{"metadata":{"finalizers":["example.com/wait"]}}`)
		deleted := s.start(t, "wait", "--for=delete", "pod/web", "--timeout=50s")
		s.ok(t, "delete", "pod", "web", "--now", "--wait=false")
		time.Sleep(keep)
		s.ok(t, "patch", "pod", "web", "-p", `{"metadata":{"finalizers":null}}`)
		if out := deleted(); strings.Contains(out, "pod/web condition met") {
			break
		} else if out != "" || keep > 5*time.Second {
			t.Fatalf("kubectl wait --for=delete: %q", out)
		}
		s.ok(t, "run", "web", "--image=nginx")
	}

	// A namespace that kubectl deletes is gone when it returns.
	s.ok(t, "create", "namespace", "wait-short")
	s.ok(t, "create", "configmap", "x", "-n", "wait-short")
	s.ok(t, "delete", "namespace", "wait-short")
	s.fails(t, `namespaces "wait-short" not found`, "create", "configmap", "x", "-n", "wait-short")
}

// testEvents shows the events of an object.
func testEvents(t *testing.T, s *session) {
	s.ok(t, "create", "deployment", "web", "--image=nginx")
	uid := s.path(t, "deployment/web", "{.metadata.uid}")
	for i, api := range []string{`apiVersion: v1
kind: Event
involvedObject: {apiVersion: apps/v1, kind: Deployment, namespace: events, name: web, uid: UID}
message: Scaled up
count: 3
source: {component: deployment-controller}
firstTimestamp: "2026-01-01T00:00:00Z"
lastTimestamp: "2026-01-01T00:00:00Z"
`, `apiVersion: events.k8s.io/v1
kind: Event
regarding: {apiVersion: apps/v1, kind: Deployment, namespace: events, name: web, uid: UID}
note: Scaled down
action: Scale
reportingController: example.com/scaler
reportingInstance: scaler-0
eventTime: "2026-01-01T00:00:00.000000Z"
`} {
		s.create(t, strings.ReplaceAll(api, "UID", uid)+fmt.Sprintf("type: Normal\nreason: ScalingReplicaSet\nmetadata: {name: web.%d}\n", i))
	}
	events := columns(s.ok(t, "describe", "deployment", "web"))
	contains(t, events, "Events:\n", "deployment-controller Scaled up", "scaler Scaled down")
	for _, command := range [][]string{
		{"get", "events"},
		{"get", "events.events.k8s.io"},
		{"get", "events", "--field-selector=involvedObject.name=web,reason=ScalingReplicaSet"},
		{"events", "--for=deployment/web"},
	} {
		out := columns(s.ok(t, command...))
		contains(t, strings.ToLower(out), "normal scalingreplicaset deployment/web scaled up", "normal scalingreplicaset deployment/web scaled down")
	}
	contains(t, s.ok(t, "get", "events", "--field-selector=involvedObject.name=other"), "No resources found")
}

// testDrain drains a node with pods that are data, one of them in a disruption budget whose
// status the test writes, as its controller would.
func testDrain(t *testing.T, s *session) {
	const pod = `---
apiVersion: v1
kind: Pod
metadata: {name: NAME, labels: {app: NAME}}
spec: {nodeName: drain, terminationGracePeriodSeconds: 0, containers: [{name: c, image: nginx}]}
`
	s.create(t, "apiVersion: v1\nkind: Node\nmetadata: {name: drain}\n"+strings.ReplaceAll(pod, "NAME", "free")+strings.ReplaceAll(pod, "NAME", "guarded"))
	s.ok(t, "create", "pdb", "guard", "--selector=app=guarded", "--min-available=1")
	s.ok(t, "patch", "pod", "guarded", "--subresource=status", "--type=merge", "-p", `{"status":{"phase":"Running","conditions":[{"type":"Ready","status":"True"}]}}`)
	budget := func(healthy, allowed int) {
		s.ok(t, "patch", "pdb", "guard", "--subresource=status", "--type=merge", "-p",
			fmt.Sprintf(`{"status":{"observedGeneration":1,"desiredHealthy":1,"currentHealthy":%d,"expectedPods":1,"disruptionsAllowed":%d}}`, healthy, allowed))
	}
	budget(1, 0)
	contains(t, s.ok(t, "taint", "node", "drain", "example.com/full=true:NoSchedule"), "tainted")
	s.ok(t, "cordon", "drain")
	contains(t, columns(s.ok(t, "get", "node", "drain")), "drain Unknown,SchedulingDisabled <none>")
	contains(t, s.ok(t, "describe", "node", "drain"), "example.com/full=true:NoSchedule", "guarded")
	s.ok(t, "uncordon", "drain")
	s.fails(t, "cannot delete Pods that declare no controller", "drain", "drain")
	s.fails(t, "Cannot evict pod as it would violate the pod's disruption budget", "drain", "drain", "--force", "--timeout=10s")
	s.fails(t, "not found", "get", "pod", "free")
	budget(2, 1)
	contains(t, s.ok(t, "drain", "drain", "--force", "--timeout=50s"), "pod/guarded evicted", "node/drain drained")
	equal(t, s.ok(t, "get", "pods", "-o", "name"), "")
	equal(t, s.path(t, "pdb/guard", "{.status.disruptionsAllowed}"), "0")
}

// testCertificates approves and denies requests.
func testCertificates(t *testing.T, s *session) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{CommonName: "jane"}}, key)
	if err != nil {
		t.Fatal(err)
	}
	request := base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}))
	for _, verb := range []string{"approve", "deny"} {
		s.create(t, fmt.Sprintf(`apiVersion: certificates.k8s.io/v1
kind: CertificateSigningRequest
metadata: {name: %s}
spec: {request: %s, signerName: kubernetes.io/kube-apiserver-client, usages: [client auth]}
`, verb, request))
		s.ok(t, "certificate", verb, verb)
	}
	contains(t, columns(s.ok(t, "get", "csr")), "NAME AGE SIGNERNAME REQUESTOR REQUESTEDDURATION CONDITION",
		"kubernetes.io/kube-apiserver-client espalier-admin <none> Approved", "kubernetes.io/kube-apiserver-client espalier-admin <none> Denied")
}

// testRunning uses what needs a kubelet or the metrics API, which do not exist here.
func testRunning(t *testing.T, s *session) {
	s.ok(t, "run", "web", "--image=nginx")
	s.fails(t, "pods are data on this server, and nothing runs them: log needs a cluster", "logs", "web")
	s.fails(t, "pods are data on this server, and nothing runs them: exec needs a cluster", "exec", "web", "--", "true")
	s.fails(t, "pods are data on this server, and nothing runs them: attach needs a cluster", "attach", "web")
	s.fails(t, "pod is not running. Current status=Pending", "port-forward", "web", "8080:80")
	s.ok(t, "patch", "pod", "web", "--subresource=status", "--type=merge", "-p", `{"status":{"phase":"Running"}}`)
	s.fails(t, "nothing runs them: portforward needs a cluster", "port-forward", "web", ":80")
	s.fails(t, "nothing runs them: proxy needs a cluster", "get", "--raw", "/api/v1/namespaces/running/pods/web/proxy/")
	s.fails(t, "Metrics API not available", "top", "pods")
	s.fails(t, "Metrics API not available", "top", "nodes")
	s.ok(t, "debug", "web", "--image=busybox", "--container=debugger", "--attach=false")
	equal(t, s.path(t, "pod/web", "{.spec.ephemeralContainers[*].name}"), "debugger")
}

// testDiscover lists and explains the kinds of the server.
func testDiscover(t *testing.T, s *session) {
	all := columns(s.ok(t, "api-resources"))
	contains(t, all, "pods po v1 true Pod", "deployments deploy apps/v1 true Deployment", "horizontalpodautoscalers hpa autoscaling/v2 true HorizontalPodAutoscaler",
		"nodes no v1 false Node", "leases coordination.k8s.io/v1 true Lease", "customresourcedefinitions crd,crds apiextensions.k8s.io/v1 false")
	contains(t, s.ok(t, "api-resources", "--categories=all", "-o", "name"), "pods\n", "deployments.apps\n", "jobs.batch\n")
	contains(t, s.ok(t, "api-versions"), "apps/v1\n", "autoscaling/v1\n", "autoscaling/v2\n", "events.k8s.io/v1\n", "\nv1\n")
	contains(t, columns(s.ok(t, "explain", "pod.spec")), "FIELD: spec <PodSpec>", "containers <[]Container> -required-", "enum: Always, Never, OnFailure")
	contains(t, columns(s.ok(t, "explain", "hpa.spec.metrics.resource", "--api-version=autoscaling/v2")), "target <MetricTarget> -required-")
	contains(t, s.ok(t, "cluster-info"), "Kubernetes control plane is running at https://")
	s.fails(t, `the server doesn't have a resource type "nosuch"`, "get", "nosuch")

	// Everything that can be listed can be listed with one command, in all namespaces.
	names := strings.Fields(s.ok(t, "api-resources", "--verbs=list", "-o", "name"))
	contains(t, s.ok(t, "get", strings.Join(names, ","), "--all-namespaces"), "namespace/discover", "priorityclass.scheduling.k8s.io/system-node-critical")
}

// testSystem deletes objects of the system: the server keeps them or makes them again.
func testSystem(t *testing.T, s *session) {
	for _, name := range []string{"default", "kube-system", "kube-public"} {
		s.fails(t, "this namespace may not be deleted", "delete", "namespace", name)
	}
	const service = "service/kubernetes"
	s.ok(t, "delete", service, "--namespace=default")
	s.ok(t, "wait", "--for=create", service, "--namespace=default", "--timeout=50s")
	equal(t, s.ok(t, "get", service, "--namespace=default", "-o", "jsonpath={.spec.clusterIP} {.spec.ports[0].port}"), "10.0.0.1 443")
	s.ok(t, "delete", "serviceaccount", "default")
	s.ok(t, "wait", "--for=create", "serviceaccount/default", "--timeout=50s")
}

// testQuota creates a quota, uses it up, and describes it.
func testQuota(t *testing.T, s *session) {
	s.ok(t, "create", "quota", "few", "--hard=secrets=1,requests.cpu=1")
	s.ok(t, "wait", "quota/few", "--for=jsonpath={.status.used.secrets}=0", "--timeout=60s")
	s.ok(t, "create", "secret", "generic", "a", "--from-literal=a=b")
	s.fails(t, `secrets "b" is forbidden: exceeded quota: few, requested: secrets=1, used: secrets=1, limited: secrets=1`, "create", "secret", "generic", "b")
	s.fails(t, `pods "p" is forbidden: failed quota: few: must specify requests.cpu for: p`, "run", "p", "--image=nginx")
	contains(t, columns(s.ok(t, "describe", "quota", "few")), "Resource Used Hard", "requests.cpu 0 1", "secrets 1 1")
	contains(t, columns(s.ok(t, "describe", "namespace", "quota")), "Resource Quotas", "secrets 1 1")
	s.ok(t, "delete", "secret", "a")
	s.ok(t, "wait", "quota/few", "--for=jsonpath={.status.used.secrets}=0", "--timeout=60s")
	contains(t, columns(s.ok(t, "get", "quota")), "few requests.cpu: 0/1, secrets: 0/1")
}
