package kubectl

import (
	"strings"
	"testing"

	"espalier.dev/espaliertest"
)

// TestBuiltin runs commands for Kubernetes' own kinds. The subtests share a server, and each
// has a namespace of its own.
func TestBuiltin(t *testing.T) {
	t.Parallel()
	s := sessionOf(t, espaliertest.Start(t, espaliertest.WithEtcd()))
	for name, test := range map[string]func(*testing.T, *session){
		"access":       testAccess,
		"create":       testCreate,
		"change":       testChange,
		"patch":        testPatch,
		"rollout":      testRollout,
		"statefulset":  testStatefulSet,
		"apply":        testApply,
		"kustomize":    testKustomize,
		"cascade":      testCascade,
		"wait":         testWait,
		"events":       testEvents,
		"drain":        testDrain,
		"certificates": testCertificates,
		"running":      testRunning,
		"discover":     testDiscover,
		"system":       testSystem,
		"quota":        testQuota,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, s.in(t, name))
		})
	}
}

// in returns a session with a directory and a namespace of its own, which it creates.
func (s *session) in(t *testing.T, namespace string) *session {
	t.Helper()
	s.ok(t, "create", "namespace", namespace)
	with := *s
	with.dir = t.TempDir()
	with.flags = []string{"--namespace", namespace}
	return &with
}

// create creates the objects in a YAML stream.
func (s *session) create(t *testing.T, yaml string) {
	t.Helper()
	s.ok(t, "create", "-f", s.write(t, "create.yaml", yaml))
}

// path returns the result of a JSONPath on an object such as deployment/web.
func (s *session) path(t *testing.T, object, path string) string {
	t.Helper()
	return s.ok(t, "get", object, "-o", "jsonpath="+path)
}

// testCreate creates objects with the commands that kubectl has for them, and lists them.
func testCreate(t *testing.T, s *session) {
	for _, command := range []string{
		"deployment web --image=nginx:1 --replicas=2 --port=80",
		"configmap settings --from-literal=color=red --from-literal=size=1",
		"secret generic password --from-literal=p=q",
		"secret docker-registry registry --docker-server=example.com --docker-username=u --docker-password=p",
		"serviceaccount bot",
		"role reader --verb=get,list --resource=pods,deployments.apps --resource-name=web",
		"rolebinding readers --role=reader --serviceaccount=create:bot",
		"clusterrole create-test --verb=get --resource=nodes --verb=list",
		"clusterrole create-test-aggregate --aggregation-rule=rbac.example.com/a=b",
		"clusterrole create-test-urls --verb=get --non-resource-url=/metrics/*",
		"clusterrolebinding create-test --clusterrole=create-test --user=jane --group=staff",
		"job once --image=busybox -- echo hi",
		"cronjob hourly --image=busybox --schedule=0_*_*_*_* -- echo hi",
		"job now --from=cronjob/hourly",
		"ingress site --rule=example.com/*=web:80,tls=cert",
		"quota limits --hard=pods=20,count/widgets.example.com=3",
		"poddisruptionbudget budget --selector=app=web --min-available=50%",
		"priorityclass create-test --value=1000 --description=high",
		"service clusterip cluster --tcp=80:8080",
		"service nodeport node --tcp=80:8080",
		"service loadbalancer balanced --tcp=80:8080",
		"service externalname elsewhere --external-name=example.com",
	} {
		args := strings.Fields(command)
		for i := range args {
			args[i] = strings.ReplaceAll(args[i], "_", " ")
		}
		if out := s.ok(t, append([]string{"create"}, args...)...); !strings.HasSuffix(out, " created\n") {
			t.Errorf("kubectl create %s: %s", command, out)
		}
	}
	s.ok(t, "run", "pod", "--image=nginx", "--labels=app=web", "--env=A=b")
	s.fails(t, `deployments.apps "web" already exists`, "create", "deployment", "web", "--image=nginx")
	s.fails(t, "spec.schedule: Invalid value", "create", "cronjob", "wrong", "--image=x", "--schedule=x")

	all := columns(s.ok(t, "get", "all"))
	contains(t, all, "pod/pod 0/1 Pending 0 ", "deployment.apps/web 0/2 0 0 ", "cronjob.batch/hourly 0 * * * * <none> False 0 <none> ",
		"job.batch/once Running 0/1 ", "service/elsewhere ExternalName <none> example.com <none> ", "service/balanced LoadBalancer ")
	lacks(t, all, "configmap", "secret", "kubernetes")
	wide := columns(s.ok(t, "get", "deployments,services,jobs", "--output=wide"))
	contains(t, wide, "deployment.apps/web 0/2 0 0 ", " nginx nginx:1 app=web", "CONTAINERS IMAGES SELECTOR", " app=cluster")
	rest := columns(s.ok(t, "get", "configmaps,secrets,roles,rolebindings,ingresses,quota,pdb,sa"))
	contains(t, rest, "configmap/settings 2 ", "secret/password Opaque 1 ", "secret/registry kubernetes.io/dockerconfigjson 1 ",
		"rolebinding.rbac.authorization.k8s.io/readers Role/reader ", "ingress.networking.k8s.io/site <none> example.com 80, 443 ",
		"poddisruptionbudget.policy/budget 50% N/A 0 ", "serviceaccount/bot ")
	equal(t, s.path(t, "job/now", "{.metadata.ownerReferences[0].kind} {.spec.template.spec.containers[0].command}"), `CronJob ["echo","hi"]`)
	equal(t, s.path(t, "role/reader", "{.rules[*].resources} {.rules[*].resourceNames}"), `["pods"] ["deployments"] ["web"] ["web"]`)
	equal(t, s.path(t, "priorityclass/create-test", "{.value}"), "1000")
	contains(t, s.ok(t, "get", "namespaces", "create", "--show-labels"), "Active", "kubernetes.io/metadata.name=create")
	equal(t, s.ok(t, "get", "pods", "-o", "custom-columns=NAME:.metadata.name,IMAGE:.spec.containers[*].image"), "NAME   IMAGE\npod    nginx\n")
	equal(t, s.ok(t, "get", "pods", "-l", "app=web", "--field-selector=status.phase=Pending", "-o", "name"), "pod/pod\n")
	equal(t, s.ok(t, "get", "deployments", "--sort-by=.metadata.name", "-o", "go-template={{range .items}}{{.metadata.name}}{{end}}"), "web")
}

