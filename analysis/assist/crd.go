package assist

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"espalier.dev/api"
	"espalier.dev/schema"
)

// inCRD completes in a CRD. It returns false if the schema of CustomResourceDefinition knows better.
func (c *completion) inCRD() bool {
	p := c.place
	path := p.Path
	if p.Position == Key {
		path = p.Parent()
	}
	spot, ok := spotOf(path)
	if !ok {
		return c.outsideSchemas(path)
	}
	rest := spot.rest
	switch {
	case len(rest) == 0:
		c.keywords(spot)
	case p.Position == Key && len(rest) == 1 && isNames(rest[0].Key):
		// Names that the author chooses.
	case rest[0].Key == "default" || rest[0].Key == "example" || rest[0].Key == "enum" && len(rest) == 2 && p.Position == Value:
		c.inside(spot)
	case p.Position == Value && len(rest) == 3 && rest[0].Key == "x-kubernetes-validations":
		return c.inRule(spot, rest[2].Key)
	case p.Position == Value:
		return c.keywordValue(spot)
	default:
		return false
	}
	return true
}

// isNames reports whether the keys of a keyword's value are names.
func isNames(keyword string) bool {
	switch keyword {
	case "properties", "patternProperties", "definitions", "dependencies":
		return true
	}
	return false
}

// mappingColumn prepares for the entries of a mapping at the place, and returns their column.
func (c *completion) mappingColumn() int {
	p := c.place
	switch {
	case p.Position == Key || p.Flow || p.in == nil:
		return p.Indent
	case p.Item || p.OwnLine:
		if p.node == nil && !p.Flow {
			c.lead = "- "
			return p.Indent + 2
		}
		if p.NeedsSpace {
			return p.Indent + 1
		}
		return p.Indent
	}
	col := p.in.indent + p.Step
	c.lead = p.EOL + strings.Repeat(" ", col)
	return col
}

// keywords adds the keywords of a schema.
func (c *completion) keywords(spot schemaSpot) {
	p := c.place
	if p.Position == Value && p.node != nil && p.node.form == scalar && p.Quote != 0 {
		return
	}
	var given map[string]string
	var existing []string
	if p.Position == Key {
		given, existing = p.Siblings, p.Keys
	}
	col := c.mappingColumn()
	typ := given["type"]
	for i, k := range keywords() {
		if slices.Contains(existing, k.name) {
			continue
		}
		item := Item{Label: k.name, Kind: KeywordItem, Documentation: k.doc, Detail: strings.Join(k.types, " or ")}
		rank := "3"
		switch {
		case k.name == "type" || k.name == "items" && typ == "array" || k.name == "properties" && typ == "object":
			rank = "1"
		case len(k.types) > 0 && slices.Contains(k.types, typ):
			rank = "2"
		case len(k.types) > 0 && typ != "":
			rank = "5"
		}
		item.Sort = fmt.Sprintf("%s%02d", rank, i)
		w := newWriter(p)
		w.write(c.lead)
		if p.Position == Key && p.Complete {
			w.write(literal(k.name, p.Flow, p.JSON))
		} else {
			w.key(k.name)
			w.keyword(k, typ, col)
		}
		c.add(item, w)
	}
}

// keyword writes the value of a keyword whose key is in a column.
func (w *writer) keyword(k keyword, typ string, col int) {
	types := []string{"string", "object", "array", "integer", "boolean", "number"}
	below := col + w.step
	switch {
	case w.flow && (k.holds == holdsNames || k.holds == holdsSchemas || k.holds == holdsRules):
		w.write(" [").placeholder("").write("]")
	case w.flow && k.holds > holdsTrue:
		w.write(" {").placeholder("").write("}")
	case k.name == "type":
		w.write(" ")
	case k.holds == holdsTrue:
		w.write(" true")
	case k.holds == holdsSchema:
		w.line(below).write("type: ").placeholder(types[0], types...)
	case k.holds == holdsProperties:
		w.line(below).placeholder("name").write(":").line(below+w.step).write("type: ").placeholder(types[0], types...)
	case k.holds == holdsNames, k.holds == holdsSchemas:
		w.line(col + w.dash).write("- ").placeholder("")
	case k.holds == holdsRules:
		w.line(col + w.dash).write("- rule: ").placeholder("self").line(col + w.dash + 2).write("message: ").placeholder("")
	case k.holds == holdsObject:
		w.line(below).write("url: ").placeholder("https://example.com")
	default:
		w.write(" ")
	}
}

