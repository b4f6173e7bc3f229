package source

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"

	"espalier.dev/api"
	"espalier.dev/cmd/espalier/internal/input"
)

// Finder is a [Source] that finds single CRDs and objects without reading the others: an API
// server.
type Finder interface {
	Source
	// Resources returns the resources that are served, without those of the core group.
	Resources(ctx context.Context) ([]Resource, error)
	// Definition returns the CRD with a name. The error is a [*Failure] with the reason Vanished
	// if there is none.
	Definition(ctx context.Context, name string) (Object, error)
	// Object returns the object with a name. namespace is empty if the resource is not namespaced.
	// The error is a [*Failure] if there is no such object, or if it cannot be read.
	Object(ctx context.Context, resource runtimeschema.GroupVersionResource, namespace, name string) (Object, error)
}

// Resource is a resource that an API server serves.
type Resource struct {
	runtimeschema.GroupResource
	// Names are those by which users name it: the plural and singular name, the kind, and short
	// names.
	Names []string
}

// discovered is what is read of a discovery document with all groups.
type discovered struct {
	Kind  string `json:"kind"`
	Items []struct {
		Metadata metav1.ObjectMeta `json:"metadata"`
		Versions []struct {
			Resources []struct {
				Resource         string                  `json:"resource"`
				SingularResource string                  `json:"singularResource"`
				ShortNames       []string                `json:"shortNames"`
				ResponseKind     metav1.GroupVersionKind `json:"responseKind"`
			} `json:"resources"`
		} `json:"versions"`
	} `json:"items"`
}

// discoveryType is the content type of a discovery document with all groups.
const discoveryType = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"

// Resources reads the discovery document. If the server has none with all groups, as those before
// Kubernetes 1.30, it reads the CRDs.
func (s *served) Resources(ctx context.Context) (all []Resource, err error) {
	body, err := get(ctx, s.client.Get().AbsPath("/apis").SetHeader("Accept", discoveryType+",application/json"))
	if err != nil {
		return nil, fmt.Errorf("discover the resources: %w", err)
	}
	var found discovered
	if err := json.Unmarshal(body, &found); err != nil {
		return nil, fmt.Errorf("discover the resources: /apis: the answer is not that of an API server: %w", err)
	}
	if found.Kind != "APIGroupDiscoveryList" {
		return s.definedResources(ctx)
	}
	seen := map[runtimeschema.GroupResource]bool{}
	for _, group := range found.Items {
		for _, version := range group.Versions {
			for _, r := range version.Resources {
				gr := runtimeschema.GroupResource{Group: group.Metadata.Name, Resource: r.Resource}
				if !seen[gr] {
					seen[gr] = true
					all = append(all, Resource{gr, append([]string{r.Resource, r.SingularResource, r.ResponseKind.Kind}, r.ShortNames...)})
				}
			}
		}
	}
	return all, nil
}

// definedResources returns the resources of all CRDs.
func (s *served) definedResources(ctx context.Context) (all []Resource, err error) {
	for o, err := range s.Definitions(ctx) {
		if err != nil {
			return nil, err
		}
		var d struct {
			Spec struct {
				Group string                            `json:"group"`
				Names api.CustomResourceDefinitionNames `json:"names"`
			} `json:"spec"`
		}
		if json.Unmarshal(o.JSON, &d) != nil {
			continue // it is reported when it is needed
		}
		n := d.Spec.Names
		gr := runtimeschema.GroupResource{Group: d.Spec.Group, Resource: n.Plural}
		all = append(all, Resource{gr, append([]string{n.Plural, n.Singular, n.Kind}, n.ShortNames...)})
	}
	return all, nil
}

func (s *served) Definition(ctx context.Context, name string) (Object, error) {
	return s.Object(ctx, runtimeschema.GroupVersionResource{
		Group: api.GroupName, Version: definitionsVersion, Resource: definitionsPlural}, "", name)
}

func (s *served) Object(ctx context.Context, resource runtimeschema.GroupVersionResource, namespace, name string) (Object, error) {
	gr := resource.GroupResource()
	o := Object{Definition: gr.String(), Namespace: namespace, Name: name}
	group := path.Join("/apis", resource.Group, resource.Version)
	if resource.Group == "" {
		group = path.Join("/api", resource.Version)
	}
	o.where = objectPath(group, resource.Resource, o)
	if gr.Group == api.GroupName {
		o.Definition = name
	}
	for _, segment := range []string{namespace, name} {
		if reasons := content.IsPathSegmentName(segment); len(reasons) > 0 {
			return o, &Failure{o, Vanished, fmt.Errorf("%q is not a name: it %s", segment, reasons[0])}
		}
	}
	if name == "" {
		return o, &Failure{o, Vanished, errors.New("the object has no name")}
	}
	body, err := get(ctx, s.client.Get().AbsPath(o.where))
	if err == nil && !json.Valid(body) {
		return o, fmt.Errorf("%s: the answer is not JSON", o.where)
	}
	if err == nil {
		var id input.Identity
		if id, err = input.Identify(body); err == nil && (id.Name != name || id.Kind == "") {
			err = errors.New("the answer is another object")
		}
		if o.JSON = body; err != nil {
			return o, fmt.Errorf("%s: %w", o.where, err)
		}
		return o, nil
	}
	switch status := new(apierrors.StatusError); {
	case !errors.As(err, &status), apierrors.IsUnauthorized(err), apierrors.IsTooManyRequests(err):
		return o, fmt.Errorf("get %s: %w", o.where, err)
	case apierrors.IsForbidden(err):
		return o, &Failure{o, Forbidden, err}
	case apierrors.IsNotFound(err), apierrors.IsMethodNotSupported(err):
		return o, &Failure{o, Vanished, err}
	}
	return o, &Failure{o, Failing, err}
}
