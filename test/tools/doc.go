// Package tools pins the programs that check the code: staticcheck and govulncheck
// are tools of this module, so that they never reach those who import espalier.
package tools
