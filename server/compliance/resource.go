package compliance

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"iter"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"

	"espalier.dev/api"
	"espalier.dev/crd"
	"espalier.dev/crd/compliance"
	"espalier.dev/schema"
	"espalier.dev/server/custom"
	"espalier.dev/store"
)

// maxListed is the maximum number of problems that are listed for an object: an object can have
// very many, and each needs much more memory here than what causes it.
const maxListed = 100

// snapshotWait limits how long a request waits until the scanner has taken in the newest changes.
const snapshotWait = time.Second

// Resource returns the resource noncompliantobjects. It is a resource, not an endpoint of its
// own, so that kubectl lists, pages, selects and prints its objects like any others, and
// authorization applies per namespace. It is namespaced: an object is listed in the namespace
// of the stored object, and the objects of cluster-scoped CRDs with those of all namespaces.
// Labels are those of the stored object, so that label selectors find the objects of a team.
func (s *Scanner) Resource() (*custom.Virtual, error) {
	text := func(description string) api.JSONSchemaProps {
		return api.JSONSchemaProps{Type: api.StringOrArray{"string"}, Description: description}
	}
	object := func(description string, properties map[string]api.JSONSchemaProps) api.JSONSchemaProps {
		return api.JSONSchemaProps{Type: api.StringOrArray{"object"}, Description: description, Properties: properties}
	}
	problem := object("", map[string]api.JSONSchemaProps{
		"reason":  text("The kind of the problem: Unspecified (a field that is stored but not served), Contradiction (a value of the wrong type), Invalid, Malformed, OtherVersion (not stored in the storage version) or Unreadable."),
		"path":    text("The path of the field. It is missing if the problem concerns the whole object."),
		"version": text("The version of the CRD whose schema decides."),
		"message": text("The problem as a sentence."),
	})
	root := object("A stored object that does not comply with its CRD.", map[string]api.JSONSchemaProps{
		"crd": text("The name of the CRD."),
		"object": object("The stored object.", map[string]api.JSONSchemaProps{
			"apiVersion": text("The apiVersion in which the object is stored."),
			"kind":       text("The kind of the object."),
			"namespace":  text("The namespace of the object."),
			"name":       text("The name of the object."),
		}),
		"problemCount": {Type: api.StringOrArray{"integer"}, Description: "The number of problems."},
		"problems": {
			Type: api.StringOrArray{"array"}, Description: "The problems, by kind and path.",
			Items: &api.JSONSchemaPropsOrArray{Schema: &problem},
		},
		"truncated": {Type: api.StringOrArray{"boolean"}, Description: "True if there are more problems than are listed."},
	})
	d, err := custom.NewVirtualDefinition(custom.VirtualNames{
		Plural: compliance.Plural, Singular: "noncompliantobject", Kind: "NoncompliantObject", Namespaced: true,
	}, &root, []api.CustomResourceColumnDefinition{
		{Name: "Problems", Type: "integer", JSONPath: ".problemCount", Description: "The number of problems."},
		{Name: "First Path", Type: "string", JSONPath: ".problems[0].path", Description: "The path of the first problem."},
		{Name: "Reason", Type: "string", JSONPath: ".problems[0].reason", Description: "The kind of the first problem."},
		{Name: "CRD", Type: "string", JSONPath: ".crd", Description: "The CRD of the object.", Priority: 1},
		{Name: "Object", Type: "string", JSONPath: ".object.name", Description: "The name of the object.", Priority: 1},
		{Name: "Message", Type: "string", JSONPath: ".problems[0].message", Description: "The first problem as a sentence.", Priority: 1},
	}, "crd")
	if err != nil {
		return nil, err
	}
	return &custom.Virtual{Definition: d, Get: s.get, List: s.list}, nil
}

// The name of an object is that of the CRD, a colon, and the name of the stored object. The
// names of CRDs have no colons.
func nameOf(crd, object string) string { return crd + ":" + object }

// place is where a list continues: after a key of a CRD.
type place struct {
	CRD string `json:"crd"`
	Key string `json:"key"`
}

