package server

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"espalier.dev/server/plugins"
)

func TestFlags(t *testing.T) {
	o := NewOptions()
	fs := pflag.NewFlagSet("", pflag.ContinueOnError)
	o.AddFlags(fs)
	err := fs.Parse(strings.Fields(`
		--bind-address 0.0.0.0 --secure-port 0 --data-dir d --kubeconfig-out k
		--etcd-servers http://a:2379,http://b:2379 --etcd-prefix /p --watch-cache=false --etcd-compaction-interval 1m
		--disable-admission-plugins NamespaceLifecycle,ValidatingAdmissionWebhook
		--feature-gates kube:WatchList=true,APIServingWithRoutine=false,CRDValidationRatcheting=true --emulated-version kube=1.36
		--max-requests-inflight 1 --max-mutating-requests-inflight 2 --request-timeout 30s --shutdown-delay-duration 1s
		--audit-log-maxage 1 --audit-log-maxbackup 2 --audit-log-maxsize 3 --quota-backend-bytes 1000000`))
	if err != nil {
		t.Fatal(err)
	}
	if err := o.Validate(); err != nil {
		t.Error(err)
	}
	if o.BindAddress != "0.0.0.0" || o.DataDir != "d" || o.kubeconfigPath() != "k" || len(o.Etcd.URLs) != 2 || o.RequestTimeout != 30*time.Second {
		t.Errorf("got %+v", o)
	}
	v, err := o.emulated()
	if err != nil || v.String() != "1.36" {
		t.Errorf("emulated: %v, %v", v, err)
	}
	gates, err := o.gates()
	if err != nil || len(gates) != 2 || !gates["WatchList"] {
		t.Errorf("gates: %v, %v", gates, err)
	}
	for _, name := range []string{"tls-cert-file", "tls-private-key-file", "client-ca-file", "token-auth-file", "audit-policy-file", "audit-log-path", "etcd-cafile", "etcd-certfile", "etcd-keyfile"} {
		if fs.Lookup(name) == nil {
			t.Errorf("there is no flag --%s", name)
		}
	}
}

// As many previous minor versions as in kube-apiserver: the oldest is its own minimum of compatibility.
func TestEmulatedVersions(t *testing.T) {
	for emulated, compatible := range map[string]string{"1.37": "1.36", "1.36": "1.35", "1.35": "1.34", "1.34": "1.34"} {
		o := NewOptions()
		o.EmulatedVersion = emulated
		v, err := o.emulated()
		if err != nil {
			t.Errorf("%s: %v", emulated, err)
			continue
		}
		if got := newEffectiveVersion(v).MinCompatibilityVersion().String(); got != compatible {
			t.Errorf("%s: compatible with %s and later, expected %s", emulated, got, compatible)
		}
	}
}

