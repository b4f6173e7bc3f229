// Package kubeconform pins a program for the comparison with espalier validate. Nothing
// imports it; a separate module keeps its dependencies out of the others.
package kubeconform
