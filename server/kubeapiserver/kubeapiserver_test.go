package kubeapiserver

import (
	"bytes"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"espalier.dev/server"
)

func parse(t *testing.T, args ...string) *command {
	t.Helper()
	c, err := newCommand()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.flags.set.Parse(args); err != nil {
		t.Fatal(err)
	}
	return c
}

// required returns the flags without which complete fails.
func required() []string {
	return []string{"--etcd-servers=http://127.0.0.1:2379", "--service-account-issuer=x", "--service-account-key-file=x", "--service-account-signing-key-file=x"}
}

// TestTable makes sure that each flag of the server that kube-apiserver has too is in the table,
// and that no other is.
func TestTable(t *testing.T) {
	c := parse(t)
	own := map[string]bool{}
	for _, name := range []string{
		"data-dir", "kubeconfig-out", "server-lease-duration", "quota-backend-bytes", "check-stored-objects", "controllers",
		"max-long-running-requests-inflight", "max-list-bytes-inflight", "service-resolver", "ca-cert-file", "ca-key-file", "tls-san", "storage", "history",
	} {
		own[name] = true
	}
	options := pflag.NewFlagSet("", pflag.ContinueOnError)
	server.NewOptions().AddFlags(options)
	options.VisitAll(func(f *pflag.Flag) {
		if have := c.flags.set.Lookup(f.Name) != nil; have == own[f.Name] {
			t.Errorf("the table has --%s: %t", f.Name, have)
		}
	})
	for _, name := range slices.Sorted(maps.Keys(defaults())) {
		if c.flags.set.Lookup(name) == nil {
			t.Errorf("--%s has a default and is not in the table", name)
		}
	}
	for _, name := range []string{"insecure-port", "data-dir", "cloud-provider"} {
		if c.flags.set.Lookup(name) != nil {
			t.Errorf("kube-apiserver has no flag --%s", name)
		}
	}
}

func TestDefaults(t *testing.T) {
	c := parse(t)
	o := c.options
	if o.BindAddress != "0.0.0.0" || !o.Profiling || len(o.Controllers) != 0 || o.SecurePort != 6443 || o.Semantics.String() != "kubernetes" {
		t.Errorf("the options are %+v", o)
	}
	if given := c.flags.given(); len(given) != 0 {
		t.Errorf("flags without effect: %v", given)
	}
}

// TestAnonymous makes sure that envtest's flags allow anonymous requests, and that they are
// rejected if everything is allowed.
func TestAnonymous(t *testing.T) {
	for _, test := range []struct {
		args             []string
		modes, anonymous string
	}{
		{nil, "[AlwaysAllow]", "false"},
		{[]string{"--authorization-mode=RBAC"}, "[RBAC]", "true"},
		{[]string{"--authorization-mode=Node,RBAC", "--anonymous-auth=false"}, "[RBAC]", "false"},
	} {
		c := parse(t, append(required(), test.args...)...)
		remove, err := c.complete()
		if err != nil {
			t.Fatal(err)
		}
		remove()
		modes, anonymous := c.flags.set.Lookup("authorization-mode").Value.String(), c.flags.set.Lookup("anonymous-auth").Value.String()
		if modes != test.modes || anonymous != test.anonymous {
			t.Errorf("%v: the modes are %s, anonymous requests are accepted: %s", test.args, modes, anonymous)
		}
	}
}

func TestIgnored(t *testing.T) {
	c := parse(t, "--kubelet_timeout=5s", "--allow-privileged", "--apiserver-count", "3", "--etcd-prefix=/x",
		"--runtime-config=api/all=true", "--runtime-config=apps/v1=false", "--advertise-address=10.1.2.3")
	if got, want := strings.Join(c.flags.given(), " "), "--allow-privileged --apiserver-count --kubelet-timeout"; got != want {
		t.Errorf("flags without effect: %s, want %s", got, want)
	}
	if c.options.EtcdPrefix != "/x" {
		t.Errorf("the prefix is %s", c.options.EtcdPrefix)
	}
	if o := c.options; o.RuntimeConfig["api/all"] != "true" || o.RuntimeConfig["apps/v1"] != "false" || o.AdvertiseAddress != "10.1.2.3" {
		t.Errorf("the APIs are %v, the address is %s", o.RuntimeConfig, o.AdvertiseAddress)
	}
	for _, args := range []string{"--kubelet-timeout=5", "--apiserver-count=x", "--allow-privileged=x", "--no-such-flag", "argument"} {
		var out bytes.Buffer
		if code := Main(t.Context(), []string{args}, &out, &out); code != 1 || !strings.HasPrefix(out.String(), "Error: ") {
			t.Errorf("%s: exits with %d: %s", args, code, out.String())
		}
	}
}

