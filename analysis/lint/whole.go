package lint

import (
	"bytes"
	"encoding/json"
	"fmt"

	"espalier.dev/analysis"
)

const (
	// maxAnnotations is the maximum total size of an object's annotations.
	maxAnnotations = 256 << 10
	// maxRequest is the default maximum size of an etcd request.
	maxRequest = 3 << 19
	// lastApplied is the annotation in which kubectl apply stores the applied
	// configuration.
	lastApplied = "kubectl.kubernetes.io/last-applied-configuration"
)

// size reports CRDs that are too large to store or to apply.
func (c *check) size() {
	var plain, text bytes.Buffer
	_ = json.Compact(&plain, c.d.raw) // it is valid
	json.HTMLEscape(&text, plain.Bytes())
	size := text.Len() + 1
	annotations := len(lastApplied) + size
	for k, v := range c.d.meta().Annotations {
		if k != lastApplied {
			annotations += len(k) + len(v)
		}
	}
	if size > maxRequest {
		c.warn(sizeStorage, root(),
			fmt.Sprintf("the CRD has %d bytes as JSON, and etcd accepts at most %d per request: it cannot be stored", size, maxRequest))
	}
	if annotations > maxAnnotations {
		c.add(sizeApply, root(), note{severity: analysis.Warning, detail: []string{
			"use kubectl apply --server-side, kubectl create or kubectl replace; shorter descriptions help too",
		}}, fmt.Sprintf("kubectl apply would store %d bytes in the annotation %s: the limit for all annotations is %d", size,
			lastApplied, maxAnnotations))
	}
}

// leftovers reports the deprecated v1beta1, disabled pruning, and fields that have no
// effect. preserveUnknownFields: false is none of them: it ends the true of a CRD that was
// created with v1beta1.
func (c *check) leftovers() {
	spec := root().child("spec")
	preserve := spec.child("preserveUnknownFields")
	if c.d.beta != nil {
		c.warn(deprecatedVersion, root().child("apiVersion"), "Kubernetes removed v1beta1 in 1.22: use apiextensions.k8s.io/v1")
		if !c.d.prunes() {
			c.warn(preserveEverything, preserve,
				"nothing is pruned: v1beta1 preserves unknown fields unless preserveUnknownFields is false")
		}
	}
	if status := root().child("status"); status.exists(c.d.tree) {
		c.add(leftover, status, note{severity: analysis.Info, fix: removal(status, "remove the status")},
			"only the API server writes the status: it drops this one")
	}
	created := root().child("metadata", "creationTimestamp")
	if v, ok := created.value(c.d.tree); ok && v == nil {
		c.add(leftover, created, note{severity: analysis.Info,
			fix: removal(created, "remove creationTimestamp")}, "creationTimestamp: null has no effect")
	}
}
