package schema

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"testing"

	"espalier.dev/api"
	"espalier.dev/internal/jsonx"
)

// fuzzSchemas are seeds that together have every keyword.
var fuzzSchemas = []string{
	`{}`,
	`{"type":"object"}`,
	`{"type":"object","properties":{"a":{"type":"string","default":"x","pattern":"^x"},"b":{"type":"integer","minimum":1,"maximum":5,"multipleOf":2},"c":{"type":"number","exclusiveMinimum":true,"minimum":0},"d":{"type":"boolean","nullable":true}},"required":["a"]}`,
	`{"type":"object","x-kubernetes-preserve-unknown-fields":true,"properties":{"a":{"type":"object","properties":{"b":{"type":"array","items":{"type":"object","properties":{"a":{"type":"string"}}}}}}}}`,
	`{"type":"object","properties":{"a":{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["a"],"items":{"type":"object","required":["a"],"properties":{"a":{"type":"string"},"b":{"type":"integer","maximum":3,"default":1}}}}}}`,
	`{"type":"object","properties":{"a":{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["a","b"],"items":{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"integer","maximum":3}}}},"b":{"type":"array","x-kubernetes-list-type":"set","items":{"type":"number"}}}}`,
	`{"type":"object","properties":{"a":{"type":"object","x-kubernetes-embedded-resource":true,"x-kubernetes-preserve-unknown-fields":true,"properties":{"metadata":{"type":"object","properties":{"name":{"type":"string","default":"n"}}},"kind":{"type":"string","nullable":true}}},"b":{"x-kubernetes-int-or-string":true}}}`,
	`{"type":"object","additionalProperties":{"type":"object","default":{"b":{}},"properties":{"b":{"type":"object","properties":{"a":{"type":"string","default":"z"}}}}}}`,
	`{"type":"object","additionalProperties":false}`,
	`{"type":"object","additionalProperties":true,"maxProperties":3,"minProperties":1}`,
	`{"type":"object","properties":{"a":{"type":"string","maxLength":3,"minLength":1,"format":"ipv4","enum":["a","b"]},"b":{"type":"array","maxItems":2,"minItems":1,"items":{"type":"integer","format":"int32","default":3}}},"anyOf":[{"required":["a"]},{"properties":{"b":{"items":{"minimum":2}}}}],"oneOf":[{"required":["b"]},{"not":{"required":["a"]}}],"allOf":[{"minProperties":1}],"not":{"maxProperties":0}}`,
	`{"type":"object","properties":{"u":{"type":"object","x-kubernetes-unions":[{"discriminator":"t","fields":{"a":"A","b":"B"}}],"properties":{"t":{"type":"string"},"a":{"type":"object"},"b":{"type":"object"}}}}}`,
	`{"type":"object","properties":{"metadata":{"type":"object","properties":{"name":{"type":"string","maxLength":3},"labels":{"type":"object","additionalProperties":{"type":"string"}}}},"spec":{"type":"object","default":{"a":{"c":1}},"properties":{"a":{"type":"object","properties":{"b":{"type":"string","default":"x"},"c":{"type":"integer"}}}}}}}`,
	`{"type":"object","description":"d","title":"t","externalDocs":{"url":"u"},"example":{"a":1},"properties":{"a":{"type":"object","x-kubernetes-map-type":"atomic","x-kubernetes-validations":[{"rule":"self.a > 1","message":"m"}],"properties":{"a":{"type":"integer","readOnly":true}}}}}`,
	`{"properties":{"a":{"$ref":"#/definitions/d"}},"definitions":{"d":{"type":["string","null"],"default":"x"}},"patternProperties":{"^x":{"type":"integer"}},"dependencies":{"b":["a"],"c":{"required":["a"]}}}`,
	`{"items":[{"type":"integer"},{"$ref":"#/definitions/e"}],"additionalItems":false,"definitions":{"e":{"items":{"uniqueItems":true}}},"id":"x","$schema":"y"}`,
	`{"type":"object","properties":{"a":{"anyOf":[{"type":"integer"},{"type":"string"}],"x-kubernetes-int-or-string":true},"b":{"type":"array","items":{"x-kubernetes-preserve-unknown-fields":true,"nullable":true}}}}`,
}

