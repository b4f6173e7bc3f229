// Package layers holds the rules of which package may import which, and where the
// semantics of schemas may be compared, with the tests that enforce them on the
// packages of this module.
package layers
