// Package columns shows Kubernetes' own kinds as tables, with the columns that kube-apiserver
// has for them.
package columns

import (
	"reflect"
	"slices"

	corev1 "k8s.io/api/core/v1"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"espalier.dev/kinds/kind"
)

// Table shows the objects of a kind.
type Table struct {
	columns []column
	// conditions returns the conditions of a row; nil means none.
	conditions func(kind.Object) []metav1.TableRowCondition
	// compare orders the rows of a list; nil keeps the order of the list.
	compare func(a, b runtime.Object) int
}

// column is a column of a table and the function that returns its cells.
type column struct {
	metav1.TableColumnDefinition
	cell func(kind.Object) any
}

// Definitions returns the columns. kubectl shows those with a priority greater than 0 in wide
// tables only.
func (t *Table) Definitions() []metav1.TableColumnDefinition {
	out := make([]metav1.TableColumnDefinition, len(t.columns))
	for i, c := range t.columns {
		out[i] = c.TableColumnDefinition
	}
	return out
}

// Row returns the row of an object.
func (t *Table) Row(obj kind.Object) metav1.TableRow {
	row := metav1.TableRow{Cells: make([]any, len(t.columns)), Object: runtime.RawExtension{Object: obj}}
	for i, c := range t.columns {
		row.Cells[i] = c.cell(obj)
	}
	if t.conditions != nil {
		row.Conditions = t.conditions(obj)
	}
	return row
}

// For returns the table of an object's kind, or of the objects of a list. It returns nil for
// kinds without columns of their own.
func For(obj runtime.Object) *Table {
	if meta.IsListType(obj) {
		items, ok := reflect.TypeOf(obj).Elem().FieldByName("Items")
		if !ok {
			return nil
		}
		obj, ok = reflect.New(items.Type.Elem()).Interface().(runtime.Object)
		if !ok {
			return nil
		}
	}
	table := Table{columns: columnsOf(obj)}
	if table.columns == nil {
		return nil
	}
	switch obj.(type) {
	case *corev1.Pod:
		table.conditions = podConditions
	case *flowcontrolv1.FlowSchema:
		table.compare = byPrecedence
	}
	return &table
}

// Convert returns the table of an object or a list, or nil for kinds without columns of their own.
// options may be a TableOptions.
func Convert(obj, options runtime.Object) (*metav1.Table, error) {
	table := For(obj)
	if table == nil {
		return nil, nil
	}
	out := &metav1.Table{Rows: []metav1.TableRow{}}
	if o, ok := options.(*metav1.TableOptions); !ok || !o.NoHeaders {
		out.ColumnDefinitions = table.Definitions()
	}
	list, err := meta.ListAccessor(obj)
	if err != nil {
		one := obj.(kind.Object)
		out.ResourceVersion = one.GetResourceVersion()
		out.Rows = append(out.Rows, table.Row(one))
		return out, nil
	}
	out.ResourceVersion, out.Continue, out.RemainingItemCount = list.GetResourceVersion(), list.GetContinue(), list.GetRemainingItemCount()
	err = meta.EachListItem(obj, func(item runtime.Object) error {
		out.Rows = append(out.Rows, table.Row(item.(kind.Object)))
		return nil
	})
	if table.compare != nil {
		slices.SortFunc(out.Rows, func(a, b metav1.TableRow) int { return table.compare(a.Object.Object, b.Object.Object) })
	}
	return out, err
}
