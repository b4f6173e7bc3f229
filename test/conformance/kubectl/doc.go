// Package kubectl drives kubectl, as k8s.io/kubectl makes it, against the server: each
// test runs it as a process and reads what it prints. The quick start of the server in
// the README is done here too, word for word.
package kubectl
