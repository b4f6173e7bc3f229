package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"

	"espalier.dev/espaliertest"
	"espalier.dev/internal/pages"
)

// TestDocsCluster runs the commands of blocks that need a cluster, whose reason to be skipped elsewhere names this
// test. A server with the CRD and an object of examples/crontab is the cluster. Commands may find problems, but may
// not fail.
func TestDocsCluster(t *testing.T) {
	t.Parallel()
	root := pages.Root(t)
	ran := 0
	for _, p := range pages.Below(t, root, "docs") {
		var lines []string
		for _, b := range p.Blocks {
			if strings.Contains(b.Attributes["skip"], "TestDocsCluster") {
				for line := range strings.Lines(b.Text) {
					lines = append(lines, strings.TrimSpace(line))
				}
			}
		}
		if len(lines) == 0 {
			continue
		}
		t.Run(p.Name, func(t *testing.T) {
			dir := exampleDir(t, root)
			// The release that the guide upgrades to.
			next, err := os.ReadFile(filepath.Join(dir, "crd-next.yaml"))
			if err != nil {
				t.Fatal(err)
			}
			if err := os.MkdirAll(filepath.Join(dir, "release-2.0", "crds"), 0o755); err != nil {
				t.Fatal(err)
			}
			writeFile(t, filepath.Join(dir, "release-2.0", "crds", "crontabs.yaml"), next)
			p := place{t, dir}
			kubeconfig := exampleCluster(t, dir)
			for _, line := range lines {
				ran++
				p.toFile(line, kubeconfig)
			}
		})
	}
	if ran < 9 {
		t.Errorf("only %d commands were run", ran)
	}
}

// exampleCluster starts a server with the CRD and an object of examples/crontab, and returns its kubeconfig, which
// has the context production, too.
func exampleCluster(t *testing.T, dir string) string {
	t.Helper()
	read := func(name string) []byte {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	server := espaliertest.Start(t, espaliertest.WithCRDs(read("crd.yaml")))
	client, err := dynamic.NewForConfig(server.Config())
	if err != nil {
		t.Fatal(err)
	}
	obj := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(read("nightly.yaml"), &obj.Object); err != nil {
		t.Fatal(err)
	}
	resource := runtimeschema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "crontabs"}
	if _, err := client.Resource(resource).Namespace("default").Create(t.Context(), obj, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.LoadFromFile(server.Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	config.Contexts["production"] = config.Contexts[config.CurrentContext]
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		t.Fatal(err)
	}
	return path
}

// toFile runs a command with a kubeconfig. It may redirect its output to a file.
func (p place) toFile(line, kubeconfig string) {
	t := p.t
	t.Helper()
	command, name, redirected := strings.Cut(line, " > ")
	words, err := splitWords(command)
	if err != nil || len(words) < 2 || words[0] != "espalier" {
		t.Fatalf("%s: %v", line, err)
	}
	var stdout, stderr bytes.Buffer
	a := p.app(&bytes.Buffer{}, &stdout, &stderr)
	a.environ = func(name string) (string, bool) {
		if name == clientcmd.RecommendedConfigPathEnvVar {
			return kubeconfig, true
		}
		return "", false
	}
	if code := a.run(t.Context(), words[1:]); code != 0 && code != 1 {
		t.Errorf("$ %s\nexits with %d:\n%s%s", line, code, &stdout, &stderr)
	}
	if redirected {
		writeFile(t, p.path(name), stdout.Bytes())
	}
}
