package jsondoc

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"reflect"
	"strings"
	"testing"
	"time"
)

// node is part of itself.
type node struct {
	inner
	// Name has a comment.
	Name     string            `json:"name"`
	Children []*node           `json:"children,omitempty"`
	Labels   map[string]string `json:"labels,omitzero"`
	Raw      json.RawMessage   `json:"raw"`
	Any      any
	At       *time.Time `json:"at,omitempty"`
	Counts   counts     `json:"counts"`
	Left     string     `json:"-"`
	hidden   string
}

type inner struct {
	// Size and Width are numbers.
	Size  int64 `json:"size"`
	Width int   `json:"width,omitempty"`
	Depth int   `json:"depth,omitempty"`
	// CRDs are the names of CRDs by Size, or nil: see [reflect.Type]. [*node] has none.
	CRDs []string `json:"crds"`
	// Next is nil at the end, and []Width before.
	Next *inner `json:"next,omitempty"`
}

type counts struct {
	N     int `json:"n"`
	Extra map[string]int
}

// MarshalJSON writes fields that the type does not have.
func (c counts) MarshalJSON() ([]byte, error) { return []byte(`{}`), nil }

func TestSchema(t *testing.T) {
	_ = node{hidden: ""}
	g := Generator{Root: "../..", Module: "espalier.dev", Extended: []reflect.Type{reflect.TypeFor[counts]()}}
	text, err := g.Schema(reflect.TypeFor[node](), "A node")
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	properties := got["properties"].(map[string]any)
	for name, want := range map[string]string{
		"name": `{"type":"string"}`, "size": `{"type":"integer"}`, "children": `{"items":{"$ref":"#/definitions/node"},"type":"array"}`,
		"labels": `{"additionalProperties":{"type":"string"},"type":"object"}`, "raw": `{}`, "Any": `{}`, "at": `{"format":"date-time","type":"string"}`,
		"counts": `{"$ref":"#/definitions/counts"}`,
	} {
		have, err := json.Marshal(properties[name])
		if err != nil {
			t.Fatal(err)
		}
		if string(have) != want {
			t.Errorf("%s: %s, expected %s", name, have, want)
		}
	}
	if len(properties) != 12 {
		t.Errorf("properties: %v", properties)
	}
	if want := []any{"size", "crds", "name", "raw", "Any", "counts"}; !reflect.DeepEqual(got["required"], want) {
		t.Errorf("required: %v", got["required"])
	}
	if _, err := g.Schema(reflect.TypeFor[chan int](), ""); err == nil {
		t.Error("a channel has a schema")
	}
}

func TestFieldComments(t *testing.T) {
	comments := map[string]string{}
	file, err := parser.ParseFile(token.NewFileSet(), "jsondoc_test.go", nil, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(file, func(n ast.Node) bool {
		if s, ok := n.(*ast.TypeSpec); ok && s.Name.Name == "inner" {
			fieldComments("inner", s.Type.(*ast.StructType), comments)
		}
		return true
	})
	want := map[string]string{"inner.Size": "size and width are numbers.", "inner.Width": "size and width are numbers.", "inner.Depth": "",
		"inner.CRDs": "crds are the names of CRDs by Size, or null. node has none.", "inner.Next": "next is missing at the end, and []Width before."}
	if !maps.Equal(comments, want) {
		t.Errorf("comments %v, expected %v", comments, want)
	}
}

// TestComments reads comments of a type of the module.
func TestComments(t *testing.T) {
	g := Generator{Root: "../..", Module: "espalier.dev"}
	text, err := g.Schema(reflect.TypeFor[Generator](), "")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"description": "A Generator makes JSON Schemas."`, `"description": "Root is the directory of the module,`} {
		if !strings.Contains(string(text), want) {
			t.Errorf("%s is missing:\n%s", want, text)
		}
	}
	other := Generator{Root: "missing", Module: "other.example.com"}
	if text, err := other.Schema(reflect.TypeFor[Generator](), ""); err != nil || strings.Contains(string(text), "description") {
		t.Errorf("%v\n%s", err, text)
	}
}
