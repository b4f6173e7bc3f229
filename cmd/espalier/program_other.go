//go:build !linux

package main

// releaseProgram has an effect on Linux only.
func releaseProgram() {}
