//go:build !unix

package lsp

// processExists returns true: the end of the connection is the only sign here that a client has
// gone.
func processExists(int) bool { return true }
