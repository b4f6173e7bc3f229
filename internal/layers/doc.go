// Package layers holds the rules of which package may import which, and the test
// that enforces them on the packages of this module.
package layers