// testChange changes objects with the commands that kubectl has for that.
func testChange(t *testing.T, s *session) {
	s.ok(t, "create", "deployment", "web", "--image=nginx:1", "--port=80")
	equal(t, s.ok(t, "expose", "deployment", "web", "--port=8080", "--target-port=80"), "service/web exposed\n")
	equal(t, s.path(t, "service/web", "{.spec.ports[0].port} {.spec.ports[0].targetPort} {.spec.selector.app}"), "8080 80 web")
	s.ok(t, "set", "image", "deployment/web", "nginx=nginx:2")
	s.ok(t, "set", "env", "deployment/web", "COLOR=red")
	s.ok(t, "set", "resources", "deployment", "web", "--limits=cpu=200m,memory=1Gi", "--requests=cpu=100m")
	s.ok(t, "set", "serviceaccount", "deployment", "web", "bot")
	s.ok(t, "set", "selector", "service", "web", "app=other")
	s.ok(t, "label", "deployment", "web", "tier=front")
	s.fails(t, "already has a value (front)", "label", "deployment", "web", "tier=back")
	s.ok(t, "label", "deployment", "web", "tier=back", "--overwrite")
	s.ok(t, "annotate", "deployment", "web", "note=hello")
	equal(t, s.ok(t, "scale", "deployment", "web", "--replicas=3", "--current-replicas=1"), "deployment.apps/web scaled\n")
	s.fails(t, "Expected replicas to be 1, was 3", "scale", "deployment", "web", "--replicas=4", "--current-replicas=1")
	s.ok(t, "autoscale", "deployment", "web", "--min=1", "--max=5", "--cpu=50%")
	equal(t, s.path(t, "deployment/web", "{.metadata.generation} {.spec.replicas} {.metadata.labels.tier} {.metadata.annotations.note}"), "7 3 back hello")
	equal(t, s.path(t, "deployment/web", "{range .spec.template.spec}{.serviceAccountName} {.containers[0].image} {.containers[0].env[0].value} {.containers[0].resources.limits}{end}"),
		`bot nginx:2 red {"cpu":"200m","memory":"1Gi"}`)
	contains(t, columns(s.ok(t, "get", "hpa")), "web Deployment/web cpu: <unknown>/50% 1 5 0 ")
	s.ok(t, "create", "role", "reader", "--verb=get", "--resource=pods")
	s.ok(t, "create", "rolebinding", "readers", "--role=reader", "--user=jane")
	s.ok(t, "set", "subject", "rolebinding", "readers", "--group=staff")
	contains(t, columns(s.ok(t, "describe", "rolebinding", "readers")), "User jane", "Group staff")
	contains(t, columns(s.ok(t, "describe", "deployment", "web")), "Replicas: 3 desired | 0 updated", "Image: nginx:2", "COLOR: red", "Service Account: bot")
	contains(t, columns(s.ok(t, "describe", "service", "web")), "Selector: app=other", "Port: <unset> 8080/TCP", "Endpoints: <none>")
	contains(t, columns(s.ok(t, "describe", "hpa", "web")), "Reference: Deployment/web", "<unknown> / 50%")
}

