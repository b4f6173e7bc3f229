// Package hugo has no code. Its go.mod names the version of Hugo that builds the documentation, so that nothing
// else depends on Hugo.
package hugo
