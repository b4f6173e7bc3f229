package publish

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"

	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/klog/v2"
	"k8s.io/kube-openapi/pkg/aggregator"
	"k8s.io/kube-openapi/pkg/handler"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"espalier.dev/openapi"
)

// RemoteSwagger is what the OpenAPI v2 document of another server says about a version. It never changes.
type RemoteSwagger struct {
	hash string
	text []byte
}

// NewRemoteSwagger takes the paths of a version from the OpenAPI v2 document of another server, and all
// definitions but those that only other paths need. If they are the same as known, which may be nil, it returns
// that. A document that has no Protobuf form is rejected: the document of this server would have none.
func NewRemoteSwagger(gv runtimeschema.GroupVersion, document []byte, known *RemoteSwagger) (_ *RemoteSwagger, err error) {
	defer recoverDocument(&err)
	var doc spec.Swagger
	if err := json.Unmarshal(document, &doc); err != nil {
		return nil, err
	}
	if doc.Paths == nil {
		return nil, errors.New("it has no paths")
	}
	aggregator.FilterSpecByPaths(&doc, []string{"/apis/" + gv.Group + "/" + gv.Version + "/"})
	text, err := json.Marshal(openapi.MergeV2(&doc))
	if err != nil {
		return nil, err
	}
	if len(text) > maxRemote { // escaped, it may be longer than what the server has sent
		return nil, fmt.Errorf("it has %d bytes: the limit is %d", len(text), maxRemote)
	}
	next := &RemoteSwagger{hash: hash(text), text: text}
	if known != nil && next.hash == known.hash {
		return known, nil
	}
	if err := errors.Join(checkNames(doc.Definitions), checkNames(doc.Parameters)); err != nil {
		return nil, err
	}
	if _, err := handler.ToProtoBinary(text); err != nil {
		return nil, fmt.Errorf("it has no Protobuf form: %w", err)
	}
	return next, nil
}

// maxRemote limits the size of what is taken from a document.
const maxRemote = 16 << 20

// maxName limits the size of the name of a definition. The conversion to Protobuf, which reads YAML, allows 1024
// bytes, and a definition can be renamed.
const maxName = 1000

// checkNames returns an error for a name that is too long.
func checkNames[V any](all map[string]V) error {
	for name := range all {
		text, err := json.Marshal(name)
		if err != nil {
			return err
		}
		if len(text) > maxName {
			return fmt.Errorf("the name %.64q... is too long: the limit is %d bytes", name, maxName)
		}
	}
	return nil
}

// recoverDocument makes a panic an error: the libraries are not made for documents that an attacker has written.
func recoverDocument(err *error) {
	if r := recover(); r != nil {
		*err = fmt.Errorf("unexpected OpenAPI document: %v", r)
	}
}

// addRemoteSwagger returns the parts of a document, with one for the versions of other servers. Their definitions
// are renamed if this server has others of the same name; those that differ only in their kinds are merged.
func addRemoteSwagger(parts []*part, remote []RemoteVersion) ([]*part, error) {
	if len(remote) == 0 {
		return parts, nil
	}
	m := remoteMerger{definitions: texts(parts, 1), parameters: texts(parts, 2), merged: &spec.Swagger{}}
	for _, v := range remote {
		if err := m.add(v.Swagger); err != nil {
			klog.ErrorS(err, "Cannot describe a version of another server in OpenAPI v2", "groupVersion", v.GroupVersion.String())
		}
	}
	if m.merged.Paths == nil {
		return parts, nil
	}
	w := &partWriter{out: &part{}}
	if err := errors.Join(
		addAll(w, m.merged.Paths.Paths, nil, same),
		addAll(w, m.merged.Definitions, nil, func(s spec.Schema) json.Marshaler { return withoutDefaults(&s) }),
		addAll(w, m.merged.Parameters, nil, same),
	); err != nil {
		return nil, err
	}
	// The first text of a name counts: merged definitions replace those of this server.
	return append([]*part{w.out}, parts...), nil
}

// texts returns the members of a section of some parts, by name.
func texts(parts []*part, section int) map[string]*piece {
	all := map[string]*piece{}
	for _, part := range parts {
		for _, m := range part.sections[section] {
			if all[m.name] == nil {
				all[m.name] = m.text
			}
		}
	}
	return all
}

// remoteMerger merges the documents of other servers with each other, and with those members of this
// server's document that have the same names.
type remoteMerger struct {
	definitions, parameters map[string]*piece // of this server
	merged                  *spec.Swagger
	unpacker                unpacker
}

// add adds the document of a version. It has no effect if it returns an error.
func (m *remoteMerger) add(s *RemoteSwagger) (err error) {
	defer recoverDocument(&err)
	var doc spec.Swagger
	if err := json.Unmarshal(s.text, &doc); err != nil {
		return err
	}
	next := &spec.Swagger{}
	next.Definitions, next.Parameters = maps.Clone(m.merged.Definitions), maps.Clone(m.merged.Parameters)
	if m.merged.Paths != nil {
		next.Paths = &spec.Paths{Paths: maps.Clone(m.merged.Paths.Paths)}
	}
	if next.Definitions, err = addNamesakes(&m.unpacker, next.Definitions, doc.Definitions, m.definitions); err != nil {
		return err
	}
	if next.Parameters, err = addNamesakes(&m.unpacker, next.Parameters, doc.Parameters, m.parameters); err != nil {
		return err
	}
	for name, d := range next.Definitions {
		if d.Extensions == nil { // the merge adds kinds to them
			d.Extensions = spec.Extensions{}
			next.Definitions[name] = d
		}
	}
	if err := aggregator.MergeSpecsIgnorePathConflictRenamingDefinitionsAndParameters(next, &doc); err != nil {
		return err
	}
	m.merged = next
	return nil
}

// addNamesakes adds the members of this server to all that have the name of a member of another one, or a name
// that it could get.
func addNamesakes[V any](u *unpacker, all, other map[string]V, own map[string]*piece) (map[string]V, error) {
	if all == nil {
		all = map[string]V{}
	}
	for name, text := range own {
		_, same := other[name]
		_, renamed := other[original(name)]
		if _, known := all[name]; known || !same && !renamed {
			continue
		}
		content, err := u.content(text)
		if err != nil {
			return nil, err
		}
		var member map[string]V
		if err := json.Unmarshal(fmt.Appendf(nil, "{%s}", content), &member); err != nil {
			return nil, err
		}
		maps.Copy(all, member)
	}
	return all, nil
}

// original returns the name of which a name with a number at its end, such as _v2, was made.
func original(name string) string {
	i := strings.LastIndex(name, "_v")
	if i < 0 {
		return name
	}
	if _, err := strconv.Atoi(name[i+2:]); err != nil {
		return name
	}
	return name[:i]
}
