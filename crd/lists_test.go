package crd_test

import (
	"testing"

	"espalier.dev/schema"
)

// TestListTypes checks which list types and map types a schema may have.
func TestListTypes(t *testing.T) {
	const (
		list = "properties[a].x-kubernetes-list-type: "
		typ  = "properties[a].type: "
		keys = "properties[a].x-kubernetes-list-map-keys: "
		item = "items: {type: object, required: [k], properties: {k: {type: string}, o: {type: object}, l: {type: array, items: {type: string}}}}"
	)
	for text, want := range map[string][]string{
		"type: object, x-kubernetes-map-type: granular":                                              nil,
		"type: object, x-kubernetes-map-type: atomic":                                                nil,
		"type: object, x-kubernetes-map-type: other":                                                 {`properties[a].x-kubernetes-map-type: Unsupported value: "other": supported values: "atomic", "granular"`},
		"type: string, x-kubernetes-map-type: atomic":                                                {typ + `Invalid value: "string": must be object if x-kubernetes-map-type is specified`},
		"type: string, x-kubernetes-list-type: atomic":                                               {typ + `Invalid value: "string": must be array if x-kubernetes-list-type is specified`},
		"x-kubernetes-int-or-string: true, x-kubernetes-list-type: atomic":                           {typ + `Required value: must be array if x-kubernetes-list-type is specified`},
		"type: array, items: {type: string}, x-kubernetes-list-type: other":                          {list + `Unsupported value: "other": supported values: "atomic", "set", "map"`},
		"type: array, items: {type: string}, x-kubernetes-list-type: set":                            nil,
		"type: array, " + item + ", x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [k]":    nil,
		"type: array, " + item + ", x-kubernetes-list-map-keys: [k]":                                 {list + "Required value: must be map if x-kubernetes-list-map-keys is non-empty"},
		"type: array, " + item + ", x-kubernetes-list-type: atomic, x-kubernetes-list-map-keys: [k]": {list + `Invalid value: "atomic": must be map if x-kubernetes-list-map-keys is non-empty`},
		"type: array, " + item + ", x-kubernetes-list-type: map":                                     {keys + "Required value: must not be empty if x-kubernetes-list-type is map"},
		"type: array, " + item + ", x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [k, k]": {keys + `Invalid value: ["k","k"]: must not contain duplicate entries`},
		"type: array, " + item + ", x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [x, k]": {keys + `Invalid value: ["x","k"]: entries must all be names of item properties`},
		"type: array, items: {type: string}, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [k]": {
			`properties[a].items.type: Invalid value: "string": must be object if parent array's x-kubernetes-list-type is map`},
		"type: array, items: {type: object, required: [k], properties: {k: {type: object}}}, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [k]": {
			`properties[a].items.properties[k].type: Invalid value: "object": must be a scalar type if parent array's x-kubernetes-list-type is map`},
		"type: array, items: {type: object, required: [k], properties: {k: {type: array, items: {type: string}}}}, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [k]": {
			`properties[a].items.properties[k].type: Invalid value: "object": must be a scalar type if parent array's x-kubernetes-list-type is map`},
		// Items of a set that are merged field by field cannot be told apart.
		"type: array, x-kubernetes-list-type: set, items: {type: object}": {
			`properties[a].items.x-kubernetes-map-type: Invalid value: null: must be atomic as item of a list with x-kubernetes-list-type=set`},
		"type: array, x-kubernetes-list-type: set, items: {type: object, x-kubernetes-map-type: granular}": {
			`properties[a].items.x-kubernetes-map-type: Invalid value: null: must be atomic as item of a list with x-kubernetes-list-type=set`},
		"type: array, x-kubernetes-list-type: set, items: {type: object, x-kubernetes-map-type: atomic}":                        nil,
		"type: array, x-kubernetes-list-type: set, items: {type: array, items: {type: string}}":                                 nil,
		"type: array, x-kubernetes-list-type: set, items: {type: array, x-kubernetes-list-type: atomic, items: {type: string}}": nil,
		"type: array, x-kubernetes-list-type: set, items: {type: array, x-kubernetes-list-type: set, items: {type: string}}": {
			`properties[a].items.x-kubernetes-list-type: Invalid value: "set": must be atomic as item of a list with x-kubernetes-list-type=set`},
		"type: array, x-kubernetes-list-type: atomic, items: {type: object}":                                                  nil,
		"type: array, items: {type: object}":                                                                                  nil,
		"type: object, x-kubernetes-list-type: set":                                                                           {typ + `Invalid value: "object": must be array`},
		"type: array, x-kubernetes-list-type: atomic, items: {type: object, nullable: true, properties: {k: {type: string}}}": nil,
	} {
		c := definition(t, "{type: object, properties: {a: {"+text+"}}}")
		for _, sem := range both {
			t.Run(sem.String()+" "+text, func(t *testing.T) { expect(t, create(c, sem).Errors, want...) })
		}
	}
	// Lists without a schema of all items, which only v1beta1 without pruning allows otherwise.
	for text, want := range map[string]string{
		"type: array, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [k]":                          "properties[a].items: Required value: must have a schema if x-kubernetes-list-type is map",
		"type: array, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [k], items: [{type: object}]": "must only have a single schema if x-kubernetes-list-type is map",
		"type: array, x-kubernetes-list-type: set, items: [{type: object}]":                                  "items must be a schema object and not an array",
		"type: array, x-kubernetes-list-type: set":                                                           "properties[a].items: Required value",
		"type: object, x-kubernetes-list-type: set, items: {type: object}":                                   "properties[a].type: Invalid value: \"object\": must be array if x-kubernetes-list-type is specified",
	} {
		c := definition(t, "{type: object, properties: {a: {"+text+"}}}")
		for _, sem := range both {
			if errs := create(c, sem).Errors; !containsError(errs, want) || containsError(errs, "must be atomic as item") {
				t.Errorf("%v: %s: got %v, want %s", sem, text, errs, want)
			}
		}
	}
	// A map that has too few keys is not checked for those that are missing.
	c := definition(t, `{type: object, properties: {a: {type: array, x-kubernetes-list-type: set, x-kubernetes-list-map-keys: [k], items: {type: object, x-kubernetes-map-type: atomic, properties: {k: {type: string}}}}}}`)
	expect(t, create(c, schema.Kubernetes).Errors, `Invalid value: "set": must be map if x-kubernetes-list-map-keys is non-empty`)
}

