package publish

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/NYTimes/gziphandler"
	"github.com/munnerz/goautoneg"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/klog/v2"
	"k8s.io/kube-openapi/pkg/handler3"

	"espalier.dev/crd"
	"espalier.dev/server/served"
)

// document is an OpenAPI document that is written on request.
type document struct {
	// version is the OpenAPI version, v2 or v3.
	version string
	// hash identifies the content without writing the document.
	hash        string
	json, proto *form
}

// form is a document in one format, which is written once.
type form struct {
	write func() (text, error) // a function that writes once
	// written is set when write does not take long any more.
	written atomic.Bool
	// builds is full while as many documents are written as may be at a time.
	builds chan struct{}
}

func newForm(builds chan struct{}, write func() (text, error)) *form {
	f := &form{builds: builds}
	f.write = sync.OnceValues(func() (text, error) {
		defer f.written.Store(true)
		return write()
	})
	return f
}

const (
	// buildPatience is how long a request waits for a document, at most a part of the time that the server
	// gives it. The first document of very many CRDs may take longer.
	buildPatience = 40 * time.Second
	// maxBuilds is the number of documents that are written at a time: each change of a CRD makes new ones,
	// and the requests for the old ones may have gone.
	maxBuilds = 2
)

// errBuilding is the error of requests for a document that is still being written.
var errBuilding = errors.New("the OpenAPI document is being written: try again")

// get returns the text. It waits until it is written, as long as a request may take: a goroutine
// continues to write it, for the next requests, and ends when it is written. One that has not begun ends
// with its request.
func (f *form) get(ctx context.Context) (text, error) {
	if f.written.Load() {
		return f.write()
	}
	wait := buildPatience
	if deadline, ok := ctx.Deadline(); ok {
		wait = min(wait, time.Until(deadline)*2/3)
	}
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	done := make(chan struct{})
	go func() {
		select {
		case f.builds <- struct{}{}:
			defer func() { <-f.builds }()
		case <-ctx.Done():
			return
		}
		defer close(done)
		defer func() { _ = recover() }() // the request below panics instead, which ends only the request
		_, _ = f.write()                 // it gets both results, too
	}()
	select {
	case <-done:
		return f.write()
	case <-ctx.Done():
		return nil, errBuilding
	}
}

func (p *Publisher) newDocument(version, hash string, join func() (*joined, error), toProto func([]byte) ([]byte, error), pack func([]byte) (*piece, error)) *document {
	join = sync.OnceValues(join)
	write := func(format func(*joined) (text, error)) *form {
		return newForm(p.builds, func() (text, error) {
			j, err := join()
			if err != nil {
				return nil, err
			}
			return format(j)
		})
	}
	return &document{
		version: version, hash: hash,
		json: write(func(j *joined) (text, error) { return j.text(), nil }),
		proto: write(func(j *joined) (text, error) {
			t := j.text()
			if t.size() > protoChunk {
				return j.proto(toProto, pack)
			}
			whole, err := io.ReadAll(t.reader())
			if err != nil {
				return nil, err
			}
			data, err := toProto(whole)
			return text{rawPiece(data)}, err
		}),
	}
}

// ServeHTTP responds with the document in the format that the client prefers.
func (d *document) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Add("Vary", "Accept")
	form, contentType := d.negotiate(r.Header.Get("Accept"))
	if form == nil {
		fail(w, http.StatusNotAcceptable, http.StatusText(http.StatusNotAcceptable))
		return
	}
	w.Header().Set("Etag", strconv.Quote(d.hash))
	if matches(r.Header.Get("If-None-Match"), w.Header().Get("Etag")) {
		w.WriteHeader(http.StatusNotModified) // without writing the document
		return
	}
	t, err := form.get(r.Context())
	if errors.Is(err, errBuilding) {
		w.Header().Set("Retry-After", "1")
		fail(w, http.StatusServiceUnavailable, err.Error())
		return
	}
	if err != nil {
		unavailable(w, err)
		return
	}
	w.Header().Set("Content-Type", contentType)
	serve := func(w http.ResponseWriter, r *http.Request) { http.ServeContent(w, r, "", time.Time{}, t.reader()) }
	if t.isPacked() {
		w.Header().Add("Vary", "Accept-Encoding")
	}
	// A range of what a client has in part may be one of the other encoding: it gets all.
	isRange := r.Header.Get("Range") != "" && r.Header.Get("If-Range") == ""
	switch {
	case t.isPacked() && r.Method == http.MethodGet && !isRange && acceptsGzip(r.Header.Get("Accept-Encoding")):
		w.Header().Set("Content-Encoding", "gzip")
		_ = t.writeGzip(w) // the client has gone
	case d.version == "v2":
		gziphandler.GzipHandler(http.HandlerFunc(serve)).ServeHTTP(w, r)
	default:
		serve(w, r)
	}
}

