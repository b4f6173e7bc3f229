package controlplane

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestLog writes more than a log file may have: the file before it is kept, and no other.
func TestLog(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "program.log")
	if err := os.WriteFile(path, []byte("before"), 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := openLog(path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.close()
	read := func(path, want string) {
		t.Helper()
		data, err := os.ReadFile(path)
		if err != nil || !strings.HasPrefix(string(data), want) || len(data) > maxLog {
			t.Errorf("%s has %d bytes, %v, want %q", path, len(data), err, want)
		}
	}
	write := func(text string) {
		t.Helper()
		line := append([]byte(text), bytes.Repeat([]byte("."), maxLog/2)...)
		if n, err := l.Write(line); n != len(line) || err != nil {
			t.Fatal(n, err)
		}
	}
	read(path+".old", "before")
	write("first")
	read(path, "first")
	read(path+".old", "before")
	write("second")
	read(path, "second")
	read(path+".old", "first")
	write("third")
	read(path+".old", "second")
}

// TestArguments checks flags that depend on the configuration.
func TestArguments(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name          string
		config        Config
		program       string
		want, without []string
	}{
		{name: "no keys", program: "kube-controller-manager", want: []string{"--kubeconfig=k"},
			without: []string{"--root-ca-file", "--cluster-signing", "--service-account-private-key-file", "--leader-elect"}},
		{name: "keys", config: Config{Keys: Keys{"crt", "key", "sa"}}, program: "kube-controller-manager",
			want: []string{"--root-ca-file=crt", "--cluster-signing-cert-file=crt", "--cluster-signing-key-file=key", "--service-account-private-key-file=sa"}},
		{name: "a CA without its key", config: Config{Keys: Keys{CACert: "crt"}}, program: "kube-controller-manager",
			want: []string{"--root-ca-file=crt"}, without: []string{"--cluster-signing"}},
		{name: "a server without controllers", program: "kube-controller-manager", want: []string{"--controllers=*"}},
		{name: "a server with controllers", config: Config{ServerControllers: []string{"garbagecollector", "namespace"}}, program: "kube-controller-manager",
			want: []string{"--controllers=*,-garbage-collector-controller,-namespace-controller"}},
		{name: "few nodes", config: Config{Nodes: manyNodes}, program: "kwok", want: []string{"--config=s", "--node-lease-duration-seconds=40"}},
		{name: "many nodes", config: Config{Nodes: manyNodes + 1}, program: "kwok", want: []string{"--node-lease-duration-seconds=120"}},
		{name: "a scheduler of few nodes", config: Config{Nodes: manyNodes}, program: "kube-scheduler", without: []string{"--leader-elect"}},
		{name: "a scheduler of many nodes", config: Config{Nodes: manyNodes + 1}, program: "kube-scheduler",
			want: []string{"--leader-elect-lease-duration=90s", "--leader-elect-renew-deadline=80s"}},
	} {
		c.config.Kubeconfig = "k"
		all, err := c.config.arguments("s")
		if err != nil {
			t.Fatal(err)
		}
		args := all[c.program]
		for _, want := range c.want {
			if !slices.Contains(args, want) {
				t.Errorf("%s: %s is not in %q", c.name, want, args)
			}
		}
		for _, without := range c.without {
			if strings.Contains(strings.Join(args, " "), without) {
				t.Errorf("%s: %s is in %q", c.name, without, args)
			}
		}
	}
}

// TestRunByServer reads the values of the server's flag --controllers as the server does.
func TestRunByServer(t *testing.T) {
	t.Parallel()
	const all = "clusterrole-aggregation garbagecollector namespace pod-garbage-collector-controller resourcequota root-ca-certificate-publisher serviceaccount validatingadmissionpolicy-status-controller"
	for values, want := range map[string]string{
		"":                                   "",
		"*":                                  all,
		"* -garbagecollector":                strings.Replace(all, "garbagecollector ", "", 1),
		"-garbagecollector *":                strings.Replace(all, "garbagecollector ", "", 1),
		"namespace resourcequota":            "namespace resourcequota",
		"namespace -namespace":               "namespace",
		"-namespace namespace":               "",
		"-garbagecollector garbagecollector": "",
	} {
		if got := strings.Join(RunByServer(strings.Fields(values)), " "); got != want {
			t.Errorf("%q: %q", values, got)
		}
	}
	if _, err := (Config{ServerControllers: []string{"new"}}).arguments("s"); err == nil || !strings.Contains(err.Error(), `the controller "new", which is unknown`) {
		t.Errorf("a controller that is unknown: %v", err)
	}
}
