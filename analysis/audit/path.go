package audit

import (
	"strconv"
	"strings"

	"espalier.dev/schema"
)

// ParsePath parses a path as [schema.Path.String] writes it. The schema, which may be nil, tells
// the keys of maps from the names of fields. A key with a dot is taken for several.
func ParsePath(text string, s *schema.Structural) (p schema.Path) {
	for _, part := range strings.FieldsFunc(text, func(r rune) bool { return r == '.' || r == '[' }) {
		if digits, ok := strings.CutSuffix(part, "]"); ok {
			if i, err := strconv.Atoi(digits); err == nil {
				p = append(p, schema.Step{Index: i, Kind: schema.Index})
				if s != nil {
					s = s.Items
				}
				continue
			}
		}
		step := schema.Step{Key: part}
		var next *schema.Structural
		if s != nil {
			if child, ok := s.Properties[part]; ok {
				next = child
			} else if more := s.AdditionalProperties; more != nil && more.Structural != nil {
				step.Kind, next = schema.MapKey, more.Structural
			}
		}
		p = append(p, step)
		s = next
	}
	return p
}
