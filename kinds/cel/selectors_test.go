package cel

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"espalier.dev/kinds"
)

// TestDeviceSelector compiles expressions twice: results are kept.
func TestDeviceSelector(t *testing.T) {
	t.Parallel()
	latest, older := New(), At(35)
	const shared = "device.allowMultipleAllocations"
	chained := "optional.of(1)" + strings.Repeat(".optMap(x, x)", 30) + ".hasValue()"
	for _, tt := range []struct {
		cel        kinds.CEL
		expression string
		stored     bool
		want       string // the begin of the error
	}{
		{latest, "device.driver == 'a' && 'a.example.com' in device.attributes", false, ""},
		{latest, "device.attributes['a.example.com'].anything", false, ""},
		{latest, "device.attributes['a.example.com'].version.isLessThan(semver('1.2.3'))", true, ""},
		{latest, "device.capacity['a.example.com'].memory.isGreaterThan(quantity('1Gi'))", false, ""},
		{latest, "cel.bind(a, device.attributes['a.example.com'], a.x || a.y)", false, ""},
		{latest, shared, false, ""},
		{latest, shared, true, ""},
		{older, shared, false, `f: Invalid value: "device.allowMultipleAllocations": compilation failed: ERROR: <input>:1:7: undefined field 'allowMultipleAllocations'`},
		{older, "device.driver == 'a'", false, ""},
		{latest, "device.driver", false, `f: Invalid value: "device.driver": must evaluate to bool or the unknown type, not string`},
		{latest, chained, false, `f: Invalid value: "` + chained + `": compilation failed: the expression is too complex to be compiled: use fewer`},
		{latest, "[?dyn(device.driver)] == []", false, `f: Invalid value: "[?dyn(device.driver)] == []": compilation failed: the compiler of CEL failed: `},
		{latest, chained, true, ""}, // stored objects stay valid
		{latest, "object.x", false, `f: Invalid value: "object.x": compilation failed: ERROR: <input>:1:1: undeclared reference to 'object'`},
		{latest, "device.attributes.all(a, device.attributes.all(b, device.attributes.all(c, device.attributes.all(d, a + b + c + d != ''))))", false,
			`f: Forbidden: too complex, exceeds cost limit`},
	} {
		for range 2 {
			errs := tt.cel.DeviceSelector(field.NewPath("f"), tt.expression, tt.stored)
			got := ""
			if len(errs) > 0 {
				got = errs[0].Error()
			}
			if !strings.HasPrefix(got, tt.want) || tt.want == "" && got != "" || len(errs) > 1 {
				t.Errorf("%s: got %q, want %q", tt.expression, errs, tt.want)
			}
		}
	}
}

// TestLongErrors has an expression with many errors, each of which quotes its line.
func TestLongErrors(t *testing.T) {
	text := strings.Repeat("@ ", 2_000)
	errs := New().DeviceSelector(field.NewPath("expression"), text, false)
	if len(errs) != 1 || len(errs[0].Detail) > 20_000 || !strings.HasPrefix(errs[0].Detail, "compilation failed: ERROR: <input>:1:1: Syntax error") {
		t.Errorf("got %d errors: %.200v", len(errs), errs)
	}
}
