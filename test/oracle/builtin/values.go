package builtin

import (
	"math/rand/v2"
	"reflect"
	"strings"
	"time"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Values of types that are not structs, maps or lists in JSON.
var special = map[reflect.Type][]any{
	reflect.TypeFor[resource.Quantity]():    {"1", "0", "100m", "1Gi", "2", "10Gi", "-1", "1.5", "0.1m", "1e3", "64Mi", int64(3)},
	reflect.TypeFor[intstr.IntOrString]():   {int64(0), int64(1), int64(80), int64(-1), int64(70000), "25%", "http", "150%", "0%", "", "Http_x", "a-very-long-port-name"},
	reflect.TypeFor[metav1.Time]():          {"2026-01-02T03:04:05Z", "2020-01-01T00:00:00Z", "2027-01-01T00:00:00+02:00", nil},
	reflect.TypeFor[metav1.MicroTime]():     {"2026-01-02T03:04:05.000001Z", "2020-01-01T00:00:00.000000Z"},
	reflect.TypeFor[metav1.Duration]():      {"1s", "0s", "-5m"},
	reflect.TypeFor[runtime.RawExtension](): {map[string]any{"a": int64(1)}, map[string]any{}},
	reflect.TypeFor[metav1.FieldsV1]():      {map[string]any{}},
	reflect.TypeFor[time.Duration]():        {int64(1)},

	reflect.TypeFor[resourcev1.CELDeviceSelector](): selectors(
		"true", "device.driver == 'gpu.example.com'", "device.attributes['a.example.com'].healthy",
		"device.attributes['a.example.com'].model.startsWith('a')", "device.capacity['a.example.com'].memory.compareTo(quantity('1Gi')) >= 0",
		"device.attributes['a.example.com'].version.isLessThan(semver('2.0.0'))", "device.allowMultipleAllocations == true",
		"cel.bind(a, device.attributes['a.example.com'], a.x && a.y)", "has(device.attributes['a.example.com'].x)", "'a' in device.attributes",
		"device.attributes.all(d, device.attributes[d].all(n, device.attributes[d][n] == 1))",
		"device.capacity.exists(d, device.capacity[d].exists(n, device.capacity[d][n].isGreaterThan(quantity('1'))))",
		"device.attributes['a.example.com'].x.matches('a+')", "device.attributes['a.example.com'].x.matches('a(')", "device.driver.matches(device.driver)",
		"device.attributes['a.example.com'].list.includes('x')", "device.attributes['a.example.com'].list.exists(i, i == 'x')",
		"1 + 1", "device.driver", "device.attributes['a.example.com']", "device.capacity['a.example.com'].memory", "", "device.", "devices.driver == 'a'",
		"device.unknown", "device.attributes.x.y", "isQuantity('1') && ip('10.0.0.1').family() == 4", "dyn(device.driver)",
		"[1,2,3,4,5,6,7,8,9].all(a, [1,2,3,4,5,6,7,8,9].all(b, [1,2,3,4,5,6,7,8,9].all(c, [1,2,3,4,5,6,7,8,9].all(d, device.driver.contains('x')))))",
		"device.attributes.all(a, device.attributes.all(b, device.attributes.all(c, device.attributes.all(d, a + b + c + d != device.driver))))",
		"'"+strings.Repeat("x", 10<<10-2)+"' == ''", "'"+strings.Repeat("x", 10<<10-8)+"' == ''"),
}

// selectors returns selectors of devices with expressions.
func selectors(expressions ...string) (out []any) {
	for _, e := range expressions {
		out = append(out, map[string]any{"expression": e})
	}
	return out
}

// texts are values of string types without constants.
var texts = map[string][]string{
	"k8s.io/api/resource/v1.QualifiedName": {"memory", "example.com/memory", "cores", "gpu.example.com/numa", "a/b/c", "/a", "a/", "bad-name", "",
		strings.Repeat("a", 33), strings.Repeat("d", 64) + "/a", strings.Repeat("e", 64) + "/" + strings.Repeat("a", 64)},
	"k8s.io/api/resource/v1.FullyQualifiedName": {"example.com/memory", "gpu.example.com/numa", "memory", "a/b/c", "/a", "a/", "", "UPPER.example.com/x"},
}

// Strings that fields are set to, by the end of the name of the field in lower case. The first
// ones are valid.
var named = []struct {
	suffix string
	values []string
}{
	{"namespace", []string{"default", "kube-system", "x", "Bad_ns", ""}},
	{"generatename", []string{"web-", "a", "Bad_", ""}},
	{"nodename", []string{"node-1", "node_1", ""}},
	{"hostname", []string{"web", "a.example.com", "Bad_"}},
	{"name", []string{"web", "a", "db-1", "a.example.com", "example.com/a", "Bad_name", "", "-a", "kubernetes", "http"}},
	{"image", []string{"nginx", "nginx:1.25", "example.com/a@sha256:x", "", " a"}},
	{"path", []string{"/data", "/a/b", "a/b", "../x", "/a/../b", "", "/"}},
	{"kind", []string{"Deployment", "Service", "User", "Group", "ServiceAccount", "Role", "ClusterRole", "Pod", "", "bad kind"}},
	{"apiversion", []string{"apps/v1", "v1", "a/b/c", ""}},
	{"apigroup", []string{"apps", "rbac.authorization.k8s.io", "", "Bad_"}},
	{"ips", []string{"10.0.0.5", "fd00::5", "10.0.0.05", "None", "x"}},
	{"ip", []string{"10.0.0.5", "192.168.1.1", "fd00::5", "127.0.0.1", "010.0.0.1", "None", "x", ""}},
	{"cidr", []string{"10.0.0.0/8", "10.0.1.0/24", "fd00::/64", "10.0.0.1/8", "10.0.0.0/33", "x"}},
	{"cidrs", []string{"10.1.0.0/16", "fd00:1::/112", "10.0.0.1/8", "x"}},
	{"host", []string{"example.com", "*.example.com", "a", "*", "10.0.0.1", "Bad_", ""}},
	{"url", []string{"https://example.com/x", "http://example.com", "https://u@example.com", "https://example.com?a=b", "x"}},
	{"schedule", []string{"* * * * *", "@hourly", "0 0 31 2 *", "TZ=UTC * * * * *", "x"}},
	{"timezone", []string{"Etc/UTC", "Europe/Berlin", "Mars/X", "", "local"}},
	{"expression", []string{"true", "object.metadata.name == 'a'", "1 +", "object.x.y", "''", ""}},
	{"messageexpression", []string{"'a'", "1", "x"}},
	{"signername", []string{"kubernetes.io/kube-apiserver-client", "example.com/a", "x"}},
	{"key", []string{"a", "tls.crt", "kubernetes.io/arch", "bad key", "", "../x"}},
	{"verbs", []string{"get", "*", "list", ""}},
	{"resources", []string{"pods", "*", "pods/status", "*/*", "pods/*", ""}},
	{"apigroups", []string{"", "apps", "*"}},
	{"apiversions", []string{"v1", "*", ""}},
	{"finalizers", []string{"example.com/a", "foregroundDeletion", "orphan", "bad", "a b"}},
	{"quantity", []string{"1", "x"}},
	{"uid", []string{"u-1", "u-2", ""}},
	{"driver", []string{"csi.example.com", "Bad_"}},
	{"shareid", []string{"01234567-89ab-cdef-0123-456789abcdef", "01234567-89AB-cdef-0123-456789abcdef", "0123456789abcdef0123456789abcdef", "x"}},
	{"hardwareaddress", []string{"00:11:22:33:44:55", strings.Repeat("a", 129)}},
	{"interfacename", []string{"eth0", strings.Repeat("a", 257)}},
	{"extendedresourcename", []string{"example.com/gpu", "cpu", "kubernetes.io/gpu", "requests.example.com/gpu", "gpu", "example.com/Bad_"}},
	{"provisioner", []string{"example.com/p", "kubernetes.io/no-provisioner", "bad provisioner"}},
	{"storageclassname", []string{"fast", "", "Bad_"}},
	{"data", []string{"a", ""}},
}

// Strings for any field.
var anyString = []string{"a", "web", "x-1", "", "Bad_Value", "a.example.com", "example.com/x", "10.0.0.1", "-1", "a b", "☃", "/x", "True", strings.Repeat("a", 64), strings.Repeat("b", 254)}

var anyBytes = []string{"YQ==", "", "e30=", "LS0tLS1CRUdJTg=="}

var anyInt = []int64{1, 0, -1, 2, 3, 10, 30, 80, 443, 600, 8080, 30080, 65535, 65536, 1000000001, 2147483647, -5}

func pick[T any](r *rand.Rand, values []T) T { return values[r.IntN(len(values))] }

// skewed picks one of the first values more often.
func skewed[T any](r *rand.Rand, values []T) T {
	return values[min(r.IntN(len(values)), r.IntN(len(values)))]
}

// text returns a value for a string field.
func (g *generator) text(r *rand.Rand, typ reflect.Type, name string) string {
	if values := g.constants[typeName(typ)]; len(values) > 0 && r.IntN(10) > 0 {
		return pick(r, values)
	}
	lower := strings.ToLower(name)
	if r.IntN(8) > 0 {
		for _, n := range named {
			if strings.HasSuffix(lower, n.suffix) {
				return skewed(r, n.values)
			}
		}
	}
	return skewed(r, anyString)
}

// value returns a random value of a type.
func (g *generator) value(r *rand.Rand, typ reflect.Type, name string, depth int) any {
	if values, ok := special[typ]; ok {
		return skewed(r, values)
	}
	switch typ.Kind() {
	case reflect.Pointer:
		return g.value(r, typ.Elem(), name, depth)
	case reflect.String:
		return g.text(r, typ, name)
	case reflect.Bool:
		return r.IntN(2) == 0
	case reflect.Int, reflect.Int32, reflect.Int64:
		return skewed(r, anyInt)
	case reflect.Slice:
		if typ.Elem().Kind() == reflect.Uint8 {
			return pick(r, anyBytes)
		}
		list := []any{}
		for range min(r.IntN(3), r.IntN(4)) + 1 {
			list = append(list, g.value(r, typ.Elem(), name, depth+1))
		}
		return list
	case reflect.Map:
		m := map[string]any{}
		for range r.IntN(3) {
			m[g.mapKey(r, typ, name)] = g.value(r, typ.Elem(), name, depth+1)
		}
		return m
	case reflect.Struct:
		return g.structValue(r, typ, depth)
	}
	return nil
}

var mapKeys = []string{"app", "example.com/tier", "a", "kubernetes.io/arch", "bad key", "", "cpu", "memory", "tls.crt", "example.com/", strings.Repeat("k", 64)}

func (g *generator) mapKey(r *rand.Rand, typ reflect.Type, name string) string {
	if values := g.constants[typeName(typ.Key())]; len(values) > 0 && r.IntN(5) > 0 {
		return pick(r, values)
	}
	return skewed(r, mapKeys)
}

// structValue returns an object with some of the fields of a struct. Of a struct with many
// optional structs, such as the sources of a volume, it mostly has one.
func (g *generator) structValue(r *rand.Rand, typ reflect.Type, depth int) any {
	out := map[string]any{}
	if depth > 5 {
		return out
	}
	fields := g.structFields(typ)
	var union, others []structField
	for _, f := range fields {
		if f.typ.Kind() == reflect.Pointer && f.typ.Elem().Kind() == reflect.Struct && special[f.typ.Elem()] == nil {
			union = append(union, f)
		} else {
			others = append(others, f)
		}
	}
	for _, f := range others {
		optional := f.typ.Kind() == reflect.Slice || f.typ.Kind() == reflect.Map || f.typ.Kind() == reflect.Pointer
		if !optional && r.IntN(5) > 0 || optional && r.IntN(4) == 0 {
			out[f.name] = g.value(r, f.typ, f.name, depth+1)
		}
	}
	if len(union) > 0 {
		for range 1 + r.IntN(8)/7 {
			f := pick(r, union)
			out[f.name] = g.value(r, f.typ, f.name, depth+1)
		}
		if len(union) < 4 && r.IntN(3) == 0 {
			clear(out)
		}
	}
	return out
}
