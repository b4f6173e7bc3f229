package oracle

import "slices"

// The values that generated schemas and objects are made of. The pools are small so that
// names and values often coincide.

var (
	names    = []string{"a", "b", "c", "d", "spec", "status", "name", "items", "key"}
	oddNames = []string{"x-y", "a.b", "with space", "ü", "0", "$ref", "a[0]", "kind", "apiVersion", "metadata", "\"", "é\u2028", "generateName", "A", "a~b", "a/b", "%s", "namespace"}
	mapKeys  = []string{"k1", "k2", "a", "b", "x.y", "k 3", "", "metadata", "kind", "é"}
	strs     = []string{"", "a", "b", "ab", "abc", "abcd", "foo", "bar", "é", "日本語", "👍🏽", "a\u0000b", "line\nbreak", "\u2028", "1", "1.5", "true", "null", " ", "A", "%d", "<&>", "\\", "\"quoted\"", "aaaaaaaaaaaaaaaaaaaaaaaaa"}
	patterns = []string{"^a", "b$", "^[a-z]+$", "^$", ".*", "^\\d+$", "(foo|bar)", "^.{1,3}$", "\\p{L}", "^[^a]*$", "(?i)^A", "%"}
	badRegex = []string{"(", "[a-", "a{2,1}", "(?=x)", "*", "\\8"}

	ints      = []int64{0, 1, -1, 2, 3, 5, 10, 42, 100, -7, 1 << 31, -(1 << 31), 1<<31 - 1, 1 << 53, 1<<53 + 1, 1<<53 - 1, -(1<<53 + 1), 1<<63 - 1, -(1 << 63), 1<<63 - 2}
	smallInts = []int64{0, 1, 2, 3, 4, 5, -1, 10}
	// floats are written in JSON so that integral ones stay floats.
	floats = []float64{0.5, 1.5, -1.5, 2.5, 0.1, 0.2, 0.30000000000000004, 1e20, -1e20, 1e-7, 1e300, 5e-324, 1.7976931348623157e308, 3.0000000001, 2.9999999999999996, 1.0000000000001, 9223372036854775807, 1e19, 99.99, 1e21}
	// bounds are operands of maximum, minimum and multipleOf.
	bounds = []float64{0, 1, -1, 2, 3, 5, 10, 42, 0.5, 2.5, -1.5, 0.1, 1e20, 1e-7, 9007199254740993, 9223372036854775807, -9223372036854775808, 1e300, 100, 1e6, 1e21}
	// divisors are operands of multipleOf.
	divisors = []float64{1, 2, 3, 5, 0.5, 0.1, 0.01, 2.5, 1e-7, 7, 1e20, 9007199254740993}
	badDivs  = []float64{0, -2, -0.5}
)

