package builtin

import (
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
)

// generator makes cases.
type generator struct{ *types }

// place is a value in an object, and its Go type.
type place struct {
	path string
	name string // of the field, or of the field of the list or map
	typ  reflect.Type
	get  func() any
	set  func(any)
	del  func()
}

// places returns all values below a value.
func (g *generator) places(v any, typ reflect.Type, path, name string, set func(any), add func(place)) {
	for typ.Kind() == reflect.Pointer {
		typ = typ.Elem()
	}
	if special[typ] != nil {
		return
	}
	switch v := v.(type) {
	case map[string]any:
		var fields []structField
		if typ.Kind() == reflect.Struct {
			fields = g.structFields(typ)
		}
		for _, key := range slices.Sorted(maps.Keys(v)) {
			elem, fieldName := typ, key
			if typ.Kind() == reflect.Map {
				elem, fieldName = typ.Elem(), name
			} else if i := slices.IndexFunc(fields, func(f structField) bool { return f.name == key }); i >= 0 {
				elem = fields[i].typ
			} else {
				continue
			}
			set := func(x any) { v[key] = x }
			add(place{path + "." + key, fieldName, elem, func() any { return v[key] }, set, func() { delete(v, key) }})
			g.places(v[key], elem, path+"."+key, fieldName, set, add)
		}
	case []any:
		if typ.Kind() != reflect.Slice {
			return
		}
		for i := range v {
			setItem := func(x any) { v[i] = x }
			del := func() { set(slices.Delete(slices.Clone(v), i, i+1)) }
			p := path + "[" + strconv.Itoa(i) + "]"
			add(place{p, name, typ.Elem(), func() any { return v[i] }, setItem, del})
			g.places(v[i], typ.Elem(), p, name, setItem, add)
		}
	}
}

// mutate changes a random place of an object.
func (g *generator) mutate(r *rand.Rand, obj map[string]any, typ reflect.Type) {
	var all []place
	root := place{typ: typ, get: func() any { return obj }, set: func(any) {}}
	g.places(obj, typ, "", "", root.set, func(p place) { all = append(all, p) })
	// Metadata is the same for all kinds.
	if r.IntN(5) > 0 {
		all = slices.DeleteFunc(all, func(p place) bool { return len(p.path) > 9 && p.path[:9] == ".metadata" })
	}
	all = append(all, root)
	switch n := r.IntN(20); {
	case n < 4:
		if p := pick(r, all); p.del != nil {
			p.del()
		}
	case n < 12:
		g.addField(r, all)
	case n < 15:
		// Replaces a value by another one of its type.
		p := pick(r, all)
		p.set(g.value(r, p.typ, p.name, 2))
	case n < 18:
		g.setLeaf(r, all)
	case n == 18:
		g.repeat(r, all)
	default:
		// A value of another type in JSON.
		if r.IntN(3) == 0 {
			pick(r, all).set(pick(r, []any{int64(1), "x", true, nil, []any{}, map[string]any{}, 1.5}))
		} else {
			g.copyValue(r, all)
		}
	}
}

// addField adds a field to a struct, an element to a list, or an entry to a map.
func (g *generator) addField(r *rand.Rand, all []place) {
	for range 10 {
		p := pick(r, all)
		typ := p.typ
		for typ.Kind() == reflect.Pointer {
			typ = typ.Elem()
		}
		if special[typ] != nil {
			continue
		}
		switch v := p.get().(type) {
		case map[string]any:
			if typ.Kind() == reflect.Map {
				v[g.mapKey(r, typ, p.name)] = g.value(r, typ.Elem(), p.name, 2)
				return
			}
			if typ.Kind() != reflect.Struct {
				continue
			}
			if fields := g.structFields(typ); len(fields) > 0 {
				f := pick(r, fields)
				v[f.name] = g.value(r, f.typ, f.name, 2)
				return
			}
		case []any:
			if typ.Kind() == reflect.Slice {
				p.set(append(slices.Clone(v), g.value(r, typ.Elem(), p.name, 2)))
				return
			}
		}
	}
}

// setLeaf changes a string, number or boolean.
func (g *generator) setLeaf(r *rand.Rand, all []place) {
	for range 10 {
		p := pick(r, all)
		switch p.get().(type) {
		case map[string]any, []any, nil:
			continue
		}
		p.set(g.value(r, p.typ, p.name, 2))
		return
	}
}

// repeat repeats an element of a list.
func (g *generator) repeat(r *rand.Rand, all []place) {
	for range 10 {
		p := pick(r, all)
		if list, ok := p.get().([]any); ok && len(list) > 0 {
			p.set(append(slices.Clone(list), deepCopy(pick(r, list))))
			return
		}
	}
}

// copyValue sets a place to the value of another place of the same type.
func (g *generator) copyValue(r *rand.Rand, all []place) {
	for range 20 {
		from, to := pick(r, all), pick(r, all)
		if from.typ == to.typ && from.path != "" && to.path != "" && from.path != to.path {
			to.set(deepCopy(from.get()))
			return
		}
	}
}

func deepCopy(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for k, e := range v {
			out[k] = deepCopy(e)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			out[i] = deepCopy(e)
		}
		return out
	}
	return v
}
