package espaliertest_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"espalier.dev/server"
	"espalier.dev/server/etcd/etcdtest"
	"espalier.dev/server/kubeapiserver"
	"espalier.dev/server/pki"
)

// TestFlagsOfKubeAPIServer checks that each flag of the server is one of kube-apiserver, too, unless
// that does not have it, and what becomes of flags without effect.
func TestFlagsOfKubeAPIServer(t *testing.T) {
	t.Parallel()
	own := strings.Fields("data-dir kubeconfig-out server-lease-duration quota-backend-bytes check-stored-objects controllers " +
		"max-long-running-requests-inflight max-list-bytes-inflight service-resolver ca-cert-file ca-key-file tls-san storage history")
	unknown := func(name string) bool {
		_, err := kubeapiserver.Apply(server.NewOptions(), []string{"--" + name + "=x"})
		return err != nil && strings.Contains(err.Error(), "unknown flag")
	}
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	server.NewOptions().AddFlags(flags)
	flags.VisitAll(func(f *pflag.Flag) {
		if unknown(f.Name) != slices.Contains(own, f.Name) {
			t.Errorf("kube-apiserver has --%s: %v", f.Name, !unknown(f.Name))
		}
	})
	for _, name := range []string{"insecure-port", "cloud-provider"} {
		if !unknown(name) {
			t.Errorf("kube-apiserver has no flag --%s", name)
		}
	}

	for _, test := range []struct {
		args  string
		want  func(o *server.Options) bool
		notes []string
	}{
		{"--kubelet_timeout=5s --allow-privileged --apiserver-count 3 --etcd-prefix=/x", func(o *server.Options) bool { return o.EtcdPrefix == "/x" },
			[]string{": --allow-privileged --apiserver-count --kubelet-timeout"}},
		{"--runtime-config=api/all=true --runtime-config=apps/v1=false --advertise-address=10.1.2.3", func(o *server.Options) bool {
			return o.RuntimeConfig["api/all"] == "true" && o.RuntimeConfig["apps/v1"] == "false" && o.AdvertiseAddress == "10.1.2.3"
		}, nil},
		{"--feature-gates=WatchList=true,kube:DynamicResourceAllocation=false", func(o *server.Options) bool {
			return len(o.FeatureGates) == 1 && o.FeatureGates["WatchList"] == "true"
		}, []string{": DynamicResourceAllocation"}},
		{"--enable-admission-plugins=ImagePolicyWebhook,NamespaceLifecycle", func(o *server.Options) bool {
			return slices.Equal(o.EnableAdmissionPlugins, []string{"NamespaceLifecycle"})
		}, []string{": ImagePolicyWebhook"}},
		{"--audit-log-path=-", func(o *server.Options) bool { return o.AuditLogPath == "" }, []string{"No audit policy file provided, no events will be recorded"}},
		{"--authorization-mode=Node,RBAC", func(o *server.Options) bool { return slices.Equal(o.Authorization.Modes, []string{"RBAC"}) }, []string{"The authorization mode Node"}},
		{"--authorization-mode=RBAC,Node", func(o *server.Options) bool { return slices.Equal(o.Authorization.Modes, []string{"RBAC"}) }, []string{"The authorization mode Node"}},
		{"--authorization-mode=Node", func(o *server.Options) bool { return slices.Equal(o.Authorization.Modes, []string{"Node"}) }, nil},
	} {
		o := server.NewOptions()
		notes, err := kubeapiserver.Apply(o, strings.Fields(test.args))
		if err != nil || !test.want(o) || !slices.EqualFunc(notes, test.notes, strings.Contains) {
			t.Errorf("%s: %v %q", test.args, err, notes)
		}
	}
	for args, want := range map[string]string{"--feature-gates=None=true": "unrecognized feature gate: None", "--kubelet-timeout=5": "kubelet-timeout",
		"--apiserver-count=x": "apiserver-count", "--allow-privileged=x": "allow-privileged"} {
		if _, err := kubeapiserver.Apply(server.NewOptions(), []string{args}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", args, err)
		}
	}
}

