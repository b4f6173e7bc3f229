package publish

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/munnerz/goautoneg"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/klog/v2"
	"k8s.io/kube-openapi/pkg/handler3"
	"k8s.io/kube-openapi/pkg/spec3"

	"espalier.dev/crd"
	"espalier.dev/openapi"
)

// document is an OpenAPI document, which is made when somebody asks for it.
type document struct {
	// version is that of OpenAPI, v2 or v3.
	version string
	// hash tells it from others without making it.
	hash        string
	json, proto func() ([]byte, error)
}

func newDocument(version, hash string, text func() ([]byte, error), toProto func([]byte) ([]byte, error)) *document {
	d := &document{version: version, hash: hash, json: sync.OnceValues(text)}
	d.proto = sync.OnceValues(func() ([]byte, error) {
		text, err := d.json()
		if err != nil {
			return nil, err
		}
		return toProto(text)
	})
	return d
}

// ServeHTTP answers with the document in the form that the client likes best.
func (d *document) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Vary", "Accept")
	form, contentType := d.negotiate(r.Header.Get("Accept"))
	if form == nil {
		fail(w, http.StatusNotAcceptable, http.StatusText(http.StatusNotAcceptable))
		return
	}
	w.Header().Set("Etag", strconv.Quote(d.hash))
	if r.Header.Get("If-None-Match") == w.Header().Get("Etag") {
		w.WriteHeader(http.StatusNotModified) // it need not be made for that
		return
	}
	text, err := form()
	if err != nil {
		unavailable(w, err)
		return
	}
	w.Header().Set("Content-Type", contentType)
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(text))
}

// negotiate returns what makes the form of a document that a client likes best, and the
// type of its content; nil if it likes none.
func (d *document) negotiate(accept string) (func() ([]byte, error), string) {
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
		case protobuf, strings.Replace(protobuf, ".v1", "@v1", 1): // the old spelling is no valid media type
			return d.proto, "application/" + protobuf
		}
	}
	return nil, ""
}

func unavailable(w http.ResponseWriter, err error) {
	klog.ErrorS(err, "Cannot make an OpenAPI document")
	fail(w, http.StatusInternalServerError, "the OpenAPI document is not available")
}

// fail answers with an error, which nobody is to keep.
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
	// documents are those that are listed.
	documents map[runtimeschema.GroupVersion]*document
}

// v3 returns what answers requests below /openapi/v3, or nil: parts are those of the
// path.
func (s *snapshot) v3(parts []string) http.Handler {
	switch {
	case len(parts) == 0:
		return http.HandlerFunc(s.serveV3Root)
	case len(parts) == 3 && parts[0] == "apis":
		gv := runtimeschema.GroupVersion{Group: parts[1], Version: parts[2]}
		if s.byName[gv] == nil {
			return nil
		}
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { s.serveV3(w, r, gv) })
	}
	return nil
}

// newV3Root lists the documents. None is made for that: those of the snapshot before that
// still hold are kept.
func (s *snapshot) newV3Root() (*v3Root, error) {
	p := s.publisher
	p.mu.Lock()
	defer p.mu.Unlock()
	root := &v3Root{documents: make(map[runtimeschema.GroupVersion]*document, len(s.byName))}
	list := handler3.OpenAPIV3Discovery{Paths: make(map[string]handler3.OpenAPIV3DiscoveryGroupVersion, len(s.byName))}
	for name, gv := range s.byName {
		h, err := p.hashOf(gv)
		if err != nil {
			return nil, err
		}
		doc := p.documents[name]
		if doc == nil || doc.hash != h {
			doc = p.newV3(gv, h)
		}
		root.documents[name] = doc
		list.Paths[pathOf(name)] = handler3.OpenAPIV3DiscoveryGroupVersion{ServerRelativeURL: urlOf(name, h)}
	}
	var err error
	if root.text, err = json.Marshal(list); err != nil {
		return nil, err
	}
	root.etag = hash(root.text)
	// An old snapshot that is asked late does no harm: it only costs what it replaces.
	p.documents = root.documents
	return root, nil
}

func pathOf(gv runtimeschema.GroupVersion) string { return "apis/" + gv.Group + "/" + gv.Version }

func urlOf(gv runtimeschema.GroupVersion, hash string) string {
	u := url.URL{Path: "/openapi/v3/" + pathOf(gv), RawQuery: url.Values{"hash": {hash}}.Encode()}
	return u.String()
}

// hashOf is the hash of a document that is not made yet: of all that goes into it.
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

// identify returns a text that differs for definitions that are published in different
// ways.
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
	return newDocument("v3", hash, func() ([]byte, error) {
		docs := make([]*spec3.OpenAPI, 0, len(gv.served))
		for _, v := range gv.served {
			doc, err := v.OpenAPI.V3(p.builder)
			if err != nil {
				// The others are not to suffer.
				klog.ErrorS(err, "Cannot describe a definition", "definition", v.Definition().Name())
				continue
			}
			docs = append(docs, doc)
		}
		return json.Marshal(openapi.MergeV3(docs...))
	}, handler3.ToV3ProtoBinary)
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
		// At this URL there will never be anything else.
		w.Header().Set("Cache-Control", "public, immutable")
		w.Header().Set("Expires", time.Now().AddDate(1, 0, 0).UTC().Format(http.TimeFormat))
	}
	doc.ServeHTTP(w, r)
}