// testPatch patches, edits and replaces a deployment.
func testPatch(t *testing.T, s *session) {
	s.ok(t, "create", "deployment", "web", "--image=nginx:1")
	s.ok(t, "patch", "deployment", "web", "--type=strategic", "-p", `{"spec":{"template":{"spec":{"containers":[{"name":"log","image":"busybox"}]}}}}`)
	equal(t, s.path(t, "deployment/web", "{.spec.template.spec.containers[*].name}"), "log nginx")
	s.ok(t, "patch", "deployment", "web", "--type=strategic", "-p", `{"spec":{"template":{"spec":{"containers":[{"name":"log","$patch":"delete"}]}}}}`)
	s.ok(t, "patch", "deployment", "web", "--type=merge", "-p", `{"spec":{"replicas":6,"paused":true}}`)
	s.ok(t, "patch", "deployment", "web", "--type=json", "-p", `[{"op":"test","path":"/spec/replicas","value":6},{"op":"replace","path":"/spec/replicas","value":7}]`)
	contains(t, s.ok(t, "patch", "deployment", "web", "--type=merge", "-p", `{"spec":{"replicas":7}}`), "patched (no change)")
	equal(t, s.path(t, "deployment/web", "{.spec.template.spec.containers[*].name} {.spec.replicas} {.spec.paused}"), "nginx 7 true")
	s.ok(t, "patch", "deployment", "web", "--subresource=scale", "--type=merge", "-p", `{"spec":{"replicas":2}}`)
	s.ok(t, "patch", "deployment", "web", "--subresource=status", "--type=merge", "-p", `{"status":{"replicas":2,"readyReplicas":1,"availableReplicas":1},"spec":{"replicas":9}}`)
	contains(t, columns(s.ok(t, "get", "deployment", "web")), "web 1/2 0 1 ")
	s.fails(t, "field is immutable", "patch", "deployment", "web", "-p", `{"spec":{"selector":{"matchLabels":{"app":"x"}}}}`)
	contains(t, s.ok(t, "patch", "deployment", "web", "--type=merge", "-p", `{"spec":{"replica":1}}`), `Warning: unknown field "spec.replica"`)

	equal(t, s.editor(t, `sed -i 's/replicas: 2$/replicas: 5/' "$1"`).ok(t, "edit", "deployment", "web"), "deployment.apps/web edited\n")
	equal(t, s.path(t, "deployment/web", "{.spec.replicas}"), "5")
	old := s.write(t, "old.yaml", s.ok(t, "get", "deployment", "web", "-o", "yaml"))
	s.ok(t, "scale", "deployment", "web", "--replicas=1")
	s.fails(t, "the object has been modified", "replace", "-f", old)
	uid := s.path(t, "deployment/web", "{.metadata.uid}")
	contains(t, s.ok(t, "replace", "--force", "-f", old), "deployment.apps/web replaced")
	equal(t, s.path(t, "deployment/web", "{.spec.replicas}"), "5")
	if s.path(t, "deployment/web", "{.metadata.uid}") == uid {
		t.Error("replace --force kept the object")
	}
}