func TestComplete(t *testing.T) {
	dir := t.TempDir()
	certDir := "--cert-dir=" + dir
	c := parse(t, append(required(), certDir, "--bind-address=127.0.0.1", "--secure-port=7443")...)
	if _, err := c.complete(); err != nil {
		t.Fatal(err)
	}
	if c.options.DataDir != filepath.Join(dir, "espalier-127_0_0_1-7443") || c.options.TLSCertFile != "" {
		t.Errorf("the options are %+v", c.options)
	}

	for _, name := range []string{"apiserver.crt", "apiserver.key"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c = parse(t, append(required(), certDir, "--audit-log-path=-")...)
	if _, err := c.complete(); err != nil {
		t.Fatal(err)
	}
	if c.options.TLSCertFile != filepath.Join(dir, "apiserver.crt") || c.options.TLSPrivateKeyFile != filepath.Join(dir, "apiserver.key") {
		t.Errorf("the certificate is %s, %s", c.options.TLSCertFile, c.options.TLSPrivateKeyFile)
	}
	if c.options.AuditLogPath != "" {
		t.Errorf("the audit log has no policy")
	}

	c = parse(t, append(required(), certDir, "--tls-cert-file=a", "--tls-private-key-file=b")...)
	if _, err := c.complete(); err != nil || c.options.TLSCertFile != "a" {
		t.Errorf("the certificate is %s, %v", c.options.TLSCertFile, err)
	}

	c = parse(t, required()...)
	remove, err := c.complete()
	if err != nil {
		t.Fatal(err)
	}
	if !exists(c.options.DataDir) {
		t.Errorf("there is no temporary directory")
	}
	remove()
	if exists(c.options.DataDir) {
		t.Errorf("the temporary directory is not removed")
	}

	c = parse(t)
	const want = "[--etcd-servers must be specified, service-account-issuer is a required flag, --service-account-signing-key-file and --service-account-issuer are required flags]"
	if _, err := c.complete(); err == nil || err.Error() != want {
		t.Errorf("got %v", err)
	}
}

func TestSelect(t *testing.T) {
	c := parse(t, append(required(), "--feature-gates=WatchList=true,kube:DynamicResourceAllocation=false", "--enable-admission-plugins=ImagePolicyWebhook,NamespaceLifecycle")...)
	remove, err := c.complete()
	if err != nil {
		t.Fatal(err)
	}
	remove()
	if gates := c.options.FeatureGates; len(gates) != 1 || gates["WatchList"] != "true" {
		t.Errorf("the feature gates are %v", gates)
	}
	if plugins := c.options.EnableAdmissionPlugins; !slices.Equal(plugins, []string{"NamespaceLifecycle"}) {
		t.Errorf("the plugins are %v", plugins)
	}
	if notes := strings.Join(c.notes, "\n"); !strings.Contains(notes, ": DynamicResourceAllocation") || !strings.Contains(notes, ": ImagePolicyWebhook") {
		t.Errorf("the notes are %s", notes)
	}
	c = parse(t, append(required(), "--feature-gates=None=true")...)
	if _, err := c.complete(); err == nil || err.Error() != "unrecognized feature gate: None" {
		t.Errorf("got %v", err)
	}
}

// TestModes makes sure that the mode Node is dropped if there is another one.
func TestModes(t *testing.T) {
	for args, want := range map[string]string{"Node,RBAC": "RBAC", "RBAC,Node": "RBAC", "Node": "Node", "RBAC": "RBAC"} {
		c := parse(t, append(required(), "--authorization-mode="+args)...)
		remove, err := c.complete()
		if err != nil {
			t.Fatal(err)
		}
		remove()
		if got := strings.Join(c.options.Authorization.Modes, ","); got != want || len(c.notes) > 0 != (args != want) {
			t.Errorf("%s: %s, %q", args, got, c.notes)
		}
	}
}
