package assist

// keyword is a keyword of a schema in a CRD.
type keyword struct {
	name string
	// types are the types of values that it is for; none stands for all.
	types []string
	// holds is what its value is.
	holds keywordValue
	doc   string
}

type keywordValue uint8

const (
	holdsScalar keywordValue = iota
	holdsTrue
	holdsSchema
	holdsSchemas
	holdsNames
	holdsProperties
	holdsRules
	holdsObject
)

// keywords returns the keywords of schemas, the common ones first.
func keywords() []keyword {
	object, array, text, number := []string{"object"}, []string{"array"}, []string{"string"}, []string{"integer", "number"}
	return []keyword{
		{"type", nil, holdsScalar, "The type of the value: object, array, string, integer, number or boolean. Every structural schema needs it, unless x-kubernetes-int-or-string or x-kubernetes-preserve-unknown-fields is set."},
		{"description", nil, holdsScalar, "Documentation of the value, which kubectl explain shows."},
		{"properties", object, holdsProperties, "The fields of the object and their schemas. The API server drops all others, unless x-kubernetes-preserve-unknown-fields or additionalProperties is set."},
		{"required", object, holdsNames, "The fields that the object must have. A field with a default is always present."},
		{"items", array, holdsSchema, "The schema of the items of the list."},
		{"enum", nil, holdsNames, "The values that are allowed."},
		{"default", nil, holdsScalar, "The value that the API server sets if the field is missing, when it reads or writes an object. It must be valid and must not be pruned."},
		{"additionalProperties", object, holdsSchema, "The schema of the values of a map with arbitrary keys. It cannot be combined with properties."},
		{"maxLength", text, holdsScalar, "The highest number of characters of a string. It bounds the cost of CEL rules."},
		{"minLength", text, holdsScalar, "The lowest number of characters of a string."},
		{"pattern", text, holdsScalar, "A regular expression (RE2) that a string must match somewhere. Anchor it with ^ and $."},
		{"format", nil, holdsScalar, "The format of a string or number, such as date-time, duration or int32. Unknown formats are ignored."},
		{"minimum", number, holdsScalar, "The lowest number."},
		{"maximum", number, holdsScalar, "The highest number."},
		{"exclusiveMinimum", number, holdsTrue, "Excludes minimum itself."},
		{"exclusiveMaximum", number, holdsTrue, "Excludes maximum itself."},
		{"multipleOf", number, holdsScalar, "The number must be a multiple of this one."},
		{"maxItems", array, holdsScalar, "The highest number of items. It bounds the cost of CEL rules."},
		{"minItems", array, holdsScalar, "The lowest number of items."},
		{"maxProperties", object, holdsScalar, "The highest number of fields or entries. It bounds the cost of CEL rules."},
		{"minProperties", object, holdsScalar, "The lowest number of fields or entries."},
		{"nullable", nil, holdsTrue, "Allows null. Without it, the API server drops null, and sets the default if there is one."},
		{"x-kubernetes-validations", nil, holdsRules, "Rules in CEL that the value must satisfy. self is the value, oldSelf the one before an update."},
		{"x-kubernetes-list-type", array, holdsScalar, "How server-side apply merges the list: atomic as a whole, set by its scalars, map by the keys in x-kubernetes-list-map-keys."},
		{"x-kubernetes-list-map-keys", array, holdsNames, "The fields that identify an item of a list of type map. They must be required or have a default."},
		{"x-kubernetes-map-type", object, holdsScalar, "How server-side apply merges the object: granular by field, atomic as a whole."},
		{"x-kubernetes-preserve-unknown-fields", object, holdsTrue, "Keeps the fields that the schema does not specify, here and in values below that are not specified either."},
		{"x-kubernetes-embedded-resource", object, holdsTrue, "The value is a whole resource: apiVersion, kind and metadata are validated and need not be specified."},
		{"x-kubernetes-int-or-string", nil, holdsTrue, "The value is an integer or a string. It takes the place of type."},
		{"title", nil, holdsScalar, "A short title of the value."},
		{"example", nil, holdsScalar, "An example of the value. The API server ignores it."},
		{"externalDocs", nil, holdsObject, "A link to further documentation."},
		{"allOf", nil, holdsSchemas, "Schemas that the value must all match. They validate only, and must not specify types or defaults."},
		{"anyOf", nil, holdsSchemas, "Schemas of which the value must match at least one. They validate only."},
		{"oneOf", nil, holdsSchemas, "Schemas of which the value must match exactly one. They validate only."},
		{"not", nil, holdsSchema, "A schema that the value must not match. It validates only."},
	}
}

// keywordNamed returns a keyword, or nil.
func keywordNamed(name string) *keyword {
	for _, k := range keywords() {
		if k.name == name {
			return &k
		}
	}
	return nil
}

// formatsOf returns the formats of a type.
func formatsOf(typ string) []string {
	switch typ {
	case "integer":
		return []string{"int32", "int64"}
	case "number":
		return []string{"float", "double"}
	}
	return []string{"date-time", "date", "duration", "byte", "uri", "hostname", "email", "ipv4", "ipv6", "cidr", "mac", "uuid",
		"uuid3", "uuid4", "uuid5", "password", "bsonobjectid", "isbn", "isbn10", "isbn13", "creditcard", "ssn", "hexcolor", "rgbcolor"}
}
