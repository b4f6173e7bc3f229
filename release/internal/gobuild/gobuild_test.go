package gobuild

import (
	"slices"
	"testing"
)

// Builds for several platforms share the environment.
func TestEnviron(t *testing.T) {
	t.Parallel()
	shared := append(make([]string, 0, 10), "A=b")
	linux := Platform{"linux", "amd64"}.environ(shared)
	windows := Platform{"windows", "arm64"}.environ(shared)
	if want := []string{"A=b", "GOOS=linux", "GOARCH=amd64"}; !slices.Equal(linux, want) {
		t.Errorf("%v, expected %v", linux, want)
	}
	if want := []string{"A=b", "GOOS=windows", "GOARCH=arm64"}; !slices.Equal(windows, want) {
		t.Errorf("%v, expected %v", windows, want)
	}
}
