// Package replay judges the requests of a Kubernetes audit log: what an API server with other
// CRDs, or with the other schema semantics, would have answered.
package replay

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"espalier.dev/analysis"
	"espalier.dev/analysis/object"
	"espalier.dev/internal/jsonx"
	"espalier.dev/schema"
)

// The rules of findings. There also is [object.RuleSemantics].
const (
	RuleRejected = "replay-rejected"
	RuleAccepted = "replay-accepted"
)

// Rules describes the rules of findings.
func Rules() []analysis.Rule {
	return []analysis.Rule{
		{ID: RuleRejected, Severity: analysis.Error, Summary: "The log has an accepted request that would be rejected."},
		{ID: RuleAccepted, Severity: analysis.Warning, Summary: "The log has a rejected request that would be accepted."},
		{ID: object.RuleSemantics, Severity: analysis.Warning, Summary: "The kep and kubernetes semantics give different answers to a request."},
	}
}

// A Skip is a reason why an event is not judged. It names such events.
type Skip string

// The reasons.
const (
	// Unfinished events are those of other stages of a request.
	Unfinished Skip = "other stages of a request"
	// OtherVerbs do not write one object.
	OtherVerbs Skip = "requests that write no object"
	// Subresources have rules of their own.
	Subresources Skip = "requests to subresources"
	// NoBody is a request that the audit policy logs without its object.
	NoBody Skip = "requests without an object in the log (audit level Metadata)"
	// NoPatched is a patch whose result is not in the log. The patch alone does not determine
	// the object.
	NoPatched Skip = "patches without their result in the log (audit level Request)"
	// Failed requests failed for reasons that have nothing to do with schemas.
	Failed Skip = "requests that failed for other reasons"
)

// Request is a request that writes a custom resource.
type Request struct {
	// Object is the object of the request or, for a patch, its result, as JSON.
	Object []byte
	// Update is set unless the request creates the object.
	Update bool
	// Code is the HTTP status of the answer, and Message the message of a failure.
	Code    int
	Message string
	// Fields is the field validation that the client asked for.
	Fields object.FieldValidation

	key      key
	response []byte
}

// key identifies an object in all its versions.
type key struct{ group, resource, namespace, name string }

// Accepted reports whether the API server accepted the request.
func (r *Request) Accepted() bool { return r.Code >= 200 && r.Code < 300 }

// event is the part of an audit event that is needed.
type event struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Stage      string `json:"stage"`
	Verb       string `json:"verb"`
	RequestURI string `json:"requestURI"`
	ObjectRef  *struct {
		Resource    string `json:"resource"`
		Namespace   string `json:"namespace"`
		Name        string `json:"name"`
		APIGroup    string `json:"apiGroup"`
		Subresource string `json:"subresource"`
	} `json:"objectRef"`
	ResponseStatus *struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
	} `json:"responseStatus"`
	RequestObject  json.RawMessage `json:"requestObject"`
	ResponseObject json.RawMessage `json:"responseObject"`
	// Items are the events of a list, as webhooks receive them.
	Items []json.RawMessage `json:"items"`
}

// Parse calls one of two functions for each event in a line of an audit log: do for a request
// that can be judged, and skip for all others.
func Parse(line []byte, do func(*Request), skip func(Skip)) error {
	var e event
	if err := json.Unmarshal(line, &e); err != nil {
		return fmt.Errorf("not an audit event: %w", err)
	}
	if !strings.HasPrefix(e.APIVersion, "audit.k8s.io/") || e.Kind != "Event" && e.Kind != "EventList" {
		return errors.New("not an audit event: apiVersion and kind must be audit.k8s.io/v1 and Event")
	}
	if e.Kind == "EventList" {
		for _, item := range e.Items {
			// Items of a list need no apiVersion and kind.
			one := event{APIVersion: e.APIVersion, Kind: "Event"}
			if err := json.Unmarshal(item, &one); err != nil {
				return fmt.Errorf("not an audit event: %w", err)
			}
			one.give(do, skip)
		}
		return nil
	}
	e.give(do, skip)
	return nil
}

func (e *event) give(do func(*Request), skip func(Skip)) {
	if r, reason := e.request(); r != nil {
		do(r)
	} else {
		skip(reason)
	}
}