// list lists the objects that do not comply, by CRD and key.
func (s *Scanner) list(ctx context.Context, o *metainternalversion.ListOptions) (*unstructured.UnstructuredList, error) {
	var after place
	if o.Continue != "" {
		data, err := base64.RawURLEncoding.DecodeString(o.Continue)
		if err == nil {
			err = json.Unmarshal(data, &after)
		}
		if err != nil {
			return nil, apierrors.NewBadRequest(fmt.Sprintf("the continue parameter is not valid: %v", err))
		}
	}
	q := query{namespace: apirequest.NamespaceValue(ctx), labels: o.LabelSelector, fields: o.FieldSelector}
	snapshot, _ := s.snapshot(ctx)
	list := &unstructured.UnstructuredList{Object: map[string]any{}}
	list.SetResourceVersion(strconv.FormatInt(snapshot.Revision, 10))
	last := after
	for _, d := range s.config.Catalog().All() {
		if d.Name() < after.CRD || !q.admits(d) {
			continue
		}
		start := ""
		if d.Name() == after.CRD {
			start = after.Key + "\x00"
		}
		for e, r := range s.failing(ctx, snapshot, d, q.namespace, start) {
			if ctx.Err() != nil {
				return nil, apierrors.NewTimeoutError("the objects could not be inspected in time: use a limit, or a field selector for the CRD", 0)
			}
			item := s.item(d, e, &r)
			if !q.matches(item) {
				continue
			}
			if o.Limit > 0 && int64(len(list.Items)) == o.Limit {
				token, _ := json.Marshal(last) // it has only texts
				list.SetContinue(base64.RawURLEncoding.EncodeToString(token))
				return list, nil
			}
			list.Items = append(list.Items, *item)
			last = place{d.Name(), e.Key}
		}
	}
	return list, nil
}

// get returns one object that does not comply.
func (s *Scanner) get(ctx context.Context, name string) (schema.Object, error) {
	of, object, _ := strings.Cut(name, ":")
	missing := apierrors.NewNotFound(runtimeschema.GroupResource{Group: custom.VirtualGroup, Resource: compliance.Plural}, name)
	d, namespace := s.config.Catalog().Get(of), apirequest.NamespaceValue(ctx)
	if d == nil || !d.Namespaced() || namespace == "" {
		return nil, missing
	}
	snapshot, _ := s.snapshot(ctx)
	e := snapshot.Get(s.prefix(d).Key(namespace, object))
	if e == nil {
		return nil, missing
	}
	r, err := report(ctx, compliance.New(d), e)
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	if len(r.Problems) == 0 {
		return nil, missing
	}
	return s.item(d, e, &r).Object, nil
}

// snapshot returns a snapshot that is as new as etcd, and waits until the scanner has taken it
// in. It reports false if that takes too long: then an object may be missing in a list that was
// changed a moment ago.
func (s *Scanner) snapshot(ctx context.Context) (*store.Snapshot, bool) {
	ctx, cancel := context.WithTimeout(ctx, snapshotWait)
	defer cancel()
	_, err := s.config.Store.Sync(ctx)
	snapshot := s.config.Store.Snapshot()
	if err == nil {
		err = s.position.Wait(ctx, uint64(snapshot.Revision))
	}
	return snapshot, err == nil
}

// failing iterates over the objects of a CRD in a snapshot that do not comply, in a namespace
// or, if it is empty, in all, from a key on. They are inspected anew. If the scanner does not
// know them, all objects are inspected.
func (s *Scanner) failing(ctx context.Context, snapshot *store.Snapshot, d *crd.Definition, namespace,
	start string) iter.Seq2[*store.Entry, compliance.Report] {
	return func(yield func(*store.Entry, compliance.Report) bool) {
		inspector := compliance.New(d)
		for e := range s.candidates(snapshot, d, namespace, start, func(problems) bool { return true }) {
			r, err := report(ctx, inspector, e)
			if ctx.Err() == nil && (err != nil || len(r.Problems) == 0) {
				// If the CRD cannot be compiled, its condition has the reason.
				continue
			}
			if !yield(e, r) {
				return
			}
		}
	}
}

