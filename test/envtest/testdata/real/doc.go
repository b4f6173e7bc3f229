// Package real has the versions of the real programs that scripts/envtest-real.sh and test/cmd
// build. tools.go names the programs, so that go.mod has their dependencies.
package real
