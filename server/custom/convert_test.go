package custom

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	"k8s.io/apiserver/pkg/audit"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/warning"

	"espalier.dev/crd"
	"espalier.dev/server/fields"
)

var errConversion = errors.New("the conversion fails")

// widget returns a widget in a version.
func widget(version string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.com/" + version, "kind": "Widget", "metadata": map[string]any{"name": "a"}, "spec": map[string]any{"size": int64(1), "name": "n"}}}
}

var (
	toV1 = runtimeschema.GroupVersion{Group: "example.com", Version: "v1"}
	toV2 = runtimeschema.GroupVersion{Group: "example.com", Version: "v2"}
)

// appliedKind is a Kind that checks configurations.
type appliedKind struct {
	*customKind
	known      string
	complaints []error
	err        error
	report     *bool
}

func (k appliedKind) New() runtime.Object { return &corev1.Pod{} }

func (k appliedKind) CheckStrategic(patch []byte) ([]byte, error) {
	if k.err != nil {
		return nil, k.err
	}
	return bytes.ReplaceAll(patch, []byte(`"foreign":1,`), nil), nil
}

func (k appliedKind) CheckApplied(src []byte, report bool) ([]byte, []error, error) {
	if *k.report = report; !report {
		k.complaints = nil
	}
	if k.known == "" {
		return src, k.complaints, k.err
	}
	return []byte(k.known), k.complaints, k.err
}

// warnings collects warnings.
type warnings []string

func (w *warnings) AddWarning(_, text string) { *w = append(*w, text) }

// TestCheckApplied checks what becomes of a configuration before it is applied.
func TestCheckApplied(t *testing.T) {
	t.Parallel()
	h := newMemoryServer(t, fixedSource{crd.NewCatalog()}, nil).handler
	bogus := errors.New("unknown field bogus")
	for name, test := range map[string]struct {
		query, body string
		kind        appliedKind
		code        int
		next        string // the body that is applied
		warns       int
		report      bool
	}{
		"plain":          {"", `a: 1`, appliedKind{}, http.StatusOK, `a: 1`, 0, true},
		"not an object":  {"", `[1]`, appliedKind{err: bogus}, http.StatusOK, `[1]`, 0, false},
		"not YAML":       {"", "a: b: c", appliedKind{err: bogus}, http.StatusOK, "a: b: c", 0, false},
		"dropped":        {"", `{"a":1,"b":2}`, appliedKind{known: `{"a":1}`, complaints: []error{bogus}}, http.StatusOK, `{"a":1}`, 1, true},
		"dropped, twice": {"", "a: 1\na: 2\n", appliedKind{known: `{"a":3}`, complaints: []error{bogus}}, http.StatusOK, `{"a":3}`, 2, true},
		"same, twice":    {"", "a: 1\na: 2\n", appliedKind{complaints: []error{bogus}}, http.StatusOK, "a: 1\na: 2\n", 1, true},
		"ignored":        {"?fieldValidation=Ignore", "a: 1\na: 2\n", appliedKind{known: `{"a":3}`, complaints: []error{bogus}}, http.StatusOK, `{"a":3}`, 0, false},
		"strict":         {"?fieldValidation=Strict", `{"a":1,"b":2}`, appliedKind{known: `{"a":1}`, complaints: []error{bogus}}, http.StatusBadRequest, "", 0, true},
		"strict, clean":  {"?fieldValidation=Strict", `{"a":1}`, appliedKind{}, http.StatusOK, `{"a":1}`, 0, true},
		"error":          {"", `{"a":1}`, appliedKind{err: bogus}, http.StatusBadRequest, "", 0, true},
	} {
		var report bool
		test.kind.report = &report
		got := ""
		next := func(w http.ResponseWriter, req *http.Request) {
			body, err := io.ReadAll(req.Body)
			if err != nil {
				t.Error(err)
			}
			got = string(body)
			w.WriteHeader(http.StatusOK)
		}
		var warned warnings
		req := httptest.NewRequest(http.MethodPatch, "/"+test.query, strings.NewReader(test.body))
		w := httptest.NewRecorder()
		h.checkApplied(test.kind, &apirequest.RequestInfo{}, next)(w, req.WithContext(warning.WithWarningRecorder(context.Background(), &warned)))
		if w.Code != test.code || got != test.next || len(warned) != test.warns || report != test.report || test.code != http.StatusOK && !strings.Contains(w.Body.String(), "error decoding patch: ") {
			t.Errorf("%s: %d %s, applied %q, warnings %q, reported: %v", name, w.Code, w.Body, got, warned, report)
		}
	}
}

// TestCheckStrategicAudit shows that a rejected strategic merge patch is recorded.
func TestCheckStrategicAudit(t *testing.T) {
	t.Parallel()
	h := newMemoryServer(t, fixedSource{crd.NewCatalog()}, nil).handler
	for level, want := range map[auditinternal.Level]bool{auditinternal.LevelMetadata: false, auditinternal.LevelRequest: true} {
		req := httptest.NewRequest(http.MethodPatch, "/", strings.NewReader(`{"a":1}`))
		ctx, recorder := audit.WithAuditContext(req.Context()), &auditRecorder{}
		if err := audit.AuditContextFrom(ctx).Init(audit.RequestAuditConfig{Level: level}, recorder); err != nil {
			t.Fatal(err)
		}
		h.checkStrategic(appliedKind{err: errors.New("superseded")}, &apirequest.RequestInfo{}, nil)(httptest.NewRecorder(), req.WithContext(ctx))
		audit.AuditContextFrom(ctx).ProcessEventStage(ctx, auditinternal.StageResponseComplete)
		if recorded := strings.HasPrefix(recorder.text, `{"a":1}`); recorded != want {
			t.Errorf("%s: records %s", level, recorder.text)
		}
	}
}

// TestAppliedMisfit checks the error for fields that do not exist, if they are not dropped.
func TestAppliedMisfit(t *testing.T) {
	t.Parallel()
	h := newMemoryServer(t, fixedSource{crd.NewCatalog()}, nil).handler
	w := httptest.NewRecorder()
	misfit := appliedKind{err: &fields.MisfitError{Err: errors.New(".b: field not declared in schema")}, report: new(bool)}
	info := &apirequest.RequestInfo{Name: "n"}
	h.checkApplied(misfit, info, nil)(w, httptest.NewRequest(http.MethodPatch, "/", strings.NewReader(`{"b":1}`)))
	const want = `"status":"Failure","message":"failed to create typed patch object (/n; /, Kind=): .b: field not declared in schema","code":500}`
	if w.Code != http.StatusInternalServerError || !strings.Contains(w.Body.String(), want) {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	// Of several documents, the first one counts.
	w = httptest.NewRecorder()
	next := func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) }
	h.checkApplied(appliedKind{report: new(bool)}, info, next)(w, httptest.NewRequest(http.MethodPatch, "/", strings.NewReader("{\"a\":1}\n---\n{\"b\":1}\n")))
	if w.Code != http.StatusTeapot {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}
