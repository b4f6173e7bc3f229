package suite

import (
	"fmt"

	"espalier.dev/analysis"
	"espalier.dev/schema"
)

// APIVersion and Kind are what a suite says it is.
const (
	APIVersion = "espalier.dev/v1"
	Kind       = "TestSuite"
)

// The rules of findings.
const (
	// RuleFailed is a case whose outcome is not what it expects.
	RuleFailed = "test-failed"
	// RuleMalformed is a suite that does not follow the format.
	RuleMalformed = "malformed-suite"
)

// Suite is a test suite.
type Suite struct {
	// Name is how the suite calls itself, or "".
	Name string
	// Files are the files with the definition, relative to the suite's own.
	Files []string
	// Definition is the name of the definition, or "" if the suite names none.
	Definition string
	// Version is the one version that the definition is to have, or "" for all.
	Version string
	// Semantics is the schema semantics that the suite asks for, or nil.
	Semantics *schema.Semantics
	Cases     []*Case

	base schema.Object
	// openshift says that the suite is in OpenShift's format.
	openshift bool
}

// Case is one test.
type Case struct {
	Name string
	// Section is valid, invalid or updates; onCreate or onUpdate in OpenShift's format.
	Section string
	// Pointer leads to the case in the document.
	Pointer string

	// object is what is written, old what is there before, if it is an update.
	object, old schema.Object
	// status says that the status endpoint is written to.
	status bool
	// rejected says that the object is to be rejected, errors are the reasons; none
	// stands for any.
	rejected bool
	errors   []expectedError
	// stored is what is to be stored, or nil. pruned and defaulted are the paths that
	// are to be, if they are given.
	stored                             schema.Object
	pruned, defaulted                  []string
	hasStored, hasPruned, hasDefaulted bool
	// openshift is the case in OpenShift's format, if it is in that.
	openshift *openshiftCase
}

// FullName is the name of a case with its section.
func (c *Case) FullName() string { return c.Section + "/" + c.Name }

// expectedError is a reason for which an object is to be rejected. What is empty does
// not count.
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

// failure is a finding about a case.
func failure(c *Case, pointer, message string, detail ...string) analysis.Finding {
	return analysis.Finding{Rule: RuleFailed, Severity: analysis.Error, Path: c.FullName(), Pointer: pointer, Message: message, Detail: detail}
}