// matches reports whether a header If-None-Match has a tag.
func matches(header, tag string) bool {
	for one := range strings.SplitSeq(header, ",") {
		if one = strings.TrimSpace(one); one == "*" || strings.TrimPrefix(one, "W/") == tag {
			return true
		}
	}
	return false
}

// acceptsGzip reports whether a client accepts gzip, by its header Accept-Encoding.
func acceptsGzip(accepted string) bool {
	for part := range strings.SplitSeq(accepted, ",") {
		name, parameters, _ := strings.Cut(part, ";")
		if strings.EqualFold(strings.TrimSpace(name), "gzip") {
			_, q, ok := strings.Cut(parameters, "q=")
			weight, err := strconv.ParseFloat(strings.TrimSpace(q), 64)
			return !ok || err == nil && weight > 0
		}
	}
	return false
}

// negotiate returns the document in the format that the client prefers, and the media type; nil if it accepts none.
func (d *document) negotiate(accept string) (*form, string) {
	if accept == "" {
		accept = "*/*"
	}
	protobuf := "com.github.proto-openapi.spec." + d.version + ".v1.0+protobuf"
	for _, clause := range goautoneg.ParseAccept(accept) {
		if clause.Type != "application" && clause.Type != "*" {
			continue
		}
		switch clause.SubType {
		case "json", "*":
			return d.json, "application/json"
		case protobuf, strings.Replace(protobuf, ".v1", "@v1", 1): // the old spelling is not a valid media type
			return d.proto, "application/" + protobuf
		}
	}
	return nil, ""
}

func unavailable(w http.ResponseWriter, err error) {
	klog.ErrorS(err, "Cannot write an OpenAPI document")
	fail(w, http.StatusInternalServerError, "the OpenAPI document is not available")
}

// fail responds with an error that must not be cached.
func fail(w http.ResponseWriter, code int, message string) {
	for _, name := range []string{"Etag", "Cache-Control", "Expires"} {
		w.Header().Del(name)
	}
	http.Error(w, message, code)
}

// v3Root is the list of documents.
type v3Root struct {
	text []byte
	etag string
	// documents are the listed documents.
	documents map[runtimeschema.GroupVersion]*document
}

// v3 returns the handler for a path below /openapi/v3, or nil. parts are the segments of the
// path.
func (s *snapshot) v3(parts []string) http.Handler {
	switch {
	case len(parts) == 0:
		return http.HandlerFunc(s.serveV3Root)
	case len(parts) == 2 && parts[0] == "api":
		return s.v3Document(runtimeschema.GroupVersion{Version: parts[1]})
	case len(parts) == 3 && parts[0] == "apis" && parts[1] != "":
		return s.v3Document(runtimeschema.GroupVersion{Group: parts[1], Version: parts[2]})
	}
	return nil
}

// v3Document returns the handler of the document of a group and version, or nil.
func (s *snapshot) v3Document(gv runtimeschema.GroupVersion) http.Handler {
	if s.byName[gv] == nil {
		return nil
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { s.serveV3(w, r, gv) })
}

