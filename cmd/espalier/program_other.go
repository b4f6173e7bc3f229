//go:build !linux && !noserver

package main

// releaseProgram has an effect on Linux only.
func releaseProgram() {}
