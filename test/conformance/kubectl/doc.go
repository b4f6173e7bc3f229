// Package kubectl runs kubectl, built from k8s.io/kubectl, against the server. Each test runs
// it as a process and reads its output. TestReadme runs the quick start of the server in the
// README, and TestDocs the commands of the pages below docs that need a server.
package kubectl
