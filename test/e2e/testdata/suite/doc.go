// Package suite is Kubernetes' end-to-end suite with the packages that have conformance specs.
// The driver, the package two directories above, compiles and runs it. All of it needs the build
// tag suite, so that tools which read all packages need not compile Kubernetes.
package suite
