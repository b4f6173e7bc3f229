package kinds

import (
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"espalier.dev/kinds/kind"
)

// Expressions calls visit for each CEL expression of an object of a Go type: of a webhook configuration, a policy, a device
// selector or a CRD. It stops when visit returns false.
func Expressions(obj any, visit func(path *field.Path, expression string) bool) {
	visitExpressions(reflect.ValueOf(obj), nil, visit)
}

func visitExpressions(v reflect.Value, path *field.Path, visit func(*field.Path, string) bool) (more bool) {
	switch v.Kind() {
	case reflect.Pointer:
		return v.IsNil() || visitExpressions(v.Elem(), path, visit)
	case reflect.Slice:
		for i := range v.Len() {
			if hasStructs(v.Type()) && !visitExpressions(v.Index(i), path.Index(i), visit) {
				return false
			}
		}
	case reflect.Map:
		for _, key := range v.MapKeys() {
			if hasStructs(v.Type()) && !visitExpressions(v.MapIndex(key), path.Key(key.String()), visit) {
				return false
			}
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if !visitField(v.Type().Field(i), v.Field(i), path, visit) {
				return false
			}
		}
	}
	return true
}

// visitField visits a field of an object. The metadata has no expressions.
func visitField(f reflect.StructField, v reflect.Value, path *field.Path, visit func(*field.Path, string) bool) (more bool) {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	switch {
	case !f.IsExported() || name == "metadata":
		return true
	case f.Anonymous && name == "":
		return visitExpressions(v, path, visit)
	case v.Kind() == reflect.String && isExpression(name) && v.Len() > 0:
		return visit(path.Child(name), v.String())
	}
	return visitExpressions(v, path.Child(name), visit)
}

// isExpression reports whether a field has an expression: expression, messageExpression, valueExpression, or the rule of
// a CRD.
func isExpression(name string) bool {
	return name == "rule" || strings.HasSuffix(strings.ToLower(name), "expression")
}

// hasStructs reports whether a list or map can have structs.
func hasStructs(t reflect.Type) bool {
	e := t.Elem()
	for e.Kind() == reflect.Pointer || e.Kind() == reflect.Slice || e.Kind() == reflect.Map {
		e = e.Elem()
	}
	return e.Kind() == reflect.Struct
}

// boundExpressions has the rules of kinds reject objects whose expressions would take too long to compile together.
func boundExpressions(cel CEL, all map[string]kind.Rules) map[string]kind.Rules {
	if cel == nil {
		return all
	}
	for name, r := range all {
		validate := r.Main.Validate
		if validate == nil {
			continue
		}
		r.Main.Validate = func(obj, old kind.Object) field.ErrorList {
			if errs := checkExpressions(cel.Together(), obj, old); errs != nil {
				return errs
			}
			return validate(obj, old)
		}
		all[name] = r
	}
	return all
}

// checkExpressions checks each expression that is not stored already once, because results are kept.
func checkExpressions(check func(string) error, obj, old kind.Object) (errs field.ErrorList) {
	seen := sets.New[string]()
	if old != nil {
		Expressions(old, func(_ *field.Path, text string) bool { seen.Insert(text); return true })
	}
	Expressions(obj, func(path *field.Path, text string) bool {
		if seen.Has(text) {
			return true
		}
		seen.Insert(text)
		if err := check(text); err != nil {
			errs = field.ErrorList{field.Forbidden(path, err.Error())}
		}
		return errs == nil
	})
	return errs
}