var fuzzObjects = []string{
	`{}`, `[]`, `null`, ``, `{"a":1}`, `{"a":"x","b":3,"c":1.5,"d":null,"e":{"f":[1]}}`,
	`{"apiVersion":"v1","kind":"K","metadata":{"name":"n","labels":{"a":"b"},"garbage":1,"creationTimestamp":null}}`,
	`{"kind":1}`, `{"metadata":5}`, `{"metadata":{"name":5}}`, `{"metadata":null}`,
	`{"a":{"b":[{"a":"x","c":1},null,3]},"x":{}}`, `{"a":[{"a":"x","b":5},{"a":"x","b":1},{}]}`, `{"a":[{"a":"k","b":9}],"b":[1,1.0,1]}`,
	`{"a":{"apiVersion":"v1","kind":"K","metadata":{"name":null,"x":1}},"b":"s"}`, `{"a":{"kind":null,"metadata":{"labels":1}}}`,
	`{"a":null,"a":{"b":null}}`, `{"u":{"a":{},"t":"A"}}`, `{"u":{"a":{},"b":{}}}`, `{"spec":{"a":{}},"spec":null}`,
	`{"x1":"s","b":1,"c":2}`, `{"b":[3]}`, `{"a":"b","b":[1]}`, `{"a":"b","b":[2,3]}`, `{"a":"xx","b":4}`, `{"status":null,"status":null}`, `{"a":"127.0.0.1","b":[2147483648,null]}`, "{\"a\":\"\xff\\ud800\"}", `{"a":1e999}`, `{"a":9223372036854775808}`, `{"a":`, `{"a":1}}`,
}

// FuzzDecode holds the ways through the engine against each other: the quick ones
// against the thorough ones.
func FuzzDecode(f *testing.F) {
	for i, s := range fuzzSchemas {
		for j, o := range fuzzObjects {
			f.Add([]byte(s), []byte(o), []byte(fuzzObjects[(i+j)%len(fuzzObjects)]))
		}
	}
	f.Fuzz(func(t *testing.T, schemaText, src, oldText []byte) {
		if len(schemaText) > 2000 || len(src) > 1000 || len(oldText) > 1000 {
			t.Skip("too long")
		}
		var props api.JSONSchemaProps
		if json.Unmarshal(schemaText, &props) != nil {
			t.Skip("no schema")
		}
		v, _ := jsonx.Parse(oldText)
		old, _ := v.(map[string]any)
		for _, p := range fuzzPrograms(&props) {
			fuzzDecode(t, p, src, old)
		}
	})
}

// fuzzPrograms are the programs that a schema has.
func fuzzPrograms(props *api.JSONSchemaProps) (programs []*Program) {
	add := func(p *Program, err error) {
		if err == nil {
			programs = append(programs, p)
		}
	}
	id := WithIdentity(Identity{APIVersion: "v1", Kind: "K"})
	if s, err := NewStructural(props); err == nil {
		add(Compile(s, WithSemantics(KEP), WithoutRules(), id))
		add(Compile(s, WithSemantics(Kubernetes), WithoutRules()))
		add(Compile(s, WithSemantics(Kubernetes), WithoutRules(), WithPreserveUnknownFields()))
	}
	add(CompileJSONSchema(props, WithoutRules()))
	return programs
}

func fuzzDecode(t *testing.T, p *Program, src []byte, old Object) {
	ctx := context.Background()
	for _, o := range []DecodeOptions{{}, {Old: old}, {FromStorage: true}} {
		obj, _, err := p.Decode(src, o)
		o.Report = true
		reported, report, err2 := p.Decode(src, o)
		slow, slowReport, err3 := p.decodeSlowly(src, o)
		if errorKind(err) != errorKind(err2) || errorKind(err) != errorKind(err3) {
			t.Fatalf("%+v: errors %v, with a report %v, slowly %v", o, err, err2, err3)
		}
		if !reflect.DeepEqual(obj, reported) || !reflect.DeepEqual(obj, slow) {
			t.Fatalf("%+v:\n%v\nwith a report %v\nslowly        %v", o, obj, reported, slow)
		}
		if !reflect.DeepEqual(report.changes(), slowReport.changes()) {
			t.Fatalf("%+v:\nreported %v\nslowly   %v", o, report.changes(), slowReport.changes())
		}
		if err != nil {
			continue
		}
		for _, old := range []Object{nil, old, obj} {
			fuzzValidate(t, ctx, p, obj, old)
		}
	}
	v, err := jsonx.Parse(src)
	parsed, ok := v.(map[string]any)
	if err != nil || !ok {
		if p.IsNormal(src) {
			t.Fatal("no object, but normal")
		}
		return
	}
	fuzzValidate(t, ctx, p, parsed, nil)
	fuzzValidate(t, ctx, p, parsed, old)
	if p.IsNormal(src) {
		before := jsonx.Copy(parsed)
		_, err := p.Normalize(parsed, DecodeOptions{})
		var contradiction *ContradictionError
		if err != nil && !errors.As(err, &contradiction) {
			t.Fatalf("normal, but %v", err)
		}
		if !reflect.DeepEqual(any(parsed), before) {
			t.Fatalf("normal, but\n%v becomes\n%v", before, parsed)
		}
	}
}

