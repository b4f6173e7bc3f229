package why

import (
	"fmt"
	"strconv"
	"strings"

	"espalier.dev/internal/jsonptr"
	"espalier.dev/schema"
)

// token is a part of a path as the user wrote it.
type token struct {
	text string
	// kind determines what the text can be: a name after a dot, or something in brackets.
	kind tokenKind
}

type tokenKind uint8

const (
	// plain is a name after a dot. Names that follow each other may be one key with dots.
	plain tokenKind = iota
	// bracketed is an index, or a key of a map.
	bracketed
	// exact is one name or, in a list, an index: it is quoted, or a token of a JSON pointer.
	exact
)

// parse splits a path, which is a JSON pointer if it starts with a slash.
func parse(path string) (tokens []token, err error) {
	if strings.HasPrefix(path, "/") {
		for _, text := range jsonptr.Split(path) {
			tokens = append(tokens, token{text, exact})
		}
		return tokens, nil
	}
	rest := strings.TrimPrefix(path, ".")
	for rest != "" {
		var t token
		if inner, ok := strings.CutPrefix(rest, "["); ok {
			end := "]"
			if inner != "" && (inner[0] == '"' || inner[0] == '\'') {
				t.kind, end, inner = exact, inner[:1]+"]", inner[1:]
			} else {
				t.kind = bracketed
			}
			if t.text, rest, ok = strings.Cut(inner, end); !ok {
				return nil, fmt.Errorf("the path %q has an unclosed bracket", path)
			}
		} else {
			end := strings.IndexAny(rest, ".[")
			if end < 0 {
				end = len(rest)
			}
			t.text, rest = rest[:end], rest[end:]
		}
		if t.text == "" && t.kind != exact {
			return nil, fmt.Errorf("the path %q has an empty field name", path)
		}
		if after, ok := strings.CutPrefix(rest, "."); ok {
			if rest = after; rest == "" {
				return nil, fmt.Errorf("the path %q ends with a dot", path)
			}
		}
		tokens = append(tokens, t)
	}
	if len(tokens) == 0 {
		return nil, fmt.Errorf("the path %q names no field", path)
	}
	return tokens, nil
}

// resolve returns the path that the tokens mean in an object. The object determines whether a
// number is an index or a key, and which names are one key with dots: reports write such keys
// without quotes.
func resolve(tokens []token, value any) (path schema.Path, err error) {
	for i := 0; i < len(tokens); i++ {
		t := tokens[i]
		index, notIndex := strconv.Atoi(t.text)
		switch v := value.(type) {
		case []any:
			if notIndex != nil || index < 0 {
				return nil, fmt.Errorf("%s is a list: write the index of an item, as in %s[0]", path, path)
			}
			path = append(path, schema.Step{Kind: schema.Index, Index: index})
			if value = nil; index < len(v) {
				value = v[index]
			}
		case map[string]any:
			key := t.text
			if _, found := v[key]; !found && t.kind == plain {
				joined := key
				for n := i + 1; n < len(tokens) && tokens[n].kind == plain; n++ {
					joined += "." + tokens[n].text
					if _, found := v[joined]; found {
						key, i = joined, n
						break
					}
				}
			}
			path = append(path, schema.Step{Key: key})
			value = v[key]
		default:
			step := schema.Step{Key: t.text}
			if t.kind == bracketed && notIndex == nil && index >= 0 {
				step = schema.Step{Kind: schema.Index, Index: index}
			}
			path = append(path, step)
			value = nil
		}
	}
	return path, nil
}
