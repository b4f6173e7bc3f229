package crd

import (
	"bufio"
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"espalier.dev/api"
)

var (
	errNoField       = errors.New("does not refer to a valid field")
	errPathEnds      = errors.New("unexpected end of JSON path")
	errArrayNotation = errors.New("array notation is not allowed")
)

// resolve follows a path such as .spec.replicas or ['a.b'].c into a schema. brackets
// allows the array notation.
func resolve(jsonPath string, s *api.JSONSchemaProps, brackets bool) (path *field.Path, found *api.JSONSchemaProps, err error) {
	into := func(name string) error {
		switch {
		case s == nil:
			return errNoField
		case len(s.Properties) > 0:
			prop, ok := s.Properties[name]
			if !ok {
				return errNoField
			}
			path, s = path.Child(name), &prop
		case s.AdditionalProperties != nil:
			path, s = path.Key(name), s.AdditionalProperties.Schema
		default:
			return errNoField
		}
		return nil
	}
	tokens := bufio.NewScanner(strings.NewReader(jsonPath))
	tokens.Split(pathTokens)
	for tokens.Scan() {
		switch tok := tokens.Text(); tok {
		case "[":
			if !brackets {
				return nil, nil, errArrayNotation
			}
			if !tokens.Scan() {
				return nil, nil, errPathEnds
			}
			tok = tokens.Text()
			if len(tok) < 2 || tok[0] != '\'' || tok[len(tok)-1] != '\'' {
				return nil, nil, fmt.Errorf("expected single quoted string but got %s", tok)
			}
			name, err := unquote(tok[1 : len(tok)-1])
			if err != nil {
				return nil, nil, fmt.Errorf("invalid string literal: %w", err)
			}
			if err := into(name); err != nil {
				return nil, nil, err
			}
			if !tokens.Scan() {
				return nil, nil, errPathEnds
			}
			if tok = tokens.Text(); tok != "]" {
				return nil, nil, fmt.Errorf("expected ] but got %s", tok)
			}
		case ".":
			if !tokens.Scan() {
				return nil, nil, errPathEnds
			}
			if err := into(tokens.Text()); err != nil {
				return nil, nil, err
			}
		default:
			return nil, nil, fmt.Errorf("expected [ or . but got: %s", tok)
		}
	}
	if err := tokens.Err(); err != nil {
		return nil, nil, err
	}
	return path, s, nil
}

// pathTokens splits a path at dots and brackets, which are tokens too. A quoted string
// is one token.
func pathTokens(data []byte, atEOF bool) (advance int, token []byte, err error) {
	if len(data) == 0 {
		return 0, nil, nil
	}
	if data[0] == '\'' {
		for i := 1; i < len(data); i++ {
			if data[i] == '\'' && data[i-1] != '\\' {
				return i + 1, data[:i+1], nil
			}
		}
	} else {
		for i, c := range data {
			if c != '.' && c != '[' && c != ']' {
				continue
			}
			if i == 0 {
				i = 1
			}
			return i, data[:i], nil
		}
	}
	if atEOF {
		return len(data), data, nil
	}
	return 0, nil, nil
}

// unquote resolves the escapes of a quoted string.
func unquote(s string) (string, error) {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' || i+1 == len(s) {
			b.WriteByte(s[i])
			continue
		}
		i++
		const letters, meanings = `abfnrtv'\`, "\a\b\f\n\r\t\v'\\"
		j := strings.IndexByte(letters, s[i])
		if j < 0 {
			return "", fmt.Errorf("invalid escape char %c", s[i])
		}
		b.WriteByte(meanings[j])
	}
	return b.String(), nil
}
