package custom

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/admission"
	auditinternal "k8s.io/apiserver/pkg/apis/audit"

	"espalier.dev/crd"
	"espalier.dev/schema"
)

// watchful is a plugin that looks at objects if look is set, and returns err.
type watchful struct {
	look     bool
	err      error
	admitted int
	seen     []string
}

func (*watchful) Handles(op admission.Operation) bool { return op == admission.Update }

func (p *watchful) Admit(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	p.admitted++
	if p.look {
		u, err := json.Marshal(a.GetObject())
		p.seen = append(p.seen, string(u))
		if err != nil {
			return err
		}
	}
	return p.err
}

const (
	noopPath   = widgetPath + "/a?fieldManager=m"
	noopWidget = `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"a"},"spec":{"size":1,"tags":["x"]}}`
)

// applyWidget applies a configuration, and returns the response.
func applyWidget(t *testing.T, s http.Handler, path, config string) *httptest.ResponseRecorder {
	t.Helper()
	return sendTo(s, http.MethodPatch, path, "application/apply-patch+yaml", config)
}

// newNoopServer returns a server that remembers the apply of noopWidget.
func newNoopServer(t *testing.T, source Source, plugins ...admission.Interface) *memoryServer {
	t.Helper()
	s := newMemoryServer(t, source, nil, plugins...)
	// The second one stores the defaults of the status, which a create leaves out. One is remembered when the store has the object.
	for i := range 1000 {
		w := applyWidget(t, s, noopPath, noopWidget)
		if want := map[bool]int{true: http.StatusCreated, false: http.StatusOK}[i == 0]; w.Code != want {
			t.Fatalf("%d: %d %s", i, w.Code, w.Body)
		}
		if s.handler.noops.known.Len() > 0 {
			break
		}
		time.Sleep(time.Millisecond)
	}
	if n := s.handler.noops.known.Len(); n != 1 {
		t.Fatalf("%d applies are remembered", n)
	}
	last := applyWidget(t, s, noopPath, noopWidget).Body.String()
	if w := sendTo(s, http.MethodGet, widgetPath+"/a", "", ""); w.Body.String() != last {
		t.Errorf("got %s, want what a GET returns: %s", last, w.Body)
	}
	return s
}

func widgetSource(t *testing.T, text string) *refreshedSource {
	t.Helper()
	return &refreshedSource{catalog: crd.NewCatalog(newWidgets(t, text, schema.KEP))}
}

// TestRepeatedApply checks that an apply that is known to change nothing is done again when the object, the CRD, or something in the
// request is different.
func TestRepeatedApply(t *testing.T) {
	t.Parallel()
	source := widgetSource(t, widgetCRD)
	s := newNoopServer(t, source)
	contains := func(name string, w *httptest.ResponseRecorder, code int, want string) {
		t.Helper()
		if w.Code != code || !strings.Contains(w.Body.String(), want) {
			t.Errorf("%s: %d %s, want %d with %s", name, w.Code, w.Body, code, want)
		}
	}
	contains("another manager", applyWidget(t, s, widgetPath+"/a?fieldManager=n", noopWidget), 200, `"manager":"n"`)
	contains("the first manager again", applyWidget(t, s, noopPath, noopWidget), 200, `"manager":"n"`)
	contains("a change", sendTo(s, http.MethodPatch, widgetPath+"/a?fieldManager=o", "application/merge-patch+json", `{"spec":{"size":2}}`), 200, `"size":2`)
	contains("a conflict", applyWidget(t, s, noopPath, noopWidget), 409, `conflict with`)
	contains("force", applyWidget(t, s, noopPath+"&force=true", noopWidget), 200, `"size":1`)
	contains("less", applyWidget(t, s, noopPath, strings.Replace(noopWidget, `,"tags":["x"]`, "", 1)), 200, `"size":1`)
	for range 2 {
		contains("the status", applyWidget(t, s, widgetPath+"/a/status?fieldManager=m", strings.Replace(noopWidget, `"spec"`, `"status":{"phase":"p"},"spec"`, 1)), 200, `"phase":"p"`)
	}
	for range 3 {
		contains("a dry run", applyWidget(t, s, noopPath+"&dryRun=All", noopWidget), 200, `"tags":["x"]`)
	}
	contains("no dry run", applyWidget(t, s, noopPath, noopWidget), 200, `"tags":["x"]`)
	contains("again", applyWidget(t, s, noopPath, noopWidget), 200, `"tags":["x"]`)

	source.catalog = crd.NewCatalog(newWidgets(t, strings.Replace(widgetCRD, `"minimum":0`, `"minimum":5`, 1), schema.KEP))
	contains("another schema", applyWidget(t, s, noopPath, strings.Replace(noopWidget, `"size":1`, `"size":3`, 1)), 422, "spec.size")
	source.catalog = crd.NewCatalog(newWidgets(t, strings.Replace(widgetCRD, `"ratio":{"type":"number"}`, `"ratio":{"type":"number","default":7}`, 1), schema.KEP))
	contains("a default", applyWidget(t, s, noopPath, noopWidget), 200, `"ratio":7`)
	if w := sendTo(s, http.MethodDelete, widgetPath+"/a", "", ""); w.Code != 200 {
		t.Fatal(w.Code, w.Body)
	}
	contains("after a delete", applyWidget(t, s, noopPath, noopWidget), 201, `"tags":["x"]`)
}

