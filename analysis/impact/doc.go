// Package impact determines how a change of a CustomResourceDefinition affects stored
// objects and the clients that use them. It gives a verdict for every change and can
// test the verdicts on objects.
//
// Compare compares two CRDs. A Change is one difference at one place. Its Effects are the
// consequences, each with the place in an object where it shows. The worst of them is the
// Class of the change. There is no class for "unknown": unless it is proven that all
// stored objects pass, the verdict is that they may not.
//
// A stored object is one that was valid under the old CRD and was pruned by it, unless the
// CRD preserves unknown fields. A field that such a CRD does not specify is rare, so changes
// that affect only unknown fields have a class of their own. A stored object may lack
// defaults, because it may be older than they are. Verdicts describe what the new CRD does
// to such an object when it is read (pruning, defaulting) and then written back unchanged
// (validation). They ignore ratcheting, which tolerates unchanged values in an update;
// Change.Leniency describes it. Transition rules compare two objects, so they make no stored
// object invalid; they affect clients.
//
// One case is left out on purpose: kube-apiserver accepts an array in place of a string
// with a format. It rejects such an array once the format is removed, but that does not
// justify a warning for every removed format.
package impact
