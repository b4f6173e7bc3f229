package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"strings"
	"testing"
)

// TestWorkloads uses a cluster with kubectl: objects become what they become in a cluster.
func TestWorkloads(t *testing.T) {
	t.Parallel()
	c := launch(t, "--nodes=3", "--secure-port=0", "--storage=memory")
	c.awaitReady(t)
	if got := c.stdout.String(); !strings.Contains(got, "with 3 nodes") || !strings.Contains(got, "export KUBECONFIG="+c.kubeconfig()) {
		t.Errorf("it writes\n%s", got)
	}
	c.ok(t, "create", "deployment", "web", "--image=example.com/image", "--replicas=3")
	t.Run("all", func(t *testing.T) {
		for name, test := range map[string]func(*testing.T, *cluster){
			"deployment": testDeployment, "job": testJob, "cronjob": testCronJob, "statefulset": testStatefulSet,
			"daemonset": testDaemonSet, "hpa": testAutoscaler, "leases": testLeases, "tokens": testTokens,
			"certificate": testCertificate, "top": testTop, "endpoints": testEndpoints,
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				test(t, c)
			})
		}
	})
	testDrain(t, c) // the others need all nodes
	if text := c.stderr.String(); strings.Contains(text, "has exited") {
		t.Errorf("a component has exited:\n%s", text)
	}
}

func testDeployment(t *testing.T, c *cluster) {
	c.ok(t, "create", "deployment", "scaled", "--image=example.com/image", "--replicas=1")
	if out := c.ok(t, "rollout", "status", "deployment/scaled", "--timeout=2m"); !strings.Contains(out, `deployment "scaled" successfully rolled out`) {
		t.Error(out)
	}
	c.ok(t, "scale", "deployment/scaled", "--replicas=4")
	c.ok(t, "rollout", "status", "deployment/scaled", "--timeout=2m")
	pods := c.ok(t, "get", "pods", "-l", "app=scaled", "--no-headers", "-o", "wide")
	if lines := strings.Split(pods, "\n"); len(lines) != 4 {
		t.Errorf("its pods are\n%s", pods)
	}
	for line := range strings.Lines(pods) {
		if f := strings.Fields(line); len(f) < 7 || f[1] != "1/1" || f[2] != "Running" || !strings.HasPrefix(f[6], "node-") {
			t.Errorf("a pod is %s", line)
		}
	}
	c.ok(t, "set", "image", "deployment/scaled", "image=example.com/other")
	c.ok(t, "rollout", "status", "deployment/scaled", "--timeout=2m")
	c.ok(t, "rollout", "undo", "deployment/scaled")
	c.ok(t, "rollout", "status", "deployment/scaled", "--timeout=2m")
	c.ok(t, "delete", "deployment/scaled")
	await(t, "the pods are deleted", func() bool { return c.field(t, "{.items}", "pods", "-l", "app=scaled") == "[]" })
}

func testJob(t *testing.T, c *cluster) {
	c.ok(t, "create", "job", "pi", "--image=example.com/image")
	c.ok(t, "wait", "--for=condition=Complete", "job/pi", "--timeout=2m")
	if got := c.field(t, "{.items[*].status.phase}", "pods", "-l", "job-name=pi"); got != "Succeeded" {
		t.Errorf("its pods are %s", got)
	}
}

func testCronJob(t *testing.T, c *cluster) {
	c.ok(t, "create", "cronjob", "tick", "--image=example.com/image", "--schedule=* * * * *")
	await(t, "a run of the CronJob", func() bool { return c.field(t, "{.status.lastSuccessfulTime}", "cronjob/tick") != "" })
}

func testStatefulSet(t *testing.T, c *cluster) {
	c.apply(t, `apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  replicas: 2
  serviceName: db
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db}}
    spec:
      containers:
      - name: main
        image: example.com/image
        volumeMounts: [{name: data, mountPath: /data}]
  volumeClaimTemplates:
  - metadata: {name: data}
    spec:
      accessModes: [ReadWriteOnce]
      resources: {requests: {storage: 1Gi}}
`)
	c.ok(t, "rollout", "status", "statefulset/db", "--timeout=2m")
	if got := c.ok(t, "get", "pvc", "-o", "jsonpath={range .items[*]}{.metadata.name}={.status.phase}={.status.capacity.storage} {end}"); got != "data-db-0=Bound=1Gi data-db-1=Bound=1Gi" {
		t.Errorf("the claims are %s", got)
	}
	c.ok(t, "delete", "statefulset/db", "--timeout=2m")
	c.ok(t, "delete", "pvc", "--all", "--timeout=2m")
	await(t, "the volumes are deleted", func() bool { return c.field(t, "{.items}", "pv") == "[]" })
}

func testDaemonSet(t *testing.T, c *cluster) {
	c.apply(t, `apiVersion: apps/v1
kind: DaemonSet
metadata: {name: agent}
spec:
  selector: {matchLabels: {app: agent}}
  template:
    metadata: {labels: {app: agent}}
    spec: {containers: [{name: main, image: example.com/image}]}
`)
	c.ok(t, "rollout", "status", "daemonset/agent", "--timeout=2m")
	if got := c.field(t, "{.status.numberReady}", "daemonset/agent"); got != "3" {
		t.Errorf("%s pods are ready", got)
	}
}

