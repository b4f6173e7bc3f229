// Package helm runs helm against the server: it installs, upgrades, rolls back, tests and
// uninstalls a chart with a CRD, RBAC, hooks and objects of both.
package helm
