// Package data tests that Espalier and kube-apiserver can use the same data in etcd.
package data
