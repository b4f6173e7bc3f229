package espaliertest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"

	"espalier.dev/api"
)

// installCRDs creates definitions and waits for them.
func installCRDs(ctx context.Context, config *rest.Config, paths []string) error {
	crds, err := readCRDs(paths)
	if err != nil {
		return err
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("make a client: %w", err)
	}
	pending := map[string]string{} // name of a definition → why it is not served
	for _, crd := range crds {
		if err := createOrUpdate(ctx, client, crd); err != nil {
			return fmt.Errorf("create %s: %w", crd.GetName(), err)
		}
		pending[crd.GetName()] = "the server has not looked at it"
	}
	resource := client.Resource(runtimeschema.GroupVersionResource{Group: api.GroupName, Version: "v1", Resource: "customresourcedefinitions"})
	lw := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return resource.List(ctx, o) },
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return resource.Watch(ctx, o)
		},
	}
	_, err = watchtools.UntilWithSync(ctx, lw, &unstructured.Unstructured{}, nil, func(e watch.Event) (bool, error) {
		if crd, ok := e.Object.(*unstructured.Unstructured); ok {
			settle(pending, crd)
		}
		return len(pending) == 0, nil
	})
	if err != nil {
		for _, name := range slices.Sorted(maps.Keys(pending)) {
			err = fmt.Errorf("%w; %s is not served: %s", err, name, pending[name])
		}
		return err
	}
	return nil
}

// settle takes a definition off the list if it is served, and notes why if it is not.
func settle(pending map[string]string, crd *unstructured.Unstructured) {
	name := crd.GetName()
	if _, ok := pending[name]; !ok {
		return
	}
	conditions, _, _ := unstructured.NestedSlice(crd.Object, "status", "conditions")
	for _, c := range conditions {
		c, ok := c.(map[string]any)
		if !ok {
			continue
		}
		switch {
		case c["type"] == "Established" && c["status"] == "True":
			delete(pending, name)
			return
		case c["type"] == "NamesAccepted" && c["status"] == "False":
			pending[name] = fmt.Sprintf("%v: %v", c["reason"], c["message"])
		}
	}
}

func createOrUpdate(ctx context.Context, client dynamic.Interface, crd *unstructured.Unstructured) error {
	version := crd.GroupVersionKind().Version
	resource := client.Resource(runtimeschema.GroupVersionResource{Group: api.GroupName, Version: version, Resource: "customresourcedefinitions"})
	_, err := resource.Create(ctx, crd, metav1.CreateOptions{})
	if !apierrors.IsAlreadyExists(err) {
		return err
	}
	old, err := resource.Get(ctx, crd.GetName(), metav1.GetOptions{})
	if err != nil {
		return err
	}
	crd.SetResourceVersion(old.GetResourceVersion())
	_, err = resource.Update(ctx, crd, metav1.UpdateOptions{})
	return err
}

// readCRDs reads the definitions in files and directories. Other objects are left out.
func readCRDs(paths []string) ([]*unstructured.Unstructured, error) {
	var files []string
	for _, path := range paths {
		err := filepath.WalkDir(path, func(file string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			// A file that is named is read, whatever its name.
			if ext := filepath.Ext(file); file == path || ext == ".yaml" || ext == ".yml" || ext == ".json" {
				files = append(files, file)
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	var crds []*unstructured.Unstructured
	for _, file := range files {
		found, err := readFile(file)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		crds = append(crds, found...)
	}
	if len(crds) == 0 {
		return nil, fmt.Errorf("there is no %s in %s", api.Kind, strings.Join(paths, ", "))
	}
	return crds, nil
}

func readFile(file string) (crds []*unstructured.Unstructured, err error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	decoder := yaml.NewYAMLOrJSONDecoder(f, 4096)
	for {
		var obj map[string]any
		err := decoder.Decode(&obj)
		if errors.Is(err, io.EOF) {
			return crds, nil
		}
		if err != nil {
			return nil, err
		}
		u := &unstructured.Unstructured{Object: obj}
		items := []*unstructured.Unstructured{u}
		if u.IsList() {
			items = nil
			if err := u.EachListItem(func(o runtime.Object) error {
				items = append(items, o.(*unstructured.Unstructured))
				return nil
			}); err != nil {
				return nil, err
			}
		}
		for _, item := range items {
			if api.IsDefinition(api.IdentifyObject(item.Object)) {
				crds = append(crds, item)
			}
		}
	}
}