// candidates iterates over the objects of a CRD in a namespace or, if it is empty, in all, from
// a key on, without those of which the scanner knows that they have no problems, or others than
// those of interest.
func (s *Scanner) candidates(snapshot *store.Snapshot, d *crd.Definition, namespace, start string,
	of func(problems) bool) iter.Seq[*store.Entry] {
	prefix := s.prefix(d).Scope(namespace)
	r := s.result(d.Name())
	if !r.knows() || !sameSpec(r.definition.CRD(), d.CRD()) {
		return snapshot.Range(prefix, start)
	}
	return func(yield func(*store.Entry) bool) {
		for key, found := range r.failing.From(max(prefix, start)) {
			if !strings.HasPrefix(key, prefix) {
				return
			}
			if e := snapshot.Get(key); e != nil && of(found) && !yield(e) {
				return
			}
		}
	}
}

// sameSpec reports whether two states of a CRD have the same spec.
func sameSpec(a, b *api.CustomResourceDefinition) bool {
	return a.UID == b.UID && a.Generation == b.Generation
}

// query selects objects.
type query struct {
	namespace string
	labels    labels.Selector
	fields    fields.Selector
}

// admits reports whether objects of a CRD can be selected.
func (q query) admits(d *crd.Definition) bool {
	if q.namespace != "" && !d.Namespaced() {
		return false
	}
	if q.fields == nil {
		return true
	}
	if name, ok := q.fields.RequiresExactMatch("crd"); ok && name != d.Name() {
		return false
	}
	name, ok := q.fields.RequiresExactMatch("metadata.name")
	return !ok || strings.HasPrefix(name, nameOf(d.Name(), ""))
}

// matches reports whether an object is selected.
func (q query) matches(item *unstructured.Unstructured) bool {
	if q.namespace != "" && item.GetNamespace() != q.namespace {
		return false
	}
	if q.labels != nil && !q.labels.Matches(labels.Set(item.GetLabels())) {
		return false
	}
	name, _, _ := unstructured.NestedString(item.Object, "crd")
	return q.fields == nil || q.fields.Matches(fields.Set{"crd": name,
		"metadata.name": item.GetName(), "metadata.namespace": item.GetNamespace()})
}

// item returns an object that does not comply, as clients see it.
func (s *Scanner) item(d *crd.Definition, e *store.Entry, r *compliance.Report) *unstructured.Unstructured {
	namespace, name, _ := s.prefix(d).Cut(e.Key)
	wire := &compliance.NoncompliantObject{
		CRD: d.Name(), Object: compliance.StoredObject{Kind: d.Names().Kind, Namespace: namespace, Name: name},
		ProblemCount: int64(len(r.Problems)), Truncated: r.Truncated || maxListed < len(r.Problems),
	}
	if r.Version != "" {
		wire.Object.APIVersion = d.Group() + "/" + r.Version
	}
	for _, p := range r.Problems[:min(len(r.Problems), maxListed)] {
		one := compliance.StoredProblem{Reason: reason(p.Kind), Path: p.Path.String(), Message: p.Message}
		if p.Version != nil {
			one.Version = p.Version.Name()
		}
		wire.Problems = append(wire.Problems, one)
	}
	u := &unstructured.Unstructured{}
	u.Object, _ = runtime.DefaultUnstructuredConverter.ToUnstructured(wire) // it has only texts and numbers
	u.SetName(nameOf(d.Name(), name))
	u.SetResourceVersion(strconv.FormatInt(e.Revision, 10))
	if namespace != "" {
		u.SetNamespace(namespace)
	}
	if r.Object != nil {
		stored := &unstructured.Unstructured{Object: r.Object}
		u.SetLabels(stored.GetLabels())
		if at := stored.GetCreationTimestamp(); !at.IsZero() {
			u.SetCreationTimestamp(at)
		}
	}
	return u
}

// reason returns the name of a kind of problems as the reason in an API object.
func reason(k compliance.Kind) string {
	name := k.String()
	return strings.ToUpper(name[:1]) + name[1:]
}
