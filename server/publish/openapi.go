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
	"k8s.io/kube-openapi/pkg/cached"
	"k8s.io/kube-openapi/pkg/handler"
	"k8s.io/kube-openapi/pkg/handler3"
	"k8s.io/kube-openapi/pkg/spec3"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"espalier.dev/api"
	"espalier.dev/crd"
	"espalier.dev/openapi"
)

// definitionsName is the name of the definition of definitions. What they look like is
// known better than a schema can say it.
const definitionsName = "customresourcedefinitions." + api.GroupName

// document is an OpenAPI document of version 3.
type document struct {
	// hash tells it from others without making it.
	hash        string
	json, proto func() ([]byte, error)
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
			doc = p.newDocument(gv, h)
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

func (p *Publisher) newDocument(gv *groupVersion, hash string) *document {
	d := &document{hash: hash}
	d.json = sync.OnceValues(func() ([]byte, error) {
		docs := make([]*spec3.OpenAPI, 0, len(gv.served))
		for _, v := range gv.served {
			doc, err := p.describeV3(v)
			if err != nil {
				// The others are not to suffer.
				klog.ErrorS(err, "Cannot describe a definition", "definition", v.Definition().Name())
				continue
			}
			docs = append(docs, doc)
		}
		return json.Marshal(openapi.MergeV3(docs...))
	})
	d.proto = sync.OnceValues(func() ([]byte, error) {
		text, err := d.json()
		if err != nil {
			return nil, err
		}
		return handler3.ToV3ProtoBinary(text)
	})
	return d
}

func (p *Publisher) describeV3(v *crd.Version) (*spec3.OpenAPI, error) {
	if v.Definition().Name() == definitionsName {
		return p.builder.DefinitionsV3(v.Name())
	}
	return p.builder.V3(v)
}

func (p *Publisher) describeV2(v *crd.Version) (*spec.Swagger, error) {
	if v.Definition().Name() == definitionsName {
		return p.builder.DefinitionsV2(v.Name())
	}
	return p.builder.V2(v)
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
	w.Header().Set("Vary", "Accept")
	form, contentType := doc.negotiate(r.Header.Get("Accept"))
	if form == nil {
		http.Error(w, http.StatusText(http.StatusNotAcceptable), http.StatusNotAcceptable)
		return
	}
	w.Header().Set("Etag", strconv.Quote(doc.hash))
	if hash := r.URL.Query().Get("hash"); hash != "" {
		if hash != doc.hash {
			http.Redirect(w, r, urlOf(gv, doc.hash), http.StatusMovedPermanently)
			return
		}
		// At this URL there will never be anything else.
		w.Header().Set("Cache-Control", "public, immutable")
		w.Header().Set("Expires", time.Now().AddDate(1, 0, 0).UTC().Format(http.TimeFormat))
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
	const protobuf = "com.github.proto-openapi.spec.v3.v1.0+protobuf"
	for _, clause := range goautoneg.ParseAccept(accept) {
		if clause.Type != "application" && clause.Type != "*" {
			continue
		}
		switch clause.SubType {
		case "json", "*":
			return d.json, "application/json"
		case protobuf, strings.Replace(protobuf, "v3.v1", "v3@v1", 1): // the old spelling is no valid media type
			return d.proto, "application/" + protobuf
		}
	}
	return nil, ""
}

func unavailable(w http.ResponseWriter, err error) {
	klog.ErrorS(err, "Cannot make an OpenAPI document")
	http.Error(w, "the OpenAPI document is not available", http.StatusInternalServerError)
}

// swagger is the OpenAPI document of version 2 of all versions of a definition.
type swagger struct {
	id   string
	docs []*spec.Swagger
}

// newV2 returns the handler of /openapi/v2.
func (p *Publisher) newV2() http.Handler {
	service := handler.NewOpenAPIServiceLazy(cached.Func(p.makeV2))
	var h pathHandler
	service.RegisterOpenAPIVersionedService("/openapi/v2", &h)
	return h.Handler
}

// pathHandler takes the one handler that is registered with it.
type pathHandler struct{ http.Handler }

func (p *pathHandler) Handle(_ string, h http.Handler) { p.Handler = h }

// made is the document of everything that is published of a snapshot.
type made struct {
	of  *snapshot
	doc *spec.Swagger
	tag string
}

// makeV2 makes the document of everything, and returns it with a tag that tells it from
// others. What has not changed since the last time is taken from there.
func (p *Publisher) makeV2() (*spec.Swagger, string, error) {
	s := p.snapshot()
	p.v2mu.Lock()
	defer p.v2mu.Unlock()
	if p.made.of == s {
		return p.made.doc, p.made.tag, nil
	}
	var (
		docs     []*spec.Swagger
		ids      strings.Builder
		swaggers = map[string]*swagger{}
	)
	for _, g := range s.groups {
		for _, gv := range g.versions {
			for _, v := range gv.served {
				d := v.Definition()
				if swaggers[d.Name()] != nil {
					continue // all versions are described at once
				}
				id, err := identify(d)
				if err != nil {
					return nil, "", err
				}
				sw := p.swaggers[d.Name()]
				if sw == nil || sw.id != id {
					sw = p.newSwagger(d, id)
				}
				swaggers[d.Name()] = sw
				ids.WriteString(id + "\n")
				docs = append(docs, sw.docs...)
			}
		}
	}
	p.swaggers = swaggers
	p.made = made{of: s, doc: openapi.MergeV2(docs...), tag: hash([]byte(ids.String()))}
	return p.made.doc, p.made.tag, nil
}

func (p *Publisher) newSwagger(d *crd.Definition, id string) *swagger {
	sw := &swagger{id: id}
	for _, v := range d.Versions() {
		if !v.Served() {
			continue
		}
		doc, err := p.describeV2(v)
		if err != nil {
			klog.ErrorS(err, "Cannot describe a definition", "definition", d.Name())
			continue
		}
		// As in kube-apiserver's: what reads this version does not expect any.
		doc.Definitions = handler.PruneDefaults(doc.Definitions)
		sw.docs = append(sw.docs, doc)
	}
	return sw
}