// formatSamples holds strings for each format, most of them valid.
var formatSamples = map[string][]string{
	"bsonobjectid":    {"507f1f77bcf86cd799439011", "507f1f77bcf86cd79943901", "zzzf1f77bcf86cd799439011", ""},
	"uri":             {"http://example.com/a?b=c#d", "/path", "example.com", "", "mailto:a@b.c", "http://[::1]:80/", "ht tp://x", "http://a b/", "%zz"},
	"email":           {"a@b.c", "Name <a@example.com>", "a", "a@", "@b", "", "a b@c.d", "ü@example.com"},
	"hostname":        {"example.com", "a", "-a.b", "a..b", "a_b", "EXAMPLE.com", "a.b.", "", "xn--bcher-kva.example", "192.168.0.1", "www.example.123"},
	"ipv4":            {"1.2.3.4", "256.1.1.1", "1.2.3", "::1", "01.2.3.4", "", "0.0.0.0", "::ffff:1.2.3.4"},
	"ipv6":            {"::1", "2001:db8::", "1.2.3.4", "::ffff:1.2.3.4", "fe80::1%eth0", ":::", ""},
	"cidr":            {"10.0.0.0/8", "10.0.0.0", "::/0", "10.0.0.1/33", "", "010.0.0.0/8", "2001:db8::/32"},
	"mac":             {"00:00:5e:00:53:01", "00-00-5e-00-53-01", "0000.5e00.5301", "00:00:5e", "", "02:00:5e:10:00:00:00:01"},
	"uuid":            {"6ba7b810-9dad-11d1-80b4-00c04fd430c8", "6BA7B8109DAD11D180B400C04FD430C8", "6ba7b810", "", "6ba7b810-9dad-11d1-80b4-00c04fd430cg"},
	"uuid3":           {"6ba7b810-9dad-31d1-80b4-00c04fd430c8", "6ba7b810-9dad-41d1-80b4-00c04fd430c8", ""},
	"uuid4":           {"6ba7b810-9dad-41d1-80b4-00c04fd430c8", "6ba7b810-9dad-41d1-70b4-00c04fd430c8", ""},
	"uuid5":           {"6ba7b810-9dad-51d1-80b4-00c04fd430c8", "6ba7b810-9dad-51d1-c0b4-00c04fd430c8", ""},
	"isbn":            {"0321751043", "978-0321751041", "0321751042", "", "978 0321751041"},
	"isbn10":          {"0321751043", "0-321-75104-3", "080442957X", "0321751044", "978-0321751041"},
	"isbn13":          {"978-0321751041", "9780321751041", "978-0321751042", "0321751043"},
	"creditcard":      {"4111111111111111", "4111-1111-1111-1111", "4111111111111112", "", "378282246310005", "1"},
	"ssn":             {"111-11-1111", "111111111", "111 11 1111", "11-11-1111", ""},
	"hexcolor":        {"#FFFFFF", "fff", "#ffff", "", "#ggg"},
	"rgbcolor":        {"rgb(255,255,255)", "rgb(256,0,0)", "rgb( 1, 2 , 3 )", "rgb(1,2)", ""},
	"byte":            {"YWJj", "YWI=", "YQ==", "YQ=", "a b", "", "YW-j", "_w=="},
	"password":        {"", "secret", "日本"},
	"date":            {"2006-01-02", "2006-13-02", "2006-1-2", "2006-02-30", "", "2006-01-02T00:00:00Z"},
	"duration":        {"1h", "22 ns", "1 minute", "1.5h", "-3s", "1 fortnight", "", "1w", "1h30m", "5 days", "µs", "1µs", "1e3s", "10"},
	"datetime":        {"2014-12-15T19:30:20.000Z", "2014-12-15T19:30:20Z", "2014-12-15t19:30:20z", "2014-12-15 19:30:20Z", "2014-12-15T25:30:20Z", "", "2014-12-15T19:30:20+01:00", "2014-12-15T19:30:60Z", "2014-02-30T19:30:20Z", "2014-12-15T19:30:20"},
	"date-time":       {"2014-12-15T19:30:20.000Z", "x", "2014-12-15T19:30:20.123456789+23:59", "2014-12-15T19:30:20,5Z"},
	"k8s-short-name":  {"abc", "a-b", "-a", "A", "", "aaaaaaaaaabbbbbbbbbbaaaaaaaaaabbbbbbbbbbaaaaaaaaaabbbbbbbbbbaaaa", "a.b"},
	"k8s-long-name":   {"abc", "a.b-c", "a..b", "A.b", "", ".a", "aaaaaaaaaabbbbbbbbbbaaaaaaaaaabbbbbbbbbbaaaaaaaaaabbbbbbbbbbaaaa.b"},
	"bson-object-id":  {"507f1f77bcf86cd799439011", "x"},
	"unknown-format":  {"x", ""},
	"credit-card":     {"4111111111111111", "x"},
	"k8sshortname":    {"abc", "A"},
	"time":            {"12:00", "x"},
	"quantity":        {"1Gi", "x"},
	"int-or-string":   {"1", "x"},
	"k8s--short-name": {"abc", "A"},
	"uu-id":           {"6ba7b810-9dad-11d1-80b4-00c04fd430c8", "x"},
	"UUID":            {"6ba7b810-9dad-11d1-80b4-00c04fd430c8", "x"},
	"binary":          {"YWJj", "x"},
	"":                {"x"},
}

var stringFormats = sortedKeys(formatSamples)

var (
	intFormats    = []string{"int32", "int64", "uint32", "date", "int"}
	numberFormats = []string{"float", "double", "float32", "float64", "int32", "date"}
)

