package main

import (
	"context"
	"encoding/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/kubernetes/pkg/printers"
	printersinternal "k8s.io/kubernetes/pkg/printers/internalversion"
	printerstorage "k8s.io/kubernetes/pkg/printers/storage"

	_ "k8s.io/kubernetes/pkg/apis/resource/install" // types that only tables need
)

// table returns the table of an object, and the object with its defaults.
func table(req *request) (answer, error) {
	var meta metav1.TypeMeta
	if err := json.Unmarshal(req.Object, &meta); err != nil {
		return answer{}, err
	}
	gvk := meta.GroupVersionKind()
	obj, err := decode(req.Object, gvk)
	if err != nil {
		return answer{}, err
	}
	convertor := printerstorage.TableConvertor{TableGenerator: printers.NewTableGenerator().With(printersinternal.AddHandlers)}
	t, err := convertor.ConvertToTable(context.Background(), obj, nil)
	if err != nil {
		return answer{}, err
	}
	for i := range t.Rows {
		t.Rows[i].Object = runtime.RawExtension{}
	}
	var a answer
	if a.Table, err = json.Marshal(t); err != nil {
		return answer{}, err
	}
	a.Object, err = encode(obj, gvk.GroupVersion())
	return a, err
}
