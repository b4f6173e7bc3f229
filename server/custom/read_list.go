package custom

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metainternalversionscheme "k8s.io/apimachinery/pkg/apis/meta/internalversion/scheme"
	metainternalversionvalidation "k8s.io/apimachinery/pkg/apis/meta/internalversion/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/features"
	"k8s.io/apiserver/pkg/storage"
	utilfeature "k8s.io/apiserver/pkg/util/feature"

	"espalier.dev/internal/jsonx"
	"espalier.dev/server/backend"
	"espalier.dev/store"
)

// query is what a LIST or WATCH asks for.
type query struct {
	metainternalversion.ListOptions
	selection *selection
	// key is the key of the only object that can be selected, if single is set, and otherwise
	// the prefix of the keys.
	key    string
	single bool
	// revision is the requested resourceVersion, or zero.
	revision uint64
}

// query returns what a request asks for. It reports false if its parameters are invalid.
func (r *reader) query(req *http.Request, info *apirequest.RequestInfo) (*query, bool) {
	q := &query{}
	if req.URL.RawQuery != "" {
		if err := metainternalversionscheme.ParameterCodec.DecodeParameters(req.URL.Query(),
			metav1.SchemeGroupVersion, &q.ListOptions); err != nil {
			return nil, false
		}
		watchList := utilfeature.DefaultFeatureGate.Enabled(features.WatchList)
		metainternalversion.SetListOptionsDefaults(&q.ListOptions, watchList)
		if errs := metainternalversionvalidation.ValidateListOptions(&q.ListOptions, watchList); len(errs) > 0 {
			return nil, false
		}
		n, err := storage.APIObjectVersioner{}.ParseResourceVersion(q.ResourceVersion)
		if err != nil || q.ShardSelector != "" {
			return nil, false
		}
		q.revision = n
	}
	field := q.FieldSelector
	if field != nil {
		var err error
		if field, err = field.Transform(func(label, value string) (string, string, error) {
			return r.endpoint.scope.Convertor.ConvertFieldLabel(r.endpoint.scope.Kind, label, value)
		}); err != nil {
			return nil, false
		}
	}
	if info.Name != "" {
		if field == nil || field.Empty() {
			field = fields.OneTermEqualSelector("metadata.name", info.Name)
		} else if selected, ok := field.RequiresExactMatch("metadata.name"); !ok || selected != info.Name {
			return nil, false
		}
	}
	q.selection = r.selecting(q.LabelSelector, field)
	namespace, selectedNamespace := info.Namespace, info.Namespace
	if field != nil && q.Continue == "" {
		if selected, ok := field.RequiresExactMatch("metadata.namespace"); ok && namespace == "" && isSegment(selected) {
			selectedNamespace = selected
		}
		if name, ok := field.RequiresExactMatch("metadata.name"); ok && name != "" &&
			isSegment(name) && (selectedNamespace != "" || !r.namespaced) {
			q.key, q.single = r.key(selectedNamespace, name), true
			return q, true
		}
		// A continue token is relative to the prefix, which must be the same for all pages.
		if q.Limit == 0 {
			namespace = selectedNamespace
		}
	}
	q.key = r.key(namespace, "")
	return q, true
}

// item is an object of a list.
type item struct {
	entry *store.Entry
	view  *view
}

// list answers a LIST.
func (r *reader) list(w http.ResponseWriter, req *http.Request, info *apirequest.RequestInfo) bool {
	q, ok := r.query(req, info)
	if !ok || q.Watch || q.ResourceVersion == "0" && backend.AsOf(req.Context()) != 0 {
		return false
	}
	snap, start, err := r.snapshot(req, q)
	if errors.Is(err, errNotCurrent) {
		return false
	}
	if err != nil {
		r.fail(w, req, err)
		return true
	}
	// All items are checked before the first byte is written, so that the status can still be
	// an error.
	p, err := r.page(req.Context(), snap, q, start)
	if apierrors.IsTooManyRequests(err) || req.Context().Err() != nil {
		r.fail(w, req, cmp.Or(err, req.Context().Err()))
		return true
	}
	if err != nil {
		return false
	}
	if p.next != "" {
		r.store.Keep(snap)
	}
	r.writeList(w, req, p)
	return true
}

