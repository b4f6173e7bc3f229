// Package fields implements the field management of server-side apply for custom resources:
// who owns which fields of an object (metadata.managedFields), how an applied configuration is
// merged into an object, and which owners it conflicts with. The results are those of
// kube-apiserver.
//
// A [Manager] works on trees. Common requests (creations, updates, applies that drop no field)
// take a few walks over the object, with the types of structured-merge-diff, and change the
// trees of managedFields in place of decoding them. The walks only go on as long as they can
// prove what the result is. Everything else (an invalid object, duplicate items, a conflict,
// odd managedFields, and so on) is left to the field manager of k8s.io/apimachinery, which is
// also the oracle of the tests.
package fields
