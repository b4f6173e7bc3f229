package yamlx

import (
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// TestResolve compares the values of plain scalars: as values, as keys and in brackets.
func TestResolve(t *testing.T) {
	words := strings.Fields(`y Y yes Yes YES true True TRUE on On ON n N no No NO false False FALSE off Off OFF ~ null Null NULL yEs oN nulL tRUE
		.nan .NaN .NAN .inf .Inf .INF +.inf +.Inf +.INF -.inf -.Inf -.INF .Nan -.nan . .. .5 .5e3 .e3 5. 5.e1 1e3 1E-3 1e+3 1e 1e400 -1.5 +1.5 +-1 1.2.3
		0 00 -0 +0 +5 -5 007 0777 08 09.5 0o17 0O17 0o8 0x1F 0X1f 0xg 0b11 0B11 0b2 -0b11 +0b11 0b -0b -0x1F 1_000 _1 1_ 0x_1 1__0 0_7 1_0.5 1e1_0
		9223372036854775807 9223372036854775808 -9223372036854775808 -9223372036854775809 18446744073709551615 18446744073709551616 0xFFFFFFFFFFFFFFFF 0x1FFFFFFFFFFFFFFFF
		123456789012345678 1234567890123456789 12345678901234567890123 0.1 1.0 100000000000000000000000.0 1e21 1e-7 0.000001 1.7976931348623157e308 5e-324 16777217.0 3.14159265358979
		2001-01-01 2001-1-1 2001-01-01T10:00:00Z 12:30 12:30:45 1h - -- -a +a + 1a 0xZ Infinity inf NaN nan <<a = => a<< 1,2 % .a ..5 1.e 1.5e 1.5e+ 0.e0`)
	// encoding/json escapes characters that are special in HTML.
	escapes := strings.NewReplacer(`\u003c`, "<", `\u003e`, ">")
	for _, w := range words {
		if w == "%" {
			continue
		}
		for _, src := range []string{"k: " + w + "\n", w + ": v\n", "k: [" + w + "]\n", "k: {" + w + ": 1}\n", "- " + w + "\n- x\n", "k: " + w + " # c\n"} {
			d, err := Parse([]byte(src))
			if err != nil {
				t.Fatal(err)
			}
			want, wantErr := yaml.YAMLToJSON([]byte(src))
			got, err := d.JSON()
			if (err != nil) != (wantErr != nil) || err == nil && string(got) != escapes.Replace(string(want)) {
				t.Errorf("%q: got %s, %v; want %s, %v", src, got, err, want, wantErr)
			}
		}
	}
}

// TestBlockScalars compares block scalars with all headers and odd contents, at several
// depths.
func TestBlockScalars(t *testing.T) {
	headers := strings.Fields("| > |- >- |+ >+ |1 |2 >3 |2- |-2 >+1 >1+ |9 |0 |-- |x")
	bodies := []string{"", "x\n", "x", "  x\n", "  x\n  y\n", "  x\n\n\n  y\n\n", "\n  x\n", "   \n  x\n", "  x\n    y\n  z\n", "  x\n \n  y\n", "  x\n   \n  y\n", "  \tx\n  y\n", "  x\n\ty\n", " x\n  y\n", "    x\n  y\n", "  x  \n  y\t\n", "  # x\n# y\n", "  x\r\n\r\n  y\r\n", "  x\n  ", "  - a\n  b: c\n", "  \"\\\"\n"}
	for _, h := range headers {
		for _, b := range bodies {
			for _, src := range []string{"k: " + h + "\n" + b, "k: " + h + " # c\n" + b + "l: m\n", "a:\n  k: " + h + "\n" + b + "  l: m\n", "- " + h + "\n" + b + "- m\n", "a:\n- k: " + h + "\n" + b + "  l: m\n", "a:\n  - " + h + "\n" + b + "  - m\n"} {
				d, err := Parse([]byte(src))
				if err != nil {
					t.Fatal(err)
				}
				want, wantErr := yaml.YAMLToJSON([]byte(src))
				got, err := d.JSON()
				if (err != nil) != (wantErr != nil) || err == nil && !same(t, got, want) {
					t.Errorf("%q: got %s, %v; want %s, %v", src, got, err, want, wantErr)
				}
			}
		}
	}
}
