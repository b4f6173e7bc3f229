package main

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"

	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kjson "sigs.k8s.io/json"
)

// input is a case that is ready to be measured: both sides have compiled the schema and agree
// on the results for the objects.
type input struct {
	workCase
	reference, ours side
	// sources are the objects that can be decoded.
	sources [][]byte
	// parsed are the same objects as trees, not decoded.
	parsed []map[string]any
	// referenceTrees and oursTrees are the valid decoded objects of each side.
	referenceTrees, oursTrees []map[string]any
}

// prepare compiles the schema on both sides and checks that they agree.
func prepare(c workCase) (*input, error) {
	ref, err := newReference(c.schema)
	if err != nil {
		return nil, err
	}
	our, err := newOurs(c.schema)
	if err != nil {
		return nil, err
	}
	in := &input{workCase: c, reference: ref, ours: our}
	if err := our.define(kindOf(c.objects)); err != nil {
		return nil, fmt.Errorf("ours: %w", err)
	}
	for i, src := range c.objects {
		if err := in.add(src); err != nil {
			return nil, fmt.Errorf("object %d: %w", i, err)
		}
	}
	if len(in.sources) == 0 {
		return nil, fmt.Errorf("none of %d objects can be decoded", len(c.objects))
	}
	return in, nil
}

// add adds an object if both sides can decode it, and returns an error if they disagree.
func (in *input) add(src []byte) error {
	want, err := in.reference.decode(src)
	got, ourErr := in.ours.decode(src)
	if err != nil && ourErr != nil {
		return nil
	}
	if err != nil || ourErr != nil {
		return fmt.Errorf("decoding: reference %v, ours %v", err, ourErr)
	}
	if d := difference("", want, got); d != "" {
		return fmt.Errorf("decoded: %s", d)
	}
	wantErrs := messages(in.reference.validate(context.Background(), want))
	gotErrs := messages(in.ours.validate(context.Background(), got))
	if !slices.Equal(wantErrs, gotErrs) {
		return fmt.Errorf("validation errors: reference %q, ours %q", wantErrs, gotErrs)
	}
	if err := in.addCreate(src); err != nil {
		return err
	}
	in.sources = append(in.sources, src)
	if len(wantErrs) == 0 {
		in.referenceTrees = append(in.referenceTrees, want)
		in.oursTrees = append(in.oursTrees, got)
	}
	return nil
}

// addCreate parses an object, and returns an error if the sides disagree on the result of
// create.
func (in *input) addCreate(src []byte) error {
	obj := map[string]any{}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(src, &obj); err != nil {
		return err
	}
	want, wantErrs, err := in.reference.create(context.Background(), obj)
	got, gotErrs, ourErr := in.ours.create(context.Background(), obj)
	if err != nil || ourErr != nil {
		return fmt.Errorf("creating: reference %v, ours %v", err, ourErr)
	}
	if d := difference("", want, got); d != "" {
		return fmt.Errorf("created: %s", d)
	}
	if w, g := messages(wantErrs), messages(gotErrs); !slices.Equal(w, g) {
		return fmt.Errorf("errors on create: reference %q, ours %q", w, g)
	}
	in.parsed = append(in.parsed, obj)
	return nil
}

// kindOf returns the kind of the first object.
func kindOf(objects [][]byte) (gvk runtimeschema.GroupVersionKind) {
	var head struct{ APIVersion, Kind string }
	if len(objects) > 0 && json.Unmarshal(objects[0], &head) == nil {
		gvk = runtimeschema.FromAPIVersionAndKind(head.APIVersion, head.Kind)
	}
	return gvk
}

// messages formats errors in an order that does not depend on Go's maps.
func messages(errs field.ErrorList) []string {
	list := make([]string, len(errs))
	for i, err := range errs {
		list[i] = err.Error()
	}
	slices.Sort(list)
	return list
}

// difference returns the first difference of two trees, or "".
func difference(path string, want, got any) string {
	if reflect.DeepEqual(want, got) {
		return ""
	}
	switch want := want.(type) {
	case map[string]any:
		got, ok := got.(map[string]any)
		if !ok {
			break
		}
		for k := range want {
			if _, ok := got[k]; !ok {
				return fmt.Sprintf("%s.%s: only the reference has %v", path, k, want[k])
			}
			if d := difference(path+"."+k, want[k], got[k]); d != "" {
				return d
			}
		}
		for k := range got {
			if _, ok := want[k]; !ok {
				return fmt.Sprintf("%s.%s: only ours has %v", path, k, got[k])
			}
		}
	case []any:
		got, ok := got.([]any)
		if !ok || len(want) != len(got) {
			break
		}
		for i := range want {
			if d := difference(fmt.Sprintf("%s[%d]", path, i), want[i], got[i]); d != "" {
				return d
			}
		}
	}
	return fmt.Sprintf("%s: reference %#v, ours %#v", path, want, got)
}
