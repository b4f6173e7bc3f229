package assist_test

import (
	"slices"
	"strings"
	"testing"

	"k8s.io/apiserver/pkg/cel/environment"

	"espalier.dev/analysis/assist"
)

// TestFunctions compares the table of functions with the environment of Kubernetes.
func TestFunctions(t *testing.T) {
	e := environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()).StoredExpressionsEnv()
	real := map[string]bool{}
	for name := range e.Functions() {
		real[name] = true
	}
	for _, m := range e.Macros() {
		real[m.Function()] = true
	}
	listed := map[string]bool{}
	for _, f := range assist.Functions() {
		listed[f.Name] = true
		if !real[f.Name] {
			t.Errorf("Kubernetes has no function %s", f.Name)
		}
		if !strings.HasPrefix(f.Signature, "(") || !strings.Contains(f.Signature, ") ") || f.Doc == "" {
			t.Errorf("%s: signature %q, documentation %q", f.Name, f.Signature, f.Doc)
		}
	}
	delete(real, "in") // an operator
	// These need an authorizer, which rules do not have.
	authorizer := []string{"allowed", "check", "decision", "error", "errored", "fieldSelector", "group", "labelSelector", "name",
		"namespace", "path", "reason", "resource", "serviceAccount", "subresource"}
	for name := range real {
		internal := strings.ContainsAny(name, "_@!-") && name != "exists_one"
		if !internal && !listed[name] && !slices.Contains(authorizer, name) {
			t.Errorf("the table lacks %s", name)
		}
	}
}
