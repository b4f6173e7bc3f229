package bootstrap

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"espalier.dev/kinds/kind"
)

// Manager is the field manager of most first objects, as in kube-apiserver.
const Manager = "kube-apiserver"

// lists are the lists of the first objects whose items have owners of their own, with the keys
// of the items. All other lists have one owner.
var lists = map[string][]string{
	"spec.ports":        {"port", "protocol"},
	"status.conditions": {"type"},
}

// atomic are the objects of the first objects that have one owner.
var atomic = map[string]bool{"roleRef": true}

// SetManager makes a manager the owner of all fields of an object, as if it had sent a request
// that creates it. The types of server-side apply would give the same result, but take
// too long to make when a server starts. empty is an object of the same kind without fields, and
// ignored are the fields that a create ignores.
func SetManager(manager string, obj, empty kind.Object, apiVersion string, ignored []string) error {
	set, err := ownedFields(obj, empty, func(tree map[string]any) {
		for _, path := range append([]string{"apiVersion", "kind"}, ignored...) {
			remove(tree, strings.Split(path, "."))
		}
		meta, _ := tree["metadata"].(map[string]any)
		for name := range meta {
			switch name {
			case "labels", "annotations":
			default:
				delete(meta, name)
			}
		}
	})
	if err != nil {
		return err
	}
	if set == nil {
		return nil
	}
	AddManager(obj, manager, metav1.ManagedFieldsOperationUpdate, apiVersion, string(set))
	return nil
}

// AddManager makes a manager the owner of fields of an object, as if it had sent a request.
func AddManager(obj kind.Object, manager string, operation metav1.ManagedFieldsOperationType, apiVersion, fields string) {
	now := metav1.Now()
	obj.SetManagedFields(append(obj.GetManagedFields(), metav1.ManagedFieldsEntry{
		Manager: manager, Operation: operation, APIVersion: apiVersion, Time: &now,
		FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(fields),
	}))
}

// remove deletes a field.
func remove(tree map[string]any, path []string) {
	for ; len(path) > 1; path = path[1:] {
		tree, _ = tree[path[0]].(map[string]any)
	}
	delete(tree, path[0])
}

// ownedFields returns the fields of an object that an empty one does not have, as fieldsV1.
func ownedFields(obj, empty kind.Object, drop func(map[string]any)) ([]byte, error) {
	tree, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		return nil, fmt.Errorf("fields of %T: %w", obj, err)
	}
	old, err := runtime.DefaultUnstructuredConverter.ToUnstructured(empty)
	if err != nil {
		return nil, fmt.Errorf("fields of %T: %w", obj, err)
	}
	drop(tree)
	set := members(tree, old, "")
	if len(set) == 0 {
		return nil, nil
	}
	return json.Marshal(set)
}

// members returns the fields below an object.
func members(tree, old map[string]any, path string) map[string]any {
	out := map[string]any{}
	for name, value := range tree {
		before, exists := old[name]
		if exists && reflect.DeepEqual(value, before) {
			continue
		}
		at := strings.TrimPrefix(path+"."+name, ".")
		set := map[string]any{}
		switch v := value.(type) {
		case map[string]any:
			if !atomic[at] {
				nested, _ := before.(map[string]any)
				set = members(v, nested, at)
			}
		case []any:
			set = items(v, lists[at], at)
		}
		if len(set) > 0 && !exists {
			set["."] = map[string]any{}
		}
		if _, nested := value.(map[string]any); nested && exists && len(set) == 0 && !atomic[at] {
			continue // nothing below it is new
		}
		out["f:"+name] = set
	}
	return out
}

// items returns the items of a list that have owners of their own.
func items(list []any, keys []string, path string) map[string]any {
	out := map[string]any{}
	for _, item := range list {
		v, ok := item.(map[string]any)
		if !ok || len(keys) == 0 {
			return out
		}
		key := map[string]any{}
		for _, k := range keys {
			key[k] = v[k]
		}
		text, err := json.Marshal(key)
		if err != nil {
			return out // values of a tree always have a JSON form
		}
		set := members(v, nil, path+"[]")
		set["."] = map[string]any{}
		out["k:"+string(text)] = set
	}
	return out
}
