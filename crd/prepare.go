package crd

import (
	"slices"

	"espalier.dev/api"
)

// PrepareCreate brings a definition that is to be created into the state in which it
// is validated and stored: the status is the server's to write.
func PrepareCreate(crd *api.CustomResourceDefinition) {
	crd.Status = api.CustomResourceDefinitionStatus{}
	crd.Generation = 1
	addStored(crd)
}

// PrepareUpdate does the same to a definition that is to replace old.
func PrepareUpdate(crd, old *api.CustomResourceDefinition) {
	old.Status.DeepCopyInto(&crd.Status)
	if !equal(&crd.Spec, &old.Spec) {
		crd.Generation = old.Generation + 1
	}
	addStored(crd)
}

// addStored makes sure that the version in which objects are stored is listed.
func addStored(crd *api.CustomResourceDefinition) {
	for _, v := range crd.Spec.Versions {
		if v.Storage {
			if !slices.Contains(crd.Status.StoredVersions, v.Name) {
				crd.Status.StoredVersions = append(crd.Status.StoredVersions, v.Name)
			}
			return
		}
	}
}
