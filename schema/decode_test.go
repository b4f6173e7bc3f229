package schema

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
)

const decoded = `{"type":"object","properties":{
	"i":{"type":"integer"},
	"any":{"x-kubernetes-preserve-unknown-fields":true},
	"o":{"type":"object","properties":{"a":{"type":"string"}}},
	"l":{"type":"array","items":{"type":"string"}},
	"ol":{"type":"array","items":{"type":"object","properties":{"a":{"type":"string"}}}},
	"free":{"type":"array"},
	"m":{"type":"object","additionalProperties":true},
	"ms":{"type":"object","additionalProperties":{"type":"string"}},
	"n":{"type":"string","nullable":true},
	"d":{"type":"string","default":"x"},
	"dl":{"type":"array","items":{"type":"string","default":"x"}},
	"pod":{"type":"object","x-kubernetes-embedded-resource":true,"x-kubernetes-preserve-unknown-fields":true},
	"ep":{"type":"object","x-kubernetes-embedded-resource":true,"additionalProperties":true},
	"own":{"type":"object","x-kubernetes-embedded-resource":true,"properties":{
		"kind":{"type":"string"},"apiVersion":{"type":"string","nullable":true},"metadata":{"type":"object","properties":{"name":{"type":"string","default":"y"}}}}},
	"metadata":{"type":"object","properties":{"name":{"type":"string","default":"z"}}}}}`

