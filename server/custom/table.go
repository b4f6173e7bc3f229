package custom

import (
	"bytes"
	"context"
	"reflect"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metatable "k8s.io/apimachinery/pkg/api/meta/table"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/rest"

	"espalier.dev/api"
	serverrest "espalier.dev/server/rest"
)

// table converts objects to the table of kubectl get, with the columns of the CRD.
type table struct {
	headers []metav1.TableColumnDefinition
	columns []*column
}

var _ rest.TableConvertor = &table{}

func ageColumn() api.CustomResourceColumnDefinition {
	return api.CustomResourceColumnDefinition{
		Name: "Age", Type: "date", JSONPath: ".metadata.creationTimestamp",
		Description: metav1.ObjectMeta{}.SwaggerDoc()["creationTimestamp"],
	}
}

// newTable returns the table of a version. It ends before a column that cannot be parsed,
// which exist in CRDs from before columns were validated.
func newTable(columns []api.CustomResourceColumnDefinition) *table {
	t := &table{headers: []metav1.TableColumnDefinition{
		{Name: "Name", Type: "string", Format: "name", Description: metav1.ObjectMeta{}.SwaggerDoc()["name"]},
	}}
	if len(columns) == 0 {
		columns = []api.CustomResourceColumnDefinition{ageColumn()}
	}
	for _, c := range columns {
		column, err := newColumn(c.Name, c.JSONPath)
		if err != nil {
			return t
		}
		description := c.Description
		if description == "" {
			description = "Custom resource definition column (in JSONPath format): " + c.JSONPath
		}
		t.columns = append(t.columns, column)
		t.headers = append(t.headers, metav1.TableColumnDefinition{
			Name: c.Name, Type: c.Type, Format: c.Format, Description: description, Priority: c.Priority,
		})
	}
	return t
}

// newScaleTable returns the table of the scale endpoint.
func newScaleTable() *table {
	return newTable([]api.CustomResourceColumnDefinition{
		{Name: "Desired", Type: "integer", Description: "Number of desired replicas", JSONPath: ".spec.replicas"},
		{Name: "Available", Type: "integer", Description: "Number of actual replicas", JSONPath: ".status.replicas"},
		ageColumn(),
	})
}

func (t *table) ConvertToTable(ctx context.Context, obj, options runtime.Object) (*metav1.Table, error) {
	out := &metav1.Table{}
	if o, ok := options.(*metav1.TableOptions); !ok || o == nil || !o.NoHeaders {
		out.ColumnDefinitions = t.headers
	}
	if m, err := meta.ListAccessor(obj); err == nil {
		out.ResourceVersion, out.Continue, out.RemainingItemCount = m.GetResourceVersion(), m.GetContinue(), m.GetRemainingItemCount()
	} else if m, err := meta.CommonAccessor(obj); err == nil {
		out.ResourceVersion = m.GetResourceVersion()
	}
	var err error
	out.Rows, err = metatable.MetaToTableRow(obj, func(obj runtime.Object, m metav1.Object, name, _ string) ([]any, error) {
		fields, err := fieldsOf(obj, m)
		if err != nil {
			return nil, err
		}
		cells := []any{name}
		for i, c := range t.columns {
			if err := serverrest.Ended(ctx); err != nil {
				return nil, err
			}
			cells = append(cells, c.cell(t.headers[i+1].Type, fields))
		}
		return cells, nil
	})
	return out, err
}

// fieldsOf returns the fields of an object that columns can show. For a Go struct other than
// a Scale, these are the metadata.
func fieldsOf(obj runtime.Object, m metav1.Object) (map[string]any, error) {
	switch obj := obj.(type) {
	case *unstructured.Unstructured:
		return obj.Object, nil
	case *autoscalingv1.Scale:
		return runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	}
	return runtime.DefaultUnstructuredConverter.ToUnstructured(meta.AsPartialObjectMetadata(m))
}

// cell returns one value of a row, or nil if there is none of the column's type.
func (c *column) cell(typ string, fields map[string]any) any {
	if !c.cheap(fields) {
		return tooExpensive
	}
	path, err := c.evaluation()
	if err != nil {
		return nil
	}
	found, err := path.FindResults(fields)
	if err != nil || len(found) == 0 || len(found[0]) == 0 {
		return nil
	}
	value := found[0][0].Interface()
	switch typ {
	case "string":
		var text bytes.Buffer
		if err := path.PrintResults(&text, []reflect.Value{reflect.ValueOf(value)}); err != nil {
			return nil
		}
		return text.String()
	case "integer":
		switch v := value.(type) {
		case int64:
			return v
		case float64:
			return int64(v)
		}
	case "number":
		switch v := value.(type) {
		case int64:
			return float64(v)
		case float64:
			return v
		}
	case "boolean":
		if v, ok := value.(bool); ok {
			return v
		}
	case "date":
		if v, ok := value.(string); ok {
			var at metav1.Time
			if err := at.UnmarshalQueryParameter(v); err != nil {
				return "<invalid>"
			}
			return metatable.ConvertToHumanReadableDateType(at)
		}
	}
	return nil
}
