package clients

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	certutil "k8s.io/client-go/util/cert"
	"k8s.io/component-base/cli"
	wardle "k8s.io/sample-apiserver/pkg/cmd/server"

	"espalier.dev/server/etcd/etcdtest"
	"espalier.dev/server/servertest"
)

// runServer makes the test binary the extension server. It needs a process of its own, because
// k8s.io/apiserver keeps feature gates and versions in global variables.
const runServer = "ESPALIER_TEST_EXTENSION_SERVER"

func TestMain(m *testing.M) {
	if os.Getenv(runServer) != "" {
		cmd := wardle.NewCommandStartWardleServer(genericapiserver.SetupSignalContext(),
			wardle.NewWardleServerOptions(os.Stdout, os.Stderr), false)
		os.Exit(cli.Run(cmd))
	}
	os.Exit(m.Run())
}

// TestSampleServer uses resources of the sample server through this one.
func TestSampleServer(t *testing.T) {
	ip, err := utilnet.ChooseHostInterface()
	if err != nil {
		t.Skip("the host has no network, and endpoints have no loopback addresses:", err)
	}
	port := freePort(t, ip)
	s := servertest.Start(t, servertest.Options(t))
	client := servertest.Client(t, s, nil)
	etcd := etcdtest.Start(t)

	// The certificate is for the name of the service: endpoints are dialed by their addresses.
	cert, key, err := certutil.GenerateSelfSignedCertKey("api.wardle.svc", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	certFile, keyFile := filepath.Join(t.TempDir(), "tls.crt"), filepath.Join(t.TempDir(), "tls.key")
	if err := errors.Join(os.WriteFile(certFile, cert, 0o600), os.WriteFile(keyFile, key, 0o600)); err != nil {
		t.Fatal(err)
	}
	bundle, err := json.Marshal(cert)
	if err != nil {
		t.Fatal(err)
	}

	cmd := exec.CommandContext(t.Context(), os.Args[0], "--etcd-servers", etcd.Endpoints()[0], "--kubeconfig", s.Kubeconfig(),
		"--authentication-kubeconfig", s.Kubeconfig(), "--authorization-kubeconfig", s.Kubeconfig(),
		"--bind-address", ip.String(), "--secure-port", fmt.Sprint(port),
		"--tls-cert-file", certFile, "--tls-private-key-file", keyFile, "--enable-priority-and-fairness=false")
	cmd.Env = append(os.Environ(), runServer+"=1")
	log := &strings.Builder{}
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it was killed
		if t.Failed() {
			t.Log(log)
		}
	})

	post := func(path, body string) {
		t.Helper()
		if code, text := servertest.Exchange(t, client, http.MethodPost, s.URL()+path, body); code != http.StatusCreated {
			t.Fatalf("%s: %d %s", path, code, text)
		}
	}
	post("/api/v1/namespaces", `{"metadata":{"name":"wardle"}}`)
	post("/api/v1/namespaces/wardle/services", `{"metadata":{"name":"api"},"spec":{"ports":[{"name":"https","port":443}]}}`)
	post("/apis/discovery.k8s.io/v1/namespaces/wardle/endpointslices", fmt.Sprintf(`{"metadata":{"name":"api","labels":{"kubernetes.io/service-name":"api"}},
"addressType":"IPv4","endpoints":[{"addresses":[%q]}],"ports":[{"name":"https","port":%d}]}`, ip, port))
	for _, version := range []string{"v1alpha1", "v1beta1"} {
		post("/apis/apiregistration.k8s.io/v1/apiservices", fmt.Sprintf(`{"metadata":{"name":"%s.wardle.example.com"},"spec":{"group":"wardle.example.com","version":%[1]q,
"groupPriorityMinimum":1000,"versionPriority":15,"caBundle":%s,"service":{"namespace":"wardle","name":"api"}}}`, version, bundle))
	}

	config, err := s.ClientConfig()
	if err != nil {
		t.Fatal(err)
	}
	discoverer, err := discovery.NewDiscoveryClientForConfigAndClient(config, client)
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, func() error {
		list, err := discoverer.ServerResourcesForGroupVersion("wardle.example.com/v1alpha1")
		if err != nil {
			return err
		}
		_, all, err := discoverer.ServerGroupsAndResources()
		if err != nil {
			return err
		}
		for _, one := range all {
			if one.GroupVersion == list.GroupVersion && len(one.APIResources) == len(list.APIResources) && len(list.APIResources) > 1 {
				return nil
			}
		}
		return fmt.Errorf("the aggregated list lacks %v", list.APIResources)
	})

	// Both forms of OpenAPI describe its resources.
	const things = "/apis/wardle.example.com/v1alpha1/namespaces/{namespace}/flunders"
	for _, path := range []string{"/openapi/v2", "/openapi/v3/apis/wardle.example.com/v1alpha1"} {
		eventually(t, func() error {
			code, text := servertest.Get(t, s, client, path)
			if code != http.StatusOK || !strings.Contains(text, `"`+things+`":`) {
				return fmt.Errorf("%s: %d, %d bytes without %s", path, code, len(text), things)
			}
			return nil
		})
	}

	flunders := runtimeschema.GroupVersionResource{Group: "wardle.example.com", Version: "v1alpha1", Resource: "flunders"}
	all, err := dynamic.NewForConfigAndClient(config, client)
	if err != nil {
		t.Fatal(err)
	}
	watch, err := all.Resource(flunders).Namespace("wardle").Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Stop()
	flunder := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "wardle.example.com/v1alpha1", "kind": "Flunder",
		"metadata": map[string]any{"name": "one"}}}
	if _, err := all.Resource(flunders).Namespace("wardle").Create(t.Context(), flunder, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	select {
	case event := <-watch.ResultChan():
		if got, ok := event.Object.(*unstructured.Unstructured); !ok || got.GetName() != "one" {
			t.Errorf("the watch has %v", event)
		}
	case <-time.After(20 * time.Second):
		t.Error("the watch has no event")
	}

	// The sample server asks this one who may do what: ann may not even reach it, and with a role she may.
	ann := servertest.Client(t, s, servertest.User(t, s, "ann"))
	const path = "/apis/wardle.example.com/v1alpha1/namespaces/wardle/flunders"
	if code, text := servertest.Get(t, s, ann, path); code != http.StatusForbidden {
		t.Error(code, text)
	}
	post("/apis/rbac.authorization.k8s.io/v1/clusterroles", `{"metadata":{"name":"flunders"},"rules":[{"apiGroups":["wardle.example.com"],"resources":["flunders"],"verbs":["list"]}]}`)
	servertest.Bind(t, servertest.Clientset(t, s, nil, "application/json"), "flunders", "ann", "")
	eventually(t, func() error {
		if code, text := servertest.Get(t, s, ann, path); code != http.StatusOK || !strings.Contains(text, `"name":"one"`) {
			return fmt.Errorf("%d %s", code, text)
		}
		return nil
	})

	// Its objects go with their namespace.
	if code, text := servertest.Exchange(t, client, http.MethodDelete, s.URL()+"/api/v1/namespaces/other", ""); code != http.StatusNotFound {
		t.Error(code, text)
	}
	post("/api/v1/namespaces", `{"metadata":{"name":"other"}}`)
	if _, err := all.Resource(flunders).Namespace("other").Create(t.Context(), flunder, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if code, text := servertest.Exchange(t, client, http.MethodDelete, s.URL()+"/api/v1/namespaces/other", ""); code != http.StatusOK {
		t.Error(code, text)
	}
	eventually(t, func() error {
		if code, text := servertest.Get(t, s, client, "/api/v1/namespaces/other"); code != http.StatusNotFound {
			return errors.New(text)
		}
		return nil
	})
	if list, err := all.Resource(flunders).Namespace("other").List(t.Context(), metav1.ListOptions{}); err != nil || len(list.Items) != 0 {
		t.Error("after the namespace is gone:", list, err)
	}
}

// eventually retries for a minute: the sample server takes its time to start.
func eventually(t *testing.T, try func() error) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for {
		err := try()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// freePort returns a port that is free on an address.
func freePort(t *testing.T, ip net.IP) int {
	t.Helper()
	l, err := net.Listen("tcp", net.JoinHostPort(ip.String(), "0"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}
