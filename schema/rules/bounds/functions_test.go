package bounds_test

import (
	"maps"
	"slices"
	"testing"

	"espalier.dev/schema/rules/bounds"
)

// byCost has the functions whose work is at most a small multiple of their cost in Kubernetes, and why.
var byCost = func() map[string]string {
	out := map[string]string{}
	for why, names := range map[string][]string{
		"computes with numbers, truth values, times or addresses of a fixed size": {
			"!_", "-_", "_%_", "_*_", "_-_", "_/_", "add", "sub", "sign", "asInteger", "asApproximateFloat", "isInteger",
			"family", "isGlobalUnicast", "isLinkLocalMulticast", "isLinkLocalUnicast", "isLoopback", "isUnspecified",
			"prefixLength", "masked", "major", "minor", "patch",
		},
		"evaluates its arguments only, or passes them on": {
			"@not_strictly_false", "__not_strictly_false__", "_&&_", "_||_", "_?_:_", "type", "optional.of", "optional.none",
			"optional.ofNonZeroValue", "hasValue", "value", "or", "orValue",
		},
		"looks one value up, in a list whose parts are as many as the expression has operators": {
			"_?._", "_[?_]", "_[_]",
		},
		"costs a tenth of the length of its text, and reads it once or twice": {
			"lowerAscii", "upperAscii", "substring", "trim", "url", "ip", "cidr", "isIP", "isCIDR", "ip.isCanonical", "containsIP",
			"containsCIDR", "semver", "isSemver", "strings.quote", "bytes", "string",
		},
		"returns a part of a URL that is parsed": {"getHost", "getHostname", "getPort", "getScheme"},
		"returns one of the formats of Kubernetes": {
			"format.byte", "format.date", "format.datetime", "format.dns1035Label", "format.dns1035LabelPrefix", "format.dns1123Label",
			"format.dns1123LabelPrefix", "format.dns1123Subdomain", "format.dns1123SubdomainPrefix", "format.labelValue", "format.named",
			"format.qualifiedName", "format.uri", "format.uuid",
		},
		"costs more than ten times the length of its text":       {"validate"},
		"asks the authorizer, which costs 350,000":               {"check"},
		"describes a request to the authorizer":                  {"path", "group", "resource", "subresource", "namespace", "name", "serviceAccount", "allowed", "reason", "error", "errored"},
		"costs 25 times the length of its text":                  {"fieldSelector", "labelSelector"},
		"is never called: it is another name of the operator in": {"_in_", "in"},
	} {
		for _, name := range names {
			out[name] = why
		}
	}
	return out
}()

// TestFunctions checks that each function of Kubernetes is limited, or known to be bounded by its cost.
func TestFunctions(t *testing.T) {
	limited := bounds.Limited()
	declared := bounds.Functions()
	for name, f := range declared {
		switch {
		case slices.Contains(limited, name) && byCost[name] != "":
			t.Errorf("%s is limited and in the list of functions that need no limit", name)
		case !slices.Contains(limited, name) && byCost[name] == "":
			t.Errorf("%s (%v) is new: limit its calls, or write down why its cost bounds its work", name, f.OverloadDecls())
		}
	}
	for _, name := range slices.Concat(limited, slices.Sorted(maps.Keys(byCost))) {
		if declared[name] == nil {
			t.Errorf("%s is no function of Kubernetes", name)
		}
	}
}
