package schema

import (
	"strings"

	"k8s.io/kube-openapi/pkg/validation/strfmt"
)

// formatFunc checks a string against a format.
type formatFunc func(string) bool

// stringFormat returns the check of a format, or nil if Kubernetes does not check the
// format. Dashes in the name are ignored.
//
// Kubernetes' own checks are exact, but many of them allocate. For the common formats, a
// cheap check of the most common spellings goes first.
func stringFormat(name string) formatFunc {
	switch normalized := strings.ReplaceAll(name, "-", ""); normalized {
	case "bsonobjectid":
		return strfmt.IsBSONObjectID
	case "email":
		return func(s string) bool { return isPlainEmail(s) || strfmt.IsEmail(s) }
	case "hostname":
		return func(s string) bool { return isPlainHostname(s) || strfmt.IsHostname(s) }
	case "uuid":
		return func(s string) bool { return isPlainUUID(s) || strfmt.IsUUID(s) }
	case "uuid3":
		return strfmt.IsUUID3
	case "uuid4":
		return strfmt.IsUUID4
	case "uuid5":
		return strfmt.IsUUID5
	case "date":
		return strfmt.IsDate
	case "datetime":
		return func(s string) bool { return isCanonicalTime(s) || strfmt.IsDateTime(s) }
	case "duration":
		return strfmt.IsDuration
	case "k8sshortname":
		return strfmt.IsShortName
	case "k8slongname":
		return strfmt.IsLongName
	case "password":
		return func(string) bool { return true }
	case "uri":
		return func(s string) bool { return isPlainURI(s) || strfmt.Default.Validates("uri", s) }
	case "ipv4":
		return func(s string) bool { return isPlainIPv4(s) || strfmt.Default.Validates("ipv4", s) }
	case "ipv6", "cidr", "mac", "isbn", "isbn10", "isbn13", "creditcard", "ssn", "hexcolor", "rgbcolor", "byte":
		return func(s string) bool { return strfmt.Default.Validates(normalized, s) }
	}
	return nil
}

func isAlphanumeric(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
}

// isDotted reports whether s consists of dot-separated parts of at most 60 ASCII
// letters, digits and inner hyphens, and returns the number of parts.
func isDotted(s string) (parts int, ok bool) {
	start := 0
	for i := 0; i <= len(s); i++ {
		switch {
		case i == len(s) || s[i] == '.':
			if i == start || i-start > 60 || s[i-1] == '-' {
				return 0, false
			}
			parts++
			start = i + 1
		case isAlphanumeric(s[i]) || s[i] == '-' && i > start:
		default:
			return 0, false
		}
	}
	return parts, true
}

func isPlainHostname(s string) bool {
	if parts, _ := isDotted(s); parts < 2 || len(s) > 250 {
		return false
	}
	top := s[strings.LastIndexByte(s, '.')+1:]
	for i := 0; i < len(top); i++ {
		if top[i] < 'a' { // a digit, a hyphen or a capital letter
			return false
		}
	}
	return len(top) >= 2
}

func isPlainEmail(s string) bool {
	local, domain, ok := strings.Cut(s, "@")
	if !ok {
		return false
	}
	_, localOK := isDotted(local)
	_, domainOK := isDotted(domain)
	return localOK && domainOK
}

// isPlainURI reports whether s is an http(s) URL with a host name and a path of
// unreserved characters.
func isPlainURI(s string) bool {
	rest, ok := strings.CutPrefix(s, "https://")
	if !ok {
		if rest, ok = strings.CutPrefix(s, "http://"); !ok {
			return false
		}
	}
	host, path, _ := strings.Cut(rest, "/")
	if _, ok := isDotted(host); !ok {
		return false
	}
	for i := 0; i < len(path); i++ {
		if c := path[i]; !isAlphanumeric(c) && c != '/' && c != '.' && c != '-' && c != '_' {
			return false
		}
	}
	return true
}

func isPlainIPv4(s string) bool {
	parts, value, digits := 0, 0, 0
	for i := 0; i <= len(s); i++ {
		if i < len(s) && '0' <= s[i] && s[i] <= '9' {
			value = value*10 + int(s[i]-'0')
			if digits++; digits > 3 || value > 255 {
				return false
			}
			continue
		}
		if i < len(s) && s[i] != '.' || digits == 0 || digits > 1 && s[i-digits] == '0' {
			return false
		}
		parts, value, digits = parts+1, 0, 0
	}
	return parts == 4
}

func isPlainUUID(s string) bool {
	if len(s) != 36 {
		return false
	}
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case i == 8 || i == 13 || i == 18 || i == 23:
			if c != '-' {
				return false
			}
		case '0' <= c && c <= '9' || 'a' <= c && c <= 'f':
		default:
			return false
		}
	}
	return true
}
