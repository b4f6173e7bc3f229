// Package tools has the programs that check the code, and pins those of others: they are not
// dependencies of modules that import espalier.
package tools
