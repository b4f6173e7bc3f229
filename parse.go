package espalier

import (
	"context"
	"fmt"
	"strings"

	"espalier.dev/api"
	"espalier.dev/api/manifest"
	"espalier.dev/api/v1beta1"
	"espalier.dev/crd"
)

// ErrNoCRD is returned by [Parse], [FromObject] and [Load] if there is no CRD.
var ErrNoCRD = manifest.ErrNoCRD

// Parse returns an Admitter for the CRD in data: YAML or JSON, of version v1 or v1beta1.
// There must be exactly one CRD. Parse skips other objects, and looks for the CRD in
// lists too. See [New] for how the CRD is validated.
func Parse(ctx context.Context, data []byte, opts ...Option) (*Admitter, error) {
	found, err := manifest.Parse("", data)
	if err != nil {
		return nil, err
	}
	if err := found.Check(); err != nil {
		return nil, err
	}
	if len(found.CRDs) > 1 {
		names := make([]string, len(found.CRDs))
		for i, c := range found.CRDs {
			names[i] = c.String()
		}
		return nil, fmt.Errorf("expected one CRD, found %d: %s", len(names), strings.Join(names, ", "))
	}
	return newOptions(opts).fromManifest(ctx, found.CRDs[0])
}

// FromObject returns an Admitter for a CRD that is a Go value: a struct of package
// k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1 or v1beta1, of package api or
// api/v1beta1, an unstructured object, or anything else that marshals to the JSON of a
// CRD. Structs need no apiVersion and kind. See [New] for how the CRD is validated.
func FromObject(ctx context.Context, crd any, opts ...Option) (*Admitter, error) {
	found, err := manifest.FromObject(crd)
	if err != nil {
		return nil, err
	}
	return newOptions(opts).fromManifest(ctx, found)
}

// fromManifest returns an Admitter for a CRD as its author wrote it.
func (o *options) fromManifest(ctx context.Context, c manifest.CRD) (*Admitter, error) {
	src := c.JSON
	superseded, err := crd.Superseded(src, o.Semantics)
	if err != nil {
		return nil, err
	}
	if len(superseded) > 0 {
		return nil, invalidCRD(c.Name, superseded)
	}
	if !o.Semantics.KnowsUnions() {
		src = api.DropMalformedForeign(src)
	}
	switch c.APIVersion {
	case api.APIVersion:
		definition := &api.CustomResourceDefinition{}
		if err := api.Unmarshal(src, definition); err != nil {
			return nil, err
		}
		return o.new(ctx, definition)
	case v1beta1.APIVersion:
		definition := &v1beta1.CustomResourceDefinition{}
		if err := api.Unmarshal(src, definition); err != nil {
			return nil, err
		}
		return o.newV1beta1(ctx, definition)
	}
	return nil, fmt.Errorf("apiVersion: expected %s or %s, got %q", api.APIVersion, v1beta1.APIVersion, c.APIVersion)
}
