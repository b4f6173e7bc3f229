package schema

import (
	"errors"
	"slices"

	"espalier.dev/internal/jsonx"
)

// Decode decodes an object from JSON and normalizes it in the same pass: pruned fields
// are never built. The result is the same as that of Normalize for the parsed text. The
// strings of the object share memory with one copy of src.
//
// The error is a *SyntaxError, a *MetadataError, a *ContradictionError or a *DefaultsError.
func (p *Program) Decode(src []byte, o DecodeOptions) (Object, *Report, error) {
	obj, report, err := p.decodeFast(src, o)
	if err == nil {
		return obj, report, nil
	}
	var syntax *SyntaxError
	if errors.As(err, &syntax) {
		return nil, nil, err
	}
	return p.decodeSlowly(src, o)
}

// SyntaxError reports where and why a text is not JSON.
type SyntaxError = jsonx.SyntaxError

// errOdd makes Decode fall back to decodeSlowly: the text has an error, duplicate members or
// too large defaults, which only a walk over the whole tree can handle.
var errOdd = errors.New("odd input")

// decodeSlowly parses first and normalizes afterwards.
func (p *Program) decodeSlowly(src []byte, o DecodeOptions) (Object, *Report, error) {
	v, err := jsonx.Parse(src)
	if err != nil {
		return nil, nil, err
	}
	obj, ok := v.(map[string]any)
	if !ok {
		return nil, nil, &MetadataError{Value: v, Problem: "an object is expected, not " + jsonTypeOf(v).typeName()}
	}
	report, err := p.Normalize(obj, o)
	if err != nil {
		return nil, nil, err
	}
	if report != nil {
		for way := range jsonx.Duplicates(src) {
			if report.Truncated {
				break
			}
			report.add(Change{Kind: Duplicate}, nil, pathOf(way))
		}
		report.sort()
		// A member that occurs three times is reported once.
		report.Changes = slices.CompactFunc(report.Changes, func(a, b Change) bool {
			return a.Kind == Duplicate && b.Kind == Duplicate && a.Path.compare(b.Path) == 0
		})
	}
	return obj, report, nil
}

func pathOf(way []jsonx.Step) Path {
	path := make(Path, len(way))
	for i, s := range way {
		path[i] = Step{Key: s.Key, Index: s.Index}
		if s.IsIndex {
			path[i].Kind = Index
		}
	}
	return path
}

// decoder is a normalizer that parses the tree while it walks it.
type decoder struct {
	normalizer
	r *jsonx.Reader
	// repairGeneration applies to the metadata of the root.
	repairGeneration bool
}

func (p *Program) decodeFast(src []byte, o DecodeOptions) (Object, *Report, error) {
	d := decoder{normalizer: p.newNormalizer(o), r: p.reader(src), repairGeneration: o.FromStorage}
	defer p.putReader(d.r)
	// Contradictions are reported by decodeSlowly, which has the old object.
	d.track = o.Report
	if d.r.Peek() != '{' {
		return nil, nil, errOdd
	}
	obj, err := d.object(root)
	if err == nil {
		err = d.r.End()
	}
	if err != nil {
		return nil, nil, err
	}
	if d.exceeded != nowhere || d.r.Duplicates && o.Report {
		return nil, nil, errOdd
	}
	if d.report != nil {
		d.report.sort()
	}
	return obj, d.report, nil
}

// value decodes a value of node id.
func (d *decoder) value(id int32) (any, error) {
	c := d.r.Peek()
	switch c {
	case '{':
		if d.contradictions && d.p.nodes[id].shape&kObject.bit() == 0 {
			return nil, errOdd
		}
		return d.object(id)
	case '[':
		if d.contradictions && d.p.nodes[id].shape&kArray.bit() == 0 {
			return nil, errOdd
		}
		return d.array(id)
	}
	v, err := d.r.Scalar(c)
	if err != nil {
		return nil, err
	}
	if d.contradictions {
		if n := &d.p.nodes[id]; n.shape != acceptsAll && !n.shape.has(jsonTypeOf(v), v) {
			return nil, errOdd
		}
	}
	return v, nil
}

