package helm

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"

	"espalier.dev/espaliertest"
	"espalier.dev/server/etcd/etcdtest"
	"espalier.dev/server/pki"
)

// update makes TestDeploy write the manifests in deploy/kubernetes.
var update = flag.Bool("update", false, "write deploy/kubernetes/espalier.yaml and the table of values in deploy/chart/README.md")

const (
	ownChart  = "../../deploy/chart"
	manifests = "../../deploy/kubernetes"
)

// variants are values of the chart that users set.
var variants = map[string]string{
	"default": "",
	"one": `
semantics: kubernetes
image: {digest: "sha256:` + strings.Repeat("0123456789abcdef", 4) + `"}
service: {type: LoadBalancer, port: 443, nodePort: 30443, loadBalancerSourceRanges: [10.0.0.0/8], annotations: {example.com/lb: internal}}
hosts: [api.example.com, 192.0.2.1]
tls: {secretName: serving}
persistence: {storageClassName: fast, size: 20Gi, accessModes: [ReadWriteOncePod], annotations: {a: b}}
authentication: {anonymous: true, clientCASecretName: clients, tokenSecretName: tokens, configMapName: oidc}
encryption: {secretName: keys}
audit: {policyConfigMapName: audit}
log: {format: text, verbosity: 2}
extraFlags: ["--goaway-chance=0.001", "--feature-gates=WatchList=true"]
networkPolicy: {enabled: true, from: [{namespaceSelector: {matchLabels: {team: a}}}]}
metrics: {serviceMonitor: {enabled: true, labels: {release: prometheus}, secretName: metrics}}
serviceAccount: {create: false, name: other}
podDisruptionBudget: {enabled: false}
podAnnotations: {a: b}
podLabels: {c: d}
nodeSelector: {kubernetes.io/os: linux}
tolerations: [{key: a, operator: Exists}]
affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: a, operator: Exists}]}]}}}
topologySpreadConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {a: b}}}]
priorityClassName: high
imagePullSecrets: [{name: registry}]
extraEnv: [{name: GOMEMLIMIT, value: 1GiB}]
extraVolumes: [{name: more, emptyDir: {}}]
extraVolumeMounts: [{name: more, mountPath: /more}]
`,
	"several": `
replicas: 3
etcd: {servers: ["https://etcd-0:2379", "https://etcd-1:2379"], prefix: /espalier, tls: {secretName: etcd}}
ca: {secretName: ca}
authentication: {serviceAccountKeySecretName: tokens}
persistence: {enabled: false}
networkPolicy: {enabled: true}
fullnameOverride: api
`,
}