// TestRepeatedApplyAdmission checks that admission plugins judge an apply that is known to change nothing.
func TestRepeatedApplyAdmission(t *testing.T) {
	t.Parallel()
	p := &watchful{}
	s := newNoopServer(t, widgetSource(t, widgetCRD), p)
	calls := p.admitted
	p.err = apierrors.NewForbidden(toV1.WithResource("widgets").GroupResource(), "a", errConversion)
	if w := applyWidget(t, s, noopPath, noopWidget); w.Code != http.StatusForbidden || p.admitted != calls+1 {
		t.Errorf("%d %s, %d calls", w.Code, w.Body, p.admitted-calls)
	}
	// A plugin that looks at the object sees that of a complete apply, and nothing is remembered.
	p.look, p.err = true, nil
	for i := range 2 {
		p.seen = nil
		w := applyWidget(t, s, noopPath, noopWidget)
		if n := s.handler.noops.known.Len(); w.Code != http.StatusOK || n != 0 {
			t.Errorf("%d: %d %s, %d applies are remembered", i, w.Code, w.Body, n)
		}
		if n := len(p.seen); n == 0 || !strings.Contains(p.seen[n-1], `"tags":["x"]`) {
			t.Errorf("%d: the plugin has seen %q", i, p.seen)
		}
	}
}

// TestRepeatedApplyWarnings checks that an apply with a warning has it each time.
func TestRepeatedApplyWarnings(t *testing.T) {
	t.Parallel()
	s := newNoopServer(t, widgetSource(t, widgetCRD))
	twice := strings.Replace(noopWidget, `"size":1`, `"size":1,"size":1`, 1)
	for i := range 3 {
		side := &side{handler: s, namespace: "n"}
		side.send(writeRequest{method: http.MethodPatch, path: "/apis/example.com/v1/namespaces/n/widgets/a", query: "?fieldManager=m", contentType: "application/apply-patch+yaml", body: twice})
		if side.code != http.StatusOK || !strings.Contains(side.warning, "size") {
			t.Errorf("%d: %d, warning %q", i, side.code, side.warning)
		}
	}
}

// TestAnnotations checks the annotations that plugins add to the audit event.
func TestAnnotations(t *testing.T) {
	t.Parallel()
	a := &attributes{Attributes: admission.NewAttributesRecord(nil, nil, toV1.WithKind("Widget"), "n", "a", toV1.WithResource("widgets"), "", admission.Create, nil, false, nil)}
	for _, level := range []auditinternal.Level{auditinternal.LevelMetadata, auditinternal.LevelRequest} {
		if err := a.AddAnnotationWithLevel("example.com/"+strings.ToLower(string(level)), "v", level); err != nil {
			t.Fatal(err)
		}
	}
	if err := a.AddAnnotation("example.com/plain", "v"); err != nil {
		t.Fatal(err)
	}
	if a.AddAnnotation("nothing", "v") == nil || a.AddAnnotation("example.com/plain", "w") == nil {
		t.Error("an invalid annotation was added")
	}
	for level, want := range map[auditinternal.Level]int{auditinternal.LevelNone: 0, auditinternal.LevelMetadata: 2, auditinternal.LevelRequest: 3, auditinternal.LevelRequestResponse: 3} {
		if got := a.GetAnnotations(level); len(got) != want {
			t.Errorf("%s: got %v", level, got)
		}
	}
}
