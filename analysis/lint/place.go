package lint

import (
	"slices"
	"strconv"
	"strings"

	"espalier.dev/internal/jsonptr"
	"espalier.dev/schema"
)

// place is a location in a document, linked to its parent. A walk allocates one place per
// step and formats paths only for findings.
type place struct {
	around *place
	token  string
	form   form
}

// form is the notation of a step in a path.
type form uint8

const (
	// member is a field: .name
	member form = iota
	// key is the key of a map: [name]
	key
	// index is an item of a list: [0]
	index
)

func (p *place) child(names ...string) *place {
	for _, name := range names {
		p = &place{p, name, member}
	}
	return p
}

func (p *place) key(name string) *place { return &place{p, name, key} }

func (p *place) index(i int) *place { return &place{p, strconv.Itoa(i), index} }

// steps returns the steps from the root of the document.
func (p *place) steps() []*place {
	var steps []*place
	for ; p != nil && p.around != nil; p = p.around {
		steps = append(steps, p)
	}
	slices.Reverse(steps)
	return steps
}

// path returns the place in the path notation of Kubernetes.
func (p *place) path() string {
	var b strings.Builder
	for i, s := range p.steps() {
		switch {
		case s.form != member:
			b.WriteString("[" + s.token + "]")
		case i > 0:
			b.WriteString("." + s.token)
		default:
			b.WriteString(s.token)
		}
	}
	return b.String()
}

// pointer returns the place as a JSON pointer.
func (p *place) pointer() string {
	var tokens []string
	for _, s := range p.steps() {
		tokens = append(tokens, s.token)
	}
	return jsonptr.New(tokens...)
}

// schemaPath extends the place by a path in a schema.
func (p *place) schemaPath(path schema.SchemaPath) *place {
	for _, s := range path {
		p = p.child(s.Keyword)
		switch s.Form {
		case schema.StepNamed:
			p = p.key(s.Name)
		case schema.StepIndexed:
			p = p.index(s.Index)
		}
	}
	return p
}

// follow extends p by a textual path, such as .properties[a.b].type. Keys in the text are
// not quoted, so the path is ambiguous: follow resolves it against the value at p, as far
// as the value has the fields.
func (p *place) follow(value any, text string) *place {
	for text != "" {
		next, rest, sub := step(value, text)
		if next == nil {
			break
		}
		next.around = p
		p, text, value = next, rest, sub
	}
	return p
}

// step parses the first step of a path.
func step(value any, text string) (next *place, rest string, sub any) {
	inBrackets := text[0] == '['
	body := strings.TrimPrefix(text, ".")
	switch v := value.(type) {
	case map[string]any:
		// The longest key wins: if both a.b and a exist, a.b is more likely meant.
		best, found := "", false
		for k := range v {
			if after, ok := cutKey(text, body, k, inBrackets); ok && endsStep(after) && (!found || len(k) > len(best)) {
				best, rest, found = k, after, true
			}
		}
		if found {
			f := member
			if inBrackets {
				f = key
			}
			return &place{token: best, form: f}, rest, v[best]
		}
	case []any:
		if token, after, ok := bracket(text); ok {
			if i, err := strconv.Atoi(token); err == nil {
				if i >= 0 && i < len(v) {
					sub = v[i]
				}
				return &place{token: token, form: index}, after, sub
			}
		}
	}
	// The value has no such field: parse the text by its syntax alone.
	if token, after, ok := bracket(text); ok {
		f := key
		if _, err := strconv.Atoi(token); err == nil {
			f = index
		}
		return &place{token: token, form: f}, after, nil
	}
	end := strings.IndexAny(body, ".[")
	if end < 0 {
		end = len(body)
	}
	if end == 0 {
		return nil, "", nil
	}
	return &place{token: body[:end], form: member}, body[end:], nil
}

func cutKey(text, body, k string, inBrackets bool) (string, bool) {
	if inBrackets {
		return strings.CutPrefix(text, "["+k+"]")
	}
	return strings.CutPrefix(body, k)
}

func endsStep(rest string) bool { return rest == "" || rest[0] == '.' || rest[0] == '[' }

// bracket parses a step in brackets.
func bracket(text string) (token, rest string, ok bool) {
	if text[0] != '[' {
		return "", "", false
	}
	end := strings.IndexByte(text, ']')
	if end < 0 {
		return "", "", false
	}
	return text[1:end], text[end+1:], true
}
