package assist

import (
	"slices"
	"strings"
)

// celType is the type of an expression as far as it is known.
type celType struct {
	// name is object, list, map, string, int and so on, or dyn if it is unknown.
	name string
	// node is the schema of an object, elem that of the items of a list or the values of a map.
	node, elem *node
	// elemName is the type of the items of a list that has no schema.
	elemName string
	// resource is set for the root and for embedded resources, metadata for their metadata.
	resource, metadata bool
}

// typeOf returns the type of the values of a schema in the document.
func (o *outline) typeOf(n *node) celType {
	if n == nil || n.form != mapping {
		return celType{name: "dyn"}
	}
	texts := o.scalars(n)
	switch {
	case texts["x-kubernetes-int-or-string"] == "true":
		return celType{name: "dyn"}
	case texts["type"] == "array" || n.entry("items") != nil:
		return celType{name: "list", elem: n.entry("items")}
	case n.entry("properties") != nil || texts["x-kubernetes-embedded-resource"] == "true":
		return celType{name: "object", node: n, resource: texts["x-kubernetes-embedded-resource"] == "true"}
	case n.entry("additionalProperties") != nil:
		return celType{name: "map", elem: n.entry("additionalProperties")}
	}
	switch texts["type"] {
	case "integer":
		return celType{name: "int"}
	case "number":
		return celType{name: "double"}
	case "boolean":
		return celType{name: "bool"}
	case "object":
		return celType{name: "object", node: n}
	case "string":
		switch texts["format"] {
		case "date", "date-time":
			return celType{name: "timestamp"}
		case "duration":
			return celType{name: "duration"}
		case "byte":
			return celType{name: "bytes"}
		}
		return celType{name: "string"}
	}
	return celType{name: "dyn"}
}

// celField is a field of an object.
type celField struct {
	name, typ, doc string
	of             celType
}

// fields returns the fields of an object, with the names that CEL uses.
func (o *outline) fields(t celType) (fields []celField) {
	add := func(name string, of celType, doc string) {
		if escaped, ok := escapeField(name); ok && !slices.ContainsFunc(fields, func(f celField) bool { return f.name == escaped }) {
			fields = append(fields, celField{name: escaped, typ: of.String(o), doc: doc, of: of})
		}
	}
	if t.metadata {
		add("name", celType{name: "string"}, "Name of the object.")
		add("generateName", celType{name: "string"}, "Prefix of a generated name.")
		return fields
	}
	if t.resource {
		add("apiVersion", celType{name: "string"}, "")
		add("kind", celType{name: "string"}, "")
		add("metadata", celType{name: "object", metadata: true}, "Only name and generateName are accessible.")
	}
	if properties := t.node.entry("properties"); properties != nil {
		for _, prop := range properties.children {
			if prop.form == mapping {
				add(prop.key, o.typeOf(prop), o.scalars(prop)["description"])
			}
		}
	}
	return fields
}

// String returns the name of the type.
func (t celType) String(o *outline) string {
	switch {
	case (t.name == "list" || t.name == "map") && t.elem != nil:
		inner := o.typeOf(t.elem)
		return t.name + "(" + inner.name + ")"
	case t.name == "list" && t.elemName != "":
		return "list(" + t.elemName + ")"
	}
	return t.name
}

// element returns the type of the items of a list or the values of a map.
func (o *outline) element(t celType) celType {
	switch {
	case t.elem != nil:
		return o.typeOf(t.elem)
	case t.elemName != "":
		return celType{name: t.elemName}
	}
	return celType{name: "dyn"}
}

// escapeField returns the name of a field in CEL, and reports whether it has one.
func escapeField(name string) (string, bool) {
	if name == "" {
		return "", false
	}
	if slices.Contains(reservedWords(), name) {
		return "__" + name + "__", true
	}
	escaped := strings.NewReplacer("__", "__underscores__", ".", "__dot__", "-", "__dash__", "/", "__slash__").Replace(name)
	for i := range len(escaped) {
		if !isIdent(escaped[i]) || i == 0 && escaped[i] >= '0' && escaped[i] <= '9' {
			return "", false
		}
	}
	return escaped, true
}

// reservedWords returns the words that CEL does not accept as names of fields.
func reservedWords() []string {
	return []string{"true", "false", "null", "in", "as", "break", "const", "continue", "else", "for", "function", "if", "import",
		"let", "loop", "package", "namespace", "return", "var", "void", "while"}
}

func isIdent(c byte) bool {
	return c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
}

// inRule completes in a rule, its message expression or its field path.
func (c *completion) inRule(spot schemaSpot, name string) bool {
	p := c.place
	around := p.tree.root.at(spot.at)
	self := p.tree.typeOf(around)
	if len(spot.path) == 0 {
		self.name, self.node, self.resource = "object", around, true
	}
	switch name {
	case "fieldPath":
		for _, f := range p.tree.fields(self) {
			c.addValue(Item{Kind: ValueItem, Detail: f.typ, Sort: "1"}, "."+f.name)
		}
		return true
	case "reason":
		for _, reason := range []string{"FieldValueInvalid", "FieldValueForbidden", "FieldValueRequired", "FieldValueDuplicate"} {
			c.addValue(Item{Kind: ValueItem, Sort: "1"}, reason)
		}
		return true
	case "rule", "messageExpression":
		c.expression(self)
		return true
	}
	return false
}

// expression completes in an expression of CEL.
func (c *completion) expression(self celType) {
	p := c.place
	functions := c.env.Functions
	if functions == nil {
		functions = Functions()
	}
	e := newExpression(p.tree, self, p.Prefix, functions)
	if e.inString {
		return
	}
	p.Range = Range{p.cursor - len(e.prefix), p.cursor}
	quote := p.Quote
	p.Quote = 0
	defer func() { p.Quote = quote }()
	add := func(item Item, text string, placeholder bool) {
		w := newWriter(p)
		w.write(text)
		if placeholder {
			w.write("(").placeholder("").write(")")
		}
		c.add(item, w)
	}
	call := func(f *Function) {
		kind := FunctionItem
		if f.Macro {
			kind = MacroItem
		}
		item := Item{Label: f.Name, Kind: kind, Detail: f.Signature, Documentation: escapeMarkdown(f.Doc), Sort: "5"}
		if strings.HasPrefix(f.Signature, "()") {
			add(item, f.Name+"()", false)
		} else {
			add(item, f.Name, true)
		}
	}
	if e.member {
		if e.namespace != "" {
			for i := range functions {
				if rest, ok := strings.CutPrefix(functions[i].Name, e.namespace+"."); ok && functions[i].Receiver == "" {
					f := functions[i]
					f.Name = rest
					call(&f)
				}
			}
			return
		}
		for _, f := range p.tree.fields(e.receiver) {
			add(Item{Label: f.name, Kind: FieldItem, Detail: f.typ, Documentation: escapeMarkdown(f.doc), Sort: "1"}, f.name, false)
		}
		for i := range functions {
			f := &functions[i]
			if f.Receiver == e.receiver.name || f.Receiver != "" && (e.receiver.name == "dyn" || f.Receiver == "any") {
				call(f)
			}
		}
		return
	}
	for _, v := range e.variables() {
		add(Item{Label: v.name, Kind: VariableItem, Detail: v.of.String(p.tree), Documentation: v.doc, Sort: "1"}, v.name, false)
	}
	for i := range functions {
		if functions[i].Receiver == "" {
			call(&functions[i])
		}
	}
}