// TestDeploy renders the chart of the server, and compares the result with the manifests.
func TestDeploy(t *testing.T) {
	server := espaliertest.Start(t)
	c := newCommandLine(t)
	rendered := map[string]string{}
	for name, values := range variants {
		file := filepath.Join(c.dir, name+"-values.yaml")
		if err := os.WriteFile(file, []byte(values), 0o644); err != nil {
			t.Fatal(err)
		}
		chart, err := filepath.Abs(ownChart)
		if err != nil {
			t.Fatal(err)
		}
		contains(t, mustRun(t, c, "helm", "lint", "--strict", chart, "--values", file), "0 chart(s) failed")
		rendered[name] = mustRun(t, c, "helm", "template", "espalier", chart, "--namespace", "espalier", "--kube-version", "1.37.0", "--values", file)

		// The objects are valid, also for old clusters.
		c.write(t, map[string]string{name + ".yaml": rendered[name]})
		for _, version := range []string{"1.25", "1.37"} {
			contains(t, c.espalier(t, 0, "validate", "--skip-kind", "ServiceMonitor", "--field-validation", "strict", "--fail-on", "info",
				"--semantics", "kubernetes", "--kubernetes-version", version, name+".yaml"), "no findings in")
		}
	}
	t.Run("manifests", func(t *testing.T) {
		golden(t, filepath.Join(manifests, "espalier.yaml"), plain(rendered["default"]))
		path, err := filepath.Abs(manifests)
		if err != nil {
			t.Fatal(err)
		}
		contains(t, c.espalier(t, 0, "validate", "--field-validation", "strict", "--fail-on", "info", "--semantics", "kubernetes", path),
			fmt.Sprintf("no findings in %d objects", strings.Count(rendered["default"], "\nkind: ")+1))
	})
	t.Run("values", func(t *testing.T) { checkValues(t) })
	t.Run("rejected", func(t *testing.T) { rejectValues(t, c) })
	t.Run("restricted", func(t *testing.T) {
		for name, text := range rendered {
			set := statefulSet(t, text)
			if err := restricted(&set.Spec.Template.Spec); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
	t.Run("install", func(t *testing.T) {
		for name, values := range variants {
			if strings.Contains(values, "serviceMonitor") {
				continue // the server has no such kind
			}
			s := newSession(t, server, "deploy-"+name)
			out := s.helm(t, "install", "espalier", ownChart, "--create-namespace", "--values", filepath.Join(c.dir, name+"-values.yaml"))
			contains(t, out, "STATUS: deployed", "-0 -- /usr/bin/espalier kubeconfig")
			s.helm(t, "upgrade", "espalier", ownChart, "--values", filepath.Join(c.dir, name+"-values.yaml"), "--set", "resources.limits.memory=1Gi")
			s.helm(t, "uninstall", "espalier")
		}
	})
	t.Run("run", func(t *testing.T) { runPod(t, c, rendered["default"]) })
	t.Run("run several", func(t *testing.T) { runSeveral(t, c, rendered["several"]) })
}

// mustRun runs a program, which must succeed.
func mustRun(t *testing.T, c *commandLine, program string, args ...string) string {
	t.Helper()
	out, code := c.run(t, program, args...)
	if code != 0 {
		t.Fatalf("%s %s exits with %d:\n%s", program, strings.Join(args, " "), code, out)
	}
	return out
}

// plain turns the output of helm template into manifests.
func plain(rendered string) string {
	text := regexp.MustCompile(`(?m)^# Source: .*\n`).ReplaceAllString(rendered, "")
	return "# Rendered from deploy/chart. After a change: cd test/helm && go test . -run TestDeploy -update\n" + strings.TrimPrefix(text, "---\n")
}

// golden compares a file with its text, or writes it.
func golden(t *testing.T, name, want string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(name, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Errorf("%s is not current: cd test/helm && go test . -run TestDeploy -update\ngot:\n%s\nwant:\n%s", name, got, want)
	}
}

// property is a schema in values.schema.json.
type property struct {
	Description string               `json:"description"`
	Properties  map[string]*property `json:"properties"`
}

// checkValues compares values.yaml, values.schema.json and the table of values in README.md: they
// have the same names.
func checkValues(t *testing.T) {
	read := func(name string, into any) {
		text, err := os.ReadFile(filepath.Join(ownChart, name))
		if err == nil {
			err = yaml.Unmarshal(text, into)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	var schema property
	var values map[string]any
	read("values.schema.json", &schema)
	read("values.yaml", &values)
	delete(schema.Properties, "global") // helm adds it to all charts
	var rows []string
	var walk func(path string, p *property, value any)
	walk = func(path string, p *property, value any) {
		if p.Properties == nil {
			text, err := json.Marshal(value)
			if err != nil {
				t.Fatal(err)
			}
			rows = append(rows, fmt.Sprintf("| `%s` | %s | `%s` |", path, p.Description, text))
			if p.Description == "" {
				t.Errorf("%s has no description", path)
			}
			return
		}
		object, _ := value.(map[string]any)
		for name, sub := range p.Properties {
			if _, ok := object[name]; !ok {
				t.Errorf("values.yaml has no %s in %q", name, path)
			}
			walk(strings.TrimPrefix(path+"."+name, "."), sub, object[name])
		}
		for name := range object {
			if p.Properties[name] == nil {
				t.Errorf("values.schema.json has no %s in %q", name, path)
			}
		}
	}
	walk("", &schema, values)
	slices.Sort(rows)
	name := filepath.Join(ownChart, "README.md")
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	before, _, ok := strings.Cut(string(text), "| value |")
	if !ok {
		t.Fatal("README.md has no table of values")
	}
	golden(t, name, before+"| value | what | default |\n|---|---|---|\n"+strings.Join(rows, "\n")+"\n")
}

// rejectValues renders the chart with wrong values.
func rejectValues(t *testing.T, c *commandLine) {
	chart, err := filepath.Abs(ownChart)
	if err != nil {
		t.Fatal(err)
	}
	for set, want := range map[string]string{
		"replicas=3":                           "replicas: more than 1 needs an external etcd that the servers share: set etcd.servers",
		"replicas=2,etcd.servers={http://a:1}": "replicas: more than 1 needs a CA that the servers share: set ca.secretName",
		"replicas=2,etcd.servers={http://a:1},ca.secretName=a": "set authentication.serviceAccountKeySecretName",
		"service.nodePort=30000":                               "service.nodePort is for other types of services: set service.type to NodePort or LoadBalancer",
		"etcd.tls.secretName=a":                                "etcd.tls.secretName is for an external etcd: set etcd.servers",
		"metrics.serviceMonitor.enabled=true":                  "set metrics.serviceMonitor.secretName",
		"semantics=both":                                       "at '/semantics': value must be one of 'kep', 'kubernetes'",
		"replica=1":                                            "additional properties 'replica' not allowed",
		"etcd.servers={a:2379}":                                "at '/etcd/servers/0': 'a:2379' does not match pattern",
		"persistence.size=big":                                 "at '/persistence/size': 'big' does not match pattern",
		"persistence.accessModes={ReadWriteMany}":              "at '/persistence/accessModes/0': value must be one of",
		"extraFlags={-v}":                                      "at '/extraFlags/0': '-v' does not match pattern",
		"probes.liveness.exec.command={a}":                     "at '/probes/liveness'",
		"authentication.anonymous=false":                       "at '/authentication/anonymous': value must be one of",
		"image.digest=sha256:1":                                "at '/image/digest'",
		"service.port=70000":                                   "at '/service/port': maximum",
	} {
		if out, code := c.run(t, "helm", "template", "espalier", chart, "--kube-version", "1.37.0", "--set", set); code == 0 || !strings.Contains(out, want) {
			t.Errorf("--set %s: exit code %d, want %q in:\n%s", set, code, want, out)
		}
	}
}

// statefulSet returns the StatefulSet among rendered objects.
func statefulSet(t *testing.T, rendered string) *appsv1.StatefulSet {
	t.Helper()
	for _, text := range strings.Split(rendered, "\n---\n") {
		if strings.Contains(text, "kind: StatefulSet\n") {
			set := &appsv1.StatefulSet{}
			if err := yaml.UnmarshalStrict([]byte(text), set); err != nil {
				t.Fatal(err)
			}
			return set
		}
	}
	t.Fatalf("no StatefulSet in:\n%s", rendered)
	return nil
}

// restricted reports what of a pod is outside of the Pod Security level restricted, and of what
// the image expects.
func restricted(pod *corev1.PodSpec) error {
	c, p := pod.Containers[0].SecurityContext, pod.SecurityContext
	isTrue := func(b *bool) bool { return b != nil && *b }
	switch {
	case !isTrue(p.RunAsNonRoot) || *p.RunAsUser != 65532 || *p.RunAsGroup != 65532 || *p.FSGroup != 65532:
		return fmt.Errorf("users: %v", p)
	case p.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault:
		return fmt.Errorf("seccomp: %v", p.SeccompProfile)
	case isTrue(c.AllowPrivilegeEscalation) || c.AllowPrivilegeEscalation == nil || !isTrue(c.ReadOnlyRootFilesystem):
		return fmt.Errorf("container: %v", c)
	case len(c.Capabilities.Add) != 0 || !slices.Equal(c.Capabilities.Drop, []corev1.Capability{"ALL"}):
		return fmt.Errorf("capabilities: %v", c.Capabilities)
	case pod.AutomountServiceAccountToken == nil || *pod.AutomountServiceAccountToken:
		return fmt.Errorf("the pod has a token of the cluster")
	}
	return nil
}

// pod is a running container of the StatefulSet.
type pod struct {
	container *corev1.Container
	volume    string       // the directory in place of /var/lib/espalier
	config    *rest.Config // of the administrator
}

// startPod does what a kubelet does: it runs the container of a StatefulSet until the test ends.
func startPod(t *testing.T, c *commandLine, rendered string, replacements ...string) *pod {
	t.Helper()
	p := &pod{container: &statefulSet(t, rendered).Spec.Template.Spec.Containers[0], volume: t.TempDir()}
	args := slices.Clone(p.container.Args)
	// The test has no volumes, and shares the ports of the host.
	replace := strings.NewReplacer(append(replacements, "/var/lib/espalier", p.volume, "--secure-port=6443", "--secure-port=0", "0.0.0.0", "127.0.0.1")...)
	for i := range args {
		args[i] = replace.Replace(args[i])
	}
	cmd := exec.Command(c.program, args...)
	cmd.Env = []string{"TMPDIR=" + t.TempDir()}
	var log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		if err := cmd.Wait(); err != nil || t.Failed() {
			t.Errorf("%v\n%s", err, &log)
		}
	})
	own := filepath.Join(p.volume, "data", "kubeconfig")
	err := wait.PollUntilContextTimeout(t.Context(), 20*time.Millisecond, timeout, true, func(context.Context) (bool, error) {
		_, err := os.Stat(own)
		return err == nil, nil
	})
	if err == nil {
		p.config, err = clientcmd.BuildConfigFromFlags("", own)
	}
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// runSeveral runs two servers of a release on one etcd, with the Secrets that the values name.
func runSeveral(t *testing.T, c *commandLine, rendered string) {
	etcd := etcdtest.Start(t)
	secrets := t.TempDir()
	ca, err := pki.Ensure(pki.Config{Dir: filepath.Join(t.TempDir(), "pki")})
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string][]byte{"ca/tls.crt": ca.CA.Cert, "ca/tls.key": ca.CA.Key, "service-accounts/tls.key": ca.Serving.Key} {
		name = filepath.Join(secrets, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, text, 0o440)); err != nil {
			t.Fatal(err)
		}
	}
	// The etcd of the test has no TLS.
	rendered = regexp.MustCompile(`(?m)^ *- --etcd-(cafile|certfile|keyfile)=.*\n`).ReplaceAllString(rendered, "")
	var pods []*pod
	for range 2 {
		pods = append(pods, startPod(t, c, rendered, "/etc/espalier", secrets, "https://etcd-0:2379,https://etcd-1:2379", etcd.Endpoints()[0]))
	}
	for i, p := range pods {
		// The administrator of one server is that of the other, and so is a token of a service account.
		config := rest.CopyConfig(p.config)
		config.Host, config.ServerName = pods[1-i].config.Host, "api.espalier.svc"
		client, err := kubernetes.NewForConfig(config)
		if err != nil {
			t.Fatal(err)
		}
		name := fmt.Sprintf("from-%d", i)
		if _, err := client.CoreV1().ServiceAccounts("default").Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		issued, err := client.CoreV1().ServiceAccounts("default").CreateToken(t.Context(), name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		user, err := kubernetes.NewForConfig(&rest.Config{Host: p.config.Host, BearerToken: issued.Status.Token,
			TLSClientConfig: rest.TLSClientConfig{CAData: ca.CA.Cert, ServerName: "api.espalier.svc"}})
		if err != nil {
			t.Fatal(err)
		}
		review, err := user.AuthenticationV1().SelfSubjectReviews().Create(t.Context(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		equal(t, review.Status.UserInfo.Username, "system:serviceaccount:default:"+name)
	}
}

// runPod does what a kubelet and a user do: it probes the container of the StatefulSet, and gets a
// kubeconfig with the command that README.md shows.
func runPod(t *testing.T, c *commandLine, rendered string) {
	p := startPod(t, c, rendered)
	container, volume, config := p.container, p.volume, p.config

	for _, probe := range []*corev1.Probe{container.StartupProbe, container.LivenessProbe, container.ReadinessProbe} {
		// A kubelet verifies no certificates, and has no credentials.
		client, err := rest.HTTPClientFor(&rest.Config{TLSClientConfig: rest.TLSClientConfig{Insecure: true}})
		if err != nil {
			t.Fatal(err)
		}
		equal(t, probe.HTTPGet.Scheme, corev1.URISchemeHTTPS)
		response, err := client.Get(config.Host + probe.HTTPGet.Path)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, response.Body)
		_ = response.Body.Close()
		equal(t, response.StatusCode, http.StatusOK)
	}

	readme, err := os.ReadFile(filepath.Join(ownChart, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	commands := regexp.MustCompile(`(?m)-- /usr/bin/espalier (kubeconfig (?:.*\\\n)*.*) > (\S+)$`).FindAllStringSubmatch(string(readme), -1)
	equal(t, len(commands), 2)
	users := map[string]string{"espalier.kubeconfig": "espalier-admin", "ann.kubeconfig": "ann"}
	for _, command := range commands {
		line := strings.NewReplacer("\\\n", " ", "/var/lib/espalier", volume).Replace(command[1])
		c.write(t, map[string]string{command[2]: c.espalier(t, 0, strings.Fields(line)...)})
		client, err := clientcmd.BuildConfigFromFlags("", filepath.Join(c.dir, command[2]))
		if err != nil {
			t.Fatal(err)
		}
		equal(t, client.Host, "https://espalier.espalier.svc:6443")
		// The name of the Service is not known here, but the certificate is valid for it.
		client.ServerName, client.Host = "espalier.espalier.svc", config.Host
		typed, err := kubernetes.NewForConfig(client)
		if err != nil {
			t.Fatal(err)
		}
		review, err := typed.AuthenticationV1().SelfSubjectReviews().Create(t.Context(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		equal(t, review.Status.UserInfo.Username, users[command[2]])
		_, err = typed.CoreV1().Secrets("default").List(t.Context(), metav1.ListOptions{})
		equal(t, err == nil, command[2] == "espalier.kubeconfig")
	}
	contains(t, c.espalier(t, 2, "kubeconfig", "--data-dir", t.TempDir(), "--server", "https://a"), "has no CA: name the data directory of the server with --data-dir")
	contains(t, c.espalier(t, 2, "kubeconfig", "--data-dir", t.TempDir()), "or its URL with --server")
	contains(t, c.espalier(t, 2, "kubeconfig", "--data-dir", filepath.Join(volume, "data"), "--server", "a:6443"), `--server "a:6443" is not a URL`)
	contains(t, c.espalier(t, 0, "kubeconfig", "--data-dir", filepath.Join(volume, "data")), "server: "+config.Host)
}