func (d *decoder) object(id int32) (map[string]any, error) {
	if err := d.r.EnterObject(); err != nil {
		return nil, err
	}
	n := &d.p.nodes[id]
	mark := d.r.Mark()
	var removed []string // only for the report
	for i := 0; ; i++ {
		key, more, err := d.r.NextMember(i)
		if err != nil {
			return nil, err
		}
		if !more {
			break
		}
		child, isMapValue := n.child(key)
		step := Step{Key: key}
		if isMapValue {
			step.Kind = MapKey
		}
		var v any
		keep := true
		switch {
		case n.isMeta(key):
			v, keep, err = d.metaField(n, child, key)
		case child == none:
			v, keep, err = d.unspecified(id, key)
		case child != nowhere && d.r.Peek() == 'n':
			v, keep, err = d.null(child, step)
		default:
			d.push(step)
			v, err = d.value(child)
			d.pop()
		}
		if err != nil {
			return nil, err
		}
		if keep {
			d.r.Push(key, v)
			continue
		}
		if child != none {
			d.r.PushRemoval(key)
		}
		if d.report != nil {
			removed = append(removed, key)
		}
	}
	obj := d.r.Object(mark)
	if len(removed) > 0 && anyAgain(removed, obj) {
		return nil, errOdd
	}
	d.missing(n, obj)
	return obj, nil
}

// unspecified decodes the value of a field that the schema does not specify. keep is
// false if the field is pruned.
func (d *decoder) unspecified(id int32, key string) (v any, keep bool, err error) {
	if d.p.nodes[id].flags&prunes == 0 {
		v, err = d.r.Value()
		return v, true, err
	}
	if d.report == nil {
		return nil, false, d.r.Skip()
	}
	d.record(Pruned, id, Step{Key: key})
	return nil, false, d.r.SkipNoting()
}

// anyAgain reports whether one of the members that were removed from obj occurred more
// than once.
func anyAgain(removed []string, obj map[string]any) bool {
	seen := make(map[string]bool, len(removed))
	for _, key := range removed {
		if _, found := obj[key]; found || seen[key] {
			return true
		}
		seen[key] = true
	}
	return false
}

// null decodes a null of a specified field. keep is false if the null is dropped.
func (d *decoder) null(child int32, step Step) (v any, keep bool, err error) {
	if _, err := d.r.Scalar('n'); err != nil {
		return nil, false, err
	}
	c := &d.p.nodes[child]
	switch {
	case c.flags&nullable != 0:
		return nil, true, nil
	case c.flags&hasDefault == 0:
		if !d.dropNulls {
			return nil, true, nil
		}
		d.record(NullDropped, child, step)
		return nil, false, nil
	case d.defaults:
		if !d.fits(child, nameBytes(step.Key)) {
			return nil, false, errOdd
		}
		d.record(Defaulted, child, step)
		return d.p.defaultOf(child), true, nil
	case d.contradictions:
		return nil, false, errOdd
	}
	return nil, true, nil
}

// metaField decodes apiVersion, kind or metadata of a resource. The root always has
// them, whatever the schema specifies.
func (d *decoder) metaField(n *node, child int32, key string) (v any, keep bool, err error) {
	atRoot := n.flags&isRoot != 0
	if !atRoot && child > nowhere && d.dropNulls && d.r.Peek() == 'n' && d.p.nodes[child].isDroppable() {
		d.record(NullDropped, child, Step{Key: key})
		return nil, false, d.r.Skip()
	}
	if key == "metadata" && !atRoot && child > nowhere {
		// The schema specifies more than the metadata of every resource. This is rare:
		// leave it to decodeSlowly.
		return nil, false, errOdd
	}
	v, err = d.r.Value()
	if err != nil {
		return nil, false, err
	}
	if key != "metadata" {
		if _, ok := v.(string); !ok {
			return nil, false, errOdd
		}
		return v, true, nil
	}
	meta, err := d.metadata(v, atRoot && d.repairGeneration)
	if err != nil {
		return nil, false, errOdd
	}
	if atRoot && child > nowhere && d.defaults {
		d.push(Step{Key: key})
		d.fillIn(child, meta)
		d.pop()
	}
	return meta, true, nil
}

func (d *decoder) array(id int32) ([]any, error) {
	if err := d.r.EnterArray(); err != nil {
		return nil, err
	}
	child := d.p.nodes[id].items
	mark := d.r.Mark()
	for i := 0; ; i++ {
		more, err := d.r.NextItem(i)
		if err != nil {
			return nil, err
		}
		if !more {
			return d.r.Array(mark), nil
		}
		v, err := d.item(child, i)
		if err != nil {
			return nil, err
		}
		d.r.Push("", v)
	}
}

func (d *decoder) item(child int32, i int) (any, error) {
	if child == none {
		return d.r.Value()
	}
	c := &d.p.nodes[child]
	step := Step{Index: i, Kind: Index}
	if d.defaults && c.flags&(nullable|hasDefault) == hasDefault && d.r.Peek() == 'n' {
		if _, err := d.r.Scalar('n'); err != nil {
			return nil, err
		}
		if !d.fits(child, 0) {
			return nil, errOdd
		}
		d.record(Defaulted, child, step)
		return d.p.defaultOf(child), nil
	}
	d.push(step)
	v, err := d.value(child)
	if err != nil {
		return nil, err
	}
	d.pop()
	return v, nil
}
