// Package kubectlvalidate pins a program that the command line is measured against. Nothing
// imports it; a module of its own keeps what it needs out of the others.
package kubectlvalidate