// request returns the request of an event, or the reason why it is not judged.
func (e *event) request() (*Request, Skip) {
	switch {
	case e.Stage != "" && e.Stage != "ResponseComplete":
		return nil, Unfinished
	case e.ObjectRef == nil || e.Verb != "create" && e.Verb != "update" && e.Verb != "patch":
		return nil, OtherVerbs
	case e.ObjectRef.Subresource != "":
		return nil, Subresources
	case e.ResponseStatus == nil:
		return nil, Unfinished
	}
	r := &Request{
		Object: e.RequestObject, Update: e.Verb != "create", Code: e.ResponseStatus.Code, Message: e.ResponseStatus.Message,
		key: key{e.ObjectRef.APIGroup, e.ObjectRef.Resource, e.ObjectRef.Namespace, e.ObjectRef.Name},
	}
	if r.Accepted() && isObject(e.ResponseObject) {
		r.response = e.ResponseObject
	}
	switch {
	case !r.Accepted() && r.Code != http.StatusUnprocessableEntity && r.Code != http.StatusBadRequest:
		return nil, Failed
	case e.Verb == "patch" && r.response == nil:
		return nil, NoPatched
	case e.Verb == "patch":
		r.Object = r.response
	case !isObject(r.Object):
		return nil, NoBody
	}
	if u, err := url.Parse(e.RequestURI); err == nil {
		// Without the parameter, unknown fields are allowed, as with an unknown value.
		r.Fields, err = object.ParseFieldValidation(u.Query().Get("fieldValidation"))
		if err != nil || e.Verb == "patch" {
			r.Fields = object.Ignore
		}
	}
	return r, ""
}

func isObject(raw json.RawMessage) bool { return len(raw) > 0 && raw[0] == '{' }

// historySize is the maximum size of the objects in a History.
const historySize = 256 << 20

// History knows the last state of the objects of a log: the audit events of an update do not
// have the object before it.
type History struct {
	objects map[key][]byte
	size    int
}

// Old returns the object before an update, or nil.
func (h *History) Old(r *Request) (schema.Object, error) {
	text := h.objects[r.key]
	if text == nil || !r.Update {
		return nil, nil
	}
	value, err := jsonx.Parse(text)
	if err != nil {
		return nil, err
	}
	old, _ := value.(schema.Object)
	return old, nil
}

// Add adds a request, which becomes the last state of its object if it was accepted. The
// history forgets everything if it becomes too large.
func (h *History) Add(r *Request) {
	if !r.Accepted() || r.key.name == "" {
		return
	}
	text := r.response
	if text == nil {
		text = r.Object
	}
	if h.size += len(text) - len(h.objects[r.key]); h.objects == nil || h.size > historySize {
		h.objects, h.size = map[key][]byte{}, len(text)
	}
	h.objects[r.key] = text
}

// Judge returns where the answer to a request differs from that in the log, and where those of
// the two semantics differ. old is the object before an update, if it is known. If it is not,
// the object is judged as if it were created, and only the semantics are compared: values that
// the old object had may be tolerated.
func Judge(ctx context.Context, c *object.Checker, r *Request, old schema.Object) (findings []analysis.Finding) {
	source := r.Object
	if r.Update && old == nil {
		source = withoutVersion(source)
	}
	var rejections []string
	for _, f := range c.Check(ctx, source, old, r.Fields) {
		switch {
		case f.Rule == object.RuleSemantics:
			f.Severity, f.Pointer, f.Fix = analysis.Warning, "", nil
			findings = append(findings, f)
		case f.Severity == analysis.Error && f.Path != "":
			rejections = append(rejections, f.Path+": "+f.Message)
		case f.Severity == analysis.Error:
			rejections = append(rejections, f.Message)
		}
	}
	switch {
	case r.Accepted() && len(rejections) > 0 && !(r.Update && old == nil):
		findings = append(findings, analysis.Finding{Rule: RuleRejected, Severity: analysis.Error,
			Message: fmt.Sprintf("accepted with code %d in the log, but would be rejected", r.Code), Detail: rejections})
	case !r.Accepted() && len(rejections) == 0:
		f := analysis.Finding{Rule: RuleAccepted, Severity: analysis.Warning, Message: fmt.Sprintf("rejected with code %d in the log, but would be accepted", r.Code)}
		if r.Message != "" {
			f.Detail = []string{"in the log: " + r.Message}
		}
		findings = append(findings, f)
	}
	return findings
}

// withoutVersion returns an object without its resourceVersion, which an object that is created
// must not have.
func withoutVersion(source []byte) []byte {
	value, err := jsonx.Parse(source)
	if err != nil {
		return source // Check reports it
	}
	if o, ok := value.(schema.Object); ok {
		if meta, ok := o["metadata"].(schema.Object); ok {
			delete(meta, "resourceVersion")
		}
	}
	text, err := json.Marshal(value)
	if err != nil {
		return source
	}
	return text
}
