package envtest

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	_ "github.com/onsi/ginkgo/v2" // testdata/project uses it with the versions of this module
	_ "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"
	upstream "sigs.k8s.io/controller-runtime/pkg/envtest"

	_ "espalier.dev/espaliertest" // so does the project if its import is replaced
	"espalier.dev/internal/program"
)

// assets is the directory that espalier envtest has made.
var assets string

func TestMain(m *testing.M) {
	code, err := withAssets(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// withAssets makes a directory for envtest, and runs the tests.
func withAssets(m *testing.M) (int, error) {
	dir, err := os.MkdirTemp("", "envtest-")
	if err != nil {
		return 1, err
	}
	defer os.RemoveAll(dir)
	espalier, err := program.Find(program.Complete)
	if err != nil {
		return 1, err
	}
	out, err := exec.Command(espalier, "envtest", filepath.Join(dir, "assets")).Output()
	if err != nil {
		return 1, fmt.Errorf("espalier envtest: %w", err)
	}
	assets = strings.TrimSpace(string(out))
	return m.Run(), nil
}

// TestEnvironment uses envtest with flags that projects add.
func TestEnvironment(t *testing.T) {
	t.Setenv("KUBEBUILDER_ASSETS", assets)
	dir := t.TempDir()
	policy, audit := filepath.Join(dir, "policy.yaml"), filepath.Join(dir, "audit.log")
	if err := os.WriteFile(policy, []byte("apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Metadata}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	e := &upstream.Environment{}
	e.ControlPlane.GetAPIServer().Configure().
		Set("runtime-config", "api/all=true").Set("enable-priority-and-fairness", "false").
		Set("max-requests-inflight", "800").Set("max-mutating-requests-inflight", "400").
		Set("feature-gates", "DynamicResourceAllocation=true,WatchList=true").Set("advertise-address", "127.0.0.1").
		Set("audit-policy-file", policy).Set("audit-log-path", audit).Set("v", "2")
	config, err := e.Start()
	if err != nil {
		t.Fatal(err)
	}
	stopped := false
	defer func() {
		if !stopped {
			_ = e.Stop() // the test has failed
		}
	}()
	c, err := client.New(config, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "default"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "a", Image: "a"}}}}
	if err := c.Create(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	user, err := e.AddUser(upstream.User{Name: "ann", Groups: []string{"people"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := kubernetes.NewForConfigOrDie(user.Config()).CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("a user without roles gets %v", err)
	}
	if _, err := exec.LookPath("kubectl"); err == nil {
		k, err := user.Kubectl()
		if err != nil {
			t.Fatal(err)
		}
		k.Path = filepath.Join(assets, "kubectl")
		out, _, err := k.Run("auth", "whoami")
		if err != nil {
			t.Fatal(err)
		}
		if text, err := io.ReadAll(out); err != nil || !strings.Contains(string(text), "ann") {
			t.Errorf("kubectl auth whoami: %s, %v", text, err)
		}
	}
	stopped = true
	if err := e.Stop(); err != nil {
		t.Error(err)
	}
	if log, err := os.ReadFile(audit); err != nil || !bytes.Contains(log, []byte(`"resource":"pods"`)) {
		t.Errorf("the audit log is %s, %v", log, err)
	}
}

// TestProject runs the suites of a project that is made like those of kubebuilder: unmodified,
// and with one import replaced.
func TestProject(t *testing.T) {
	for _, test := range []struct {
		name    string
		replace bool
	}{{"assets", false}, {"import", true}} {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.CopyFS(dir, os.DirFS(filepath.Join("testdata", "project"))); err != nil {
				t.Fatal(err)
			}
			writeModule(t, dir)
			cmd := exec.Command("go", "test", "-count=1", "-vet=off", "-ldflags=-w", "./...")
			cmd.Dir = dir
			cmd.Env = append(os.Environ(), "GOFLAGS=-mod=mod", "GOWORK=off", "KUBEBUILDER_ASSETS="+assets)
			if test.replace {
				replaceImport(t, dir)
				cmd.Env = append(cmd.Env, "KUBEBUILDER_ASSETS="+filepath.Join(dir, "none"))
			}
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
}

// writeModule writes go.mod and go.sum of the project: those of this module.
func writeModule(t *testing.T, dir string) {
	t.Helper()
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"go.mod", "go.sum"} {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		data = bytes.Replace(data, []byte("module espalier.dev/test/envtest\n"), []byte("module example.com/shop\n"), 1)
		data = bytes.Replace(data, []byte("=> ../..\n"), []byte("=> "+root+"\n"), 1)
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// replaceImport replaces the import of envtest in all files of a directory.
func replaceImport(t *testing.T, dir string) {
	t.Helper()
	replaced := 0
	for _, pattern := range []string{"internal/controller/*_test.go", "internal/webhook/*_test.go"} {
		files, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			changed := bytes.ReplaceAll(data, []byte(`"sigs.k8s.io/controller-runtime/pkg/envtest"`), []byte(`envtest "espalier.dev/espaliertest"`))
			if !bytes.Equal(data, changed) {
				replaced++
			}
			if err := os.WriteFile(file, changed, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	if replaced == 0 {
		t.Fatal("no file imports envtest")
	}
}