// keywordValue completes the value of a keyword. It returns false if the schema of
// CustomResourceDefinition knows better.
func (c *completion) keywordValue(spot schemaSpot) bool {
	p := c.place
	around := p.tree.root.at(spot.at)
	typ := p.tree.scalars(around)["type"]
	var values []string
	switch name := spot.rest[0].Key; {
	case name == "type" && len(spot.rest) == 1:
		values = []string{"object", "array", "string", "integer", "number", "boolean"}
	case name == "format":
		values = formatsOf(typ)
	case name == "x-kubernetes-list-type":
		values = []string{"atomic", "set", "map"}
	case name == "x-kubernetes-map-type":
		values = []string{"granular", "atomic"}
	case name == "required" && len(spot.rest) == 2:
		values = c.unlisted(around, "required", around.entry("properties"))
	case name == "x-kubernetes-list-map-keys" && len(spot.rest) == 2:
		values = c.unlisted(around, name, around.entry("items").entry("properties"))
	default:
		return false
	}
	if p.node == nil && !p.Flow {
		c.lead = "- "
	}
	for i, v := range values {
		c.addValue(Item{Kind: ValueItem, Sort: fmt.Sprintf("1%02d", i)}, v)
	}
	return true
}

// unlisted returns the names of properties that the list of a keyword does not have yet.
func (c *completion) unlisted(around *node, keyword string, properties *node) (names []string) {
	if properties == nil {
		return nil
	}
	listed, _ := c.place.tree.value(around.entry(keyword)).([]any)
	for _, prop := range properties.children {
		if !slices.Contains(listed, any(prop.key)) || prop.key == c.place.Prefix {
			names = append(names, prop.key)
		}
	}
	return names
}

// inside completes in a default, an example or an enum, by the schema that has it.
func (c *completion) inside(spot schemaSpot) {
	s := c.structural(spot)
	if s == nil {
		return
	}
	// The value of default is an object of its own, whose schema is s.
	path := c.place.Path[len(spot.at)+1:]
	if spot.rest[0].Key == "enum" {
		path = nil
	}
	if c.place.Position == Key {
		path = path[:len(path)-1]
	}
	if spot.rest[0].Key == "default" {
		s.Default = nil
	}
	at := schema.NewCursor(&schema.Structural{Properties: map[string]*schema.Structural{"value": s}}, schema.Kubernetes, schema.PruningOn)
	at, _ = at.Field("value")
	for _, step := range path {
		if step.Kind == schema.Index {
			at = at.Items()
		} else if next, kept := at.Field(step.Key); kept {
			at = next
		} else {
			return
		}
	}
	if at.Schema() == nil {
		return
	}
	switch {
	case c.place.Position == Key:
		c.fields(at, path, c.place.Keys, c.place.Indent)
	case shapeOf(at.Schema()) == scalarShape:
		if c.place.node == nil && !c.place.Flow {
			c.lead = "- "
		}
		c.scalars(at.Schema())
	case shapeOf(at.Schema()) == objectShape:
		c.fields(at, path, nil, c.mappingColumn())
	}
}

// structural returns the schema at a place of the document, or nil if it cannot be read yet.
func (c *completion) structural(spot schemaSpot) *schema.Structural {
	text, err := json.Marshal(c.place.tree.value(c.place.tree.root.at(spot.at)))
	if err != nil {
		return nil
	}
	var props api.JSONSchemaProps
	if err := json.Unmarshal(text, &props); err != nil {
		return nil
	}
	s, err := schema.NewStructural(&props)
	if err != nil {
		return nil
	}
	return s
}

