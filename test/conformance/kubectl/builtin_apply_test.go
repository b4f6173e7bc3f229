package kubectl

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// web is a Deployment; tests replace IMAGE.
const web = `apiVersion: apps/v1
kind: Deployment
metadata: {name: web, annotations: {deployment.kubernetes.io/revision: "2"}}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers: [{name: web, image: "IMAGE", ports: [{containerPort: 80}]}]
`

// testApply applies and diffs a deployment, by the client and by the server.
func testApply(t *testing.T, s *session) {
	file := s.write(t, "web.yaml", strings.ReplaceAll(web, "IMAGE", "nginx:1"))
	if out, code := s.run(t, "diff", "-f", file); code != 1 || !strings.Contains(out, "+kind: Deployment") {
		t.Errorf("kubectl diff exited with %d:\n%s", code, out)
	}
	equal(t, s.ok(t, "apply", "-f", file), "deployment.apps/web created\n")
	equal(t, s.ok(t, "apply", "-f", file), "deployment.apps/web unchanged\n")
	equal(t, s.ok(t, "diff", "-f", file), "")
	contains(t, s.ok(t, "apply", "view-last-applied", "deployment/web"), "image: nginx:1")
	s.ok(t, "scale", "deployment", "web", "--replicas=3")
	next := s.write(t, "next.yaml", strings.ReplaceAll(web, "IMAGE", "nginx:2"))
	if out, code := s.run(t, "diff", "-f", next); code != 1 || !strings.Contains(out, "-      - image: nginx:1\n+      - image: nginx:2\n") {
		t.Errorf("kubectl diff exited with %d:\n%s", code, out)
	}
	equal(t, s.ok(t, "apply", "-f", next, "--dry-run=server"), "deployment.apps/web configured (server dry run)\n")
	equal(t, s.ok(t, "apply", "-f", next), "deployment.apps/web configured\n")
	equal(t, s.path(t, "deployment/web", "{.spec.replicas} {.spec.template.spec.containers[*].image}"), "3 nginx:2")

	// The client that applies on the server takes over the fields of the client-side apply.
	equal(t, s.ok(t, "apply", "--server-side", "-f", next), "deployment.apps/web serverside-applied\n")
	s.ok(t, "set", "image", "deployment/web", "web=nginx:3")
	s.fails(t, `conflict with "kubectl-set" using apps/v1: .spec.template.spec.containers[name="web"].image`, "apply", "--server-side", "-f", next)
	s.ok(t, "apply", "--server-side", "--force-conflicts", "-f", next)
	equal(t, s.path(t, "deployment/web", "{.spec.replicas} {.spec.template.spec.containers[*].image}"), "3 nginx:2")
	if out, code := s.run(t, "diff", "--server-side", "--force-conflicts", "-f", file); code != 1 || !strings.Contains(out, "+      - image: nginx:1\n") {
		t.Errorf("kubectl diff --server-side exited with %d:\n%s", code, out)
	}
	s.fails(t, `unknown field "spec.template.spec.containers[0].imag"`, "apply", "-f", s.write(t, "typo.yaml", strings.ReplaceAll(web, "image:", "imag:")))
	s.fails(t, ".spec.template.spec.containers[name=\"web\"].imag: field not declared in schema", "apply", "--server-side", "--validate=false", "-f", s.write(t, "typo.yaml", strings.ReplaceAll(web, "image:", "imag:")))
}