// Metadata fields with mostly valid values, and with invalid values.
var (
	goodMeta = map[string][]any{
		"name":                       {"foo", "a-b", "x.y"},
		"generateName":               {"foo-", "a"},
		"namespace":                  {"default", "ns"},
		"labels":                     {object("a", "b"), object(), object("example.com/x", "", "b", "c"), nil},
		"annotations":                {object("a", "b"), object("example.com/long", "some text"), nil},
		"uid":                        {"u-1"},
		"resourceVersion":            {"1", ""},
		"generation":                 {int64(1), int64(0), int64(7)},
		"creationTimestamp":          {"2024-01-02T03:04:05Z", nil, "2024-01-02T03:04:05+01:00"},
		"deletionTimestamp":          {"2024-01-02T03:04:05Z", nil},
		"deletionGracePeriodSeconds": {int64(30), nil, int64(-1)},
		"finalizers":                 {list("example.com/f"), list(), list("a/b", "a/b"), list("orphan", "foregroundDeletion")},
		"ownerReferences":            {list(object("apiVersion", "v1", "kind", "Pod", "name", "x", "uid", "u")), list(object("apiVersion", "v1", "kind", "Pod", "name", "x", "uid", "u", "controller", true)), list()},
		"managedFields":              {list(object("manager", "m", "operation", "Apply", "apiVersion", "v1", "fieldsType", "FieldsV1", "fieldsV1", object("f:x", object())))},
		"selfLink":                   {"/x"},
	}
	badMeta = map[string][]any{
		"name":                       {int64(1), "UPPER", "a b", nil, "-x", true, "ü"},
		"generateName":               {false, "UPPER", nil},
		"namespace":                  {int64(1), "a.b", nil, "A"},
		"labels":                     {object("a", int64(1)), "x", list(), object("a b", "c"), object("a", nil), object("a", "not a label value"), object("", "x")},
		"annotations":                {object("a", true), object("bad key!", "x"), list("x"), object("a", object())},
		"uid":                        {int64(5), nil},
		"generation":                 {"1", 1.5, nil, int64(-1), 1e20, float64(2)},
		"creationTimestamp":          {"yesterday", int64(5), "", "2024-01-02T03:04:05.123Z", false, object()},
		"deletionTimestamp":          {"never", int64(0)},
		"deletionGracePeriodSeconds": {"30", 0.5},
		"finalizers":                 {"x", list(int64(1)), list("no-slash", "bad name"), nil, list(nil)},
		"ownerReferences":            {list(object("kind", "Pod")), "x", list("x"), list(object("apiVersion", "v1", "kind", "Pod", "name", "x", "uid", "u", "unknown", int64(1))), list(nil), list(object("apiVersion", "a/b/c", "kind", "", "name", "", "uid", ""))},
		"managedFields":              {list(object("manager", int64(1))), list(object("operation", "Nonsense", "foo", "bar", "fieldsV1", object("f:x", object()))), object(), list(object("time", "x"))},
		"unknown":                    {"x", object("y", int64(1)), nil},
		"Labels":                     {object("a", "b")},
		"initializers":               {object()},
		"clusterName":                {"x"},
	}
	goodMetaKeys = sortedKeys(goodMeta)
	badMetaKeys  = sortedKeys(badMeta)
)

func object(kv ...any) map[string]any {
	m := map[string]any{}
	for i := 0; i < len(kv); i += 2 {
		m[kv[i].(string)] = kv[i+1]
	}
	return m
}

func list(v ...any) []any {
	if v == nil {
		v = []any{}
	}
	return v
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// clone copies a JSON tree.
func clone[T any](v T) T {
	return cloneAny(v).(T)
}

func cloneAny(v any) any {
	switch v := v.(type) {
	case map[string]any:
		if v == nil {
			return v
		}
		out := make(map[string]any, len(v))
		for k, x := range v {
			out[k] = cloneAny(x)
		}
		return out
	case []any:
		if v == nil {
			return v
		}
		out := make([]any, len(v))
		for i, x := range v {
			out[i] = cloneAny(x)
		}
		return out
	}
	return v
}
