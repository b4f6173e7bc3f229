package publish

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"strings"

	"k8s.io/klog/v2"
	"k8s.io/kube-openapi/pkg/handler"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"espalier.dev/crd"
	"espalier.dev/openapi"
)

// swagger is an OpenAPI v2 document, or a part of it, whose entries are JSON already, so that
// changed parts can be combined with unchanged ones.
type swagger struct {
	Swagger     string                     `json:"swagger"`
	Info        *spec.Info                 `json:"info"`
	Paths       map[string]json.RawMessage `json:"paths"`
	Definitions map[string]json.RawMessage `json:"definitions"`
	Parameters  map[string]json.RawMessage `json:"parameters,omitempty"`

	// id identifies the CRD that it describes, see identify.
	id string
}

// newV2 returns the OpenAPI v2 document of all resources, which is written on request.
func (s *snapshot) newV2() (*document, error) {
	var ids strings.Builder
	fmt.Fprintln(&ids, s.publisher.config.Version)
	var definitions []*crd.Definition
	seen := map[string]bool{}
	for _, g := range append([]*group{s.core}, s.groups...) {
		for _, gv := range g.versions {
			for _, v := range gv.served {
				d := v.Definition()
				if seen[d.Name()] {
					continue // one part describes all versions
				}
				seen[d.Name()] = true
				id, err := identify(d)
				if err != nil {
					return nil, err
				}
				fmt.Fprintln(&ids, id)
				definitions = append(definitions, d)
			}
		}
	}
	p, h := s.publisher, hash([]byte(ids.String()))
	p.v2mu.Lock()
	defer p.v2mu.Unlock()
	if p.whole == nil || p.whole.hash != h {
		p.whole = newDocument("v2", h, func() (text, error) {
			data, err := p.writeV2(definitions)
			return text{data}, err
		}, handler.ToProtoBinary)
	}
	return p.whole, nil
}

// writeV2 writes the document of some CRDs. The first one wins over others with paths or
// definitions of the same name. Parts that have not changed since the last call are reused.
func (p *Publisher) writeV2(definitions []*crd.Definition) ([]byte, error) {
	p.v2mu.Lock()
	defer p.v2mu.Unlock()
	empty := openapi.MergeV2()
	whole := &swagger{
		Swagger: empty.Swagger, Info: empty.Info,
		Paths: map[string]json.RawMessage{}, Definitions: map[string]json.RawMessage{}, Parameters: map[string]json.RawMessage{},
	}
	swaggers := make(map[string]*swagger, len(definitions))
	for _, d := range definitions {
		id, err := identify(d)
		if err != nil {
			return nil, err
		}
		part := p.swaggers[d.Name()]
		if part == nil || part.id != id {
			if part, err = p.newSwagger(d, id); err != nil {
				// One faulty CRD must not affect the others.
				klog.ErrorS(err, "Cannot describe a CRD in OpenAPI", "crd", d.Name())
				continue
			}
		}
		swaggers[d.Name()] = part
		addMissing(whole.Paths, part.Paths)
		addMissing(whole.Definitions, part.Definitions)
		addMissing(whole.Parameters, part.Parameters)
	}
	p.swaggers = swaggers
	return json.Marshal(whole)
}

func addMissing(to, from map[string]json.RawMessage) {
	for name, v := range from {
		if _, ok := to[name]; !ok {
			to[name] = v
		}
	}
}

// newSwagger describes all versions of a CRD.
func (p *Publisher) newSwagger(d *crd.Definition, id string) (*swagger, error) {
	var docs []*spec.Swagger
	goTypes := false
	for _, v := range d.Versions() {
		if !v.Served() {
			continue
		}
		described := p.describe(v)
		goTypes = described.OpenAPI.GoTypes
		doc, err := described.OpenAPI.V2(p.builder())
		if err != nil {
			return nil, err
		}
		docs = append(docs, doc)
	}
	doc := openapi.MergeV2(docs...)
	out := &swagger{id: id}
	var err error
	if out.Paths, err = writeAll(doc.Paths.Paths); err != nil {
		return nil, err
	}
	// As in kube-apiserver: clients of OpenAPI v2 do not expect defaults.
	if goTypes {
		out.Definitions, err = writeOnce(&p.types, doc.Definitions, func(s spec.Schema) ([]byte, error) {
			return json.Marshal(handler.PruneDefaultsSchema(&s))
		})
	} else {
		out.Definitions, err = writeAll(handler.PruneDefaults(doc.Definitions))
	}
	if err != nil {
		return nil, err
	}
	if out.Parameters, err = writeAll(doc.Parameters); err != nil {
		return nil, err
	}
	p.share(out.Parameters, "")
	p.share(out.Definitions, "io.k8s.")
	return out, nil
}

func writeAll[V any](from map[string]V) (map[string]json.RawMessage, error) {
	out := make(map[string]json.RawMessage, len(from))
	for name, v := range from {
		text, err := json.Marshal(v)
		if err != nil {
			return nil, err
		}
		out[name] = text
	}
	return out, nil
}

// share keeps one copy of texts that are in almost every document: those whose name has the
// prefix.
func (p *Publisher) share(texts map[string]json.RawMessage, prefix string) {
	for name, text := range maps.Clone(texts) {
		if !strings.HasPrefix(name, prefix) {
			continue
		}
		if shared, ok := p.shared[name]; !ok {
			p.shared[name] = text
		} else if bytes.Equal(shared, text) {
			texts[name] = shared
		}
	}
}
