package espalier

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"espalier.dev/api"
	"espalier.dev/schema"
)

// given is an argument of the caller: an Object or JSON.
type given struct {
	metav1.TypeMeta
	obj Object
	src []byte
}

func givenObject(obj Object) given {
	return given{TypeMeta: api.IdentifyObject(obj), obj: obj}
}

// decode returns the pruned object with defaults. It does not change the argument.
func (g given) decode(p *schema.Program, o schema.DecodeOptions) (Object, *schema.Report, error) {
	if g.src != nil {
		return p.Decode(g.src, o)
	}
	obj, err := copyObject(g.obj)
	if err != nil {
		return nil, nil, err
	}
	report, err := p.Normalize(obj, o)
	return obj, report, err
}

// givenJSON reads only the apiVersion and kind of an object.
func givenJSON(src []byte) (given, error) {
	id, err := api.Identify(src)
	return given{TypeMeta: id, src: src}, err
}
