package kubectl

import (
	"testing"

	"espalier.dev/espaliertest"
)

// TestBuiltinKinds explains and shows Kubernetes' own kinds.
func TestBuiltinKinds(t *testing.T) {
	t.Parallel()
	s := sessionOf(t, espaliertest.Start(t, espaliertest.WithEtcd()))
	contains(t, columns(s.ok(t, "explain", "pod.spec.containers")), "KIND: Pod", "image <string>", "name <string> -required-", "ports <[]ContainerPort>", "DNS_LABEL")
	contains(t, columns(s.ok(t, "explain", "deploy.spec")), "GROUP: apps", "replicas <integer>", "template <PodTemplateSpec> -required-")
	contains(t, columns(s.ok(t, "explain", "cm.data")), "data <map[string]string>")
	contains(t, columns(s.ok(t, "explain", "pod.spec.restartPolicy")), "ENUM:\nAlways\nNever\nOnFailure\n")
	contains(t, columns(s.ok(t, "explain", "deploy.spec", "-o", "plaintext-openapiv2")), "replicas <integer>", "template <Object> -required-")
	s.ok(t, "create", "secret", "generic", "x", "--from-literal=a=b")
	contains(t, columns(s.ok(t, "get", "secret", "x")), "NAME TYPE DATA AGE\nx Opaque 1 ")
	contains(t, columns(s.ok(t, "get", "ns")), "NAME STATUS AGE\n")
}
