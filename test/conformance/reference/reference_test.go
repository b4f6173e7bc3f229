package reference

import (
	"bufio"
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"

	"espalier.dev/internal/gomod"
	"espalier.dev/internal/program"
)

var (
	update = flag.Bool("update", false, "update the golden file")
	only   = flag.String("only", "", "regular expression of the reference's tests to run; the golden file is then neither compared nor written")
)

const module = "k8s.io/apiextensions-apiserver"

// TestReference runs the suite. It takes minutes, so it only runs on request.
func TestReference(t *testing.T) {
	if os.Getenv("CONFORMANCE") == "" && *only == "" && !*update {
		t.Skip("takes minutes: `make conformance` runs it")
	}
	tmp := t.TempDir()
	source, err := gomod.Dir("", module)
	if err != nil {
		t.Fatal(err)
	}
	suite := filepath.Join(tmp, "suite")
	copyModule(t, source, suite)
	fixture, err := os.ReadFile("testdata/server.go.txt")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(suite, "test/integration/fixtures/server.go"), fixture, 0o600); err != nil {
		t.Fatal(err)
	}

	// A separate go.mod replaces the module with the copy.
	for _, name := range []string{"go.mod", "go.sum"} {
		data, err := os.ReadFile(filepath.Join("..", name))
		if err != nil {
			t.Fatal(err)
		}
		root, err := filepath.Abs("../../..")
		if err != nil {
			t.Fatal(err)
		}
		data = bytes.ReplaceAll(data, []byte("=> ../.."), []byte("=> "+root))
		if err := os.WriteFile(filepath.Join(tmp, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	modfile := filepath.Join(tmp, "go.mod")
	run(t, "go", "mod", "edit", "-replace", module+"="+suite, modfile)

	binary := program.Path(t, program.Complete)

	// Without paths in the binaries, the build cache works the next time.
	args := []string{"test", "-trimpath", "-modfile", modfile, "-json", "-count=1", "-timeout=30m"}
	if *only != "" {
		args = append(args, "-run", *only)
	}
	args = append(args, module+"/test/integration", module+"/test/integration/conversion")
	cmd := exec.Command("go", args...)
	cmd.Env = append(os.Environ(), "ESPALIER_BINARY="+binary, "KUBE_INTEGRATION_ETCD_URL="+startEtcd(t))
	got := results(t, cmd)
	if *only != "" {
		t.Log("\n" + got)
		return
	}
	const golden = "testdata/passing.txt"
	if *update {
		if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("the passing tests have changed; run with -update if this is intended. Now:\n%s", got)
	}
}

func run(t *testing.T, name string, args ...string) string {
	t.Helper()
	cmd := exec.Command(name, args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s%s", name, strings.Join(args, " "), err, out, stderr.Bytes())
	}
	return string(out)
}

// copyModule copies a module that may be read-only.
func copyModule(t *testing.T, from, to string) {
	t.Helper()
	err := filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		if d.IsDir() {
			return os.MkdirAll(filepath.Join(to, rel), 0o700)
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, rel), data, 0o600)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// startEtcd runs the etcd that all servers of the suite share, each with its own prefix, and
// returns its address.
func startEtcd(t *testing.T) string {
	t.Helper()
	c := embed.NewConfig()
	c.Dir = t.TempDir()
	c.UnsafeNoFsync = true
	c.ZapLoggerBuilder = embed.NewZapLoggerBuilder(zap.NewNop())
	any := url.URL{Scheme: "http", Host: "127.0.0.1:0"}
	c.ListenClientUrls, c.AdvertiseClientUrls = []url.URL{any}, []url.URL{any}
	c.ListenPeerUrls, c.AdvertisePeerUrls = []url.URL{any}, []url.URL{any}
	c.InitialCluster = c.InitialClusterFromName(c.Name)
	c.MaxTxnOps = 1 << 10
	e, err := embed.StartEtcd(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	select {
	case <-e.Server.ReadyNotify():
	case <-time.After(time.Minute):
		t.Fatal("etcd does not start")
	}
	return "http://" + e.Clients[0].Addr().String()
}

// results runs the suite and lists its top-level tests by result.
func results(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	outcome, output := map[string]string{}, map[string]*strings.Builder{}
	lines := bufio.NewReader(stdout)
	for {
		line, err := lines.ReadBytes('\n')
		var e struct{ Action, Test, Output string }
		if json.Unmarshal(line, &e) == nil {
			name, _, _ := strings.Cut(e.Test, "/")
			switch {
			case e.Action == "output":
				if output[name] == nil {
					output[name] = &strings.Builder{}
				}
				output[name].WriteString(e.Output)
			case e.Test != "" && e.Test == name && (e.Action == "pass" || e.Action == "fail" || e.Action == "skip"):
				outcome[name] = e.Action
			}
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	_ = cmd.Wait() // fails if a test fails
	if len(outcome) == 0 {
		t.Fatalf("no test ran:\n%s", stderr.Bytes())
	}
	var text strings.Builder
	for _, what := range []string{"pass", "fail", "skip"} {
		var names []string
		for _, name := range slices.Sorted(maps.Keys(outcome)) {
			if outcome[name] == what {
				names = append(names, name)
			}
		}
		fmt.Fprintf(&text, "%s: %d\n", what, len(names))
		for _, name := range names {
			fmt.Fprintf(&text, "  %s\n", name)
		}
	}
	if dir := os.Getenv("CONFORMANCE_LOGS"); dir != "" {
		for name, out := range output {
			if err := os.WriteFile(filepath.Join(dir, name+".log"), []byte(out.String()), 0o644); err != nil {
				t.Error(err)
			}
		}
	}
	return text.String()
}