// snapshot returns the state that a LIST asks for, and the key from which on it is listed. It
// returns errNotCurrent if this state is not in memory, or if the parameters are invalid.
func (r *reader) snapshot(req *http.Request, q *query) (snap *store.Snapshot, start string, err error) {
	exact := q.ResourceVersionMatch == metav1.ResourceVersionMatchExact
	switch {
	case q.single && exact:
		return nil, "", errNotCurrent
	case q.Continue != "": // it is neither combined with a match, nor the list of one object
		var at int64
		if start, at, err = storage.DecodeContinue(q.Continue, q.key); err != nil || q.revision > 0 {
			return nil, "", errNotCurrent
		}
		if at > 0 {
			snap, err = r.snapshotAt(req, uint64(at))
			return snap, start, err
		}
	case exact, q.Limit > 0 && q.revision > 0 && q.ResourceVersionMatch == "" && !q.single:
		snap, err = r.snapshotAt(req, q.revision)
		return snap, "", err
	case q.ResourceVersion != "":
		if err := r.await(req.Context(), q.revision); err != nil {
			return nil, "", err
		}
		if !r.isLoaded() {
			return nil, "", errNotCurrent
		}
		return r.store.Snapshot(), "", nil
	}
	if err := r.sync(req.Context()); err != nil {
		return nil, "", err
	}
	return r.store.Snapshot(), start, nil
}

// snapshotAt returns the state at a revision. It returns errNotCurrent if it is not in memory, or
// if etcd has compacted it: tokens expire whether a snapshot is left or not.
func (r *reader) snapshotAt(req *http.Request, revision uint64) (*store.Snapshot, error) {
	if err := r.await(req.Context(), revision); err != nil {
		return nil, err
	}
	snap := r.store.SnapshotAt(int64(revision))
	if snap == nil || int64(revision) < r.endpoint.store.Storage.Storage.CompactRevision() {
		return nil, errNotCurrent
	}
	return snap, nil
}

// page is a list, or a part of it.
type page struct {
	revision int64
	items    []item
	// next is the token of the next page, or empty.
	next string
	// remaining is the number of further items, if it is known.
	remaining *int64
}

// page selects the items of a list. The error is that of an entry that cannot be read, or of the
// budget of the request.
func (r *reader) page(ctx context.Context, snap *store.Snapshot, q *query, start string) (*page, error) {
	p := &page{revision: snap.Revision}
	if q.single {
		if e := snap.Get(q.key); e != nil {
			if err := r.add(ctx, p, q, e); err != nil {
				return nil, err
			}
		}
		return p, nil
	}
	limit := q.Limit
	if q.ResourceVersion == "0" {
		limit = 0
	}
	for e := range snap.Range(q.key, start) {
		if limit > 0 && int64(len(p.items)) == limit {
			// Only now it is known that there is more.
			var err error
			last := p.items[len(p.items)-1].entry.Key
			if p.next, err = storage.EncodeContinue(last+"\x00", q.key, p.revision); err != nil {
				return nil, err
			}
			if q.selection.empty() {
				n := snap.Count(q.key, e.Key)
				p.remaining = &n
			}
			break
		}
		if err := r.add(ctx, p, q, e); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// add adds an entry to a page if it is selected. Selecting takes long if the selectors are large,
// so it ends when nobody waits for the list any more.
func (r *reader) add(ctx context.Context, p *page, q *query, e *store.Entry) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	v, err := r.of(e)
	if err != nil {
		return err
	}
	ok, err := q.selection.matches(e.Key, v)
	if !ok || err != nil {
		return err
	}
	p.items = append(p.items, item{e, v})
	// A view that is kept with its entry needs no memory for this request.
	if r.memo(e) != v {
		return backend.SpendCopy(ctx, len(v.text))
	}
	return nil
}

// writeList writes a list in the order of keys that k8s.io/apiserver uses.
func (r *reader) writeList(w http.ResponseWriter, req *http.Request, p *page) {
	var text strings.Builder
	text.WriteString(`],"kind":`)
	text.Write(jsonx.AppendString(nil, r.kind.Definition().Names().ListKind))
	text.WriteString(`,"metadata":{"continue":`)
	text.Write(jsonx.AppendString(nil, p.next))
	if p.remaining != nil {
		text.WriteString(`,"remainingItemCount":` + strconv.FormatInt(*p.remaining, 10))
	}
	text.WriteString(`,"resourceVersion":"` + strconv.FormatInt(p.revision, 10) + `"}}` + "\n")
	head := `{"apiVersion":` + string(jsonx.AppendString(nil, r.kind.apiVersion)) + `,"items":[`
	tail := text.String()

	size := len(head) + max(len(p.items)-1, 0) + len(tail)
	for _, i := range p.items {
		size += i.view.size(i.entry.Revision)
	}
	r.write(w, req, size, func(o *output) {
		o.text(head)
		for n, i := range p.items {
			if n > 0 {
				o.text(",")
			}
			o.view(i.view, i.entry.Revision)
			if o.err != nil {
				return
			}
		}
		o.text(tail)
	})
}
