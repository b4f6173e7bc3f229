// Package impact says what a change of a CustomResourceDefinition means for the
// objects that are stored and for the clients that use them: a verdict for every
// change, and proof on objects.
//
// Compare puts two definitions side by side. A Change is one difference, at one
// place; its Effects say what follows from it, and where in an object that shows.
// The worst of them is the change's Class. There is no class for "unknown": where it
// cannot be shown that all stored objects pass, the verdict is that they may not.
//
// What counts as stored is an object that was valid under the old definition and is
// in the shape that it gives to objects. Defaults may be missing in it: it may be
// older than they are. Verdicts are about what the new definition does to such an
// object when it is read (pruning, defaults) and then written as it was read
// (validation, without the leniency of an update towards what has not changed;
// that is for the words of a verdict to tell).
//
// One thing is skipped on purpose: kube-apiserver lets an array pass where a
// string with a format is asked for. That such an array is rejected once the format
// goes is no reason to warn everybody who removes a format.
package impact
