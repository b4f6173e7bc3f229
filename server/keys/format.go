package keys

import (
	"fmt"
	"strconv"
	"strings"
)

// DataFormat is the version of the format of the data that this release writes, and the newest
// that it reads: the layout of the keys, the values of Espalier's own keys, and how objects are
// stored. It changes only if older releases would misread the data.
//
// The key [Root.Format] records it, and the first release that reads it, as in "2 v2.0.0". Data of
// format 1 has no such key.
const DataFormat = 1

// Format returns the key that records the format of the data.
func (r Root) Format() string { return Own + "format" + r.Path() }

// NewerFormatError is returned for data that a newer release has written in a format that this
// one does not read.
type NewerFormatError struct {
	// Format is what is recorded, and Release is the first release that reads it, or empty.
	Format, Release string
}

// Error returns what is wrong, and what to do.
func (e *NewerFormatError) Error() string {
	release := "a newer release of espalier"
	if e.Release != "" {
		release = "espalier " + e.Release + " or later"
	}
	return fmt.Sprintf("the data has format %s, and this release reads formats up to %d: use %s; the data was not changed", e.Format, DataFormat, release)
}

// CheckFormat returns a [NewerFormatError] if the value of the key [Root.Format], which is empty if
// there is no such key, is a format that this release does not read.
func CheckFormat(recorded []byte) error {
	if len(recorded) == 0 {
		return nil
	}
	format, release, _ := strings.Cut(string(recorded), " ")
	if n, err := strconv.Atoi(format); err == nil && n >= 1 && n <= DataFormat {
		return nil
	}
	return &NewerFormatError{format, release}
}