// outsideSchemas completes what the schema of CustomResourceDefinition does not list.
func (c *completion) outsideSchemas(path schema.Path) bool {
	p := c.place
	var pattern strings.Builder
	for _, step := range path {
		if step.Kind == schema.Index {
			pattern.WriteString("[]")
		} else {
			pattern.WriteString("." + step.Key)
		}
	}
	var values []string
	switch at := pattern.String(); {
	case p.Position == Key:
		return false
	case at == ".spec.scope":
		values = []string{"Namespaced", "Cluster"}
	case at == ".spec.conversion.strategy":
		values = []string{"None", "Webhook"}
	case at == ".spec.conversion.webhook.conversionReviewVersions[]":
		values = []string{"v1", "v1beta1"}
	case strings.HasSuffix(at, ".additionalPrinterColumns[].type"):
		values = []string{"string", "integer", "number", "boolean", "date"}
	case strings.HasSuffix(at, ".additionalPrinterColumns[].jsonPath"):
		values = append(c.jsonPaths(path), ".metadata.creationTimestamp")
	case strings.HasSuffix(at, ".selectableFields[].jsonPath"):
		values = c.jsonPaths(path)
	case at == ".metadata.name":
		spec := p.tree.root.entry("spec")
		group, plural := p.tree.scalars(spec)["group"], p.tree.scalars(spec.entry("names"))["plural"]
		if group == "" || plural == "" {
			return false
		}
		values = []string{plural + "." + group}
	case at == ".spec.versions" || at == ".spec.versions[]":
		return c.versionEntry(at == ".spec.versions")
	default:
		return false
	}
	if p.node == nil && !p.Flow {
		c.lead = "- "
	}
	for i, v := range values {
		c.addValue(Item{Kind: ValueItem, Sort: fmt.Sprintf("1%03d", i)}, v)
	}
	return true
}

// jsonPaths returns the paths of the scalar fields of the version that a path is in, without those in
// lists and maps.
func (c *completion) jsonPaths(path schema.Path) (paths []string) {
	if len(path) < 3 {
		return nil
	}
	version := c.place.tree.root.at(path[:3])
	var visit func(n *node, prefix string, depth int)
	visit = func(n *node, prefix string, depth int) {
		properties := n.entry("properties")
		if properties == nil {
			if typ := c.place.tree.scalars(n)["type"]; typ != "array" && typ != "object" && prefix != "" {
				paths = append(paths, prefix)
			}
			return
		}
		for _, prop := range properties.children {
			if depth < 6 && len(paths) < 200 {
				visit(prop, prefix+"."+prop.key, depth+1)
			}
		}
	}
	visit(version.entry("schema").entry("openAPIV3Schema"), "", 0)
	return paths
}

// versionEntry adds a whole version of a CRD.
func (c *completion) versionEntry(list bool) bool {
	p := c.place
	if p.node != nil && p.node.form != absent || p.Flow {
		return false
	}
	w := newWriter(p)
	col := p.Indent
	switch {
	case list && !p.OwnLine:
		col = p.in.indent + p.Dash
		w.write(p.EOL + strings.Repeat(" ", col) + "- ")
		col += 2
	case list || p.node == nil:
		w.write("- ")
		col += 2
	case p.NeedsSpace:
		col++
	}
	w.write("name: ").placeholder("v1").line(col).write("served: true").line(col).write("storage: ").placeholder("true", "true", "false")
	w.line(col).write("schema:").line(col + p.Step).write("openAPIV3Schema:").line(col + 2*p.Step).write("type: object")
	w.line(col + 2*p.Step).write("properties:").line(col + 3*p.Step).write("spec:").line(col + 4*p.Step).write("type: object")
	w.line(col + 4*p.Step).write("properties:").line(col + 5*p.Step).placeholder("name").write(":").line(col + 6*p.Step).write("type: ")
	w.placeholder("string", "string", "object", "array", "integer", "boolean", "number")
	c.add(Item{Label: "- version", Kind: EntryItem, Detail: "a version with its schema", Sort: "0", Filter: "name"}, w)
	if at, ok := c.env.cursor(p, p.Path); ok && !list && p.Item {
		c.fields(at, p.Path, nil, col)
	}
	return true
}

