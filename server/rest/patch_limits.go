package rest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"strings"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"espalier.dev/internal/jsonx"
	"espalier.dev/server/fields"
)

const (
	// maxJSONPatchOperations is the maximum number of operations in a JSON patch.
	maxJSONPatchOperations = 10000
	// maxJSONPatchWork is the maximum of the operations of a JSON patch times the values of the
	// object: an operation on a list copies the list.
	maxJSONPatchWork = 200_000_000
	// maxJSONPatchBytes is the maximum of the levels of a path of a JSON patch times the size of
	// the object.
	maxJSONPatchBytes = 500_000_000
	// smallPatch is the number of operations, and of levels, up to which no object exceeds these.
	smallPatch = 80
	// maxListComparisons is the maximum of the squares of the items in the lists of a strategic
	// merge patch and in those that they are merged with: k8s.io/apimachinery compares each item
	// with all others. Two lists of 2,000 items in different orders take about 5 seconds.
	maxListComparisons = 16_000_000
	// maxPatchError is the size of the error of a patch that is shown.
	maxPatchError = 16 << 10
)

// patchKey is the key of the patch of a request in its context.
type patchKey struct{}

// sentPatch is a patch that k8s.io/apiserver applies.
type sentPatch struct {
	mediaType types.PatchType
	body      []byte
	strict    bool
}

// ChecksPatch reports whether WithPatch is for a type of patches.
func ChecksPatch(mediaType types.PatchType) bool {
	return mediaType == types.JSONPatchType || mediaType == types.StrategicMergePatchType || mediaType == types.ApplyYAMLPatchType
}

// WithPatch returns a request whose patch is checked, together with the object, before it is
// applied. If strict, a patch that does not fit the type of the object is a client's error.
// k8s.io/apiserver answers with an internal error.
func WithPatch(req *http.Request, mediaType types.PatchType, body []byte, strict bool) *http.Request {
	return req.WithContext(context.WithValue(req.Context(), patchKey{}, sentPatch{mediaType, body, strict}))
}

// checkPatch returns an error if it would take too long to apply the patch of a request.
func checkPatch(ctx context.Context, old runtime.Object) error {
	p, _ := ctx.Value(patchKey{}).(sentPatch)
	switch {
	case p.mediaType == types.ApplyYAMLPatchType:
		return nil
	case p.mediaType == types.StrategicMergePatchType:
		return checkStrategicPatch(p.body, old)
	case bytes.Count(p.body, []byte{'{'}) <= smallPatch && bytes.Count(p.body, []byte{'/'}) <= smallPatch &&
		!bytes.Contains(p.body, []byte(`\u002`)):
		return nil
	}
	operations, err := jsonpatch.DecodePatch(p.body)
	if err != nil {
		return nil // the handler reports it
	}
	current, err := json.Marshal(old)
	if err != nil {
		return err
	}
	return CheckJSONPatch(operations, p.body, current)
}

// patchError returns the error of applying the patch of a request.
func patchError(ctx context.Context, err error) error {
	p, ok := ctx.Value(patchKey{}).(sentPatch)
	if !ok || fields.IsTooManyItems(err) {
		return err
	}
	return Misfit(err, p.strict)
}

// Misfit returns the error for a patch that does not fit the type of the object, unless err has a
// status. The error of a library has a line for each value that does not fit, or the values.
func Misfit(err error, strict bool) error {
	if status := apierrors.APIStatus(nil); errors.As(err, &status) {
		return err
	}
	text := err.Error()
	if len(text) > maxPatchError {
		text = fmt.Sprintf("%s... (%d bytes are not shown)", strings.ToValidUTF8(text[:maxPatchError], ""), len(text)-maxPatchError)
	}
	if !strict {
		return errors.New(text)
	}
	return apierrors.NewBadRequest(text)
}

// CheckJSONPatch returns an error if a JSON patch has too many operations or levels for an object.
func CheckJSONPatch(operations jsonpatch.Patch, body, current []byte) error {
	if len(operations) > maxJSONPatchOperations {
		return apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("The allowed maximum operations in a JSON patch is %d, got %d",
			maxJSONPatchOperations, len(operations)))
	}
	// Most values of an object are followed by a comma.
	if values := bytes.Count(current, []byte{','}) + bytes.Count(body, []byte{','}); len(operations)*values > maxJSONPatchWork {
		return apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("a JSON patch of an object with %d values has at most %d operations, got %d: use a merge patch, or several patches",
			values, maxJSONPatchWork/values, len(operations)))
	}
	// The library reads and writes the rest of the text again for each level of a path.
	if levels := mostLevels(operations); levels*(len(current)+len(body)) > maxJSONPatchBytes {
		return apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("a JSON patch of an object with %d bytes has paths of at most %d levels, got %d: use a merge patch",
			len(current), maxJSONPatchBytes/(len(current)+len(body)), levels))
	}
	return nil
}

// mostLevels returns the number of levels of the path that has the most of them.
func mostLevels(p jsonpatch.Patch) (levels int) {
	for _, o := range p {
		path, _ := o.Path()
		from, _ := o.From()
		levels = max(levels, strings.Count(path, "/"), strings.Count(from, "/"))
	}
	return levels
}

// checkStrategicPatch returns an error if the lists of a strategic merge patch, and those of the
// object that they are merged with, are too long.
func checkStrategicPatch(body []byte, old runtime.Object) error {
	var r jsonx.Reader
	r.Reset(body)
	lists := patchLists{stored: map[string]int{}}
	lists.measure(reflect.ValueOf(old))
	if lists.read(&r, "") != nil {
		return nil // the handler reports it
	}
	if lists.comparisons > maxListComparisons {
		return apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("the lists are too long for a strategic merge patch: %s has %d items in the patch, and up to %d in the object: use a merge patch, or apply",
			lists.name, lists.sent, lists.stored[lists.name]))
	}
	return nil
}

// patchLists are the lists of a strategic merge patch and of the object.
type patchLists struct {
	// stored has the length of the longest list of the object with a name, of those whose items
	// are merged.
	stored      map[string]int
	comparisons int
	// name and sent are the name and the length of the list that takes the most comparisons.
	name       string
	sent, most int
}

// read counts the comparisons of the value that r reads next, which is in a field.
func (l *patchLists) read(r *jsonx.Reader, field string) error {
	switch r.Peek() {
	case '{':
		return r.Members(func(name string) error {
			if directive, of, ok := strings.Cut(name, "/"); ok && strings.HasPrefix(directive, "$") {
				name = of // $setElementOrder/name, $deleteFromPrimitiveList/name
			}
			return l.read(r, name)
		})
	case '[':
		n := 0
		err := r.Items(func(int) error {
			n++
			return l.read(r, field)
		})
		both := n + l.stored[field]
		l.comparisons += both * both
		if both > l.most {
			l.name, l.sent, l.most = field, n, both
		}
		return err
	}
	return r.Skip()
}

// measure finds the lengths of the lists in a value of the object.
func (l *patchLists) measure(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			l.measure(v.Elem())
		}
	case reflect.Struct:
		for i := range v.NumField() {
			f := v.Type().Field(i)
			switch {
			case !f.IsExported():
			case f.Type.Kind() != reflect.Slice:
				l.measure(v.Field(i))
			case strings.Contains(f.Tag.Get("patchStrategy"), "merge"):
				name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
				l.stored[name] = max(l.stored[name], v.Field(i).Len())
				l.measure(v.Field(i))
			}
		}
	case reflect.Slice:
		for i := range v.Len() {
			l.measure(v.Index(i))
		}
	}
}