// TestDecodeOnce checks which texts are decoded and normalized in one pass, and that the result is
// that of two passes: for all options, and if unknown fields are preserved.
func TestDecodeOnce(t *testing.T) {
	const once, twice, syntax = "once", "twice", "syntax error"
	type ways = [3]string // without a report, with one, and from storage
	all := func(way string) ways { return ways{way, way, way} }
	contradicts := ways{twice, twice, once}
	p, preserving := compiled(t, decoded), compiled(t, decoded, WithPreserveUnknownFields(), WithSemantics(Kubernetes))
	for text, want := range map[string]ways{
		`{}`: all(once), `{"i":1}`: all(once), `{"o":{"a":"x"}}`: all(once), `{"l":["a","b"]}`: all(once), `{"l":[]}`: all(once), `{"ol":[{"a":"x","b":1},{}]}`: all(once),
		`{"any":{"x":[{"y":null}]}}`: all(once), `{"any":1}`: all(once), `{"free":[{"a":1},[],null,2]}`: all(once), `{"m":{"a":null,"b":{"c":1}}}`: all(once), `{"ms":{"a":"x","b":null}}`: all(once),
		`{"x":1}`: all(once), `{"x":{"y":[1,{}]},"o":{"y":1}}`: all(once),
		`{"i":null,"o":null,"n":null,"d":null,"dl":["a",null]}`: all(once), `{"d":null}`: all(once), `{"l":[null]}`: contradicts, `{"ep":{"metadata":{"name":"a"}}}`: all(once),
		// Values that contradict types are tolerated in stored objects.
		`{"i":"x"}`: contradicts, `{"i":1.5}`: contradicts, `{"i":[]}`: contradicts, `{"o":[]}`: contradicts, `{"o":1}`: contradicts, `{"o":{"a":{}}}`: contradicts, `{"l":{}}`: contradicts, `{"l":[1]}`: contradicts, `{"l":[[]]}`: contradicts,
		// Members that occur again are reported; the last one is used.
		`{"i":1,"i":2}`: {once, twice, once}, `{"x":1,"x":2}`: {once, twice, once}, `{"x":{"y":1,"y":1}}`: {once, twice, once}, `{"o":null,"o":{"a":"x"}}`: {once, twice, once}, `{"o":{"a":"x"},"o":null}`: {once, twice, once},
		`{"n":"a","n":null}`: {once, twice, once}, `{"pod":{"metadata":{"name":"a","name":"b"}}}`: {once, twice, once},
		// Texts that are not objects.
		`[]`: all(twice), `null`: all(twice), `5`: all(twice), ``: all(twice), `"x"`: all(twice),
		// apiVersion, kind and metadata.
		`{"apiVersion":"v1","kind":"K","metadata":{"name":"a","x":1}}`: all(once), `{"metadata":null}`: all(once), `{"metadata":{}}`: all(once),
		`{"kind":1}`: all(twice), `{"kind":null}`: all(twice), `{"apiVersion":[]}`: all(twice), `{"metadata":5}`: all(twice), `{"metadata":{"name":5}}`: {twice, twice, once},
		`{"pod":{"apiVersion":"v1","kind":"K","metadata":{"name":"a","x":1},"spec":{}}}`: all(once), `{"pod":{"kind":1}}`: all(twice), `{"pod":{"kind":null}}`: all(twice), `{"pod":{"metadata":{"name":1}}}`: {twice, twice, once}, `{"pod":{"metadata":1}}`: all(twice),
		`{"own":{"kind":"K","apiVersion":"v1","x":1}}`: all(once), `{"own":{"kind":null,"metadata":null}}`: all(once), `{"own":{"apiVersion":null}}`: all(twice),
		// The schema has a default in this metadata.
		`{"own":{"metadata":{}}}`: all(twice), `{"own":{"metadata":{"name":"a"}}}`: all(twice),
		// Malformed JSON.
		`{`: all(syntax), `{"i":1`: all(syntax), `{"i":1}}`: all(syntax), `{"i":tru}`: all(syntax), `{"i":nul}`: all(syntax), `{"i" 1}`: all(syntax), `{"x":tru}`: all(syntax), `{"x":{"y":nul}}`: all(syntax), `{"any":tru}`: all(syntax), `{"any":{"x":tru}}`: all(syntax),
		`{"l":[`: all(syntax), `{"l":["a"`: all(syntax), `{"l":["a" "b"]}`: all(syntax), `{"l":["a",]}`: all(syntax), `{"free":[tru]}`: all(syntax), `{"dl":[nul]}`: all(syntax), `{"o":{"a":"x"`: all(syntax), `{"o":{"a":"x",}}`: all(syntax),
		`{"kind":tru}`: all(syntax), `{"metadata":{"name":tru}}`: all(syntax), `{"metadata":{`: all(syntax), `{"own":{"kind":nul}}`: all(syntax), `{"pod":{"kind":tru}}`: all(syntax), `{"m":{"a":nul}}`: all(syntax),
		`{"i":1} x`: all(syntax), `{"i":1}` + " \n": all(once),
		// The first problem is not in the syntax.
		`{"kind":1,`: all(twice), `{"i":"x",`: {twice, twice, syntax},
	} {
		for i, o := range []DecodeOptions{{}, {Report: true}, {FromStorage: true}} {
			_, _, err := p.decodeFast([]byte(text), o)
			got := once
			if err != nil {
				got = twice
				if errors.As(err, new(*SyntaxError)) {
					got = syntax
				}
			}
			if got != want[i] {
				t.Errorf("%s: %+v: got %s, want %s", text, o, got, want[i])
			}
		}
		for i := range 16 {
			o := DecodeOptions{Report: i&1 > 0, FromStorage: i&2 > 0, WithoutDefaults: i&4 > 0}
			p := p
			if i&8 > 0 {
				p = preserving
			}
			obj, report, err := p.Decode([]byte(text), o)
			slow, slowReport, slowErr := p.decodeSlowly([]byte(text), o)
			if !reflect.DeepEqual(obj, slow) || !reflect.DeepEqual(report.changes(), slowReport.changes()) || fmt.Sprint(err) != fmt.Sprint(slowErr) {
				t.Errorf("%s: %+v, preserving %t: got\n%v, %v, %v, in two passes\n%v, %v, %v", text, o, i&8 > 0, obj, report.changes(), err, slow, slowReport.changes(), slowErr)
			}
			if (err == nil) != (obj != nil) || (report != nil) != (o.Report && err == nil) {
				t.Errorf("%s: %+v: got %v, %v, %v", text, o, obj, report, err)
			}
		}
	}
}

