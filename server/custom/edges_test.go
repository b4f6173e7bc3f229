package custom

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"espalier.dev/crd"
	"espalier.dev/schema"
)

// changing is an admission plugin that changes objects.
type changing struct {
	change    func(obj *unstructured.Unstructured)
	defaults  bool // whether it asks for defaults, as webhooks and policies do
	err       error
	ended     *bool
	validated *int
}

func (changing) Handles(op admission.Operation) bool { return op != admission.Connect }

func (c changing) Admit(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	u, ok := a.GetObject().(*unstructured.Unstructured)
	if !ok {
		return nil
	}
	c.change(u)
	if c.defaults {
		o.GetObjectDefaulter().Default(u)
	}
	*c.ended = ctx.Err() != nil
	return c.err
}

func (c changing) Validate(context.Context, admission.Attributes, admission.ObjectInterfaces) error {
	*c.validated++
	return nil
}

// TestMutations checks what becomes of the changes of mutating admission.
func TestMutations(t *testing.T) {
	t.Parallel()
	spec := func(name string, value any) func(*unstructured.Unstructured) {
		return func(u *unstructured.Unstructured) { u.Object["spec"].(map[string]any)[name] = value }
	}
	rename := func(u *unstructured.Unstructured) { u.SetAPIVersion("example.com/v2") }
	denied := errors.New("denied")
	for name, test := range map[string]struct {
		semantics schema.Semantics
		change    func(*unstructured.Unstructured)
		defaults  bool
		err       error
		code      int
		says      string // in the answer
		not       string // not in the answer
		ended     bool
	}{
		"none":                          {schema.KEP, func(*unstructured.Unstructured) {}, false, nil, 201, `"size":1`, "", false},
		"unknown":                       {schema.KEP, spec("bogus", "b"), true, nil, 201, `"size":1`, "bogus", false},
		"unknown, kubernetes":           {schema.Kubernetes, spec("bogus", "b"), true, nil, 201, `"bogus":"b"`, "", false},
		"unknown, without defaults":     {schema.KEP, spec("bogus", "b"), false, nil, 201, `"bogus":"b"`, "", false},
		"default":                       {schema.KEP, func(u *unstructured.Unstructured) { delete(u.Object["spec"].(map[string]any), "name") }, true, nil, 201, `"name":"x"`, "", false},
		"contradiction":                 {schema.KEP, spec("size", "big"), true, nil, 400, "malformed after the changes of mutating admission", "", true},
		"contradiction and error":       {schema.KEP, spec("size", "big"), true, denied, 400, "malformed after the changes of mutating admission", "", true},
		"contradiction, kubernetes":     {schema.Kubernetes, spec("size", "big"), true, nil, 422, "spec.size", "", false},
		"error":                         {schema.KEP, spec("size", int64(2)), true, denied, 500, "denied", "", false},
		"another version":               {schema.KEP, rename, true, nil, 400, "", "", false},
		"a version that does not exist": {schema.KEP, func(u *unstructured.Unstructured) { u.SetAPIVersion("example.com/v9") }, true, nil, 400, "", "", false},
		"another kind":                  {schema.KEP, func(u *unstructured.Unstructured) { u.SetAPIVersion("other.com/v1") }, true, nil, 400, "", "", false},
	} {
		ended, validated := false, 0
		s := newWidgetServer(t, widgetCRD, test.semantics, changing{test.change, test.defaults, test.err, &ended, &validated})
		w := sendTo(s, http.MethodPost, widgetPath, "application/json", `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"a"},"spec":{"size":1}}`)
		if name == "another version" || name == "another kind" || name == "a version that does not exist" {
			if w.Code < 400 {
				t.Errorf("%s: %d %s", name, w.Code, w.Body)
			}
			continue
		}
		found, err := s.client.Get(t.Context(), "/registry/example.com/widgets/n/a")
		if err != nil {
			t.Fatal(err)
		}
		text := w.Body.String()
		if len(found.Kvs) > 0 {
			text += string(found.Kvs[0].Value) // what is stored may have more fields
		}
		if w.Code != test.code || !strings.Contains(text, test.says) || test.not != "" && strings.Contains(text, test.not) || ended != test.ended || (validated > 0) != (test.code == 201) {
			t.Errorf("%s: %d %s, ended: %v, validated %d times", name, w.Code, w.Body, ended, validated)
		}
	}
	// What is already stored may contradict the schema.
	ended, validated := false, 0
	s := newWidgetServer(t, widgetCRD, schema.KEP, changing{spec("size", "big"), true, nil, &ended, &validated})
	s.put(t, "a", `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"a","namespace":"n","uid":"u","generation":1},"spec":{"size":"big"}}`)
	if w := sendTo(s, http.MethodPatch, widgetPath+"/a", "application/merge-patch+json", `{"metadata":{"labels":{"a":"b"}}}`); w.Code == http.StatusBadRequest {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// put stores a widget, and waits until the store has it.
func (s *memoryServer) put(t *testing.T, name, text string) {
	t.Helper()
	if _, err := s.client.Put(t.Context(), "/registry/example.com/widgets/n/"+name, text); err != nil {
		t.Fatal(err)
	}
	if _, err := s.store.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// TestDeletions checks what is left of objects by deletions with different options.
func TestDeletions(t *testing.T) {
	t.Parallel()
	s := newWidgetServer(t, widgetCRD, schema.KEP)
	object := func(metadata string) string {
		return `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"a","namespace":"n","uid":"u","generation":1` + metadata + `},"spec":{}}`
	}
	for name, test := range map[string]struct {
		stored, options string
		code            int
		left            string // part of what is left, or empty if it is gone
	}{
		"plain":               {object(""), `{}`, 200, ""},
		"background":          {object(""), `{"propagationPolicy":"Background"}`, 200, ""},
		"foreground":          {object(""), `{"propagationPolicy":"Foreground"}`, 200, "foregroundDeletion"},
		"orphan":              {object(""), `{"propagationPolicy":"Orphan"}`, 200, `"orphan"`},
		"orphan dependents":   {object(""), `{"orphanDependents":true}`, 200, `"orphan"`},
		"no orphans":          {object(""), `{"orphanDependents":false}`, 200, ""},
		"dry run":             {object(""), `{"dryRun":["All"]}`, 200, `"name":"a"`},
		"UID":                 {object(""), `{"preconditions":{"uid":"u"}}`, 200, ""},
		"another UID":         {object(""), `{"preconditions":{"uid":"w"}}`, 409, `"name":"a"`},
		"finalizer":           {object(`,"finalizers":["example.com/f"]`), `{}`, 200, "deletionTimestamp"},
		"being deleted":       {object(`,"deletionTimestamp":"2020-01-01T00:00:00Z","deletionGracePeriodSeconds":0,"finalizers":["example.com/f"]`), `{}`, 200, "2020-01-01"},
		"being deleted at 0":  {object(`,"deletionTimestamp":"2020-01-01T00:00:00Z","deletionGracePeriodSeconds":0`), `{}`, 200, ""},
		"that does not exist": {"", `{}`, 404, ""},
	} {
		if test.stored != "" {
			s.put(t, "a", test.stored)
		} else if _, err := s.client.Delete(t.Context(), "/registry/example.com/widgets/n/a"); err != nil {
			t.Fatal(err)
		}
		if _, err := s.store.Sync(t.Context()); err != nil {
			t.Fatal(err)
		}
		w := sendTo(s, http.MethodDelete, widgetPath+"/a", "application/json", test.options)
		found, err := s.client.Get(t.Context(), "/registry/example.com/widgets/n/a")
		if err != nil {
			t.Fatal(err)
		}
		left := ""
		if len(found.Kvs) > 0 {
			left = string(found.Kvs[0].Value)
		}
		if w.Code != test.code || (left == "") != (test.left == "") || !strings.Contains(left, test.left) {
			t.Errorf("%s: %d %s, left %s", name, w.Code, w.Body, left)
		}
		if name == "plain" && (!strings.Contains(w.Body.String(), `"status":"Success"`) || !strings.Contains(w.Body.String(), `"uid":"u"`) || !strings.Contains(w.Body.String(), `"name":"a"`) || !strings.Contains(w.Body.String(), `"kind":"widgets"`)) {
			t.Errorf("%s: %s", name, w.Body)
		}
	}
	if w := sendTo(s, http.MethodDelete, widgetPath+"/a%25b", "application/json", "{}"); w.Code != http.StatusNotFound && w.Code != http.StatusBadRequest {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	_, orphan := true, metav1.DeletePropagationOrphan
	background, foreground := metav1.DeletePropagationBackground, metav1.DeletePropagationForeground
	for name, test := range map[string]struct {
		options *metav1.DeleteOptions
		want    bool
	}{
		"none": {&metav1.DeleteOptions{}, false}, "background": {&metav1.DeleteOptions{PropagationPolicy: &background}, false},
		"foreground": {&metav1.DeleteOptions{PropagationPolicy: &foreground}, true}, "orphan": {&metav1.DeleteOptions{PropagationPolicy: &orphan}, true},
	} {
		if addsFinalizer(test.options) != test.want {
			t.Errorf("%s: adds a finalizer: %v", name, !test.want)
		}
	}
}

// answering is an authorizer with one answer.
type answering struct {
	decision authorizer.Decision
	err      error
	asked    *authorizer.Attributes
}

func (a answering) Authorize(_ context.Context, attributes authorizer.Attributes) (authorizer.Decision, string, error) {
	*a.asked = attributes
	return a.decision, "a reason", a.err
}

// TestAppliedCreates checks which users may create objects with server-side apply.
func TestAppliedCreates(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	for name, test := range map[string]struct {
		decision authorizer.Decision
		err      error
		code     int
	}{
		"allowed": {authorizer.DecisionAllow, nil, 201}, "allowed with an error": {authorizer.DecisionAllow, broken, 201},
		"denied": {authorizer.DecisionDeny, nil, 403}, "no opinion": {authorizer.DecisionNoOpinion, nil, 403}, "broken": {authorizer.DecisionNoOpinion, broken, 500},
	} {
		var asked authorizer.Attributes
		s := newMemoryServer(t, fixedSource{crd.NewCatalog(newWidgets(t, widgetCRD, schema.KEP))}, func(c *Config) {
			c.Authorizer = answering{test.decision, test.err, &asked}
		})
		w := sendTo(s, http.MethodPatch, widgetPath+"/a?fieldManager=m", "application/apply-patch+yaml", `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"a"},"spec":{"size":1}}`)
		if w.Code != test.code || asked.GetVerb() != "create" || asked.GetNamespace() != "n" || asked.GetName() != "a" || asked.GetResource() != "widgets" || asked.GetUser().GetName() != "tester" {
			t.Errorf("%s: %d %s, %v", name, w.Code, w.Body, asked)
		}
	}
}

// TestWriteErrors checks the answers to requests with invalid parameters and bodies.
func TestWriteErrors(t *testing.T) {
	t.Parallel()
	s := newWidgetServer(t, widgetCRD, schema.KEP)
	const object = `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"a"},"spec":{"size":1}}`
	if w := sendTo(s, http.MethodPost, widgetPath, "application/json", object); w.Code != http.StatusCreated {
		t.Fatal(w.Code, w.Body)
	}
	const merge, apply, patch = "application/merge-patch+json", "application/apply-patch+yaml", "application/json-patch+json"
	for _, test := range []struct {
		method, path, contentType, body string
		code                            int
		says                            string
	}{
		{http.MethodPost, "", "application/json", object, 409, "already exists"},
		{http.MethodPost, "?dryRun=x", "application/json", object, 422, "CreateOptions"},
		{http.MethodPut, "/a?dryRun=x", "application/json", object, 422, "UpdateOptions"},
		{http.MethodPatch, "/a?dryRun=x", merge, "{}", 422, "PatchOptions"},
		{http.MethodPost, "?dryRun=All", "application/json", strings.Replace(object, `"a"`, `"b"`, 1), 201, `"name":"b"`},
		{http.MethodPost, "", "application/xml", object, 415, "application/json"},
		{http.MethodPut, "/a", "application/xml", object, 415, "application/json"},
		{http.MethodPost, "", "application/json", strings.Replace(object, `"name":"a"`, `"name":"a","namespace":"m"`, 1), 400, "namespace"},
		{http.MethodPut, "/a", "application/json", strings.Replace(object, `"name":"a"`, `"name":"a","namespace":"m"`, 1), 400, "namespace"},
		{http.MethodPatch, "/a", merge, `{"metadata":{"namespace":"m"}}`, 400, "namespace"},
		{http.MethodPut, "/a", "application/json", strings.Replace(object, `"a"`, `"b"`, 1), 400, "does not match the name on the URL"},
		{http.MethodPut, "/a", "application/json", object, 422, "must be specified for an update"},
		{http.MethodPut, "/b", "application/json", strings.Replace(object, `"name":"a"`, `"name":"b","resourceVersion":"1"`, 1), 404, "not found"},
		{http.MethodPatch, "/b", merge, `{}`, 404, "not found"},
		{http.MethodPut, "/a", "application/json", strings.Replace(object, `"name":"a"`, `"name":"a","resourceVersion":"1"`, 1), 409, "the object has been modified"},
		{http.MethodPut, "/a", "application/json", strings.Replace(object, `"name":"a"`, `"name":"a","uid":"w","resourceVersion":"1"`, 1), 409, ""},
		{http.MethodPut, "/a", "application/json", strings.Replace(object, `"name":"a"`, `"name":"a","resourceVersion":"1x"`, 1), 400, `metadata.resourceVersion: Invalid value: \"1x\"`},
		{http.MethodPatch, "/a", merge, `{"metadata":{"name":"b"}}`, 400, "does not match the name on the URL"},
		{http.MethodPatch, "/a", merge, `{`, 400, "invalid JSON patch"},
		{http.MethodPatch, "/a", patch, `{}`, 400, "error decoding patch"},
		{http.MethodPatch, "/a?fieldValidation=Ignore", patch, `{}`, 400, ""},
		{http.MethodPatch, "/a", patch, `[{"op":"test","path":"/spec/size","value":7}]`, 422, `"reason":"Invalid"`},
		{http.MethodPatch, "/a", patch, `[{"op":"remove","path":"/spec/size","bogus":1}]`, 200, ""},
		{http.MethodPatch, "/a?fieldValidation=Strict", patch, `[{"op":"add","path":"/spec/size","value":1,"bogus":1}]`, 422, "json patch unknown field"},
		{http.MethodPatch, "/a?fieldValidation=Strict", merge, `{"spec":{"size":1,"size":2}}`, 422, "duplicate field"},
		{http.MethodPatch, "/a?fieldValidation=Strict", merge, `{"spec":{"bogus":1}}`, 422, "unknown field"},
		{http.MethodPatch, "/a", merge, `[]`, 400, "error decoding patch"},
		{http.MethodPatch, "/a?fieldValidation=Ignore", merge, `[]`, 422, "an object is expected"},
		{http.MethodPatch, "/a", merge, `{"spec":{"size":"x"}}`, 400, "spec.size"},
		{http.MethodPatch, "/a", merge, `{"kind":""}`, 422, "Kind"},
		{http.MethodPatch, "/a", "application/strategic-merge-patch+json", `{}`, 415, ""},
		{http.MethodPatch, "/a", merge + "; charset=utf-8", `{"spec":{"size":4}}`, 200, `"size":4`},
		{http.MethodPatch, "/a", apply, object, 422, "fieldManager"},
		{http.MethodPatch, "/a?fieldManager=m", apply, "a: b: c", 400, "error encoding patch"},
		{http.MethodPatch, "/a?fieldManager=m", apply, "[]", 400, "error decoding patch"},
		{http.MethodPatch, "/a?fieldManager=m", apply, object, 409, "conflict"},
		{http.MethodPatch, "/a?fieldManager=m&force=true", apply, object, 200, `"size":1`},
		{http.MethodPatch, "/a?fieldManager=m&force=true", apply, "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: a}\nspec: {size: 2, size: 2}\n", 200, `"size":2`},
		{http.MethodPatch, "/a?fieldManager=m&force=true&fieldValidation=Strict", apply, "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: a}\nspec: {size: 3, size: 3}\n", 400, "error strict decoding patch"},
		{http.MethodPatch, "/a?fieldManager=m&force=true", apply, strings.Replace(object, `"size":1`, `"size":"x"`, 1), 400, ""},
		{http.MethodPatch, "/c?fieldManager=m", apply, strings.Replace(object, `"name":"a"`, `"name":"c","uid":"u"`, 1), 409, "uid mismatch"},
		{http.MethodPatch, "/c?fieldManager=m", apply, strings.Replace(object, `"a"`, `"c"`, 1), 201, `"name":"c"`},
		{http.MethodPatch, "/c/status?fieldManager=m", apply, `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"c"},"status":{"phase":"p"}}`, 200, `"phase":"p"`},
		{http.MethodPatch, "/d/status?fieldManager=m", apply, `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"d"},"status":{"phase":"p"}}`, 404, "not found"},
		{http.MethodPost, "", "application/json", strings.Replace(object, "example.com/v1", "example.com/v2", 1), 400, "does not match the expected API version"},
		{http.MethodPost, "", "application/json", "", 400, "empty"},
		{http.MethodPost, "", "application/json", "{", 400, "({)"},
		{http.MethodPost, "", "application/json", "xy", 400, "(7879)"},
		{http.MethodPost, "", "application/json", "{" + strings.Repeat("x", 29), 400, "{" + strings.Repeat("x", 29) + ")"},
		{http.MethodPost, "", "application/json", "{" + strings.Repeat("x", 30), 400, "{" + strings.Repeat("x", 29) + " ...)"},
		{http.MethodPost, "", "application/json", strings.Replace(object, `"size":1`, `"size":"x"`, 1), 400, "Widget in version"},
		{http.MethodPost, "", "application/json", strings.Replace(object, `"name":"a"`, `"generateName":"g-"`, 1), 201, `"name":"g-`},
		{http.MethodPost, "?fieldValidation=Strict", "application/json", strings.Replace(object, `"name":"a"},`, `"name":"e"},"bogus":1,`, 1), 400, "unknown field"},
		{http.MethodPost, "", "application/json", strings.Replace(object, `"a"`, `"f"`, 1) + strings.Repeat(" ", 3<<20-len(object)), 201, `"name":"f"`},
		{http.MethodPost, "", "application/json", strings.Replace(object, `"a"`, `"h"`, 1) + strings.Repeat(" ", 3<<20-len(object)+1), 413, "limit is 3145728"},
	} {
		w := sendTo(s, test.method, widgetPath+test.path, test.contentType, test.body)
		if w.Code != test.code || !strings.Contains(w.Body.String(), test.says) {
			t.Errorf("%s %s %.100s: %d %.600s, want %d %s", test.method, test.path, test.body, w.Code, w.Body, test.code, test.says)
		}
	}
	// The length of a body may be wrong.
	for i, length := range []int64{-1, 0, 1, math.MaxInt64} {
		req := httptest.NewRequest(http.MethodPost, widgetPath, strings.NewReader(strings.Replace(object, `"a"`, fmt.Sprintf(`"length%d"`, i), 1)))
		req.Header.Set("Content-Type", "application/json")
		req.ContentLength = length
		w := httptest.NewRecorder()
		if s.ServeHTTP(w, req); w.Code != http.StatusCreated {
			t.Errorf("length %d: %d %s", length, w.Code, w.Body)
		}
	}
	// A name that is taken by an object that is being deleted.
	s.put(t, "z", `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"z","namespace":"n","uid":"u","generation":1,"deletionTimestamp":"2020-01-01T00:00:00Z","finalizers":["example.com/f"]},"spec":{}}`)
	for name, deleted := range map[string]bool{"z": true, "a": false} {
		if w := sendTo(s, http.MethodPost, widgetPath, "application/json", strings.Replace(object, `"a"`, `"`+name+`"`, 1)); w.Code != http.StatusConflict || strings.Contains(w.Body.String(), "object is being deleted: ") != deleted {
			t.Errorf("%s: %d %s", name, w.Code, w.Body)
		}
	}
	// The removal of the last finalizer deletes it.
	if w := sendTo(s, http.MethodPatch, widgetPath+"/z?dryRun=All", merge, `{"metadata":{"finalizers":null}}`); w.Code != http.StatusOK {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if w := sendTo(s, http.MethodPatch, widgetPath+"/z", merge, `{"metadata":{"finalizers":null}}`); w.Code != http.StatusOK {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if w := sendTo(s, http.MethodGet, widgetPath+"/z", "", ""); w.Code != http.StatusNotFound {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// TestTerminating checks that nothing is created while the CRD is being deleted.
func TestTerminating(t *testing.T) {
	t.Parallel()
	s := newWidgetServer(t, strings.Replace(widgetCRD, `"uid":"u"`, `"uid":"u","deletionTimestamp":"2020-01-01T00:00:00Z"`, 1), schema.KEP)
	s.put(t, "a", `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"a","namespace":"n","uid":"u","generation":1},"spec":{}}`)
	const object = `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"b"},"spec":{"size":1}}`
	for _, query := range []string{"", "?dryRun=All"} {
		if w := sendTo(s, http.MethodPost, widgetPath+query, "application/json", object); w.Code != http.StatusForbidden || !strings.Contains(w.Body.String(), "create not allowed while custom resource definition is terminating") {
			t.Errorf("%d %s", w.Code, w.Body)
		}
	}
	if w := sendTo(s, http.MethodPatch, widgetPath+"/b?fieldManager=m", "application/apply-patch+yaml", object); w.Code != http.StatusForbidden {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if w := sendTo(s, http.MethodPatch, widgetPath+"/a", "application/merge-patch+json", `{"spec":{"size":2}}`); w.Code != http.StatusOK {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	// The same for what the handlers of k8s.io/apiserver admit.
	of, err := s.handler.acquire(s.handler.config.Source.Catalog().Get("widgets.example.com"))
	if err != nil {
		t.Fatal(err)
	}
	defer of.requests.Release()
	ended, validated := false, 0
	gate := &creationGate{changing{func(*unstructured.Unstructured) {}, false, errConversion, &ended, &validated}, of}
	attributes := func(op admission.Operation) admission.Attributes {
		return admission.NewAttributesRecord(widget("v1"), nil, runtimeschema.GroupVersionKind{}, "n", "a", toV1.WithResource("widgets"), "", op, nil, false, &user.DefaultInfo{})
	}
	if err := gate.Admit(t.Context(), attributes(admission.Create), nil); !apierrors.IsForbidden(err) {
		t.Error(err)
	}
	if err := gate.Admit(t.Context(), attributes(admission.Update), nil); !errors.Is(err, errConversion) {
		t.Error(err)
	}
	if err := gate.Admit(t.Context(), attributes(admission.Connect), nil); err != nil {
		t.Error(err)
	}
	if err := gate.Validate(t.Context(), attributes(admission.Update), nil); err != nil || validated != 1 {
		t.Error(err, validated)
	}
	if err := gate.Validate(t.Context(), attributes(admission.Connect), nil); err != nil || validated != 1 {
		t.Error(err, validated)
	}
	if !gate.Handles(admission.Create) || !gate.Handles(admission.Update) || gate.Handles(admission.Connect) {
		t.Error("the wrong operations")
	}
}
