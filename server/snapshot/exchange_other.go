//go:build !linux && !darwin

package snapshot

import "errors"

// exchange returns an error: with two renames, a crash between them would leave no data, and
// the server would start with none.
func exchange(_, _ string) error { return errors.ErrUnsupported }
