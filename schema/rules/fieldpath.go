package rules

import (
	"errors"
	"fmt"
	"strings"

	"espalier.dev/schema"
)

// ParseFieldPath parses the fieldPath of a rule in s. Fields and map keys are written
// as .name or ['name']. It returns the path, relative to s, and the schema at the path.
func ParseFieldPath(text string, s *schema.Structural) (schema.Path, *schema.Structural, error) {
	var path schema.Path
	for rest := text; rest != ""; {
		var name string
		var err error
		switch rest[0] {
		case '.':
			name, rest = nextToken(rest[1:])
			if name == "" {
				return nil, nil, errEndOfPath
			}
		case '[':
			if name, rest, err = bracketed(rest[1:]); err != nil {
				return nil, nil, err
			}
		default:
			token, _ := nextToken(rest)
			return nil, nil, fmt.Errorf("expected [ or . but got: %s", token)
		}
		step := schema.Step{Key: name, Kind: schema.Field}
		switch {
		case s == nil:
			return nil, nil, errNoSuchField
		case s.Properties != nil:
			s = s.Properties[name]
			if s == nil {
				return nil, nil, errNoSuchField
			}
		case s.AdditionalProperties != nil:
			step.Kind = schema.MapKey
			s = s.AdditionalProperties.Structural
		default:
			return nil, nil, errNoSuchField
		}
		path = append(path, step)
	}
	return path, s, nil
}

var (
	errEndOfPath   = errors.New("unexpected end of JSON path")
	errNoSuchField = errors.New("does not refer to a valid field")
)

// nextToken cuts off the next token: a delimiter, a quoted string, or the text before a
// delimiter.
func nextToken(text string) (token, rest string) {
	if text == "" {
		return "", ""
	}
	n := len(text)
	if text[0] == '\'' {
		for i := 1; i < len(text); i++ {
			if text[i] == '\'' && text[i-1] != '\\' {
				n = i + 1
				break
			}
		}
	} else if i := strings.IndexAny(text, ".[]"); i >= 0 {
		n = max(i, 1)
	}
	return text[:n], text[n:]
}

// bracketed parses 'name'] after an opening bracket.
func bracketed(text string) (name, rest string, err error) {
	token, rest := nextToken(text)
	if token == "" {
		return "", "", errEndOfPath
	}
	if len(token) < 2 || token[0] != '\'' || token[len(token)-1] != '\'' {
		return "", "", fmt.Errorf("expected single quoted string but got %s", token)
	}
	if name, err = unquote(token[1 : len(token)-1]); err != nil {
		return "", "", fmt.Errorf("invalid string literal: %w", err)
	}
	switch token, rest = nextToken(rest); token {
	case "]":
		return name, rest, nil
	case "":
		return "", "", errEndOfPath
	default:
		return "", "", fmt.Errorf("expected ] but got %s", token)
	}
}

// unquote resolves the escapes of a quoted string.
func unquote(s string) (string, error) {
	const letters, values = `abfnrtv'\`, "\a\b\f\n\r\t\v'\\"
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' || i+1 == len(s) || s[i+1] == '\n' {
			b.WriteByte(s[i])
			continue
		}
		i++
		n := strings.IndexByte(letters, s[i])
		if n < 0 {
			return "", fmt.Errorf("invalid escape char %s", s[i-1:i+1])
		}
		b.WriteByte(values[n])
	}
	return b.String(), nil
}
