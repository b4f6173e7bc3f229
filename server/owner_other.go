//go:build !linux && !darwin

package server

// checkOwner accepts everything: access does not depend on owners alone.
func checkOwner(string, int) error { return nil }
