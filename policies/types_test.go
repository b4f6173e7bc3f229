package policies

import (
	"fmt"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/applyconfigurations"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	smdschema "sigs.k8s.io/structured-merge-diff/v6/schema"

	"espalier.dev/kinds"
)

// TestBuiltinTypes compares the types by which Kubernetes' own kinds are merged with those of client-go.
func TestBuiltinTypes(t *testing.T) {
	t.Parallel()
	scheme := runtime.NewScheme()
	if err := kinds.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	types, reference := newBuiltinTypes(scheme), applyconfigurations.NewTypeConverter(scheme)
	compared := 0
	for _, r := range kinds.Resources() {
		gvk := r.GroupVersionKind()
		if gvk.Group == apiregistrationv1.GroupName || r.CreateOnly {
			continue // client-go does not know them
		}
		own, err := types.of(gvk)
		if err != nil {
			t.Fatal(err)
		}
		obj := &unstructured.Unstructured{}
		obj.SetGroupVersionKind(gvk)
		a, err := own.ObjectToTyped(obj)
		if err != nil {
			t.Errorf("%s: %v", gvk, err)
			continue
		}
		b, err := reference.ObjectToTyped(obj)
		if err != nil {
			t.Errorf("%s: %v", gvk, err)
			continue
		}
		c := &typeComparison{a.Schema(), b.Schema(), map[string]bool{}}
		if text := c.compare(gvk.Kind, a.TypeRef(), b.TypeRef()); text != "" {
			t.Errorf("%s: %s", gvk, text)
		}
		compared++
	}
	if compared < 40 {
		t.Errorf("only %d kinds were compared", compared)
	}
}

// typeComparison compares the types of two schemas.
type typeComparison struct {
	a, b *smdschema.Schema
	// seen has the names of types that were compared.
	seen map[string]bool
}

// compare returns how two types differ in what matters to a merge.
func (c *typeComparison) compare(path string, a, b smdschema.TypeRef) string {
	if a.NamedType != nil && b.NamedType != nil {
		key := *a.NamedType + " " + *b.NamedType
		if c.seen[key] {
			return ""
		}
		c.seen[key] = true
	}
	x, ok := c.a.Resolve(a)
	y, ok2 := c.b.Resolve(b)
	if !ok || !ok2 {
		return fmt.Sprintf("%s: resolved %v and %v", path, ok, ok2)
	}
	if (x.Scalar == nil) != (y.Scalar == nil) || (x.List == nil) != (y.List == nil) || (x.Map == nil) != (y.Map == nil) {
		return fmt.Sprintf("%s: %+v and %+v", path, x, y)
	}
	if x.Scalar != nil && *x.Scalar != *y.Scalar {
		return fmt.Sprintf("%s: %s and %s", path, *x.Scalar, *y.Scalar)
	}
	if x.List != nil {
		if x.List.ElementRelationship != y.List.ElementRelationship || !slices.Equal(x.List.Keys, y.List.Keys) {
			return fmt.Sprintf("%s: lists %+v and %+v", path, x.List, y.List)
		}
		if text := c.compare(path+"[]", x.List.ElementType, y.List.ElementType); text != "" {
			return text
		}
	}
	if x.Map != nil {
		if x.Map.ElementRelationship != y.Map.ElementRelationship || len(x.Map.Fields) != len(y.Map.Fields) {
			return fmt.Sprintf("%s: maps %+v and %+v", path, x.Map, y.Map)
		}
		for _, f := range x.Map.Fields {
			other, ok := y.Map.FindField(f.Name)
			if !ok {
				return fmt.Sprintf("%s.%s is missing", path, f.Name)
			}
			if fmt.Sprint(f.Default) != fmt.Sprint(other.Default) {
				return fmt.Sprintf("%s.%s: defaults %v and %v", path, f.Name, f.Default, other.Default)
			}
			if text := c.compare(path+"."+f.Name, f.Type, other.Type); text != "" {
				return text
			}
		}
		if text := c.compare(path+"{}", x.Map.ElementType, y.Map.ElementType); len(x.Map.Fields) == 0 && text != "" {
			return text
		}
	}
	return ""
}
