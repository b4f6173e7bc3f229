package builtin

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/rest"

	"espalier.dev/kinds/columns"
)

// tableConvertor returns a rest.TableConvertor for the objects of any kind. Those of kinds without
// columns of their own are shown with their name and creation timestamp. Errors name the resource.
func tableConvertor(resource runtimeschema.GroupResource) rest.TableConvertor {
	return tables{rest.NewDefaultTableConvertor(resource)}
}

type tables struct{ rest.TableConvertor }

// ConvertToTable returns the table of an object or list.
func (t tables) ConvertToTable(ctx context.Context, obj, options runtime.Object) (*metav1.Table, error) {
	if table, err := columns.Convert(obj, options); table != nil || err != nil {
		return table, err
	}
	return t.TableConvertor.ConvertToTable(ctx, obj, options)
}
