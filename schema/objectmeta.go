package schema

// isMetaField says whether name is a field that every resource has.
func isMetaField(name string) bool {
	return name == "metadata" || name == "kind" || name == "apiVersion"
}

// metaKind is the shape of a field of ObjectMeta.
type metaKind uint8

const (
	metaString metaKind = iota + 1
	metaInt
	metaIntPointer
	metaTime
	metaStringMap
	metaStrings
	metaOwners
	metaManagers
	metaBool
	metaRequiredString
	metaFieldSet
)

func objectMetaField(name string) metaKind {
	switch name {
	case "name", "generateName", "namespace", "selfLink", "uid", "resourceVersion":
		return metaString
	case "generation":
		return metaInt
	case "deletionGracePeriodSeconds":
		return metaIntPointer
	case "creationTimestamp", "deletionTimestamp":
		return metaTime
	case "labels", "annotations":
		return metaStringMap
	case "finalizers":
		return metaStrings
	case "ownerReferences":
		return metaOwners
	case "managedFields":
		return metaManagers
	}
	return 0
}

func ownerField(name string) metaKind {
	switch name {
	case "apiVersion", "kind", "name", "uid":
		return metaRequiredString
	case "controller", "blockOwnerDeletion":
		return metaBool
	}
	return 0
}

func managerField(name string) metaKind {
	switch name {
	case "manager", "operation", "apiVersion", "fieldsType", "subresource":
		return metaString
	case "time":
		return metaTime
	case "fieldsV1":
		return metaFieldSet
	}
	return 0
}

// apiVersionPattern is what kube-apiserver takes for the apiVersion of an embedded
// resource: not empty, and at most one slash.
const apiVersionPattern = `^([^/]+/?|/)[^/]*$`

// embeddedResourceFields are the fields that every resource has. The result is
// the caller's.
func embeddedResourceFields() map[string]*Structural {
	apiVersion := typedSchema("string")
	apiVersion.ValueValidation = &ValueValidation{Pattern: apiVersionPattern}
	return map[string]*Structural{
		"apiVersion": apiVersion,
		"kind":       typedSchema("string"),
		"metadata":   objectMetaSchema(),
	}
}

// objectMetaSchema is the schema of metadata: the fields of Kubernetes'
// ObjectMeta. Timestamps are nullable because clients write creationTimestamp:
// null for objects that were not created yet.
func objectMetaSchema() *Structural {
	time := func() *Structural {
		t := formatSchema("string", "date-time")
		t.Nullable = true
		return t
	}
	list := func(items *Structural) *Structural {
		return &Structural{Generic: Generic{Type: "array"}, Items: items}
	}
	stringMap := func() *Structural {
		return &Structural{
			Generic:              Generic{Type: "object"},
			AdditionalProperties: &StructuralOrBool{Structural: typedSchema("string"), Bool: true},
		}
	}
	fieldsV1 := typedSchema("object")
	fieldsV1.XPreserveUnknownFields = true
	owner := objectSchema(map[string]*Structural{
		"apiVersion":         typedSchema("string"),
		"kind":               typedSchema("string"),
		"name":               typedSchema("string"),
		"uid":                typedSchema("string"),
		"controller":         typedSchema("boolean"),
		"blockOwnerDeletion": typedSchema("boolean"),
	})
	owner.ValueValidation = &ValueValidation{Required: []string{"apiVersion", "kind", "name", "uid"}}
	return objectSchema(map[string]*Structural{
		"name":                       typedSchema("string"),
		"generateName":               typedSchema("string"),
		"namespace":                  typedSchema("string"),
		"selfLink":                   typedSchema("string"),
		"uid":                        typedSchema("string"),
		"resourceVersion":            typedSchema("string"),
		"generation":                 formatSchema("integer", "int64"),
		"creationTimestamp":          time(),
		"deletionTimestamp":          time(),
		"deletionGracePeriodSeconds": formatSchema("integer", "int64"),
		"labels":                     stringMap(),
		"annotations":                stringMap(),
		"ownerReferences":            list(owner),
		"finalizers":                 list(typedSchema("string")),
		"managedFields": list(objectSchema(map[string]*Structural{
			"manager":     typedSchema("string"),
			"operation":   typedSchema("string"),
			"apiVersion":  typedSchema("string"),
			"time":        time(),
			"fieldsType":  typedSchema("string"),
			"fieldsV1":    fieldsV1,
			"subresource": typedSchema("string"),
		})),
	})
}

func typedSchema(t string) *Structural { return &Structural{Generic: Generic{Type: t}} }

func formatSchema(t, format string) *Structural {
	return &Structural{Generic: Generic{Type: t}, ValueValidation: &ValueValidation{Format: format}}
}

func objectSchema(fields map[string]*Structural) *Structural {
	return &Structural{Generic: Generic{Type: "object"}, Properties: fields}
}
