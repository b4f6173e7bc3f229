package lint

import (
	"bytes"
	"encoding/json"
	"fmt"

	"espalier.dev/analysis"
)

const (
	// maxAnnotations is how large all annotations of an object together may be.
	maxAnnotations = 256 << 10
	// maxRequest is what etcd takes in one request, unless it is told otherwise.
	maxRequest = 3 << 19
	// lastApplied is the annotation in which kubectl apply keeps what it applied.
	lastApplied = "kubectl.kubernetes.io/last-applied-configuration"
)

// size looks at how large the definition is when it is stored.
func (c *check) size() {
	var plain, text bytes.Buffer
	if json.Compact(&plain, c.d.raw) != nil {
		return
	}
	json.HTMLEscape(&text, plain.Bytes())
	size := text.Len() + 1
	annotations := len(lastApplied) + size
	for k, v := range c.d.meta().Annotations {
		if k != lastApplied {
			annotations += len(k) + len(v)
		}
	}
	if size > maxRequest {
		c.warn(sizeStorage, root(), fmt.Sprintf("the definition has %d bytes as JSON: etcd takes %d in one request, so it cannot be stored", size, maxRequest))
	}
	if annotations > maxAnnotations {
		c.add(sizeApply, root(), note{severity: analysis.Warning, detail: []string{
			"use kubectl apply --server-side, kubectl create or kubectl replace; shorter descriptions help too",
		}}, fmt.Sprintf("kubectl apply would keep %d bytes in the annotation %s: all annotations may have %d", size, lastApplied, maxAnnotations))
	}
}

// leftovers looks for what belongs to another time or another writer.
func (c *check) leftovers() {
	spec := root().child("spec")
	preserve := spec.child("preserveUnknownFields")
	if c.d.beta != nil {
		c.warn(deprecatedVersion, root().child("apiVersion"), "Kubernetes rejects v1beta1 since 1.22: it serves apiextensions.k8s.io/v1 alone")
		if !c.d.prunes() {
			c.warn(preserveEverything, preserve, "nothing is pruned: v1beta1 preserves unknown fields unless preserveUnknownFields is false")
		}
	} else if v, ok := preserve.value(c.d.tree); ok && v == false {
		c.add(leftover, preserve, note{severity: analysis.Info, fix: removal(preserve, "remove what is so in v1 anyway"), detail: []string{
			"it is of use only where it replaces a definition that was made with v1beta1",
		}}, "preserveUnknownFields: false says nothing in v1: unknown fields are pruned")
	}
	if status := root().child("status"); status.exists(c.d.tree) {
		c.add(leftover, status, note{severity: analysis.Info, fix: removal(status, "remove the status")}, "the status is for the server to write: this one is dropped")
	}
	created := root().child("metadata", "creationTimestamp")
	if v, ok := created.value(c.d.tree); ok && v == nil {
		c.add(leftover, created, note{severity: analysis.Info, fix: removal(created, "remove creationTimestamp")}, "creationTimestamp: null says nothing")
	}
}
