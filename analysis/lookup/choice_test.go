package lookup

import "testing"

func TestTestData(t *testing.T) {
	for path, want := range map[string]bool{
		"test/a.yaml": true, "a/testdata/b/c.yaml": true, "./examples/a.yaml": true, "git:HEAD:e2e/a.yaml": true,
		"test.yaml": false, "config/crd/a.yaml": false, "contest/a.yaml": false, "git:test/x:a.yaml": false,
	} {
		if IsTestData(path) != want {
			t.Errorf("%s: want %t", path, want)
		}
	}
	if crd := directories("a/test/crd.yaml"); isTestData(crd, directories("a/test/b/object.yaml")) || !isTestData(crd, directories("a/b/object.yaml")) {
		t.Error("test data is that of the objects beside it")
	}
}
