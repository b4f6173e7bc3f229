package object_test

import (
	"strings"
	"testing"

	"espalier.dev/analysis"
	"espalier.dev/analysis/object"
	"espalier.dev/kinds"
	"espalier.dev/kinds/cel"
	"espalier.dev/kinds/releases"
)

// TestReleaseDrops validates what is left of an object when a release has dropped the fields that it
// does not have.
func TestReleaseDrops(t *testing.T) {
	t.Parallel()
	checker := object.ForKinds(cel.New())
	const pod = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"},"spec":{`
	for _, tt := range []struct {
		name    string
		release releases.Release
		source  string
		// old is the object before the update, or "".
		old    string
		errors string
	}{
		{"a probe without what it does", 22, pod + `"containers":[{"name":"a","image":"b","livenessProbe":{"grpc":{"port":1}}}]}}`, "",
			"spec.containers[0].livenessProbe"},
		{"the same in a release that has it", 30, pod + `"containers":[{"name":"a","image":"b","livenessProbe":{"grpc":{"port":1}}}]}}`, "", ""},
		{"a field that contradicts one that is dropped", 22,
			pod + `"os":{"name":"linux"},"securityContext":{"windowsOptions":{"hostProcess":false}},"containers":[{"name":"a","image":"b"}]}}`, "", ""},
		{"the same in a release that has it", 30,
			pod + `"os":{"name":"linux"},"securityContext":{"windowsOptions":{"hostProcess":false}},"containers":[{"name":"a","image":"b"}]}}`, "",
			"spec.securityContext.windowsOptions"},
		{"an update of a field that is dropped", 22, pod + `"os":{"name":"linux"},"containers":[{"name":"a","image":"b"}]}}`,
			pod + `"os":{"name":"windows"},"containers":[{"name":"a","image":"b"}]}}`, ""},
		{"a repeated field", 22, pod + `"os":{"name":"linux"},"hostPID":true,"hostPID":false,"containers":[{"name":"a","image":"b"}]}}`, "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var old []byte
			if tt.old != "" {
				old = []byte(tt.old)
			}
			at := checker.At(tt.release, func(r releases.Release) kinds.CEL { return cel.At(r) })
			var errors []string
			repeated := 0
			for _, f := range at.Check(t.Context(), []byte(tt.source), old, object.Warn) {
				if f.Severity == analysis.Error {
					errors = append(errors, f.Path)
				}
				if f.Rule == object.RuleDuplicateField {
					repeated++
				}
			}
			if got := strings.Join(errors, " "); got != tt.errors {
				t.Errorf("the errors are about %q, want %q", got, tt.errors)
			}
			if want := strings.Count(tt.source, "hostPID") / 2; repeated != want {
				t.Errorf("%d findings about repeated fields, want %d", repeated, want)
			}
		})
	}
}
