package quantity_test

import (
	"strings"
	"testing"

	"espalier.dev/internal/quantity"
)

func TestIsCostly(t *testing.T) {
	for text, costly := range map[string]bool{
		"": false, "1": false, "1Gi": false, "1.5e3": false, "1e999": false, "-1E-999": false, "12E": false, "1e0000000000001": false,
		"1e": false, "e9999": false, "83e1029f384": false, "12a3e99999": false, "1Ei": false, "9999m": false,
		"1e1000": true, "1e-9999999": true, " +1E+99999 ": true, "1.e0099999": true, ".5e99999": true,
		strings.Repeat("1", 1000): false, strings.Repeat("1", 1001): true, "0." + strings.Repeat("1", 2000) + "Ki": true, "-" + strings.Repeat("1", 2000) + "e1": true,
	} {
		if got := quantity.IsCostly(text); got != costly {
			t.Errorf("IsCostly(%.40q): got %v", text, got)
		}
		if text = `{"a":"` + text + `"}`; costly && !quantity.MayBeIn([]byte(text)) {
			t.Errorf("MayBeIn(%.40q): got false", text)
		}
	}
	for text, may := range map[string]bool{
		`{"image":"a:1.2.3","e":1234,"b":"12ab34e567"}`: false, `a: 1e3`: false, `{"a":"1\u006599999"}`: true, "2026-11-16T14:36:40Z": false,
		"a3af4e1c-0b1e-4f12-9e12-123412341234": false,
	} {
		if got := quantity.MayBeIn([]byte(text)); got != may {
			t.Errorf("MayBeIn(%q): got %v", text, got)
		}
	}
}
