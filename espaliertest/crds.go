package espaliertest

import (
	"context"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"

	"espalier.dev/api"
	"espalier.dev/api/manifest"
)

// installCRDs creates or updates CRDs and waits until they are served.
func installCRDs(ctx context.Context, config *rest.Config, sources []any) error {
	crds, err := readCRDs(sources)
	if err != nil {
		return err
	}
	return install(ctx, config, crds)
}

// install creates or updates CRDs and waits until they are served.
func install(ctx context.Context, config *rest.Config, crds []*unstructured.Unstructured) error {
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("make a client: %w", err)
	}
	pending := map[string]string{} // name of a CRD → why it is not served
	for _, crd := range crds {
		if err := createOrUpdate(ctx, client, crd); err != nil {
			return fmt.Errorf("install %s: %w", crd.GetName(), err)
		}
		pending[crd.GetName()] = "it has no status"
	}
	resource := client.Resource(crdResource("v1"))
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

func crdResource(version string) runtimeschema.GroupVersionResource {
	return runtimeschema.GroupVersionResource{Group: api.GroupName, Version: version, Resource: "customresourcedefinitions"}
}

// settle removes a CRD that is served from pending, and records why one is not.
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

// retryInterval is the time between attempts to write a CRD that other clients write too.
const retryInterval = 10 * time.Millisecond

// createOrUpdate writes a CRD. If other clients write or delete it concurrently, it retries
// until ctx ends.
func createOrUpdate(ctx context.Context, client dynamic.Interface, crd *unstructured.Unstructured) error {
	resource := client.Resource(crdResource(crd.GroupVersionKind().Version))
	var last error
	err := wait.PollUntilContextCancel(ctx, retryInterval, true, func(ctx context.Context) (bool, error) {
		var retry bool
		retry, last = tryCreateOrUpdate(ctx, resource, crd)
		if retry {
			return false, nil
		}
		return true, last
	})
	if err != nil && last != nil {
		return last
	}
	return err
}

// tryCreateOrUpdate writes a CRD once. It reports whether a failed attempt is worth
// repeating.
func tryCreateOrUpdate(ctx context.Context, resource dynamic.ResourceInterface, crd *unstructured.Unstructured) (retry bool, _ error) {
	_, err := resource.Create(ctx, crd, metav1.CreateOptions{})
	if !apierrors.IsAlreadyExists(err) {
		return false, err
	}
	old, err := resource.Get(ctx, crd.GetName(), metav1.GetOptions{})
	switch {
	case err != nil:
		return apierrors.IsNotFound(err), err
	case old.GetDeletionTimestamp() != nil:
		// An update would be deleted with the CRD.
		return true, fmt.Errorf("%s is being deleted", crd.GetName())
	}
	updated := crd.DeepCopy()
	updated.SetResourceVersion(old.GetResourceVersion())
	_, err = resource.Update(ctx, updated, metav1.UpdateOptions{})
	return apierrors.IsConflict(err) || apierrors.IsNotFound(err), err
}

// readCRDs returns the CRDs in sources, see [Server.InstallCRDs].
func readCRDs(sources []any) ([]*unstructured.Unstructured, error) {
	var crds []*unstructured.Unstructured
	for _, source := range sources {
		found, err := readSource(source)
		if err != nil {
			return nil, err
		}
		for _, c := range found {
			crd := &unstructured.Unstructured{}
			if err := crd.UnmarshalJSON(c.JSON); err != nil {
				return nil, fmt.Errorf("%s: %w", c, err)
			}
			crd.SetResourceVersion("") // it may be that of another server
			crds = append(crds, crd)
		}
	}
	return crds, nil
}

func readSource(source any) ([]manifest.CRD, error) {
	switch source := source.(type) {
	case string:
		found, err := readPath(source)
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", source, err)
		}
		return found.CRDs, nil
	case []byte:
		found, err := manifest.Parse("", source)
		if err == nil {
			err = found.Check()
		}
		return found.CRDs, err
	case fs.FS:
		found, err := manifest.ReadFS(source)
		if err == nil {
			err = found.Check()
		}
		return found.CRDs, err
	}
	crd, err := manifest.FromObject(source)
	return []manifest.CRD{crd}, err
}

// readPath reads a directory, or a file with any name.
func readPath(path string) (c manifest.Contents, err error) {
	info, err := os.Stat(path)
	if err != nil {
		return c, err
	}
	if info.IsDir() {
		c, err = manifest.ReadFS(os.DirFS(path))
	} else {
		var data []byte
		if data, err = os.ReadFile(path); err != nil {
			return c, err
		}
		c, err = manifest.Parse(filepath.Base(path), data)
	}
	if err != nil {
		return c, err
	}
	return c, c.Check()
}
