package lookup

import (
	"cmp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/version"
)

// Located is an [Object] that knows its file.
type Located interface {
	Path() string
}

// choose returns the CRD that an object uses, of several that serve its version, in this order:
//
//   - one that is not test data, unless the object belongs to the same test data
//   - the one whose directory shares the most parents with the directory of the object
//   - the one that serves the newest version
//   - the first
func choose[D Definition](o Object, candidates []D) D {
	path := ""
	if located, ok := o.(Located); ok {
		path = located.Path()
	}
	object := directories(path)
	ours := slices.DeleteFunc(slices.Clone(candidates), func(d D) bool { return isTestData(directories(d.Place()), object) })
	if len(ours) > 0 {
		candidates = ours
	}
	return slices.MinFunc(candidates, func(a, b D) int {
		return cmp.Or(common(directories(b.Place()), object)-common(directories(a.Place()), object),
			version.CompareKubeAwareVersionStrings(newest(b), newest(a)))
	})
}

// directories returns the directories of a path, without the revision of a path in Git.
func directories(path string) []string {
	path = strings.ReplaceAll(path, `\`, "/")
	if rest, ok := strings.CutPrefix(path, "git:"); ok {
		path = rest[strings.LastIndexByte(rest, ':')+1:]
	}
	all := strings.Split(path, "/")
	return slices.DeleteFunc(all[:len(all)-1], func(name string) bool { return name == "." })
}

// IsTestData reports whether a file is below a directory with test data, examples or documentation.
func IsTestData(path string) bool { return slices.ContainsFunc(directories(path), isTestDirectory) }

// isTestDirectory reports whether a directory has test data, examples or documentation, by its name.
func isTestDirectory(name string) bool {
	switch strings.ToLower(name) {
	case "testdata", "test", "tests", "testing", "e2e", "fixture", "fixtures", "mock", "mocks",
		"example", "examples", "sample", "samples", "demo", "doc", "docs":
		return true
	}
	return false
}

// isTestData reports whether a CRD is below a directory with test data to which the object does not
// belong.
func isTestData(crd, object []string) bool {
	return common(crd, object) <= slices.IndexFunc(crd, isTestDirectory)
}

// common returns the number of directories that two paths start with.
func common(a, b []string) (n int) {
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return n
}

// newest returns the newest version that a CRD serves.
func newest[D Definition](d D) string {
	names := served(d)
	if len(names) == 0 {
		return ""
	}
	return slices.MaxFunc(names, version.CompareKubeAwareVersionStrings)
}
