package layers

import "testing"

// TestNoServer checks that the command line without the server has none of the dependencies that
// the tag leaves out.
func TestNoServer(t *testing.T) {
	program := "./cmd/espalier"
	for path, deps := range dependencies(t, nil, "-tags", "noserver,grpcnotrace", program) {
		for _, p := range noServer() {
			if dep := firstBelow(p, deps); dep != "" {
				t.Errorf("%s with the tags of espalier-cli depends on %s", path, dep)
			}
		}
	}
	// The check must find the dependencies of the complete program, or it cannot find any.
	for path, deps := range dependencies(t, nil, program) {
		for _, p := range noServer() {
			if firstBelow(p, deps) == "" {
				t.Errorf("%s does not depend on %s: remove it from the list", path, p)
			}
		}
	}
}
