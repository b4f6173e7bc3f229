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
	}
}
