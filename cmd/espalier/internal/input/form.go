package input

import (
	"espalier.dev/cmd/espalier/internal/helm"
)

// Form is what a path is for programs that render objects.
type Form uint8

const (
	// Plain is a file, a directory, or nothing.
	Plain Form = iota
	// Chart is a Helm chart, or an archive of one.
	Chart
	// Kustomization is a directory with a kustomization file.
	Kustomization
)

// FormOf returns the form of a path, which may be one of a revision. Its content is not checked.
func (r *Repositories) FormOf(path string) Form {
	in, path, err := r.tree(path)
	if err != nil {
		return Plain
	}
	info, err := in.stat(path)
	switch {
	case err != nil:
		return Plain
	case !info.IsDir():
		if helm.IsArchive(path) {
			return Chart
		}
		return Plain
	}
	entries, err := in.readDir(path)
	switch {
	case err != nil:
		return Plain
	case isChart(in, path, entries):
		return Chart
	case kustomizationFile(entries) != "":
		return Kustomization
	}
	return Plain
}