// TestDecodeReport checks the changes that are reported, and their order.
func TestDecodeReport(t *testing.T) {
	p := compiled(t, decoded)
	for text, want := range map[string]string{
		`{"d":"x","x":1,"i":null,"o":{"y":1}}`:                "i null dropped, o.y pruned, x pruned",
		`{"d":"x","m":{"a":{"b":1}}}`:                         "m.a.b pruned",
		`{"d":"x","i":1,"i":2,"i":3,"n":"a","n":"b"}`:         "i duplicate, n duplicate",
		`{"d":"x","x":1,"x":2,"x":3}`:                         "x pruned, x duplicate",
		`{"d":"x","ol":[{},{"a":"x","a":"y"}]}`:               "ol[1].a duplicate",
		`{"d":"x","l":["a"],"l":["b"],"o":{"a":"x","a":"y"}}`: "l duplicate, o.a duplicate",
		`{"d":null,"dl":[null,"a",null]}`:                     "d defaulted, dl[0] defaulted, dl[2] defaulted",
		`{"metadata":{"x":1,"ownerReferences":[{"apiVersion":"v1","kind":"K","name":"n","uid":"u"},{"apiVersion":"v1","kind":"K","name":"n","uid":"u","y":1}]}}`: "d defaulted, metadata.name defaulted, metadata.ownerReferences[1].y pruned, metadata.x pruned",
		// Malformed metadata of a stored object is dropped, and nothing in it is reported beside that.
		`{"d":"x","metadata":{"name":[{"x":1}],"finalizers":[{"x":1}],"labels":{"a":1},"annotations":{"a":"b"}}}`: "metadata.finalizers metadata dropped, metadata.labels metadata dropped, metadata.name metadata dropped, metadata.name defaulted",
	} {
		_, report, err := p.Decode([]byte(text), DecodeOptions{Report: true, FromStorage: true})
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		var got []string
		for _, c := range report.Changes {
			if at := c.Schema.Path(); len(at) > len(c.Path) {
				t.Errorf("%s: %s: got the schema %s", text, c.Path, at)
			}
			if c.Path.String() != "metadata.generation" {
				got = append(got, c.Path.String()+" "+c.Kind.String())
			}
		}
		if s := strings.Join(got, ", "); s != want {
			t.Errorf("%s:\ngot  %s\nwant %s", text, s, want)
		}
	}
}

// TestMetadataErrors checks the errors about objects whose metadata cannot be decoded.
func TestMetadataErrors(t *testing.T) {
	p := compiled(t, decoded)
	for text, want := range map[string]string{
		`[]`: "an object is expected, not array", `null`: "an object is expected, not null", `{"kind":1}`: "kind: must be a string, not integer",
		`{"metadata":5}`: "metadata: json: cannot unmarshal number into Go value of type v1.ObjectMeta", `{"pod":{"kind":1}}`: `pod.kind: Invalid value: 1: must be a string`,
	} {
		_, _, err := p.Decode([]byte(text), DecodeOptions{})
		if bad := (*MetadataError)(nil); !errors.As(err, &bad) || err.Error() != want {
			t.Errorf("%s: got %v, want %s", text, err, want)
		}
	}
	// A value that JSON does not have.
	_, err := p.Normalize(Object{"metadata": map[string]any{"name": make(chan int)}}, DecodeOptions{})
	if err == nil || err.Error() != "metadata: json: unsupported type: chan int" {
		t.Errorf("got %v", err)
	}
	// In stored objects, such fields are dropped as well.
	obj := Object{"metadata": map[string]any{"name": make(chan int), "generation": int64(2), "namespace": "a"}}
	if _, err = p.Normalize(obj, DecodeOptions{FromStorage: true, WithoutDefaults: true}); err != nil || !Equal(obj["metadata"], map[string]any{"generation": int64(2), "namespace": "a"}) {
		t.Errorf("got %v, %v", obj, err)
	}
	obj = Object{"metadata": map[string]any(nil)}
	if _, err = p.Normalize(obj, DecodeOptions{FromStorage: true, WithoutDefaults: true}); err != nil || !Equal(obj["metadata"], map[string]any{"generation": int64(1)}) {
		t.Errorf("metadata is nil: got %v, %v", obj, err)
	}
}

