package publish

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"k8s.io/kube-openapi/pkg/handler"

	"espalier.dev/crd"
	"espalier.dev/openapi"
)

// newV2 returns the OpenAPI v2 document of all resources, which is written on request.
func (s *snapshot) newV2() (*document, error) {
	var ids strings.Builder
	fmt.Fprintln(&ids, s.publisher.config.Version)
	var definitions []*crd.Definition
	seen := map[partKey]bool{}
	remote := s.remoteVersions()
	for _, g := range append([]*group{s.core}, s.groups...) {
		for _, gv := range g.versions {
			if slices.Contains(remote[g.name], gv.Version) {
				continue // the CRD may still serve others
			}
			for _, v := range gv.served {
				d := v.Definition()
				key := partKey{crd: d.Name(), version: without(remote[g.name])}
				if seen[key] {
					continue // one part describes all versions
				}
				seen[key] = true
				id, err := identify(d)
				if err != nil {
					return nil, err
				}
				fmt.Fprintln(&ids, id, key.version)
				definitions = append(definitions, d)
			}
		}
	}
	var others []RemoteVersion
	if s.remote != nil {
		for _, v := range s.remote.Versions {
			if v.Swagger != nil {
				fmt.Fprintln(&ids, v.GroupVersion, v.Swagger.hash)
				others = append(others, v)
			}
		}
	}
	p, h := s.publisher, hash([]byte(ids.String()))
	p.v2mu.Lock()
	defer p.v2mu.Unlock()
	if p.whole == nil || p.whole.hash != h {
		p.whole = p.newDocument("v2", h, func() (*joined, error) {
			parts, err := addRemoteSwagger(allParts(definitions, func(d *crd.Definition) (*part, error) {
				return p.swaggerWithout(d, remote[d.Group()])
			}, (*crd.Definition).Name), others)
			if err != nil {
				return nil, err
			}
			return joinV2(parts)
		}, handler.ToProtoBinary, p.v2parts.packer.pack)
		p.v2parts.retain(seen)
	}
	return p.whole, nil
}

// joinV2 returns the document of some parts. The first one wins over others with paths or
// definitions of the same name.
func joinV2(parts []*part) (*joined, error) {
	empty := openapi.MergeV2()
	info, err := json.Marshal(empty.Info)
	if err != nil {
		return nil, err
	}
	j := &joined{
		frame: [][]byte{
			fmt.Appendf(nil, `{"swagger":%q,"info":%s,"paths":{`, empty.Swagger, info), []byte(`},"definitions":{`), []byte(`}}`),
		},
		sections: [][]*piece{merge(parts, 0), merge(parts, 1)},
	}
	if parameters := merge(parts, 2); len(parameters) > 0 {
		j.frame = [][]byte{j.frame[0], j.frame[1], []byte(`},"parameters":{`), []byte(`}}`)}
		j.sections = append(j.sections, parameters)
	}
	return j, nil
}
