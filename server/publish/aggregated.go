package publish

import (
	"bytes"
	"crypto/sha512"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"sync"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	"k8s.io/apimachinery/pkg/runtime"
	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/endpoints/discovery/aggregated"
	"k8s.io/apiserver/pkg/endpoints/handlers/negotiation"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	"k8s.io/apiserver/pkg/features"
	"k8s.io/klog/v2"
)

// entryText is the entry of a group in the aggregated list as JSON: a change of one group leaves those of the
// others as they are.
type entryText struct {
	raw *piece
	// packed returns the same, compressed.
	packed func() (*piece, error)
	sum    [sha512.Size]byte
}

func (g *group) newEntryText(pack func([]byte) (*piece, error)) (*entryText, error) {
	text, err := json.Marshal(g.aggregated())
	if err != nil {
		return nil, err
	}
	return &entryText{
		raw: rawPiece(text), sum: sha512.Sum512(text),
		packed: sync.OnceValues(func() (*piece, error) { return pack(text) }),
	}, nil
}

// gzipFrom is the size from which on the generic server compresses answers.
const gzipFrom = 128 << 10

// aggregatedList is the aggregated list of some groups.
type aggregatedList struct {
	codecs  runtime.NegotiatedSerializer
	groups  []*group
	entries []*entryText
	etag    string
}

func newAggregatedList(codecs runtime.NegotiatedSerializer, groups []*group) (*aggregatedList, error) {
	l := &aggregatedList{codecs: codecs, groups: groups, entries: make([]*entryText, len(groups))}
	var sums []byte
	for i, g := range groups {
		var err error
		if l.entries[i], err = g.text(); err != nil {
			return nil, fmt.Errorf("group %s: %w", g.name, err)
		}
		sums = append(sums, l.entries[i].sum[:]...)
	}
	l.etag = hash(sums)
	return l, nil
}

// ServeHTTP responds with the list in the format that the client prefers.
func (l *aggregatedList) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	mediaType, info, err := negotiation.NegotiateOutputMediaType(r, l.codecs, aggregated.DiscoveryEndpointRestrictions)
	if err != nil || mediaType.Convert == nil {
		http.Error(w, http.StatusText(http.StatusNotAcceptable), http.StatusNotAcceptable)
		return
	}
	events := audit.AuditContextFrom(r.Context())
	isPlain := info.MediaType == runtime.ContentTypeJSON && info.Serializer != info.PrettySerializer
	if isPlain && mediaType.Convert.Version == apidiscoveryv2.SchemeGroupVersion.Version &&
		(events == nil || events.GetEventLevel().Less(auditinternal.LevelRequestResponse)) { // the event has the list, too
		l.serveJSON(w, r, mediaType)
		return
	}
	list := &apidiscoveryv2.APIGroupDiscoveryList{Items: make([]apidiscoveryv2.APIGroupDiscovery, len(l.groups))}
	for i, g := range l.groups {
		list.Items[i] = g.entry()
	}
	aggregated.ServeHTTPWithETag(list, l.etag, mediaType.Convert.GroupVersion(), l.codecs, w, r)
}

// serveJSON responds as aggregated.ServeHTTPWithETag would, without encoding the list.
func (l *aggregatedList) serveJSON(w http.ResponseWriter, r *http.Request, mediaType negotiation.MediaTypeOptions) {
	w.Header().Set("ETag", strconv.Quote(l.etag))
	w.Header().Set("Vary", "Accept")
	w.Header().Set("Cache-Control", "public")
	if r.Header.Get("If-None-Match") == strconv.Quote(l.etag) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	t, err := l.text(func(e *entryText) (*piece, error) { return e.raw, nil })
	packs := err == nil && t.size() > gzipFrom && responsewriters.ContentEncodingSupported(r, features.APIResponseCompression) == "gzip"
	if packs {
		t, err = l.text(func(e *entryText) (*piece, error) { return e.packed() })
	}
	if err != nil {
		klog.ErrorS(err, "Cannot write the aggregated discovery document")
		fail(w, http.StatusInternalServerError, "discovery is not available")
		return
	}
	kind := mediaType.Convert
	w.Header().Set("Content-Type", fmt.Sprintf("%s;g=%s;v=%s;as=%s", runtime.ContentTypeJSON, kind.Group, kind.Version, kind.Kind))
	// The client has gone if it cannot be written.
	if !packs {
		_, _ = io.Copy(w, t.reader())
		return
	}
	w.Header().Set("Content-Encoding", "gzip")
	w.Header().Add("Vary", "Accept-Encoding")
	_ = t.writeGzip(w)
}

// text returns the list of entries.
func (l *aggregatedList) text(of func(*entryText) (*piece, error)) (text, error) {
	before, after, err := l.frame()
	if err != nil {
		return nil, err
	}
	members := make([]*piece, len(l.entries))
	for i, e := range l.entries {
		if members[i], err = of(e); err != nil {
			return nil, err
		}
	}
	return (&joined{frame: [][]byte{before, after}, sections: [][]*piece{members}}).text(), nil
}

// frame returns the text around the entries, as the encoder writes it.
func (l *aggregatedList) frame() (before, after []byte, err error) {
	info, _ := runtime.SerializerInfoForMediaType(l.codecs.SupportedMediaTypes(), runtime.ContentTypeJSON)
	empty := &apidiscoveryv2.APIGroupDiscoveryList{Items: []apidiscoveryv2.APIGroupDiscovery{}}
	data, err := runtime.Encode(l.codecs.EncoderForVersion(info.Serializer, apidiscoveryv2.SchemeGroupVersion), empty)
	if err != nil {
		return nil, nil, err
	}
	const items = `"items":[`
	before, after, found := bytes.Cut(data, []byte(items))
	if !found {
		return nil, nil, fmt.Errorf("unexpected list %s", data)
	}
	return slices.Concat(before, []byte(items)), after, nil
}