// TestMetadataInPlace checks that metadata as Kubernetes encodes it, and as clients write it, is not
// encoded and decoded again.
func TestMetadataInPlace(t *testing.T) {
	for text, want := range map[string]bool{
		`{}`: true, `{"name":"a","creationTimestamp":null}`: true, `{"name":"a","unknown":1}`: true, `{"name":"a","labels":null}`: true,
		`{"name":"a","namespace":"b","uid":"c","resourceVersion":"1","generation":2,"creationTimestamp":"2024-02-03T04:05:06Z","labels":{"a":"b"},"annotations":{"a":""},"finalizers":["x/y"],
			"ownerReferences":[{"apiVersion":"v1","kind":"Pod","name":"p","uid":"u","controller":false}],
			"managedFields":[{"manager":"m","operation":"Update","apiVersion":"v1","time":"2024-02-03T04:05:06Z","fieldsType":"FieldsV1","fieldsV1":{"f:a":{}}}]}`: true,
		`{"name":""}`: false, `{"labels":{}}`: false, `{"finalizers":[]}`: false, `{"generation":0}`: false, `{"creationTimestamp":"2024-02-03T04:05:06+00:00"}`: false, `{"ownerReferences":[{}]}`: false,
		`{"ownerReferences":[{"apiVersion":"v1","kind":"Pod","name":"p","uid":"u","x":1}]}`: false,
	} {
		m := parsed(t, text).(map[string]any)
		out, _, _, err := normalizeMetadata(m, false)
		if err != nil {
			t.Errorf("%s: %v", text, err)
		}
		if got := reflect.ValueOf(out).Pointer() == reflect.ValueOf(m).Pointer(); got != want {
			t.Errorf("%s: in place: got %t", text, got)
		}
		if again, _, _, err := normalizeMetadata(out, false); err != nil || !Equal(again, out) {
			t.Errorf("%s: got %v, then %v, %v", text, out, again, err)
		}
	}
}