func testAutoscaler(t *testing.T, c *cluster) {
	c.ok(t, "autoscale", "deployment", "web", "--max=5", "--cpu=50%")
	await(t, "a condition", func() bool {
		got := c.field(t, "{.status.conditions[?(@.type=='ScalingActive')].reason}: {.status.conditions[?(@.type=='ScalingActive')].message}", "hpa/web")
		return strings.HasPrefix(got, "FailedGetResourceMetric: the HPA was unable to compute the replica count") && strings.Contains(got, "unable to fetch metrics from resource metrics API")
	})
	c.ok(t, "delete", "hpa", "web")
}

func testLeases(t *testing.T, c *cluster) {
	for _, name := range []string{"kube-controller-manager", "kube-scheduler"} {
		if got := c.field(t, "{.spec.holderIdentity} {.spec.leaseDurationSeconds}", "lease", "-n=kube-system", name); !strings.HasSuffix(got, " 15") {
			t.Errorf("the lease of %s is held by %q", name, got)
		}
	}
	renewed := func() string {
		return c.field(t, "{range .items[*]}{.metadata.name}={.spec.renewTime} {end}", "leases", "-n=kube-node-lease")
	}
	await(t, "a lease of each node", func() bool { return strings.Count(renewed(), "=20") == 3 })
	before := renewed()
	await(t, "renewed leases", func() bool { return renewed() != before })
}

func testTokens(t *testing.T, c *cluster) {
	whoami := func(token string) string {
		server := c.ok(t, "config", "view", "-o", "jsonpath={.clusters[0].cluster.server}")
		return c.ok(t, "--kubeconfig=/dev/null", "--server="+server, "--insecure-skip-tls-verify", "--token="+token,
			"auth", "whoami", "-o", "jsonpath={.status.userInfo.username}")
	}
	if got := whoami(c.ok(t, "create", "token", "default")); got != "system:serviceaccount:default:default" {
		t.Errorf("the token is that of %q", got)
	}
	c.apply(t, `apiVersion: v1
kind: Secret
metadata:
  name: default-token
  annotations: {kubernetes.io/service-account.name: default}
type: kubernetes.io/service-account-token
`)
	await(t, "a token in the Secret", func() bool {
		return c.field(t, "{.data.token}", "secret/default-token") != "" && c.field(t, `{.data.ca\.crt}`, "secret/default-token") != ""
	})
	token, err := base64.StdEncoding.DecodeString(c.field(t, "{.data.token}", "secret/default-token"))
	if err != nil {
		t.Fatal(err)
	}
	if got := whoami(string(token)); got != "system:serviceaccount:default:default" {
		t.Errorf("the token in the Secret is that of %q", got)
	}
	if got := c.field(t, `{.metadata.labels.kubernetes\.io/legacy-token-last-used}`, "secret/default-token"); got == "" {
		t.Error("the use of the token is not recorded")
	}
}

func testCertificate(t *testing.T, c *cluster) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	request, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{CommonName: "jane"}}, key)
	if err != nil {
		t.Fatal(err)
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: request})
	c.apply(t, `apiVersion: certificates.k8s.io/v1
kind: CertificateSigningRequest
metadata: {name: jane}
spec:
  request: `+base64.StdEncoding.EncodeToString(text)+`
  signerName: kubernetes.io/kube-apiserver-client
  usages: [client auth]
`)
	c.ok(t, "certificate", "approve", "jane")
	await(t, "a certificate", func() bool { return c.field(t, "{.status.certificate}", "csr/jane") != "" })
}

func testTop(t *testing.T, c *cluster) {
	if out, err := c.run(t, "top", "pods"); err == nil || !strings.Contains(out, "Metrics API not available") {
		t.Errorf("%v: %s", err, out)
	}
}

func testEndpoints(t *testing.T, c *cluster) {
	c.ok(t, "rollout", "status", "deployment/web", "--timeout=2m")
	c.ok(t, "expose", "deployment", "web", "--port=80")
	await(t, "three endpoints", func() bool {
		return strings.Count(c.field(t, "{.items[*].endpoints[*].addresses[0]}", "endpointslices", "-l", "kubernetes.io/service-name=web"), "10.128.") == 3
	})
}

func testDrain(t *testing.T, c *cluster) {
	c.ok(t, "create", "poddisruptionbudget", "web", "--selector=app=web", "--min-available=1")
	await(t, "the status of the budget", func() bool { return c.field(t, "{.status.disruptionsAllowed}", "pdb/web") == "2" })
	c.ok(t, "drain", "node-1", "--ignore-daemonsets", "--force", "--timeout=2m")
	if got := c.field(t, "{.items[*].metadata.name}", "pods", "-l", "app=web", "--field-selector=spec.nodeName=node-1"); got != "" {
		t.Errorf("node-1 has %s", got)
	}
	c.ok(t, "rollout", "status", "deployment/web", "--timeout=2m")
	if got := c.ok(t, "get", "node", "node-1", "--no-headers"); !strings.Contains(got, "Ready,SchedulingDisabled") {
		t.Error(got)
	}
	c.ok(t, "uncordon", "node-1")
	c.ok(t, "delete", "node", "node-2")
	await(t, "the lease of node-2 is deleted", func() bool { return c.field(t, "{.metadata.name}", "lease", "-n=kube-node-lease", "node-2") == "" })
	await(t, "pods on other nodes", func() bool {
		return c.field(t, "{.items[*].spec.nodeName}", "pods", "-l", "app=web", "--field-selector=spec.nodeName=node-2") == "" &&
			c.field(t, "{.status.availableReplicas}", "deployment/web") == "3"
	})
}
