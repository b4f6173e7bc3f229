// Package envtest tests espalier as a replacement of the programs that controller-runtime's
// package envtest starts, and of the package.
//
// The tests run envtest itself, and the suites of a project as kubebuilder scaffolds it, in
// testdata/project. Command suites runs those of other projects, and command start measures.
package envtest