// changes writes the changes of a report, which come in an order that depends on
// maps only where two have the same path.
func (r *Report) changes() map[string]int {
	if r == nil {
		return nil
	}
	lines := map[string]int{}
	for _, c := range r.Changes {
		lines[fmt.Sprintf("%s %s by %s", c.Kind, c.Path.Pointer(), c.Schema)]++
		c.Nearest()
	}
	return lines
}

// errorKind is the type of an error of Decode.
func errorKind(err error) reflect.Type {
	return reflect.TypeOf(err)
}

func fuzzValidate(t *testing.T, ctx context.Context, p *Program, obj, old Object) {
	before := jsonx.Copy(obj)
	vs := p.violations(ctx, obj, old, true)
	if p.holds(obj) && len(vs) > 0 {
		t.Fatalf("holds, but %q (old %v)", vs.Messages(), old)
	}
	if old == nil && len(vs) == 0 && p.provesExactly() && !p.holds(obj) {
		t.Fatalf("does not hold, but nothing is wrong with %v", obj)
	}
	if errs := vs.FieldErrors(); (len(errs) == 0) != (len(vs) == 0) {
		t.Fatalf("%d violations, but %v", len(vs), errs)
	}
	if msgs := vs.Messages(); (len(msgs) == 0) != (len(vs) == 0) {
		t.Fatalf("%d violations, but %v", len(vs), msgs)
	}
	if !reflect.DeepEqual(any(obj), before) {
		t.Fatalf("validation changes %v to %v", before, obj)
	}
}

// provesExactly says that a no of holds is certain: there is nothing that it leaves
// to violations.
func (p *Program) provesExactly() bool {
	return p.identity == nil && !slices.ContainsFunc(p.nodes, func(n node) bool {
		return n.list != nil || n.flags&embedded != 0
	})
}

// FuzzCompile takes a schema through everything that can be done to one.
func FuzzCompile(f *testing.F) {
	for _, s := range fuzzSchemas {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if len(text) > 4000 {
			t.Skip("too long")
		}
		var props api.JSONSchemaProps
		if json.Unmarshal(text, &props) != nil {
			t.Skip("no schema")
		}
		before := jsonMeaning(t, &props)
		skeleton := Skeleton(&props)
		Specified(&props)
		PruneConflicts(&props)
		if _, err := json.Marshal(skeleton); err != nil {
			t.Fatalf("skeleton: %v", err)
		}
		for _, p := range fuzzPrograms(&props) {
			fuzzDecode(t, p, []byte(`{"a":{"a":[null]},"metadata":{},"b":1}`), Object{"a": nil})
		}
		s, err := NewStructural(&props)
		if err != nil {
			if s != nil {
				t.Fatalf("a schema beside the error %v", err)
			}
			return
		}
		back := s.ToJSONSchemaProps()
		if got := jsonMeaning(t, back); !reflect.DeepEqual(got, before) {
			t.Fatalf("comes back as\n%v, was\n%v", got, before)
		}
		again, err := NewStructural(back)
		if err != nil || !reflect.DeepEqual(again, s) {
			t.Fatalf("comes back as another schema: %v", err)
		}
		for _, sem := range []Semantics{KEP, Kubernetes} {
			for _, finding := range Check(s, sem) {
				_ = finding.String()
			}
			unfolded := s.Unfold(sem)
			if twice := unfolded.Unfold(sem); !reflect.DeepEqual(twice, unfolded) {
				t.Fatalf("%s: unfolding twice is not unfolding once:\n%v\n%v", sem, jsonMeaning(t, unfolded.ToJSONSchemaProps()), jsonMeaning(t, twice.ToJSONSchemaProps()))
			}
			unfolded.WeakenForOpenAPIV2(sem).ToJSONSchemaProps()
			if _, err := Compile(unfolded, WithSemantics(sem), WithoutRules()); err != nil && fuzzCompiles(s, sem) {
				t.Fatalf("%s: does not compile any more when it is unfolded: %v", sem, err)
			}
		}
		s.WithoutValueValidations().ToJSONSchemaProps()
		if !reflect.DeepEqual(again, s) {
			t.Fatal("the schema was changed")
		}
	})
}

func fuzzCompiles(s *Structural, sem Semantics) bool {
	_, err := Compile(s, WithSemantics(sem), WithoutRules())
	return err == nil
}

// jsonMeaning is a schema as plain JSON.
func jsonMeaning(t *testing.T, s *api.JSONSchemaProps) (v any) {
	text, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &v); err != nil {
		t.Fatal(err)
	}
	return v
}
