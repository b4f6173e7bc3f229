package builtin

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// Manifest is an object in a file of a public project.
type Manifest struct {
	File   string
	Object map[string]any
}

// ModuleDir returns the directory of a module in the module cache: of one that the reference
// depends on, or of one with a version, which is downloaded.
func ModuleDir(module string) (string, error) {
	cmd := exec.Command("go", "list", "-m", "-json", module)
	if strings.Contains(module, "@") {
		cmd = exec.Command("go", "mod", "download", "-json", module)
	}
	cmd.Dir = "../oracle36"
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=mod")
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w\n%s", module, err, out)
	}
	var info struct{ Dir string }
	if err := json.Unmarshal(out, &info); err != nil {
		return "", err
	}
	if info.Dir == "" {
		return "", fmt.Errorf("%s has no directory", module)
	}
	return info.Dir, nil
}

// Manifests returns the objects in all YAML and JSON files below a directory. Files that are
// something else, such as templates, are skipped.
func Manifests(dir string) ([]Manifest, error) {
	var out []Manifest
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		if !slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(path)) {
			return nil
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if !bytes.Contains(data, []byte("apiVersion")) {
			return nil
		}
		objects, err := ReadManifest(data)
		if err != nil {
			return nil
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		out = append(out, manifests(name, objects)...)
		return nil
	})
	return out, err
}

// manifests returns the objects of a file, and the items of its lists.
func manifests(file string, objects []map[string]any) (out []Manifest) {
	for _, obj := range objects {
		items, ok := obj["items"].([]any)
		if !ok {
			out = append(out, Manifest{file, obj})
			continue
		}
		for _, item := range items {
			if o, ok := item.(map[string]any); ok {
				out = append(out, Manifest{file, o})
			}
		}
	}
	return out
}

// Charts returns the objects of all Helm charts below a directory, with their default values, as
// the program helm renders them. Those that need other values are skipped, and counted.
func Charts(helm, dir string) (out []Manifest, skipped int, err error) {
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || d.Name() != "Chart.yaml" {
			return err
		}
		chart := filepath.Dir(path)
		if _, err := os.Stat(filepath.Join(filepath.Dir(filepath.Dir(chart)), "Chart.yaml")); err == nil {
			return nil // it is a part of another one
		}
		name, err := filepath.Rel(dir, chart)
		if err != nil {
			return err
		}
		text, err := exec.Command(helm, "template", "release", chart, "--namespace", "default", "--kube-version", "v1.36.3").Output()
		if err != nil {
			skipped++
			return nil
		}
		objects, err := ReadManifest(text)
		if err != nil {
			skipped++
			return nil
		}
		out = append(out, manifests(name, objects)...)
		return nil
	})
	return out, skipped, err
}

// Check compares the creation of an object of a manifest. It returns nil if both sides agree.
func (r *Runner) Check(k *Kind, obj map[string]any) (*Finding, error) {
	c := &Case{Op: "create", Object: obj}
	if k.Namespaced {
		c.Namespace = "default"
		if m, ok := obj["metadata"].(map[string]any); ok {
			if namespace, ok := m["namespace"].(string); ok && namespace != "" {
				c.Namespace = namespace
			}
		}
	}
	d, _, err := r.check(k, c, manyAttempts)
	if d == nil || err != nil {
		return nil, err
	}
	return r.finding(k, c, d)
}

// Accepts reports whether an object has the apiVersion and kind of a kind's requests.
func (k *Kind) Accepts(obj map[string]any) bool {
	apiVersion, kind := k.requested().ToAPIVersionAndKind()
	return obj["apiVersion"] == apiVersion && obj["kind"] == kind
}
