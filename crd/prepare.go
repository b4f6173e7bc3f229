package crd

import (
	"slices"

	"espalier.dev/api"
)

// PrepareCreate prepares a CRD for validation and storage on create: it resets the
// status, which only the API server writes.
func PrepareCreate(crd *api.CustomResourceDefinition) {
	crd.Status = api.CustomResourceDefinitionStatus{}
	crd.Generation = 1
	addStored(crd)
}

// PrepareUpdate prepares a CRD that replaces old.
func PrepareUpdate(crd, old *api.CustomResourceDefinition) {
	old.Status.DeepCopyInto(&crd.Status)
	if !equal(&crd.Spec, &old.Spec) {
		crd.Generation = old.Generation + 1
	}
	addStored(crd)
}

// addStored adds the storage version to status.storedVersions.
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
