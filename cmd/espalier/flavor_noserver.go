//go:build noserver

package main

// hasServer reports whether the program contains the server. The build tag noserver leaves it out.
const hasServer = false
