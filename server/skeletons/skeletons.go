// Package skeletons shows the skeletons of the schemas that a server uses: all fields that a
// schema specifies, including those under logical operators. It is for debugging: a field that
// is not in the skeleton is pruned.
package skeletons

import (
	"context"
	"encoding/json"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/klog/v2"

	"espalier.dev/api"
	"espalier.dev/crd"
	"espalier.dev/schema"
	"espalier.dev/server/custom"
)

// New returns the resource skeletons: for each CRD an object of the same name, with the
// skeleton of each version. It is a resource and not a subresource of CRDs because kubectl get
// reads no subresources but status and scale.
func New(catalog func() *crd.Catalog) (*custom.Virtual, error) {
	preserve := true
	version := api.JSONSchemaProps{Type: api.StringOrArray{"object"}, Properties: map[string]api.JSONSchemaProps{
		"name": {Type: api.StringOrArray{"string"}, Description: "The name of the version."},
		"schema": {
			Type: api.StringOrArray{"object"}, XPreserveUnknownFields: &preserve,
			Description: "The skeleton of the schema. It is missing if the version has no schema.",
		},
	}}
	d, err := custom.NewVirtualDefinition(custom.VirtualNames{Plural: "skeletons",
		Singular: "skeleton", Kind: "Skeleton"}, &api.JSONSchemaProps{
		Type:        api.StringOrArray{"object"},
		Description: "All fields that the schemas of a CRD specify, including those under logical operators. Other fields are pruned.",
		Properties: map[string]api.JSONSchemaProps{"versions": {
			Type: api.StringOrArray{"array"}, Description: "The versions of the CRD.",
			Items: &api.JSONSchemaPropsOrArray{Schema: &version},
		}},
	}, nil)
	if err != nil {
		return nil, err
	}
	return &custom.Virtual{
		Definition: d,
		Get: func(_ context.Context, name string) (schema.Object, error) {
			of := catalog().Get(name)
			if of == nil {
				return nil, apierrors.NewNotFound(d.GroupResource(), name)
			}
			return skeleton(of)
		},
		List: func(ctx context.Context, o *metainternalversion.ListOptions) (*unstructured.UnstructuredList, error) {
			return list(ctx, catalog(), o)
		},
	}, nil
}

// list lists the skeletons by name. A list in parts continues after a name.
func list(ctx context.Context, c *crd.Catalog, o *metainternalversion.ListOptions) (*unstructured.UnstructuredList, error) {
	out := &unstructured.UnstructuredList{Object: map[string]any{}}
	for _, d := range c.All() {
		if d.Name() <= o.Continue || !selects(o, d) {
			continue
		}
		if ctx.Err() != nil {
			return nil, apierrors.NewTimeoutError("the schemas could not be read in time: use a limit", 0)
		}
		if o.Limit > 0 && int64(len(out.Items)) == o.Limit {
			out.SetContinue(out.Items[len(out.Items)-1].GetName())
			break
		}
		obj, err := skeleton(d)
		if err != nil {
			// One faulty CRD must not affect the others.
			klog.FromContext(ctx).Error(err, "Cannot read the schemas of a CRD", "name", d.Name())
			continue
		}
		out.Items = append(out.Items, unstructured.Unstructured{Object: obj})
	}
	return out, nil
}

func selects(o *metainternalversion.ListOptions, d *crd.Definition) bool {
	return (o.LabelSelector == nil || o.LabelSelector.Matches(labels.Set(d.CRD().Labels))) &&
		(o.FieldSelector == nil || o.FieldSelector.Matches(fields.Set{"metadata.name": d.Name()}))
}

// skeleton returns the object of a CRD.
func skeleton(d *crd.Definition) (schema.Object, error) {
	var versions []any
	for _, v := range d.Versions() {
		entry := map[string]any{"name": v.Name()}
		s, err := v.Skeleton()
		if err != nil {
			return nil, err
		}
		if s != nil {
			var tree map[string]any
			text, err := json.Marshal(s)
			if err == nil {
				err = json.Unmarshal(text, &tree)
			}
			if err != nil {
				panic(err) // a schema is JSON
			}
			entry["schema"] = tree
		}
		versions = append(versions, entry)
	}
	u := &unstructured.Unstructured{Object: map[string]any{"versions": versions}}
	u.SetName(d.Name())
	u.SetLabels(d.CRD().Labels)
	u.SetCreationTimestamp(d.CRD().CreationTimestamp)
	u.SetUID(d.CRD().UID)
	u.SetResourceVersion(d.CRD().ResourceVersion)
	return u.Object, nil
}