// apiServerLog is the log of a server, which runs as kube-apiserver.
type apiServerLog struct {
	mu   sync.Mutex
	text bytes.Buffer
	// url gets the URL of the server.
	url chan string
}

var readyLine = regexp.MustCompile(`The API server is ready" url="(.*?)"`)

func (l *apiServerLog) Write(text []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if m := readyLine.FindSubmatch(text); m != nil {
		l.url <- string(m[1])
	}
	return l.text.Write(text)
}

func (l *apiServerLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// TestKubeAPIServer runs the server with the command line of kube-apiserver: its defaults, its certificates,
// and who is anonymous. It is not parallel, because the log is that of
// the process.
func TestKubeAPIServer(t *testing.T) {
	var help bytes.Buffer
	if code := kubeapiserver.Main(t.Context(), []string{"--help"}, &help, &help); code != 0 {
		t.Fatal(code, &help)
	}
	for name, want := range map[string]string{"authorization-mode": "(default AlwaysAllow)", "bind-address": `(default "0.0.0.0")`, "profiling": "(default true)", "anonymous-auth": `(default "true")`,
		"secure-port": "(default 6443)", "enable-priority-and-fairness": ""} {
		text := strings.Join(strings.Fields(regexp.MustCompile(`(?m)^ +--`+name+`\b.*(\n {12,}[^- ].*)*`).FindString(help.String())), " ")
		if text == "" || strings.HasSuffix(text, ")") != (want != "") || !strings.HasSuffix(text, want) {
			t.Errorf("--%s: %s", name, text)
		}
	}
	for _, arg := range []string{"--no-such-flag", "argument"} {
		var out bytes.Buffer
		if code := kubeapiserver.Main(t.Context(), []string{arg}, &out, &out); code != 1 || !strings.HasPrefix(out.String(), "Error: ") {
			t.Errorf("%s: exits with %d: %s", arg, code, &out)
		}
	}
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "apiserver.crt"), filepath.Join(dir, "apiserver.key")
	made, err := pki.Ensure(pki.Config{Dir: filepath.Join(dir, "made"), Hosts: []string{"127.0.0.1"}})
	if err != nil {
		t.Fatal(err)
	}
	for file, text := range map[string][]byte{cert: made.Serving.Cert, key: made.Serving.Key} {
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	block, _ := pem.Decode(made.CA.Cert)
	ca, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(ca)
	etcd := etcdtest.Start(t).Endpoints()[0]
	log := &apiServerLog{url: make(chan string, 1)}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	exited := make(chan int, 1)
	go func() {
		exited <- kubeapiserver.Main(ctx, []string{"--etcd-servers=" + etcd, "--bind-address=127.0.0.1", "--secure-port=0", "--cert-dir=" + dir,
			"--service-account-issuer=https://example.com", "--service-account-key-file=" + cert, "--service-account-signing-key-file=" + key}, log, log)
	}()
	select {
	case url := <-log.url:
		transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}} // of the certificate in --cert-dir
		resp, err := (&http.Client{Transport: transport}).Get(url + "/api/v1/namespaces")
		if err != nil {
			t.Fatal(err)
		}
		// Everything is allowed, but nobody is anonymous then.
		if err := resp.Body.Close(); err != nil || resp.StatusCode != http.StatusUnauthorized {
			t.Errorf("an anonymous request: %s, %v", resp.Status, err)
		}
		transport.CloseIdleConnections()
	case code := <-exited:
		t.Fatalf("it exits with %d: %s", code, log)
	case <-time.After(time.Minute):
		t.Fatalf("it does not start: %s", log)
	}
	stop()
	if code := <-exited; code != 0 {
		t.Errorf("it exits with %d: %s", code, log)
	}
	if files, err := filepath.Glob(filepath.Join(dir, "espalier-127_0_0_1-0")); err != nil || len(files) != 1 {
		t.Errorf("the directory of the server is %q, %v", files, err)
	}
}
