package espalier

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"espalier.dev/api"
	"espalier.dev/schema"
)

// given is an object as it was handed in: a tree or a text.
type given struct {
	metav1.TypeMeta
	obj Object
	src []byte
}

func givenObject(obj Object) given {
	return given{TypeMeta: api.IdentifyObject(obj), obj: obj}
}

// decode brings the object into shape; what was handed in stays as it is.
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

// givenJSON reads the apiVersion and kind of an object, and no further.
func givenJSON(src []byte) (given, error) {
	id, err := api.Identify(src)
	return given{TypeMeta: id, src: src}, err
}
