package policies

import (
	"fmt"
	"maps"
	"reflect"

	"k8s.io/apimachinery/pkg/runtime"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"

	"espalier.dev"
	"espalier.dev/internal/jsonx"
	"espalier.dev/kinds"
	"espalier.dev/schema"
)

// builtinSubject is a request for one of Kubernetes' own kinds.
type builtinSubject struct {
	e           *Evaluator
	request     *kinds.Request
	subresource string
	given, old  schema.Object
	// source and oldSource are both objects in JSON.
	source, oldSource []byte
}

// newBuiltin decodes a request for one of Kubernetes' own kinds.
func (e *Evaluator) newBuiltin(r Request) (*builtinSubject, error) {
	request, err := e.offline.Request(r.Object)
	switch {
	case err != nil:
		return nil, err
	case request.Undecodable != nil:
		return nil, request.Undecodable
	}
	resource := kinds.ByKind(request.Kind)
	if resource.CreateOnly {
		return nil, fmt.Errorf("a %s is not stored", request.Kind.Kind)
	}
	if r.Subresource != "" && resource.Subresource(r.Subresource) == nil {
		return nil, fmt.Errorf("%s has no subresource %q", resource.GroupResource(), r.Subresource)
	}
	s := &builtinSubject{e: e, request: request, subresource: r.Subresource, source: r.Object, oldSource: r.Old}
	request.Namespace = r.Namespace
	replace := request.Replace
	if r.Apply {
		replace = request.Apply
	}
	if r.Old != nil {
		if err := replace(r.Old); err != nil {
			return nil, fmt.Errorf("old object: %w", err)
		}
		if old := request.Old(); reflect.TypeOf(old) != reflect.TypeOf(request.Object) {
			return nil, fmt.Errorf("old object: %T cannot be replaced with %T", old, request.Object)
		}
		s.old = parse(r.Old)
	}
	s.given = parse(r.Object)
	setNamespace(request.Object, resource.Namespaced, r.Namespace)
	return s, nil
}

// parse returns an object in JSON, or nil. It can fail for numbers that no field has.
func parse(source []byte) schema.Object {
	tree, _ := jsonx.Parse(source)
	obj, _ := tree.(schema.Object)
	return obj
}

func (s *builtinSubject) kind() runtimeschema.GroupVersionKind { return s.request.Kind }

func (s *builtinSubject) resource() runtimeschema.GroupVersionResource {
	return kinds.ByKind(s.request.Kind).GroupVersionResource()
}

func (s *builtinSubject) objects() (obj, old runtime.Object) {
	if old := s.request.Old(); old != nil {
		return s.request.Object, old
	}
	return s.request.Object, nil
}

func (s *builtinSubject) mutated() error { return nil }

func (s *builtinSubject) encode() ([]byte, error) {
	obj, err := s.request.Encode(false)
	if err != nil {
		return nil, err
	}
	obj = maps.Clone(obj)
	if status, ok := obj["status"].(map[string]any); ok && s.given["status"] == nil && isEmpty(status) {
		delete(obj, "status") // Go writes an empty one
	}
	return jsonx.Append(nil, map[string]any(obj))
}

// prepare does what the API server does between mutating and validating admission. Objects that it
// rejects are prepared as far as it comes.
func (s *builtinSubject) prepare() error {
	_, _, err := s.request.Write(s.subresource)
	return err
}

func (s *builtinSubject) result() (schema.Object, error) {
	obj, err := s.request.Encode(false)
	if err != nil {
		return nil, err
	}
	kinds.WithoutServer(espalier.KindRequest{Source: s.source, Old: s.oldSource, Subresource: s.subresource}, s.given, s.old, obj)
	return obj, nil
}

func (s *builtinSubject) interfaces() admission.ObjectInterfaces { return builtinInterfaces{s.e} }

// builtinInterfaces is how admission plugins handle Kubernetes' own kinds.
type builtinInterfaces struct{ *Evaluator }

func (i builtinInterfaces) GetObjectCreater() runtime.ObjectCreater     { return i.converter.Scheme.Scheme }
func (i builtinInterfaces) GetObjectTyper() runtime.ObjectTyper         { return i.converter.Scheme.Scheme }
func (i builtinInterfaces) GetObjectDefaulter() runtime.ObjectDefaulter { return i.converter.Scheme }
func (i builtinInterfaces) GetObjectConvertor() runtime.ObjectConvertor { return copying{i.converter} }
func (i builtinInterfaces) GetEquivalentResourceMapper() runtime.EquivalentResourceMapper {
	return i.builtins
}

// copying converts copies, because policies change what is converted.
type copying struct{ *kinds.Converter }

func (c copying) ConvertToVersion(in runtime.Object, to runtime.GroupVersioner) (runtime.Object, error) {
	return c.Converter.ConvertToVersion(in.DeepCopyObject(), to)
}

func (c copying) Convert(in, out, context any) error {
	if obj, ok := in.(runtime.Object); ok {
		in = obj.DeepCopyObject()
	}
	return c.Converter.Convert(in, out, context)
}
