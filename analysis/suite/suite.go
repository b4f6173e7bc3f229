package suite

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"espalier.dev/analysis"
	"espalier.dev/api"
	"espalier.dev/schema"
)

// APIVersion and Kind identify a suite.
const (
	APIVersion = "espalier.dev/v1"
	Kind       = "TestSuite"
)

// The rules of findings.
const (
	// RuleFailed is the rule of cases with an unexpected result.
	RuleFailed = "test-failed"
	// RuleMalformed is the rule of suites that do not follow the format.
	RuleMalformed = "malformed-suite"
)

// Suite is a test suite.
type Suite struct {
	// Name is the name of the suite, or "".
	Name string
	// Files are the files with the CRD, relative to the file of the suite.
	Files []string
	// Definition is the name of the CRD, or "" if the suite names none.
	Definition string
	// Version is the only version of the CRD to use, or "" for all versions.
	Version string
	// Semantics is the schema semantics that the suite sets, or nil.
	Semantics *schema.Semantics
	// Policies are the files and directories with admission policies, relative to the file of the
	// suite, and User is the user who sends the requests, or nil.
	Policies []string
	User     *User
	Cases    []*Case

	base schema.Object
	// openshift reports whether the suite is in OpenShift's format.
	openshift bool
}

// types returns the types of the objects in the suite, each once. Objects that omit apiVersion or
// kind have none.
func (s *Suite) types() (types []metav1.TypeMeta) {
	add := func(obj schema.Object) {
		t := api.IdentifyObject(obj)
		if t.APIVersion != "" && t.Kind != "" && !slices.Contains(types, t) {
			types = append(types, t)
		}
	}
	add(s.base)
	for _, c := range s.Cases {
		add(c.object)
		add(c.old)
	}
	return types
}

// Case is one test.
type Case struct {
	Name string
	// Section is valid, invalid or updates; onCreate or onUpdate in OpenShift's format.
	Section string
	// Pointer is the JSON pointer of the case in the document.
	Pointer string

	// object is the object to write, old the stored object if the case is an update.
	object, old schema.Object
	// status reports whether the case writes to the status subresource.
	status bool
	// rejected reports whether the object must be rejected. errors are the expected
	// reasons; an empty list matches any.
	rejected bool
	errors   []expectedError
	// stored is the object that must be stored, or nil. pruned and defaulted are the paths
	// that must be pruned and defaulted, if set.
	stored                             schema.Object
	pruned, defaulted                  []string
	hasStored, hasPruned, hasDefaulted bool
	// warnings are parts of the warnings of policies, and changed the paths that policies must
	// change, if set.
	warnings, changed       []string
	hasWarnings, hasChanged bool
	// openshift is the case in OpenShift's format, or nil.
	openshift *openshiftCase
}

// FullName returns the name of a case with its section.
func (c *Case) FullName() string { return c.Section + "/" + c.Name }

// expectedError is an expected reason for a rejection. Empty fields match anything.
type expectedError struct {
	pointer             string
	path, message, rule string
}

func (e expectedError) String() string {
	text := ""
	add := func(name, value string) {
		if value != "" {
			if text != "" {
				text += ", "
			}
			text += fmt.Sprintf("%s %q", name, value)
		}
	}
	add("path", e.path)
	add("message", e.message)
	add("rule", e.rule)
	return text
}

// failure returns a finding about a case.
func failure(c *Case, pointer, message string, detail ...string) analysis.Finding {
	return analysis.Finding{Rule: RuleFailed, Severity: analysis.Error, Path: c.FullName(), Pointer: pointer, Message: message, Detail: detail}
}
