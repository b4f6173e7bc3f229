// Package helm runs helm against the server: it installs, upgrades, rolls back, tests and
// uninstalls a chart with a CRD, RBAC, hooks and objects of both. It also runs the command line on
// charts and kustomizations, with the real helm and the library of kustomize.
package helm
