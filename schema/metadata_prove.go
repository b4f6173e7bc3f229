package schema

import "strings"

// provesEmbedded reports whether apiVersion, kind and metadata of an embedded resource
// are certainly valid.
func provesEmbedded(obj map[string]any) bool {
	apiVersion, _ := obj["apiVersion"].(string)
	kind, _ := obj["kind"].(string)
	if !isPlainName(kind) || strings.Count(apiVersion, "/") > 1 || apiVersion == "" || apiVersion == "/" {
		return false
	}
	v, found := obj["metadata"]
	if !found {
		return true
	}
	meta, ok := v.(map[string]any)
	return ok && provesMetadata(meta)
}

// provesIdentity reports whether apiVersion, kind and metadata of the object itself are
// certainly valid.
func provesIdentity(id *Identity, obj map[string]any) bool {
	if obj["kind"] != any(id.Kind) || obj["apiVersion"] != any(id.APIVersion) {
		return false
	}
	meta, _ := obj["metadata"].(map[string]any)
	_, named := meta["name"]
	_, namespaced := meta["namespace"]
	return named && namespaced == id.Namespaced && provesMetadata(meta)
}

// provesMetadata reports whether metadata is certainly valid: it has only common fields
// with common values.
func provesMetadata(meta map[string]any) bool {
	for k, v := range meta {
		switch k {
		case "name", "namespace":
			s, _ := v.(string)
			parts, ok := isDotted(s)
			if !ok || len(s) > 200 || parts > 1 && k == "namespace" || strings.ToLower(s) != s {
				return false
			}
		case "generation":
			if n, ok := v.(int64); !ok || n < 0 {
				return false
			}
		case "labels":
			if !plainStrings(v, isPlainLabel) {
				return false
			}
		case "annotations":
			if !plainStrings(v, func(s string) bool { return len(s) < 1<<12 }) {
				return false
			}
		default:
			return false
		}
	}
	return true
}

// plainStrings reports whether v is a small map of qualified names to strings that
// satisfy fine.
func plainStrings(v any, fine func(string) bool) bool {
	m, ok := v.(map[string]any)
	if !ok || len(m) > 32 {
		return false
	}
	for k, x := range m {
		prefix, name, qualified := strings.Cut(k, "/")
		if !qualified {
			prefix, name = "", k
		} else if _, ok := isDotted(prefix); !ok || len(prefix) > 200 || strings.ToLower(prefix) != prefix {
			return false
		}
		if s, ok := x.(string); !ok || !isPlainLabel(name) || name == "" || !fine(s) {
			return false
		}
	}
	return true
}

// isPlainLabel reports whether s is a valid label value: letters and digits with dots,
// dashes and underscores inside.
func isPlainLabel(s string) bool {
	if len(s) > 63 {
		return false
	}
	for i := 0; i < len(s); i++ {
		c := s[i]
		if !isAlphanumeric(c) && (i == 0 || i == len(s)-1 || c != '-' && c != '_' && c != '.') {
			return false
		}
	}
	return true
}

// isPlainName reports whether s consists of ASCII letters and is short enough for any
// kind of name.
func isPlainName(s string) bool {
	if s == "" || len(s) > 63 {
		return false
	}
	for i := 0; i < len(s); i++ {
		if c := s[i] | 0x20; c < 'a' || c > 'z' {
			if i == 0 || i == len(s)-1 || s[i] != '-' && (s[i] < '0' || s[i] > '9') {
				return false
			}
		}
	}
	return true
}
