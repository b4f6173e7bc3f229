package schema

import (
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

var plainSamples = map[string][]string{
	"hostname": {"example.com", "a.bc", "x-1.example.org", "a.az", "A.za"},
	"email":    {"jane.doe@example.com", "a@b", "x-y@z.org"},
	"uri":      {"https://example.com/a/b-c_d.html", "http://localhost", "http://localhost/"},
	"ipv4":     {"127.0.0.1", "0.0.0.0", "255.255.255.255"},
	"uuid":     {"123e4567-e89b-12d3-a456-426614174000"},
	"datetime": {"2026-11-15T10:20:30Z"},
}

func TestPlainFormsAreTaken(t *testing.T) {
	for format, samples := range plainSamples {
		for _, s := range samples {
			if !plainForms[format](s) {
				t.Errorf("%q is a plain %s, but is not taken as one", s, format)
			}
		}
	}
	long := strings.Repeat(strings.Repeat("a", 49)+".", 5)
	if top := "aa"; isPlainHostname(long+top) || !isPlainHostname(long[2:]+top) || isPlainHostname(long[1:]+top) {
		t.Error("a host name of 250 bytes is not plain, or a longer one is")
	}
}

// A shortcut may overlook a valid string, but must never take an invalid one.
func FuzzPlainForms(f *testing.F) {
	for _, samples := range plainSamples {
		for _, s := range samples {
			f.Add(s)
		}
	}
	for _, s := range []string{"", ".", "a..b", "-a.b", "a-.bc", "a@", "@b", "http://", "http:///x", "1.2.3", "1.2.3.04", "1.2.3.256", "0001-01-01T00:00:00Z", "2026-02-30T00:00:00Z", "a.b-"} {
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