// testKustomize applies an overlay of a kustomization, changes it, prunes and deletes it.
func testKustomize(t *testing.T, s *session) {
	for name, content := range map[string]string{
		"base/web.yaml":           strings.ReplaceAll(web, "IMAGE", "nginx"),
		"base/kustomization.yaml": "resources: [web.yaml]\nconfigMapGenerator: [{name: settings, literals: [color=red]}]\n",
		"overlay/kustomization.yaml": `resources: [../base]
namePrefix: prod-
namespace: kustomize
labels: [{pairs: {stage: prod}, includeSelectors: true}]
images: [{name: nginx, newTag: "2"}]
replicas: [{name: web, count: 4}]
patches: [{target: {kind: Deployment}, patch: '[{"op": "add", "path": "/spec/paused", "value": true}]'}]
`,
	} {
		path := filepath.Join(s.dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	prune := []string{"apply", "-k", "overlay", "--prune", "-l", "stage=prod", "--prune-allowlist=core/v1/ConfigMap"}
	contains(t, s.ok(t, prune...), "configmap/prod-settings-", "deployment.apps/prod-web created")
	equal(t, s.path(t, "deployment/prod-web", "{.spec.replicas} {.spec.paused} {.spec.selector.matchLabels.stage} {.spec.template.spec.containers[0].image}"), "4 true prod nginx:2")
	before := s.ok(t, "get", "-k", "overlay", "-o", "name")
	s.write(t, "base/kustomization.yaml", "resources: [web.yaml]\nconfigMapGenerator: [{name: settings, literals: [color=blue]}]\n")
	if out, code := s.run(t, "diff", "-k", "overlay"); code != 1 || !strings.Contains(out, "+  color: blue") {
		t.Errorf("kubectl diff exited with %d:\n%s", code, out)
	}
	contains(t, s.ok(t, prune...), " created", " pruned", "deployment.apps/prod-web unchanged")
	if after := s.ok(t, "get", "-k", "overlay", "-o", "name"); after == before {
		t.Errorf("the config map is the same: %s", after)
	}
	contains(t, s.ok(t, "delete", "-k", "overlay"), `deployment.apps "prod-web" deleted`)
	equal(t, s.ok(t, "get", "configmaps", "-l", "stage=prod", "-o", "name"), "")
}

// testRollout uses the history of a deployment. The test writes the replica sets and the status,
// as the controller of deployments would.
func testRollout(t *testing.T, s *session) {
	s.create(t, strings.ReplaceAll(web, "IMAGE", "nginx:2"))
	uid := s.path(t, "deployment/web", "{.metadata.uid}")
	for _, revision := range []string{"1", "2"} {
		s.create(t, strings.NewReplacer("N", revision, "UID", uid).Replace(`apiVersion: apps/v1
kind: ReplicaSet
metadata:
  name: web-N
  labels: {app: web, pod-template-hash: hN}
  annotations: {deployment.kubernetes.io/revision: "N", kubernetes.io/change-cause: "image N"}
  ownerReferences: [{apiVersion: apps/v1, kind: Deployment, name: web, uid: UID, controller: true, blockOwnerDeletion: true}]
spec:
  selector: {matchLabels: {app: web, pod-template-hash: hN}}
  template:
    metadata: {labels: {app: web, pod-template-hash: hN}}
    spec: {containers: [{name: web, image: "nginx:N", ports: [{containerPort: 80}]}]}
`))
	}
	contains(t, columns(s.ok(t, "rollout", "history", "deployment/web")), "REVISION CHANGE-CAUSE\n1 image 1\n2 image 2")
	contains(t, columns(s.ok(t, "rollout", "history", "deployment/web", "--revision=1")), "Image: nginx:1")
	contains(t, columns(s.ok(t, "describe", "deployment", "web")), "NewReplicaSet: web-2 (0/1 replicas created)", "OldReplicaSets: web-1 (0/1 replicas created)")
	contains(t, s.ok(t, "rollout", "undo", "deployment/web"), "deployment.apps/web rolled back")
	equal(t, s.path(t, "deployment/web", "{.spec.template.spec.containers[0].image} {.spec.template.metadata.labels}"), `nginx:1 {"app":"web"}`)
	s.ok(t, "rollout", "pause", "deployment/web")
	s.fails(t, "paused", "rollout", "undo", "deployment/web")
	s.ok(t, "rollout", "resume", "deployment/web")
	s.ok(t, "rollout", "restart", "deployment/web")
	contains(t, s.path(t, "deployment/web", "{.spec.template.metadata.annotations}"), "kubectl.kubernetes.io/restartedAt")

	out, _ := s.run(t, "rollout", "status", "deployment/web", "--watch=false")
	contains(t, out, "Waiting for deployment spec update to be observed")
	done := s.start(t, "rollout", "status", "deployment/web")
	s.ok(t, "patch", "deployment", "web", "--subresource=status", "--type=merge", "-p",
		`{"status":{"observedGeneration":99,"replicas":1,"updatedReplicas":1,"readyReplicas":1,"availableReplicas":1}}`)
	contains(t, done(), "successfully rolled out")

	// The garbage collector deletes the history with the deployment.
	s.ok(t, "delete", "deployment", "web", "--cascade=foreground")
	equal(t, s.ok(t, "get", "replicasets", "-o", "name"), "")
}

// testStatefulSet rolls a stateful set back to a revision that the test writes.
func testStatefulSet(t *testing.T, s *session) {
	s.create(t, `apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  serviceName: db
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db}}
    spec: {containers: [{name: db, image: "db:2"}]}
  volumeClaimTemplates: [{metadata: {name: data}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}]
`)
	uid := s.path(t, "statefulset/db", "{.metadata.uid}")
	for _, revision := range []string{"1", "2"} {
		s.create(t, strings.NewReplacer("N", revision, "UID", uid).Replace(`apiVersion: apps/v1
kind: ControllerRevision
metadata:
  name: db-N
  labels: {app: db}
  ownerReferences: [{apiVersion: apps/v1, kind: StatefulSet, name: db, uid: UID, controller: true}]
revision: N
data: {spec: {template: {$patch: replace, metadata: {labels: {app: db}}, spec: {containers: [{name: db, image: "db:N"}]}}}}
`))
	}
	contains(t, columns(s.ok(t, "rollout", "history", "statefulset/db")), "REVISION CHANGE-CAUSE\n1 <none>\n2 <none>")
	contains(t, s.ok(t, "rollout", "undo", "statefulset/db", "--to-revision=1"), "statefulset.apps/db rolled back")
	equal(t, s.path(t, "statefulset/db", "{.spec.template.spec.containers[0].image}"), "db:1")
	s.ok(t, "scale", "statefulset", "db", "--replicas=3")
	contains(t, columns(s.ok(t, "get", "statefulset", "db")), "db 0/3 ")
	s.fails(t, "updates to statefulset spec for fields other than", "patch", "statefulset", "db", "-p", `{"spec":{"serviceName":"other"}}`)
}
