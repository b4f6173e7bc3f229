package object

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kjson "sigs.k8s.io/json"

	"espalier.dev/analysis"
	"espalier.dev/crd"
	"espalier.dev/internal/jsonx"
	"espalier.dev/schema"
)

// rejection converts a decoding error of an object to findings. version is nil if the version
// of the object is unknown.
func (c *Checker) rejection(version *crd.Version, err error) []analysis.Finding {
	var metadata *schema.MetadataError
	var contradiction *schema.ContradictionError
	var defaults *schema.DefaultsError
	switch {
	case errors.As(err, &metadata):
		if strings.HasSuffix(metadata.Path.Pointer(), "/metadata") {
			return metadataFindings(metadata.Path, metadata.Value)
		}
		return []analysis.Finding{{Rule: RuleDecode, Severity: analysis.Error, Path: metadata.Path.String(),
			Pointer: metadata.Path.Pointer(), Message: metadata.Problem}}
	case errors.As(err, &contradiction):
		var all []analysis.Finding
		for _, x := range contradiction.Contradictions {
			all = append(all, analysis.Finding{
				Rule: RuleDecode, Severity: analysis.Error, Path: x.Path.String(), Pointer: x.Path.Pointer(),
				Message: fmt.Sprintf("%s in body must be of type %s: %q", x.Path, x.Want, x.Got),
				Schema:  c.SchemaLocation(version, x.Schema.Path()),
			})
		}
		return all
	case errors.As(err, &defaults):
		return []analysis.Finding{{Rule: RuleDecode, Severity: analysis.Error, Message: err.Error(),
			Schema: c.SchemaLocation(version, defaults.Schema.Path())}}
	}
	return []analysis.Finding{{Rule: RuleDecode, Severity: analysis.Error, Message: err.Error()}}
}

// droppedMetadata reports the errors in the fields of metadata that were dropped, and in the apiVersion and
// kind of embedded resources.
func droppedMetadata(source []byte, changes []schema.Change) (findings []analysis.Finding) {
	original, _ := jsonx.Parse(source) // it has been decoded
	for _, c := range changes {
		if c.Kind != schema.MetadataDropped {
			continue
		}
		around, key := c.Path[:len(c.Path)-1], c.Path[len(c.Path)-1].Key
		value, _ := c.Path.Find(original)
		if around[len(around)-1].Key == "metadata" {
			findings = append(findings, metadataFindings(around, map[string]any{key: value})...)
			continue
		}
		findings = append(findings, analysis.Finding{Rule: RuleDecode, Severity: analysis.Error, Path: c.Path.String(), Pointer: c.Path.Pointer(),
			Message: "must be a string, is " + kindOfValue(value)})
	}
	return findings
}

// metadataFindings reports the values that prevent decoding the metadata at path. It finds
// them by decoding the parts of the metadata one by one.
func metadataFindings(path schema.Path, metadata any) []analysis.Finding {
	return misfits(path, metadata, func(v any) any { return v })
}

// misfits reports the parts of a value that cannot be decoded. around puts a value into
// otherwise empty metadata, in place of the one at path.
func misfits(path schema.Path, value any, around func(any) any) (findings []analysis.Finding) {
	if fits(around(value)) {
		return nil
	}
	switch value := value.(type) {
	case map[string]any:
		for _, k := range slices.Sorted(maps.Keys(value)) {
			step := schema.Step{Key: k}
			findings = append(findings, misfits(append(slices.Clone(path), step), value[k],
				func(v any) any { return around(map[string]any{k: v}) })...)
		}
	case []any:
		for i, item := range value {
			step := schema.Step{Kind: schema.Index, Index: i}
			findings = append(findings, misfits(append(slices.Clone(path), step), item, func(v any) any { return around([]any{v}) })...)
		}
	}
	if len(findings) > 0 {
		return findings
	}
	for _, want := range []struct {
		example any
		name    string
	}{
		{"text", "a string"},
		{"2006-01-02T15:04:05Z", "a time like 2006-01-02T15:04:05Z"},
		{int64(1), "an integer"},
		{true, "a boolean"},
		{map[string]any{}, "an object"},
		{[]any{}, "a list"},
	} {
		if !fits(around(want.example)) {
			continue
		}
		message := fmt.Sprintf("must be %s, is %s", want.name, kindOfValue(value))
		return []analysis.Finding{{Rule: RuleDecode, Severity: analysis.Error,
			Path: path.String(), Pointer: path.Pointer(), Message: message}}
	}
	return nil
}

// fits reports whether metadata can be decoded.
func fits(metadata any) bool {
	text, _ := json.Marshal(metadata) // it was decoded from JSON
	var meta metav1.ObjectMeta
	return kjson.UnmarshalCaseSensitivePreserveInts(text, &meta) == nil
}

// kindOfValue names the JSON type of a value.
func kindOfValue(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case string:
		return fmt.Sprintf("the string %s", oneLine(v))
	case bool:
		return "a boolean"
	case int64:
		return "an integer"
	case map[string]any:
		return "an object"
	case []any:
		return "a list"
	}
	return "a number"
}