// TestMergedSetsStay checks that an update may leave sets whose items are merged, and may not add
// them.
func TestMergedSetsStay(t *testing.T) {
	fine := definition(t, `{type: object, properties: {a: {type: array, x-kubernetes-list-type: set, items: {type: object, x-kubernetes-map-type: atomic}}}}`)
	for _, text := range []string{
		`{type: object, properties: {a: {type: array, x-kubernetes-list-type: set, items: {type: object}}}}`,
		`{type: object, properties: {a: {type: array, x-kubernetes-list-type: set, items: {type: object, x-kubernetes-map-type: granular}}}}`,
		`{type: object, properties: {a: {type: array, x-kubernetes-list-type: set, items: {type: array, x-kubernetes-list-type: set, items: {type: string}}}}}`,
	} {
		merged := definition(t, text)
		for _, sem := range both {
			expect(t, update(merged.DeepCopy(), merged, sem).Errors)
			expect(t, update(merged.DeepCopy(), fine, sem).Errors, "must be atomic as item of a list with x-kubernetes-list-type=set")
		}
	}
	atomic := definition(t, `{type: object, properties: {a: {type: array, x-kubernetes-list-type: set, items: {type: array, x-kubernetes-list-type: atomic, items: {type: string}}}}}`)
	merged := definition(t, `{type: object, properties: {a: {type: array, x-kubernetes-list-type: set, items: {type: object}}}}`)
	expect(t, update(merged, atomic, schema.Kubernetes).Errors, "must be atomic as item of a list with x-kubernetes-list-type=set")
}