func TestValidate(t *testing.T) {
	if err := NewOptions().Validate(); err != nil {
		t.Errorf("the defaults: %v", err)
	}
	for _, tt := range []struct {
		flags string
		want  string
	}{
		{"--bind-address localhost", `--bind-address "localhost" is not an IP address`},
		{"--secure-port 65536", "--secure-port 65536 is not a port"},
		{"--secure-port -1", "--secure-port -1 is not a port"},
		{"--data-dir=", "--data-dir must not be empty"},
		{"--etcd-servers host:2379", `--etcd-servers "host:2379" is not a URL`},
		{"--etcd-cafile f", "need --etcd-servers"},
		{"--etcd-servers http://a:1 --etcd-certfile f", "--etcd-certfile and --etcd-keyfile must be set together"},
		{"--etcd-prefix /", "--etcd-prefix"},
		{"--storage disk", `--storage "disk": must be etcd or memory`},
		{"--storage memory --etcd-servers http://a:1", "--etcd-servers cannot be set with --storage memory"},
		{"--storage memory --quota-backend-bytes 1000", "--quota-backend-bytes cannot be set with --storage memory"},
		{"--etcd-compaction-interval -1s", "--etcd-compaction-interval"},
		{"--quota-backend-bytes -1", "--quota-backend-bytes"},
		{"--tls-cert-file f", "--tls-cert-file and --tls-private-key-file must be set together"},
		{"--ca-cert-file f", "--ca-cert-file and --ca-key-file must be set together"},
		{"--ca-cert-file missing --ca-key-file missing", "--ca-cert-file: stat missing"},
		{"--tls-san a.example.com,https://b", `--tls-san "https://b" is neither a host name nor an IP address`},
		{"--token-auth-file missing", "--token-auth-file: stat missing"},
		{"--client-ca-file missing", "--client-ca-file: stat missing"},
		{"--audit-log-path f", "--audit-log-path needs --audit-policy-file"},
		{"--audit-policy-file missing", "--audit-policy-file needs --audit-log-path"},
		{"--audit-log-maxage -1", "--audit-log-maxage"},
		{"--max-requests-inflight -1", "--max-requests-inflight"},
		{"--request-timeout 0s", "--request-timeout"},
		{"--min-request-timeout 0", "--min-request-timeout"},
		{"--max-long-running-requests-inflight -1", "--max-long-running-requests-inflight"},
		{"--max-list-bytes-inflight -1", "--max-list-bytes-inflight"},
		{"--delete-collection-workers 0", "--delete-collection-workers"},
		{"--http2-max-streams-per-connection -1", "--http2-max-streams-per-connection"},
		{"--goaway-chance 0.5", "--goaway-chance 0.5: must be between 0 and 0.02"},
		{"--goaway-chance NaN", "--goaway-chance NaN"},
		{"--tls-min-version TLS9", `--tls-min-version "TLS9": must be one of`},
		{"--tls-cipher-suites ROT13", "--tls-cipher-suites"},
		{"--audit-webhook-config-file missing", "--audit-webhook-config-file needs --audit-policy-file"},
		{"--audit-webhook-mode loud", `--audit-webhook-mode "loud": must be one of batch`},
		{"--audit-webhook-initial-backoff 0s", "--audit-webhook-initial-backoff"},
		{"--shutdown-delay-duration -1s", "--shutdown-delay-duration"},
		{"--enable-admission-plugins Unheard", `--enable-admission-plugins: unknown admission plugin "Unheard"`},
		{"--disable-admission-plugins Unheard", `--disable-admission-plugins: unknown admission plugin "Unheard"`},
		{"--enable-admission-plugins NamespaceLifecycle --disable-admission-plugins NamespaceLifecycle", "both enabled and disabled"},
		{"--feature-gates Unheard=true", `unknown feature "Unheard"`},
		{"--feature-gates WatchList=maybe", `WatchList is "maybe"`},
		{"--feature-gates CRDValidationRatcheting=false", "CRDValidationRatcheting cannot be disabled"},
		{"--emulated-version new", `--emulated-version "new" is not a version`},
		{"--emulated-version 1.20", "--emulated-version 1.20"},
		{"--emulated-version 1.33", "--emulated-version 1.33"},
		{"--emulated-version 1.38", "--emulated-version 1.38"},
	} {
		t.Run(tt.flags, func(t *testing.T) {
			o := NewOptions()
			fs := pflag.NewFlagSet("", pflag.ContinueOnError)
			o.AddFlags(fs)
			if err := fs.Parse(strings.Fields(tt.flags)); err != nil {
				t.Fatal(err)
			}
			if err := o.Validate(); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
	t.Run("all at once", func(t *testing.T) {
		o := NewOptions()
		o.SecurePort, o.BindAddress = -1, ""
		err := o.Validate()
		if err == nil || !strings.Contains(err.Error(), "--secure-port") || !strings.Contains(err.Error(), "--bind-address") {
			t.Errorf("got %v", err)
		}
	})
}

// TestKubernetesVersion compares the version that the server reports with the version of its
// Kubernetes modules.
func TestKubernetesVersion(t *testing.T) {
	mod, err := os.ReadFile("../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	want := "k8s.io/apiserver v0." + strings.TrimPrefix(KubernetesVersion, "1.") + "\n"
	if !strings.Contains(string(mod), want) {
		t.Errorf("KubernetesVersion is %s, and go.mod does not have %q", KubernetesVersion, want)
	}
}

func TestServingHosts(t *testing.T) {
	for bind, want := range map[string]string{"127.0.0.1": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1", "192.0.2.1": "192.0.2.1", "127.0.0.2": "127.0.0.2"} {
		if got := clientHost(bind); got != want {
			t.Errorf("clients of %s ask %s", bind, got)
		}
		found := false
		for _, h := range servingHosts(bind) {
			found = found || h == want
		}
		if !found {
			t.Errorf("the certificate of %s is not for %s: %q", bind, want, servingHosts(bind))
		}
	}
}

// TestAdvertised checks the address in the endpoints of the server.
func TestAdvertised(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ advertise, bind, want string }{
		{"", "10.1.2.3", "10.1.2.3"},
		{"10.1.2.4", "10.1.2.3", "10.1.2.4"},
		{"10.1.2.4", "127.0.0.1", "10.1.2.4"},
		{"0.0.0.0", "10.1.2.3", "10.1.2.3"},
		{"::", "10.1.2.3", "10.1.2.3"},
		{"127.0.0.1", "10.1.2.3", "invalid IP"},
	} {
		if got := advertised(&Options{AdvertiseAddress: c.advertise, BindAddress: c.bind}).String(); got != c.want {
			t.Errorf("--advertise-address %q, --bind-address %q: got %s, want %s", c.advertise, c.bind, got, c.want)
		}
	}
	for _, unspecified := range []string{"0.0.0.0", "::"} {
		if got := advertised(&Options{AdvertiseAddress: unspecified, BindAddress: unspecified}); got.IsUnspecified() {
			t.Errorf("%s is advertised", unspecified)
		}
	}
}

// TestControllerNames checks the switches of controllers.
func TestControllerNames(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		flag     string
		runs     bool // the garbage collector
		unknowns int
	}{
		{"*", true, 0}, {"*,-garbagecollector", false, 0}, {"garbagecollector", true, 0}, {"namespace", false, 0}, {"-garbagecollector,*", false, 0}, {"*,-x,y", true, 2},
	} {
		o := NewOptions()
		o.Controllers = strings.Split(c.flag, ",")
		err := o.Validate()
		if got := strings.Count(fmt.Sprint(errors.Join(err)), "unknown controller"); got != c.unknowns {
			t.Errorf("%s: %v", c.flag, err)
		}
		if o.runs("garbagecollector") != c.runs {
			t.Errorf("%s: runs %v", c.flag, !c.runs)
		}
	}
}

// TestAdmissionPage checks that the page about admission lists all plugins in their order, whether
// they are on by default, and which are missing.
func TestAdmissionPage(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../docs/reference/admission.md")
	if err != nil {
		t.Fatal(err)
	}
	var rows [][]string
	for line := range strings.Lines(string(page)) {
		if cells := strings.Split(line, "|"); len(cells) == 6 && cells[2] != " default " && cells[2] != "---" {
			rows = append(rows, cells)
		}
	}
	all := plugins.All()
	if len(rows) != len(all) {
		t.Fatalf("the page has %d plugins, want %d", len(rows), len(all))
	}
	o := NewOptions()
	for i, p := range all {
		cells := rows[i]
		if strings.TrimSpace(cells[1]) != p.Name {
			t.Errorf("%s is at the place of %s", cells[1], p.Name)
			continue
		}
		missing := strings.Contains(cells[3], "not part of this server")
		if missing != (p.New == nil) {
			t.Errorf("%s: the page is wrong about whether it is part of the server", p.Name)
		}
		if on := strings.TrimSpace(cells[2]) == "on"; !missing && on != o.admits(p) {
			t.Errorf("%s: the page is wrong about the default", p.Name)
		}
	}
}
