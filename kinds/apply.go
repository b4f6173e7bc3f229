package kinds

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"espalier.dev/internal/jsonx"
	"espalier.dev/kinds/kind"
)

// Apply is like [Request.Replace] for manifests, which clients apply: an object without a UID keeps
// the values of the old one that the client has not set, such as the selector of a job, which the
// server has generated. An old object without a UID is a manifest, too: it gets what the server
// generates when the object is created.
func (r *Request) Apply(source []byte) error {
	stored, err := r.replace(source)
	if err != nil {
		return err
	}
	if reflect.TypeOf(r.Object) != reflect.TypeOf(r.old) {
		return nil
	}
	var applied map[string]any
	if stored {
		applied, err = r.lastApplied()
	} else if applied, err = tree(r.old); err == nil {
		err = r.generate()
	}
	if err != nil || r.Object.GetUID() != "" {
		return err
	}
	live, err := tree(r.old)
	if err != nil {
		return err
	}
	r.Object, err = inherit(r.Object, applied, live)
	return err
}

// generate adds to the old object what the server generates when it is created.
func (r *Request) generate() error {
	created := r.old.DeepCopyObject().(kind.Object)
	rules := r.offline.rules(ByKind(r.Kind))
	if rules.Main.Prepare != nil {
		rules.Main.Prepare(created, nil)
	}
	if rules.Requester != nil {
		rules.Requester(created, administrator{})
	}
	before, err := tree(r.old)
	if err != nil {
		return err
	}
	after, err := tree(created)
	if err != nil {
		return err
	}
	r.old, err = inherit(r.old, before, after)
	return err
}

// lastApplied returns what clients have applied last to the old object, with defaults: that of
// kubectl apply, or the fields of server-side apply. If there is none, clients have set nothing:
// then kubectl apply removes nothing, either.
func (r *Request) lastApplied() (map[string]any, error) {
	source := []byte(r.old.GetAnnotations()[corev1.LastAppliedConfigAnnotation])
	if gvk, err := kindOf(source); err == nil {
		if obj, _, err := r.offline.Decode(gvk, source); err == nil {
			return tree(obj)
		}
	}
	live, err := tree(r.old)
	if err != nil {
		return nil, err
	}
	gvk := ByKind(r.Kind).StoredKind()
	owned := map[string]any{}
	for _, entry := range r.old.GetManagedFields() {
		var fields map[string]any
		if entry.Operation == metav1.ManagedFieldsOperationApply && entry.Subresource == "" && entry.FieldsV1 != nil &&
			json.Unmarshal(entry.FieldsV1.GetRawBytes(), &fields) == nil {
			addOwned(owned, live, fields)
		}
	}
	owned["apiVersion"], owned["kind"] = gvk.GroupVersion().String(), gvk.Kind
	text, err := json.Marshal(owned)
	if err != nil {
		return nil, err
	}
	obj, _, err := r.offline.Decode(gvk, text)
	if err != nil {
		return nil, err
	}
	return tree(obj)
}

// addOwned adds to owned the fields of an object that a field manager owns. Lists are added as a
// whole.
func addOwned(owned, live, fields map[string]any) {
	for key, below := range fields {
		name, ok := strings.CutPrefix(key, "f:")
		value := live[name]
		if !ok || value == nil {
			continue
		}
		fields, _ := below.(map[string]any)
		object, isObject := value.(map[string]any)
		if !isObject || len(fields) == 0 {
			owned[name] = value
			continue
		}
		inner, ok := owned[name].(map[string]any)
		if !ok {
			inner = map[string]any{}
			owned[name] = inner
		}
		addOwned(inner, object, fields)
	}
}

// tree returns an object as JSON values.
func tree(obj kind.Object) (map[string]any, error) {
	text, err := json.Marshal(obj)
	if err != nil {
		return nil, err
	}
	value, err := jsonx.Parse(text)
	object, _ := value.(map[string]any)
	return object, err
}

// inherit returns an object with the values of live that neither it nor the applied object has. The
// status and the managed fields are left to the rules of updates.
func inherit(obj kind.Object, applied, live map[string]any) (kind.Object, error) {
	delete(live, "status")
	delete(metadata(live), "managedFields")
	values, err := tree(obj)
	if err != nil || !keep(values, applied, live) {
		return obj, err
	}
	text, err := json.Marshal(values)
	if err != nil {
		return nil, err
	}
	out := reflect.New(reflect.TypeOf(obj).Elem()).Interface().(kind.Object)
	return out, json.Unmarshal(text, out)
}

// keep adds to an object the values of live that neither it nor the applied object has, and reports
// whether there are any.
func keep(obj, applied, live map[string]any) (kept bool) {
	for name, value := range live {
		mine, before := obj[name], applied[name]
		switch value := value.(type) {
		case nil:
			continue
		case map[string]any:
			was, ok := before.(map[string]any)
			is, isObject := mine.(map[string]any)
			if mine == nil && ok {
				is, isObject = map[string]any{}, true
			}
			if isObject {
				if keep(is, was, value) {
					obj[name], kept = is, true
				}
				continue
			}
		case []any:
			was, ok := before.([]any)
			is, isList := mine.([]any)
			if ok && (isList || mine == nil) {
				if list, changed := keepItems(is, was, value); changed {
					obj[name], kept = list, true
				}
				continue
			}
		}
		if mine == nil && before == nil {
			obj[name], kept = value, true
		}
	}
	return kept
}

// keepItems is like keep for a list. Servers append items, such as volumes and tolerations.
func keepItems(list, applied, live []any) (_ []any, kept bool) {
	if len(live) < len(applied) {
		return list, false
	}
	if len(list) == len(applied) {
		for i := range list {
			obj, ok := list[i].(map[string]any)
			before, _ := applied[i].(map[string]any)
			now, _ := live[i].(map[string]any)
			if ok && keep(obj, before, now) {
				kept = true
			}
		}
	}
	for _, item := range live[len(applied):] {
		if !slices.ContainsFunc(list, func(other any) bool { return sameItem(item, other) }) {
			list, kept = append(list, item), true
		}
	}
	return list, kept
}

// sameItem reports whether two items of a list are equal, or have the same name.
func sameItem(a, b any) bool {
	x, _ := a.(map[string]any)
	y, _ := b.(map[string]any)
	return x["name"] != nil && x["name"] == y["name"] || reflect.DeepEqual(a, b)
}
