package custom

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"unicode"
	"unicode/utf8"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/yaml"
	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	"k8s.io/apiserver/pkg/audit"

	"espalier.dev/internal/jsonx"
	"espalier.dev/internal/yamlx"
	"espalier.dev/schema"
	"espalier.dev/server/fields"
	serverrest "espalier.dev/server/rest"
)

// apply merges an applied configuration into the stored object.
func (w *write) apply(ctx context.Context, a *applyBody, live *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	tree, err := a.next()
	if err == nil {
		err = serverrest.Ended(ctx)
	}
	if err != nil {
		return nil, err
	}
	kind, isCustom := w.kind.(*customKind)
	if isCustom && kind.Definition().Semantics().DropsAppliedNulls() {
		program, err := kind.program()
		if err != nil {
			return nil, err
		}
		program.DropNulls(tree)
	}
	merged, err := w.fields.Apply(live, &unstructured.Unstructured{Object: tree}, w.options.manager, w.options.force)
	if misfit := (*fields.MisfitError)(nil); errors.As(err, &misfit) {
		// The object is malformed. kube-apiserver answers with an internal error.
		return nil, serverrest.Misfit(misfit.Err, w.version.Definition().Semantics().RefusesContradictions())
	}
	if err != nil {
		return nil, err
	}
	if merged == live {
		merged = shallowCopy(live)
	} else if isCustom {
		o := schema.DecodeOptions{}
		if live != nil {
			o.Old = live.Object
		}
		if err := kind.applyDefaults(merged.Object); err != nil {
			return nil, err
		}
		if err := kind.contradictsStorage(merged.Object, o); err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
	}
	if directive := w.options.directive(); a.duplicates && directive != metav1.FieldValidationIgnore {
		// The library words the errors.
		if err := yaml.UnmarshalStrict(a.body, &map[string]any{}); err != nil {
			if directive == metav1.FieldValidationStrict {
				return nil, apierrors.NewBadRequest(fmt.Sprintf("error strict decoding patch: %v", err))
			}
			addWarnings(w.req.Context(), []error{err})
		}
	}
	return merged, nil
}

// manage sets the managed fields of an object that replaces another one, or none.
func (w *write) manage(ctx context.Context, live, obj *unstructured.Unstructured) error {
	if err := serverrest.Ended(ctx); err != nil {
		return err
	}
	manager := w.options.manager
	if manager == "" {
		manager = managerOf(w.req.UserAgent())
	}
	return w.fields.Update(live, obj, manager)
}

// managerOf returns the name of the field manager for a user agent: its first word without
// unprintable characters, up to the maximum length.
func managerOf(userAgent string) string {
	name, _, _ := strings.Cut(userAgent, "/")
	var b strings.Builder
	for _, r := range name {
		if !unicode.IsPrint(r) {
			continue
		}
		if b.Len()+utf8.RuneLen(r) > validation.FieldManagerMaxLength {
			break
		}
		b.WriteRune(r)
	}
	return b.String()
}

// applyBody is the body of a server-side apply.
type applyBody struct {
	body []byte
	// text is the body as JSON, unless it is irregular.
	text []byte
	// irregular is set if the library must read it.
	irregular bool
	// duplicates is set if there may be duplicate keys.
	duplicates bool
	// first is the tree until it is used.
	first map[string]any
}

// parseApplied reads an applied configuration. JSON, which most clients send, and the common
// subset of YAML are read in one pass. Everything else, and errors, are left to the library
// that kube-apiserver uses.
func parseApplied(body []byte) (*applyBody, error) {
	a := &applyBody{body: body, text: body}
	ok := true
	if !bytes.HasPrefix(bytes.TrimLeft(body, " \t\r\n"), []byte("{")) {
		doc, err := yamlx.Parse(body)
		if err == nil {
			a.text, err = doc.JSON()
		}
		ok = err == nil
	}
	if ok {
		a.first, a.duplicates, ok = parseObject(a.text)
	}
	if ok {
		return a, nil
	}
	a.irregular, a.duplicates = true, true
	if _, err := yaml.ToJSON(body); err != nil {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("error encoding patch: %v", err))
	}
	return a, nil
}

// record gives the configuration to the audit, if it wants it.
func (a *applyBody) record(ctx context.Context) {
	if !recorded(ctx, auditinternal.LevelRequest) {
		return
	}
	if text, err := yaml.ToJSON(a.body); err == nil {
		audit.LogRequestPatch(ctx, text)
	}
}

// next returns the configuration as a tree that the caller may change. Its errors are reported
// after those of the stored object.
func (a *applyBody) next() (map[string]any, error) {
	if tree := a.first; tree != nil {
		a.first = nil
		return tree, nil
	}
	tree := map[string]any{}
	if !a.irregular {
		tree, _, _ = parseObject(a.text)
	} else if err := yaml.Unmarshal(a.body, &tree); err != nil {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("error decoding patch: %v", err))
	}
	return tree, nil
}

// parseObject reads a JSON object, with numbers as YAML has them: a float without a fraction
// is an integer.
func parseObject(text []byte) (tree map[string]any, duplicates, ok bool) {
	var r jsonx.Reader
	r.Reset(text)
	v, err := r.Value()
	if err == nil {
		err = r.End()
	}
	tree, ok = v.(map[string]any)
	if err != nil || !ok {
		return nil, false, false
	}
	return wholeNumbers(tree).(map[string]any), r.Duplicates, true
}

func wholeNumbers(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for k, e := range v {
			switch e.(type) {
			case map[string]any, []any:
				wholeNumbers(e)
			case float64:
				v[k] = wholeNumbers(e)
			}
		}
	case []any:
		for i, e := range v {
			v[i] = wholeNumbers(e)
		}
	case float64:
		if v == math.Trunc(v) && math.Abs(v) < 1<<63 {
			return int64(v)
		}
	}
	return v
}