// schemaHover describes a place in a schema of a CRD, or returns "".
func (e *Env) schemaHover(p *Place) string {
	spot, ok := spotOf(p.Path)
	if !ok {
		return ""
	}
	rest := spot.rest
	last := p.Path[len(p.Path)-1]
	switch {
	case len(rest) == 0 && p.Position == Key && !isKeywordStep(spot):
		return e.propertyHover(p, spot)
	case len(rest) == 3 && rest[0].Key == "x-kubernetes-validations" && (last.Key == "rule" || last.Key == "messageExpression"):
		return e.ruleHover(p, spot)
	case len(rest) <= 1 && last.Kind != schema.Index:
		return keywordHover(keywordNamed(last.Key))
	case len(rest) == 2 && last.Kind == schema.Index:
		// An item of a list of names is what the keyword is about.
		if k := keywordNamed(rest[0].Key); k != nil && k.holds == holdsNames {
			return keywordHover(k)
		}
	}
	return ""
}

// keywordHover describes a keyword, or returns "" for nil.
func keywordHover(k *keyword) string {
	if k == nil {
		return ""
	}
	text := "**" + k.name + "**"
	if len(k.types) > 0 {
		text += " of " + strings.Join(k.types, " and ")
	}
	return text + "\n\n" + escapeMarkdown(k.doc)
}

// isKeywordStep reports whether the last step to a schema is a keyword, not a name.
func isKeywordStep(spot schemaSpot) bool {
	return len(spot.path) == 0 || spot.path[len(spot.path)-1].Form == schema.StepPlain
}

// propertyHover describes the field that a schema documents.
func (e *Env) propertyHover(p *Place, spot schemaSpot) string {
	c := completion{env: e, place: p}
	s := c.structural(spot)
	if s == nil {
		return ""
	}
	return schemaMarkdown(fieldPath(spot.path), s)
}

// fieldPath returns a path of a schema as the path of the field that it describes.
func fieldPath(path schema.SchemaPath) string {
	var b strings.Builder
	for _, step := range path {
		switch step.Keyword {
		case "properties":
			if b.Len() > 0 {
				b.WriteByte('.')
			}
			b.WriteString(step.Name)
		case "items":
			b.WriteString("[]")
		case "additionalProperties":
			b.WriteString(".*")
		}
	}
	return b.String()
}

// ruleHover describes a rule and its cost.
func (e *Env) ruleHover(p *Place, spot schemaSpot) string {
	name := spot.rest[2].Key
	text := "**" + name + "**: a CEL expression that must be true; " + code("self") + " is the value, " + code("oldSelf") + " the one before an update"
	if name == "messageExpression" {
		text = "**messageExpression**: a CEL expression whose value is the message when the rule is not satisfied"
	}
	if e.Definition == nil || e.Rules == nil {
		return text
	}
	for i, v := range e.Definition.Versions() {
		if spot.version >= 0 && i != spot.version {
			continue
		}
		report := e.Rules(v)
		if report == nil {
			continue
		}
		for _, r := range report.Rules() {
			if r.Index != spot.rest[1].Index || r.Path.Compare(spot.path) != 0 {
				continue
			}
			cost, err := r.Cost, r.Err
			if name == "messageExpression" {
				cost, err = r.MessageCost, r.MessageErr
			}
			if err != nil {
				return text + "\n\n" + escapeMarkdown(err.Error())
			}
			if note := costText(cost); note != "" {
				text += "\n\n" + strings.ToUpper(note[:1]) + escapeMarkdown(note[1:])
			}
			if r.UsesOldSelf && name == "rule" {
				text += "\n\nTransition rule: it is evaluated on updates only, unless optionalOldSelf is true."
			}
			return text
		}
	}
	return text
}
