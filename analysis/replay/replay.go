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
	"espalier.dev/api"
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
		{ID: object.RuleSemantics, Severity: analysis.Warning,
			Summary: "The kep and kubernetes semantics give different answers to a request."},
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
	NoPatched Skip = "patches without their result in the log (rejected, or audit level Request)"
	// NoMutated is a request that admission webhooks have changed, without its result.
	NoMutated Skip = "requests that webhooks have changed, without their result in the log (audit level Request)"
	// Failed requests failed for reasons that have nothing to do with schemas.
	Failed Skip = "requests that failed for other reasons"
)

// Request is a request of the log.
type Request struct {
	// Skip is the reason why the request is not judged. Without one, it is a request that writes
	// a custom resource.
	Skip Skip
	// Object is the object of the request or, for a patch, its result, as JSON.
	Object []byte
	// Update is set unless the request creates the object.
	Update bool
	// Code is the HTTP status of the answer, and Message the message of a failure.
	Code    int
	Message string
	// Fields is the field validation that the client asked for.
	Fields object.FieldValidation

	key key
	// result is set if Object is the result of the request.
	result bool
	// version is the resourceVersion that the client sent, if any.
	version string
	// effect is what the request did to the stored objects, and after the object after it.
	effect effect
	after  []byte
}

// key identifies an object in all its versions.
type key struct{ group, resource, namespace, name string }

// effect is what a request does to the stored objects.
type effect uint8

const (
	nothing effect = iota
	// stored is an object that the log has.
	stored
	// changed is an object whose state after the request the log does not have, or that was
	// deleted.
	changed
	// changedAll is the same for all objects of a resource, in the namespace if there is one.
	changedAll
)

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
	RequestObject  json.RawMessage   `json:"requestObject"`
	ResponseObject json.RawMessage   `json:"responseObject"`
	Annotations    map[string]string `json:"annotations"`
	// Items are the events of a list, as webhooks receive them.
	Items []json.RawMessage `json:"items"`
}

// Parse calls do for each event in a line of an audit log.
func Parse(line []byte, do func(*Request)) error {
	var e event
	if err := json.Unmarshal(line, &e); err != nil {
		return notAnEvent(err)
	}
	if !strings.HasPrefix(e.APIVersion, "audit.k8s.io/") || e.Kind != "Event" && e.Kind != "EventList" {
		return errors.New("not an audit event: apiVersion and kind must be audit.k8s.io/v1 and Event")
	}
	if e.Kind == "EventList" {
		for _, item := range e.Items {
			// Items of a list need no apiVersion and kind.
			one := event{APIVersion: e.APIVersion, Kind: "Event"}
			if err := json.Unmarshal(item, &one); err != nil {
				return notAnEvent(err)
			}
			do(one.request())
		}
		return nil
	}
	do(e.request())
	return nil
}

// notAnEvent returns the error about a text that cannot be decoded.
func notAnEvent(err error) error {
	var wrong *json.UnmarshalTypeError
	if errors.As(err, &wrong) && wrong.Field != "" {
		return fmt.Errorf("not an audit event: the field %s must not be a JSON %s", wrong.Field, wrong.Value)
	}
	return errors.New("not an audit event: the line is no JSON object")
}

// request returns the request of an event.
func (e *event) request() *Request {
	switch {
	case e.Stage != "" && e.Stage != "ResponseComplete":
		return &Request{Skip: Unfinished}
	case e.ObjectRef == nil:
		return &Request{Skip: OtherVerbs}
	case e.ResponseStatus == nil:
		return &Request{Skip: Unfinished}
	}
	r := &Request{
		Code: e.ResponseStatus.Code, Message: e.ResponseStatus.Message,
		key: key{e.ObjectRef.APIGroup, e.ObjectRef.Resource, e.ObjectRef.Namespace, e.ObjectRef.Name},
	}
	var query url.Values
	if u, err := url.Parse(e.RequestURI); err == nil {
		query = u.Query()
	}
	var response []byte
	if r.Accepted() && e.isResource(e.ResponseObject) {
		response = e.ResponseObject
		if r.key.name == "" {
			r.key.name = metadataOf(response).Name // the server has generated it
		}
	}
	if r.Accepted() && query.Get("dryRun") == "" {
		r.effect, r.after = e.effect(response)
	}
	r.Skip = e.judged(r, response)
	if r.Skip != "" {
		return r
	}
	// A patch can create an object too.
	r.Update = e.Verb != "create" && r.Code != http.StatusCreated
	r.version = metadataOf(e.RequestObject).ResourceVersion
	if r.Object = e.RequestObject; e.Verb == "patch" || e.mutated() {
		r.Object, r.result = response, true
		return r
	}
	// Without the parameter, unknown fields are allowed, as with an unknown value.
	var err error
	if r.Fields, err = object.ParseFieldValidation(query.Get("fieldValidation")); err != nil {
		r.Fields = object.Ignore
	}
	return r
}

