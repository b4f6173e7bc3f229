package analysis_test

import (
	"slices"
	"testing"

	"espalier.dev/analysis"
)

func TestSort(t *testing.T) {
	fs := []analysis.Finding{
		{Pointer: "/b", Rule: "r", Severity: analysis.Error},
		{Pointer: "/a", Rule: "z", Severity: analysis.Info},
		{Pointer: "/a", Rule: "y", Severity: analysis.Warning},
		{Pointer: "/a", Rule: "x", Severity: analysis.Info},
	}
	analysis.Sort(fs)
	var got []string
	for _, f := range fs {
		got = append(got, f.Pointer+f.Rule)
	}
	if want := []string{"/ay", "/ax", "/az", "/br"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestSeverity(t *testing.T) {
	for _, s := range []analysis.Severity{analysis.Error, analysis.Warning, analysis.Info} {
		if got, err := analysis.ParseSeverity(string(s)); err != nil || got != s {
			t.Errorf("%s: got %q, %v", s, got, err)
		}
	}
	if _, err := analysis.ParseSeverity("fatal"); err == nil {
		t.Error("fatal is not a severity")
	}
}

func TestFindingString(t *testing.T) {
	f := analysis.Finding{Rule: "r", Severity: analysis.Warning, Path: "spec.a", Message: "is odd"}
	if got, want := f.String(), "warning: spec.a: is odd (r)"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	f.Path = ""
	if got, want := f.String(), "warning: is odd (r)"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestV1Paths(t *testing.T) {
	for path, want := range map[string][]string{
		"spec.group":                                               {"spec.group"},
		"spec.version":                                             {"spec.versions[0].name"},
		"spec.versionsLike":                                        {"spec.versionsLike"},
		"spec.validation.openAPIV3Schema.type":                     {"spec.versions[0].schema.openAPIV3Schema.type", "spec.versions[1].schema.openAPIV3Schema.type"},
		"spec.conversion.webhookClientConfig.url":                  {"spec.conversion.webhook.clientConfig.url"},
		"spec.additionalPrinterColumns[3].JSONPath":                {"spec.versions[0].additionalPrinterColumns[3].jsonPath", "spec.versions[1].additionalPrinterColumns[3].jsonPath"},
		"spec.versions[1].additionalPrinterColumns[0].JSONPath":    {"spec.versions[1].additionalPrinterColumns[0].jsonPath"},
		"spec.versions[1].schema.openAPIV3Schema.default.JSONPath": {"spec.versions[1].schema.openAPIV3Schema.default.JSONPath"},
	} {
		if got := analysis.V1Paths(path, 2); !slices.Equal(got, want) {
			t.Errorf("%s: got %q, want %q", path, got, want)
		}
	}
}
