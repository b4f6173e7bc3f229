package crd_test

import (
	"testing"

	"espalier.dev/crd"
)

func TestKnownFormat(t *testing.T) {
	tests := []struct {
		typ, format string
		want        bool
	}{
		{"string", "date-time", true}, {"string", "datetime", true}, {"", "ipv4", true}, {"string", "int32", false}, {"string", "ip", false},
		{"integer", "int64", true}, {"integer", "int16", false}, {"number", "double", true}, {"number", "int32", false}, {"object", "byte", false},
	}
	for _, tt := range tests {
		if got := crd.KnownFormat(tt.typ, tt.format); got != tt.want {
			t.Errorf("%q of %q: got %v", tt.format, tt.typ, got)
		}
	}
}