// TestIsNormalText checks that no text is normal that is not the JSON of a normal object: not if a part
// of it is missing, and not if it ends too late.
func TestIsNormalText(t *testing.T) {
	definitions, err := CompileJSONSchema(readSchema(t, `{"properties":{"a":{"$ref":"#/definitions/d"},"b":{"$ref":"#/definitions/d"}},"definitions":{"d":{"type":"string"}}}`))
	if err != nil {
		t.Fatal(err)
	}
	if !definitions.IsNormal([]byte(`{"a":"x","b":"y","c":null}`)) {
		t.Error("definitions without defaults: an object is not normal")
	}
	without := strings.Replace(decoded, `,"default":"z"`, "", 1)
	p, preserving := compiled(t, without), compiled(t, without, WithPreserveUnknownFields(), WithSemantics(Kubernetes))
	const head = `{"d":"x","apiVersion":"v1","kind":"K","metadata":{"name":"a","generation":2`
	for text, want := range map[string]bool{
		head + `},"i":1,"o":{"a":"x"},"l":["a"],"ol":[{"a":"x"},{}],"free":[{},1],"any":{"x":null},"n":null,"dl":["y"],"ms":{"a":"b"}}`: true,
		head + `,"labels":{"a":"b"},"finalizers":["x","y"],"creationTimestamp":"2024-02-03T04:05:06Z"}}`:                                true,
		head + `,"ownerReferences":[{"apiVersion":"v1","kind":"K","name":"n","uid":"u","controller":true}]}}`:                           true,
		head + `,"managedFields":[{"manager":"m","fieldsV1":{"f:a":{}}}]}}`:                                                             true,
		head + `},"pod":{"apiVersion":"v1","kind":"K","metadata":{"name":"n"},"x":[1]}}`:                                                true,
		head + `},"own":{"apiVersion":"v1","kind":"K"}}`:                                                                                true, head + `},"m":{"a":null,"b":{}}}`: true,
		head + `,"managedFields":[{}]}}`: true, head + `,"finalizers":{"a"]}}`: false,
		// The schema has a default in this metadata.
		head + `},"own":{"metadata":{}}}`: false, head + `},"own":{"metadata":{"generation":1}}}`: false,
		// Values that decoding changes or rejects.
		head + `},"i":null}`: false, head + `},"x":1}`: false, head + `},"ms":{"a":null}}`: false, head + `},"dl":[null]}`: false, head + `},"free":[{"a":1}]}`: false, head + `},"pod":{"kind":null}}`: false, head + `},"d":null}`: false,
		head + `,"creationTimestamp":"yesterday"}}`: false, head + `,"creationTimestamp":null}}`: false, head + `,"uid":""}}`: false, head + `,"uid":1}}`: false, head + `,"generation":true}}`: false, head + `,"generation":0}}`: false, head + `,"generation":"1"}}`: false, head + `,"generation":1.5}}`: false,
		head + `,"labels":{}}}`: false, head + `,"labels":[]}}`: false, head + `,"labels":{"a":1}}}`: false, head + `,"finalizers":{}}}`: false, head + `,"finalizers":[]}}`: false, head + `,"finalizers":[1]}}`: false, head + `,"managedFields":[{"fieldsV1":1}]}}`: false, head + `,"managedFields":[{"fieldsV1":[]}]}}`: false,
		head + `,"ownerReferences":[{"apiVersion":"v1","kind":"K","name":"n"}]}}`: false, head + `,"ownerReferences":[{"apiVersion":"v1","kind":"K","name":"n","uid":"u","controller":1}]}}`: false, head + `,"x":1}}`: false,
		// Texts that are not JSON.
		`{"d":"x","metadata":1}}`: false, head + `,"labels":1}}}`: false, head + `,"finalizers":1]}}`: false, head + `,"uid":xa"}}`: false, head + `,"managedFields":[{"fieldsV1":{]}]}}`: false, head + `},"free":[1,tru]}`: false, head + `},"any":[{"x"],"n":null}`: false, head + `},"any":[{"x"}`: false, head + `},"l":1]}`: false, head + `},"free":[}`: false, head + `},"l":[}`: false, head + `},"ol":[{"x":}`: false, head + `},"o":{"x":}`: false, head + `},"n":nul}`: false, head + `},"any":tru}`: false,
		head + `},"kind":1}`: false, head + `},"apiVersion":K"}`: false, `[]`: false, `[}`: false, ``: false, `1}`: false, head + `}} {}`: false, head + `}}` + "\n": true,
	} {
		if got := p.IsNormal([]byte(text)); got != want {
			t.Errorf("%s: got %t", text, got)
		}
		for i := range text {
			for _, damaged := range []string{text[:i], text[:i] + text[i+1:], text[:i] + "}" + text[i:], text[:i] + "]" + text[i:]} {
				if _, _, err := p.decodeSlowly([]byte(damaged), DecodeOptions{FromStorage: true}); err != nil && p.IsNormal([]byte(damaged)) {
					t.Errorf("%s: it is normal, but %v", damaged, err)
				}
			}
		}
	}
	if compiled(t, decoded).IsNormal([]byte(`{"d":"x","metadata":{"generation":2}}`)) {
		t.Error("an object without a default in metadata is normal")
	}
	// Nulls are kept if unknown fields are, unless there is a default.
	for text, want := range map[string]bool{head + `},"i":null}`: true, head + `},"x":null}`: true, head + `},"d":null}`: false} {
		if got := preserving.IsNormal([]byte(text)); got != want {
			t.Errorf("%s: preserving: got %t", text, got)
		}
	}
}
