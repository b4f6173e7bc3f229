// Package kine pins the version of kine that the server is tested with, in a module of its
// own: kine needs other versions of the packages of etcd than the server does. `make kine`
// builds it.
package kine
