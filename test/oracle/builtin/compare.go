package builtin

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
)

// Difference is what the two sides do differently.
type Difference struct {
	// Key names the difference without positions and values. Cases with the same key are
	// assumed to have the same reason.
	Key string
	// Lines are the differences themselves: "-" is ours, "+" the reference's.
	Lines []string
}

var (
	binary = protobuf.NewSerializer(Scheme, Scheme)
	index  = regexp.MustCompile(`\[[^\]]*\]`)
	values = regexp.MustCompile(`value: [{\[].*`)
	quoted = regexp.MustCompile(`"(\\.|[^"\\])*"`)
)

// compare returns the difference between two answers, or nil.
func compare(k *Kind, ours, theirs *Answer) (*Difference, error) {
	switch {
	case theirs.Panic != "":
		return nil, nil
	case ours.Panic != "":
		return &Difference{Key: "panic: " + ours.Panic, Lines: []string{"- panic: " + ours.Panic, ours.Stack}}, nil
	case ours.Error != "" || theirs.Error != "":
		return compareErrors(ours, theirs), nil
	}
	mine, err := normalize(k, ours.Object)
	if err != nil {
		return nil, err
	}
	other, err := normalize(k, theirs.Object)
	if err != nil {
		return nil, err
	}
	var lines, paths []string
	compareValues(mine, other, "", func(path, sign string, v any) {
		text, _ := json.Marshal(v)
		lines = append(lines, fmt.Sprintf("%s %s: %s", sign, path, text))
		paths = append(paths, sign+index.ReplaceAllString(path, "[]"))
	})
	if len(lines) == 0 {
		return compareWarnings(ours, theirs), nil
	}
	slices.Sort(paths)
	return &Difference{Key: "stored: " + paths[0], Lines: lines}, nil
}

// normalize returns an object as it is read after it was stored as protobuf, which does not
// distinguish empty lists and maps from absent ones.
func normalize(k *Kind, data []byte) (any, error) {
	gvk := k.stored()
	obj, err := Scheme.New(gvk)
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(data, obj); err != nil {
		return nil, err
	}
	obj.GetObjectKind().SetGroupVersionKind(gvk)
	stored, err := runtime.Encode(binary, obj)
	if err != nil {
		return nil, err
	}
	if obj, err = runtime.Decode(binary, stored); err != nil {
		return nil, err
	}
	if data, err = json.Marshal(obj); err != nil {
		return nil, err
	}
	return parse(data)
}

func parse(data []byte) (any, error) {
	var v any
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	err := d.Decode(&v)
	return v, err
}

// compareValues reports the places where two values differ.
func compareValues(a, b any, path string, report func(path, sign string, v any)) {
	switch x := a.(type) {
	case map[string]any:
		if y, ok := b.(map[string]any); ok {
			keys := slices.Sorted(maps.Keys(x))
			for key := range y {
				if _, ok := x[key]; !ok {
					keys = append(keys, key)
				}
			}
			slices.Sort(keys)
			for _, key := range keys {
				va, inA := x[key]
				vb, inB := y[key]
				p := strings.TrimPrefix(path+"."+key, ".")
				switch {
				case !inA:
					report(p, "+", vb)
				case !inB:
					report(p, "-", va)
				default:
					compareValues(va, vb, p, report)
				}
			}
			return
		}
	case []any:
		if y, ok := b.([]any); ok && len(x) == len(y) {
			for i := range x {
				compareValues(x[i], y[i], fmt.Sprintf("%s[%d]", path, i), report)
			}
			return
		}
	}
	ja, _ := json.Marshal(a)
	jb, _ := json.Marshal(b)
	if !bytes.Equal(ja, jb) {
		report(path, "-", a)
		report(path, "+", b)
	}
}

// compareErrors compares two answers of which at least one is an error.
func compareErrors(ours, theirs *Answer) *Difference {
	describe := func(a *Answer) []string {
		var out []string
		for _, c := range a.Errors {
			if c = newRules(c); c == (Cause{}) {
				continue
			}
			out = append(out, fmt.Sprintf("%s: %s: %s", c.Type, c.Field, c.Message))
		}
		if len(out) == 0 && a.Error != "" {
			out = append(out, a.Reason+": "+a.Error)
		}
		slices.Sort(out)
		return out
	}
	d := diffLists("errors: ", describe(ours), describe(theirs))
	if d == nil && ours.Reason != theirs.Reason {
		d = &Difference{Key: "reason", Lines: []string{"- " + ours.Reason, "+ " + theirs.Reason}}
	}
	if d != nil && ours.Error == "" {
		d.Lines = append(d.Lines, "- accepted")
	}
	if d != nil && theirs.Error == "" {
		d.Lines = append(d.Lines, "+ accepted")
	}
	return d
}

func compareWarnings(ours, theirs *Answer) *Difference {
	return diffLists("warnings: ", slices.Sorted(slices.Values(ours.Warnings)), slices.Sorted(slices.Values(theirs.Warnings)))
}

// diffLists compares two sorted lists.
func diffLists(prefix string, ours, theirs []string) *Difference {
	var lines []string
	for len(ours) > 0 || len(theirs) > 0 {
		switch {
		case len(theirs) == 0 || len(ours) > 0 && ours[0] < theirs[0]:
			lines = append(lines, "- "+ours[0])
			ours = ours[1:]
		case len(ours) == 0 || theirs[0] < ours[0]:
			lines = append(lines, "+ "+theirs[0])
			theirs = theirs[1:]
		default:
			ours, theirs = ours[1:], theirs[1:]
		}
	}
	if len(lines) == 0 {
		return nil
	}
	key := values.ReplaceAllString(lines[0], "value: …")
	key = quoted.ReplaceAllString(index.ReplaceAllString(key, "[]"), `""`)
	if len(key) > 200 {
		key = key[:200]
	}
	return &Difference{Key: prefix + key, Lines: lines}
}