// newV3Root lists the documents without writing any. It reuses the documents of the previous
// snapshot that have not changed.
func (s *snapshot) newV3Root() (*v3Root, error) {
	p := s.publisher
	p.mu.Lock()
	defer p.mu.Unlock()
	root := &v3Root{documents: make(map[runtimeschema.GroupVersion]*document, len(s.byName))}
	served := map[partKey]bool{}
	list := handler3.OpenAPIV3Discovery{Paths: make(map[string]handler3.OpenAPIV3DiscoveryGroupVersion, len(s.byName))}
	for name, gv := range s.byName {
		h, err := gv.hash()
		if err != nil {
			return nil, err
		}
		doc := p.documents[name]
		if doc == nil || doc.hash != h {
			doc = p.newV3(gv, h)
		}
		root.documents[name] = doc
		for _, v := range gv.served {
			served[partKey{v.Definition().Name(), v.Name()}] = true
		}
		list.Paths[pathOf(name)] = handler3.OpenAPIV3DiscoveryGroupVersion{ServerRelativeURL: urlOf(name, h)}
	}
	if s.remote != nil {
		for _, v := range s.remote.Versions {
			if v.OpenAPI != "" {
				list.Paths[pathOf(v.GroupVersion)] = handler3.OpenAPIV3DiscoveryGroupVersion{ServerRelativeURL: urlOf(v.GroupVersion, v.OpenAPI)}
			}
		}
	}
	var err error
	if root.text, err = json.Marshal(list); err != nil {
		return nil, err
	}
	root.etag = hash(root.text)
	// A late request to an old snapshot does no harm: it only costs the documents that it
	// replaces.
	p.documents = root.documents
	p.v3parts.retain(served)
	return root, nil
}

func pathOf(gv runtimeschema.GroupVersion) string {
	if gv.Group == "" {
		return "api/" + gv.Version
	}
	return "apis/" + gv.Group + "/" + gv.Version
}

func urlOf(gv runtimeschema.GroupVersion, hash string) string {
	u := url.URL{Path: "/openapi/v3/" + pathOf(gv), RawQuery: url.Values{"hash": {hash}}.Encode()}
	return u.String()
}

// hashOf returns the hash of everything that a document describes, without writing it.
func (p *Publisher) hashOf(gv *groupVersion) (string, error) {
	var text strings.Builder
	fmt.Fprintf(&text, "%s %s\n", p.config.Version, gv.GroupVersion)
	for _, v := range gv.served {
		id, err := identify(v.Definition())
		if err != nil {
			return "", err
		}
		text.WriteString(id + "\n")
	}
	return hash([]byte(text.String())), nil
}

// identify returns a text that differs for CRDs that are published differently.
func identify(d *crd.Definition) (string, error) {
	c := d.CRD()
	names, err := json.Marshal(d.Names())
	if err != nil {
		return "", err
	}
	id := fmt.Sprintf("%s %s %s", d.Name(), d.Semantics(), names)
	if c.UID != "" {
		// The spec of an object does not change without its generation.
		return fmt.Sprintf("%s %s %d", id, c.UID, c.Generation), nil
	}
	spec, err := json.Marshal(c.Spec)
	if err != nil {
		return "", err
	}
	return id + " " + string(spec), nil
}

func (p *Publisher) newV3(gv *groupVersion, hash string) *document {
	return p.newDocument("v3", hash, func() (*joined, error) {
		return joinV3(allParts(gv.served, p.partOf, func(v *served.Description) string { return v.Definition().Name() }))
	}, handler3.ToV3ProtoBinary, p.v3parts.packer.pack)
}

func (s *snapshot) serveV2(w http.ResponseWriter, r *http.Request) {
	doc, err := s.v2()
	if err != nil {
		unavailable(w, err)
		return
	}
	doc.ServeHTTP(w, r)
}

func (s *snapshot) serveV3Root(w http.ResponseWriter, r *http.Request) {
	root, err := s.v3Root()
	if err != nil {
		unavailable(w, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Etag", strconv.Quote(root.etag))
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(root.text))
}

func (s *snapshot) serveV3(w http.ResponseWriter, r *http.Request, gv runtimeschema.GroupVersion) {
	root, err := s.v3Root()
	if err != nil {
		unavailable(w, err)
		return
	}
	doc := root.documents[gv]
	if hash := r.URL.Query().Get("hash"); hash != "" {
		if hash != doc.hash {
			http.Redirect(w, r, urlOf(gv, doc.hash), http.StatusMovedPermanently)
			return
		}
		// The content at a URL with a hash never changes.
		w.Header().Set("Cache-Control", "public, immutable")
		w.Header().Set("Expires", time.Now().AddDate(1, 0, 0).UTC().Format(http.TimeFormat))
	}
	doc.ServeHTTP(w, r)
}