// judged returns the reason why a request is not judged, or nothing. response is the resource
// that the API server returned, if it is in the log.
func (e *event) judged(r *Request, response []byte) Skip {
	switch {
	case e.Verb != "create" && e.Verb != "update" && e.Verb != "patch":
		return OtherVerbs
	case e.ObjectRef.Subresource != "":
		return Subresources
	case !r.Accepted() && !e.isInvalid(r):
		return Failed
	case e.Verb == "patch" && response == nil:
		return NoPatched
	case e.Verb != "patch" && !isObject(e.RequestObject):
		return NoBody
	case e.mutated() && response == nil:
		return NoMutated
	}
	return ""
}

// isInvalid reports whether a request that failed may have failed because of the schema.
func (e *event) isInvalid(r *Request) bool {
	switch sent := metadataOf(e.RequestObject); {
	case r.Code != http.StatusUnprocessableEntity && r.Code != http.StatusBadRequest:
		return false
	case strings.HasPrefix(r.Message, "admission webhook "), strings.Contains(r.Message, " is forbidden: "):
		return false // admission can answer with any code
	case e.Verb != "update":
		return true
	default:
		// An update must have the name of the path, and a resourceVersion.
		return sent.Name == r.key.name && sent.ResourceVersion != ""
	}
}

// effect returns what a request that was accepted did to the stored objects.
func (e *event) effect(response []byte) (effect, []byte) {
	switch e.Verb {
	case "create", "update", "patch":
		switch {
		case response != nil:
			return stored, response
		case e.ObjectRef.Subresource != "" || e.Verb == "patch" || !isObject(e.RequestObject) || e.mutated():
			return changed, nil
		}
		// What the API server sets is that of the object before the request.
		return stored, without(e.RequestObject, "resourceVersion", "generation")
	case "delete":
		if response != nil && len(metadataOf(response).Finalizers) > 0 {
			return stored, response
		}
		return changed, nil
	case "deletecollection":
		return changedAll, nil
	}
	return nothing, nil
}

// isResource reports whether an object is of the group of the request. The answer can also be a
// Status, a Scale, or a Table.
func (e *event) isResource(raw json.RawMessage) bool {
	if !isObject(raw) {
		return false
	}
	id, err := api.Identify(raw)
	group, _, _ := strings.Cut(id.APIVersion, "/")
	return err == nil && group == e.ObjectRef.APIGroup
}

// mutated reports whether a webhook has changed the object of the request. Each webhook that was
// called has an annotation, whose name ends with a number.
func (e *event) mutated() bool {
	for name, value := range e.Annotations {
		var call struct {
			Mutated bool `json:"mutated"`
		}
		if strings.HasPrefix(name, "mutation.webhook.admission.k8s.io/") && json.Unmarshal([]byte(value), &call) == nil && call.Mutated {
			return true
		}
	}
	return false
}

// metadata is the part of an object's metadata that is needed.
type metadata struct {
	Name            string   `json:"name"`
	UID             string   `json:"uid"`
	ResourceVersion string   `json:"resourceVersion"`
	Generation      int64    `json:"generation"`
	Finalizers      []string `json:"finalizers"`
}

