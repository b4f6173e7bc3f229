package schema

import (
	"slices"
	"strings"
	"testing"

	"k8s.io/kube-openapi/pkg/validation/strfmt"
)

// plainForms are the shortcuts, by the format whose exact check they spare.
var plainForms = map[string]func(string) bool{
	"hostname": isPlainHostname,
	"email":    isPlainEmail,
	"uri":      isPlainURI,
	"ipv4":     isPlainIPv4,
	"uuid":     isPlainUUID,
	"datetime": isCanonicalTime,
}

// plainTexts are texts that the shortcuts accept, and others.
var plainTexts = map[string]struct{ plain, others []string }{
	"hostname": {[]string{"a.bc", "a-b.c1.de", "0.com", strings.Repeat("a", 60) + ".com", strings.Repeat("a.", 123) + "abcd"},
		[]string{"", "a", ".", "a.b", "a.", ".bc", "a..bc", "-a.bc", "a-.bc", "a.b-", "a_b.cd", "a.Bc", "a.b1", "a.b{", "a.b`", strings.Repeat("a", 61) + ".com", strings.Repeat("a.", 124) + "abcd", "com", "a b.cd"}},
	"email": {[]string{"a@b", "a.b@c.d", "a-b@c1", "1@2"}, []string{"", "a", "@b", "a@", "a b@c", "a@b c", "a@b@c", "-a@b", "a@-b", ".@b"}},
	"uri":   {[]string{"http://a", "https://a.b/c/d-e_f.g", "http://a/"}, []string{"", "ftp://a", "http://", "http:///x", "https://-a", "http://a/b c", "http://a/b?c", "http://a/{", "http://a/@", "http://a:80"}},
	"ipv4": {[]string{"1.2.3.4", "0.0.0.0", "255.255.255.255", "10.20.30.40", "199.99.9.100"},
		[]string{"", "1", "1.2.3", "1.2.3.4.5", "1.2.3.", ".1.2.3", "1..2.3", "01.2.3.4", "1.2.3.04", "001.2.3.4", "00.0.0.0", "256.1.1.1", "1.2.3.1000", "1.2.3.a", "1.2.3:4", "1.2.3/4", "a.b.c.d"}},
	"uuid": {[]string{"01234567-89ab-cdef-0123-456789abcdef"},
		[]string{"", "01234567-89ab-cdef-0123-456789abcde", "01234567-89ab-cdef-0123-456789abcdef0", "01234567089ab-cdef-0123-456789abcdef", "01234567-89abccdef-0123-456789abcdef", "01234567-89ab-cdef00123-456789abcdef", "01234567-89ab-cdef-01230456789abcdef", "0123456g-89ab-cdef-0123-456789abcdef", "0123456`-89ab-cdef-0123-456789abcdef", "0123456:-89ab-cdef-0123-456789abcdef", "0123456/-89ab-cdef-0123-456789abcdef", "-1234567-89ab-cdef-0123-456789abcdef"}},
}

// TestPlainForms checks the limits of the shortcuts for formats.
func TestPlainForms(t *testing.T) {
	for format, forms := range plainTexts {
		for _, s := range forms.plain {
			if !plainForms[format](s) {
				t.Errorf("%s: %q is not plain", format, s)
			}
			if !stringFormat(format)(s) {
				t.Errorf("%s: %q is invalid", format, s)
			}
		}
		for _, s := range forms.others {
			if plainForms[format](s) {
				t.Errorf("%s: %q is plain", format, s)
			}
		}
	}
	// Valid strings that are not plain.
	for format, s := range map[string]string{"hostname": "localhost", "email": "a+b@c.de", "uri": "http://a/b?c#d", "uuid": "01234567-89AB-CDEF-0123-456789abcdef", "date-time": "2024-02-03T04:05:06+01:00"} {
		if !stringFormat(format)(s) {
			t.Errorf("%s: %q is invalid", format, s)
		}
	}
}

// A shortcut may overlook a valid string, but must never take an invalid one.
func FuzzPlainForms(f *testing.F) {
	for _, texts := range plainTexts {
		for _, s := range slices.Concat(texts.plain, texts.others) {
			f.Add(s)
		}
	}
	for _, s := range []string{"2026-11-15T10:20:30Z", "0001-01-01T00:00:00Z", "2026-02-30T00:00:00Z"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		for format, plain := range plainForms {
			if plain(s) && !strfmt.Default.Validates(format, s) {
				t.Errorf("%q is taken as a plain %s, but is none", s, format)
			}
		}
	})
}
