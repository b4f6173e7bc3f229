package openapi

import (
	"maps"
	"reflect"
	"sync"

	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// library has the definitions of Kubernetes' Go types that were needed so far. It is safe for
// concurrent use.
type library struct {
	prefix string
	mu     sync.Mutex
	types  *reflector
}

// get returns the definitions of some types and of those that they refer to.
func (l *library) get(types ...reflect.Type) (map[string]common.OpenAPIDefinition, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.types == nil {
		comments, err := markers()
		if err != nil {
			return nil, err
		}
		l.types = kubernetesReflector(l.prefix, comments)
	}
	out := map[string]common.OpenAPIDefinition{}
	var add func(name string)
	add = func(name string) {
		if _, ok := out[name]; ok {
			return
		}
		def := l.types.definitions[name]
		// The document adds kinds to its definitions.
		def.Schema.Extensions = maps.Clone(def.Schema.Extensions)
		out[name] = def
		for _, other := range def.Dependencies {
			add(other)
		}
	}
	for _, t := range types {
		add(l.types.add(t))
	}
	return out, nil
}

// kubernetesReflector creates the definitions of Kubernetes' Go types.
func kubernetesReflector(prefix string, comments map[string]map[string]*typeMarkers) *reflector {
	r := metaReflector(refTo(prefix))
	r.marks, r.defaults, r.comments = nil, nil, comments
	r.doc = func(t reflect.Type) map[string]string {
		if doc := swaggerDoc(t); doc != nil {
			return doc
		}
		return map[string]string{"": markersOf(comments, t).Doc}
	}
	for _, sample := range []interface {
		OpenAPISchemaType() []string
		OpenAPISchemaFormat() string
	}{metav1.Time{}, metav1.MicroTime{}, metav1.Duration{}, intstr.IntOrString{}, apiresource.Quantity{}} {
		t := reflect.TypeOf(sample)
		s := spec.Schema{SchemaProps: spec.SchemaProps{Description: r.doc(t)[""], Format: sample.OpenAPISchemaFormat()}}
		if several, ok := sample.(interface{ OpenAPIV3OneOfTypes() []string }); ok && prefix == prefixV3 {
			s.OneOf = common.GenerateOpenAPIV3OneOfSchema(several.OpenAPIV3OneOfTypes())
		} else {
			s.Type = sample.OpenAPISchemaType()
		}
		r.special[t] = s
	}
	return r
}