// metadataOf returns the metadata of an object in JSON. It is empty if it cannot be read.
func metadataOf(text []byte) metadata {
	var o struct {
		Metadata metadata `json:"metadata"`
	}
	if json.Unmarshal(text, &o) != nil {
		return metadata{}
	}
	return o.Metadata
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

// Old returns the object before an update, or nil if the log does not have it. Objects may have
// changed without an event in the log.
func (h *History) Old(r *Request) (schema.Object, error) {
	text := h.objects[r.key]
	if text == nil || !r.Update || !r.follows(metadataOf(text)) {
		return nil, nil
	}
	value, err := jsonx.Parse(text)
	if err != nil {
		return nil, err
	}
	old, _ := value.(schema.Object)
	if now, err := jsonx.Parse(r.Object); err == nil {
		complete(old, now)
	}
	return old, nil
}

// complete adds metadata to the object before an update that only the API server sets, and that
// the log may not have: clients repeat it.
func complete(old schema.Object, now any) {
	before, _ := old["metadata"].(schema.Object)
	after, _ := now.(schema.Object)
	given, _ := after["metadata"].(schema.Object)
	for _, name := range []string{"uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"} {
		if value, ok := given[name]; ok && before != nil && before[name] == nil {
			before[name] = value
		}
	}
}

// follows reports whether the object before an update can be that with the metadata. Logs without
// responses do not have most of it.
func (r *Request) follows(old metadata) bool {
	now := metadataOf(r.Object)
	switch {
	case now.UID != "" && old.UID != "" && now.UID != old.UID:
		return false
	case r.version != "" && old.ResourceVersion != "":
		return r.version == old.ResourceVersion
	case r.result && now.Generation != 0 && old.Generation != 0:
		return now.Generation == old.Generation || now.Generation == old.Generation+1
	}
	return true
}

// Add adds a request, which becomes the last state of its object if it was accepted. The
// history forgets everything if it becomes too large.
func (h *History) Add(r *Request) {
	switch {
	case r.effect == changedAll:
		for k := range h.objects {
			if k.group == r.key.group && k.resource == r.key.resource && (r.key.namespace == "" || k.namespace == r.key.namespace) {
				h.forget(k)
			}
		}
	case r.key.name == "":
	case r.effect == changed:
		h.forget(r.key)
	case r.effect == stored:
		if h.size += len(r.after) - len(h.objects[r.key]); h.objects == nil || h.size > historySize {
			h.objects, h.size = map[key][]byte{}, len(r.after)
		}
		h.objects[r.key] = r.after
	}
}

func (h *History) forget(k key) {
	h.size -= len(h.objects[k])
	delete(h.objects, k)
}

// Judge returns where the answer to a request differs from that in the log, and where those of
// the two semantics differ. old is the object before an update, if it is known. If it is not,
// the object is judged as if it were created, and only the semantics are compared: values that
// the old object had may be tolerated, and rules may compare with it.
func Judge(ctx context.Context, c *object.Checker, r *Request, old schema.Object) (findings []analysis.Finding) {
	source := r.Object
	if r.Update || r.result {
		// The answer in the log includes the check of the resourceVersion.
		source = without(source, "resourceVersion")
	}
	unknown := r.Update && old == nil
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
	case unknown:
	case r.Accepted() && len(rejections) > 0:
		findings = append(findings, analysis.Finding{Rule: RuleRejected, Severity: analysis.Error,
			Message: fmt.Sprintf("accepted with code %d in the log, but would be rejected", r.Code), Detail: rejections})
	case !r.Accepted() && len(rejections) == 0:
		f := analysis.Finding{Rule: RuleAccepted, Severity: analysis.Warning,
			Message: fmt.Sprintf("rejected with code %d in the log, but would be accepted", r.Code)}
		if r.Message != "" {
			f.Detail = []string{"in the log: " + r.Message}
		}
		findings = append(findings, f)
	}
	return findings
}

// without returns an object without some of its metadata.
func without(source []byte, names ...string) []byte {
	value, err := jsonx.Parse(source)
	if err != nil {
		return source // Check reports it
	}
	if o, ok := value.(schema.Object); ok {
		if meta, ok := o["metadata"].(schema.Object); ok {
			for _, name := range names {
				delete(meta, name)
			}
		}
	}
	text, err := json.Marshal(value)
	if err != nil {
		return source
	}
	return text
}
