package espalier

import (
	"espalier.dev/internal/jsonx"
	"espalier.dev/schema"
)

// given is an object as it was handed in: a tree or a text.
type given struct {
	apiVersion, kind string
	obj              Object
	src              []byte
}

func givenObject(obj Object) given {
	g := given{obj: obj}
	g.apiVersion, _ = obj["apiVersion"].(string)
	g.kind, _ = obj["kind"].(string)
	return g
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

// givenJSON reads what an object says it is, and no further.
func givenJSON(src []byte) (given, error) {
	g := given{src: src}
	var r jsonx.Reader
	r.Reset(src)
	if r.Peek() != '{' {
		// It has no kind, which is for version to say.
		return g, r.Skip()
	}
	if err := r.EnterObject(); err != nil {
		return g, err
	}
	for n, found := 0, 0; found < 2; n++ {
		key, more, err := r.NextMember(n)
		if err != nil || !more {
			return g, err
		}
		isString := r.Peek() == '"'
		switch {
		case isString && key == "apiVersion":
			g.apiVersion, err = r.String()
			found++
		case isString && key == "kind":
			g.kind, err = r.String()
			found++
		default:
			err = r.Skip()
		}
		if err != nil {
			return g, err
		}
	}
	return g, nil
}
