// Package tools pins the programs that check the code: staticcheck and govulncheck are tools
// of this module, so that they are not dependencies of modules that import espalier.
package tools
