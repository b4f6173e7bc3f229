package resource_test

import (
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"espalier.dev/kinds/cel"
	"espalier.dev/kinds/kind/kindtest"
	"espalier.dev/kinds/resource"
)

func requests(names ...string) (out []v1.DeviceRequest) {
	for _, name := range names {
		out = append(out, v1.DeviceRequest{Name: name, Exactly: &v1.ExactDeviceRequest{DeviceClassName: "c"}})
	}
	return out
}

func opaque(driver, parameters string) v1.DeviceConfiguration {
	return v1.DeviceConfiguration{Opaque: &v1.OpaqueDeviceConfiguration{Driver: driver, Parameters: runtime.RawExtension{Raw: []byte(parameters)}}}
}

func selectors(expressions ...string) (out []v1.DeviceSelector) {
	for _, e := range expressions {
		out = append(out, v1.DeviceSelector{CEL: &v1.CELDeviceSelector{Expression: e}})
	}
	return out
}

// large is an object with more bytes than a field may have.
var large = `{"a":"` + strings.Repeat("x", 10<<10) + `"}`

func TestClaimContents(t *testing.T) {
	t.Parallel()
	claim := &v1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "b"}, Spec: v1.ResourceClaimSpec{Devices: v1.DeviceClaim{
		Requests: append(requests("r"), v1.DeviceRequest{Name: "f", FirstAvailable: []v1.DeviceSubRequest{{Name: "g", DeviceClassName: "c"}}}),
	}}}
	create := kindtest.Create(t, resource.Rules(nil)["resourceclaims"], claim)
	change := func(f func(*v1.DeviceClaim), want ...string) {
		t.Helper()
		create(func(c *v1.ResourceClaim) { f(&c.Spec.Devices) }, want...)
	}

	change(func(d *v1.DeviceClaim) { d.Requests = requests("a", "a") }, `spec.devices.requests[1]: Duplicate value: "a"`)
	change(func(d *v1.DeviceClaim) { d.Requests = make([]v1.DeviceRequest, 33) }, `spec.devices.requests: Too many: 33: must have at most 32 items`)
	change(func(d *v1.DeviceClaim) { d.Requests[0].FirstAvailable = d.Requests[1].FirstAvailable },
		"spec.devices.requests[0]: Invalid value: null: exactly one of `exactly` or `firstAvailable` is required, but multiple fields are set")
	change(func(d *v1.DeviceClaim) {
		f := &d.Requests[1].FirstAvailable
		*f = slices.Repeat(*f, 9)
	}, `spec.devices.requests[1].firstAvailable: Too many: 9: must have at most 8 items`)
	change(func(d *v1.DeviceClaim) {
		d.Requests[0].Exactly.Tolerations = []v1.DeviceToleration{
			{Key: "a b", Operator: v1.DeviceTolerationOpExists, Value: "x", Effect: "Never"}, {Key: "a"}, {Operator: "Like"},
			{Operator: v1.DeviceTolerationOpEqual, Value: "a b", Effect: v1.DeviceTaintEffectNone},
		}
	},
		`spec.devices.requests[0].exactly.tolerations[0].key: Invalid value: "a b": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')`,
		"spec.devices.requests[0].exactly.tolerations[0].value: Invalid value: \"x\": must be empty for operator `Exists`",
		`spec.devices.requests[0].exactly.tolerations[0].effect: Unsupported value: "Never": supported values: "NoExecute", "NoSchedule", "None"`,
		`spec.devices.requests[0].exactly.tolerations[2].operator: Unsupported value: "Like": supported values: "Equal", "Exists"`,
		`spec.devices.requests[0].exactly.tolerations[3].value: Invalid value: "a b": a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')`)

	const reference = `must be the name of a request in the claim or the name of a request and a subrequest separated by '/'`
	change(func(d *v1.DeviceClaim) {
		d.Constraints = []v1.DeviceConstraint{
			{Requests: []string{"r", "f", "f/g"}, MatchAttribute: new(v1.FullyQualifiedName("a.example.com/x"))},
			{Requests: []string{"r/g", "x", "f/h", "f/g/h", "f", "f"}, MatchAttribute: new(v1.FullyQualifiedName("x-y"))},
			{DistinctAttribute: new(v1.FullyQualifiedName("/"))},
		}
	},
		`spec.devices.constraints[1].requests[0]: Invalid value: "r/g": `+reference,
		`spec.devices.constraints[1].requests[1]: Invalid value: "x": `+reference,
		`spec.devices.constraints[1].requests[2]: Invalid value: "f/h": `+reference,
		`spec.devices.constraints[1].requests[3]: Invalid value: "f/g/h": `+reference,
		`spec.devices.constraints[1].requests[5]: Duplicate value: "f"`,
		`spec.devices.constraints[1].matchAttribute: Invalid value: "x-y": a valid C identifier must start with alphabetic character or '_', followed by a string of alphanumeric characters or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName', regex used for validation is '[A-Za-z_][A-Za-z0-9_]*')`,
		`spec.devices.constraints[1].matchAttribute: Invalid value: "x-y": a fully qualified name must be a domain and a name separated by a slash`,
		`spec.devices.constraints[2].distinctAttribute: Invalid value: "": the domain must not be empty`,
		`spec.devices.constraints[2].distinctAttribute: Invalid value: "": the name must not be empty`)
	change(func(d *v1.DeviceClaim) { d.Constraints = make([]v1.DeviceConstraint, 33) }, `spec.devices.constraints: Too many: 33: must have at most 32 items`)
	change(func(d *v1.DeviceClaim) {
		for _, c := range []v1.DeviceConfiguration{opaque("d", `{"a":1}`), opaque("d", `[]`), opaque("d", `null`), opaque("d", large), opaque("d", `{`)} {
			d.Config = append(d.Config, v1.DeviceClaimConfiguration{Requests: []string{"r"}, DeviceConfiguration: c})
		}
	},
		`spec.devices.config[1].opaque.parameters: Invalid value: "<value omitted>": must be a valid JSON object`,
		`spec.devices.config[2].opaque.parameters: Required value`,
		`spec.devices.config[3].opaque.parameters: Too long: may not be more than 10240 bytes`,
		`spec.devices.config[4].opaque.parameters: Invalid value: "<value omitted>": error parsing data as JSON: unexpected end of JSON input`)
	change(func(d *v1.DeviceClaim) { d.Config = make([]v1.DeviceClaimConfiguration, 33) }, `spec.devices.config: Too many: 33: must have at most 32 items`)

	got := create(func(c *v1.ResourceClaim) {
		derived := []v1.DeviceDerivedAttribute{{Name: "a/b", Expression: "1"}}
		r := c.Spec.Devices.Requests
		r[0].Exactly.DerivedAttributes, r[1].FirstAvailable[0].DerivedAttributes = derived, derived
	})
	if r := got.Spec.Devices.Requests; r[0].Exactly.DerivedAttributes != nil || r[1].FirstAvailable[0].DerivedAttributes != nil {
		t.Errorf("alpha fields are stored: %+v", r)
	}
}

func TestTemplateContents(t *testing.T) {
	t.Parallel()
	template := &v1.ResourceClaimTemplate{ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "b"}, Spec: v1.ResourceClaimTemplateSpec{
		Spec: v1.ResourceClaimSpec{Devices: v1.DeviceClaim{Requests: requests("r")}}}}
	rules := resource.Rules(cel.New())["resourceclaimtemplates"]
	kindtest.Create(t, rules, template)(func(c *v1.ResourceClaimTemplate) {
		c.Spec.ObjectMeta = metav1.ObjectMeta{Name: "x", Labels: map[string]string{"a": "b"}}
		c.Spec.Spec.Devices.Requests[0].Exactly.Selectors = selectors("1")
	},
		`spec.metadata.name: Forbidden: cannot be set`,
		`spec.spec.devices.requests[0].exactly.selectors[0].cel.expression: Invalid value: "1": must evaluate to bool or the unknown type, not int`)
	// Unlike that of a claim, the specification of a template is validated again.
	kindtest.Stored(t, rules, "", &v1.ResourceClaimTemplate{ObjectMeta: template.ObjectMeta, Spec: v1.ResourceClaimTemplateSpec{
		Spec: v1.ResourceClaimSpec{Devices: v1.DeviceClaim{Requests: make([]v1.DeviceRequest, 33)}}}})(func(*v1.ResourceClaimTemplate) {},
		`spec.spec.devices.requests: Too many: 33: must have at most 32 items`)
}

func TestClassContents(t *testing.T) {
	t.Parallel()
	rules := resource.Rules(cel.New())["deviceclasses"]
	class := &v1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
	create := kindtest.Create(t, rules, class)
	create(func(c *v1.DeviceClass) { c.Spec.ExtendedResourceName = new("example.com/gpu") })
	create(func(c *v1.DeviceClass) { c.Spec.ExtendedResourceName = new("cpu") },
		`spec.extendedResourceName: Invalid value: "cpu": must be a valid extended resource name`)
	create(func(c *v1.DeviceClass) { c.Spec.Selectors = make([]v1.DeviceSelector, 33) }, `spec.selectors: Too many: 33: must have at most 32 items`)
	create(func(c *v1.DeviceClass) {
		c.Spec.Selectors = selectors("device.driver == 'a'", "device.attributes['a.example.com'].healthy", "device.allowMultipleAllocations",
			"cel.bind(a, device.attributes['a.example.com'], a.version.isGreaterThan(semver('1.0.0')))",
			"device.attributes.all(a, device.attributes.all(b, device.attributes.all(c, device.attributes.all(d, a + b + c + d != device.driver))))",
			"device.name", strings.Repeat(" ", 10<<10+1))
	},
		`spec.selectors[4].cel.expression: Forbidden: too complex, exceeds cost limit`,
		"spec.selectors[5].cel.expression: Invalid value: \"device.name\": compilation failed: ERROR: <input>:1:7: undefined field 'name'\n | device.name\n | ......^",
		`spec.selectors[6].cel.expression: Too long: may not be more than 10240 bytes`)

	// Stored parameters may have any size, as long as no configuration changes.
	config := func(names ...string) (out []v1.DeviceClassConfiguration) {
		for _, name := range names {
			out = append(out, v1.DeviceClassConfiguration{DeviceConfiguration: opaque(name, large)})
		}
		return out
	}
	stored := class.DeepCopy()
	stored.Spec.Config = config("a")
	update := kindtest.Stored(t, rules, "", stored)
	update(func(c *v1.DeviceClass) { c.Spec.Selectors = selectors("true") })
	update(func(c *v1.DeviceClass) { c.Spec.Config = config("b") }, `spec.config[0].opaque.parameters: Too long: may not be more than 10240 bytes`)
}
