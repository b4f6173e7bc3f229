package pods

import (
	"regexp"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
)

// pullPolicy returns the default policy of an image: images with the tag latest, also by
// default, are always pulled. References that are not valid have no tag.
func pullPolicy(image string) corev1.PullPolicy {
	if isLatest(image) {
		return corev1.PullAlways
	}
	return corev1.PullIfNotPresent
}

// references are the regular expressions of references to images.
var references = sync.OnceValue(func() (r struct{ domain, rest, id *regexp.Regexp }) {
	const (
		label     = `(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9])`
		component = `[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*`
		digest    = `[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,}`
	)
	r.domain = regexp.MustCompile(`^(?:` + label + `(?:\.` + label + `)*|\[[a-fA-F0-9:]+\])(?::[0-9]+)?$`)
	r.rest = regexp.MustCompile(`^(` + component + `(?:/` + component + `)*)(?::(\w[\w.-]{0,127}))?(?:@(` + digest + `))?$`)
	r.id = regexp.MustCompile(`^[a-f0-9]{64}$`)
	return r
})

// maxName is the length of the longest name of an image without its domain.
const maxName = 255

func isLatest(image string) bool {
	if image == "" || references().id.MatchString(image) {
		return false
	}
	domain, rest := splitDomain(image)
	if domain != "" && !references().domain.MatchString(domain) {
		return false
	}
	match := references().rest.FindStringSubmatch(rest)
	if match == nil || len(repository(domain, match[1])) > maxName {
		return false
	}
	switch tag, digest := match[2], match[3]; {
	case digest == "":
		return tag == "" || tag == "latest"
	default:
		return tag == "latest" && isDigest(digest)
	}
}

// repository returns the full name of an image in a registry.
func repository(domain, name string) string {
	if (domain == "" || domain == "docker.io" || domain == "index.docker.io") && !strings.Contains(name, "/") {
		return "library/" + name
	}
	return name
}

// splitDomain splits the domain of a registry from the name of an image. An element before the
// first slash is a domain only if it cannot be a part of a name.
func splitDomain(image string) (domain, rest string) {
	domain, rest, ok := strings.Cut(image, "/")
	if ok && (domain == "localhost" || strings.ContainsAny(domain, ".:") || strings.ToLower(domain) != domain) {
		return domain, rest
	}
	return "", image
}

// isDigest reports whether a digest has the length of its algorithm.
func isDigest(digest string) bool {
	algorithm, sum, _ := strings.Cut(digest, ":")
	length := map[string]int{"sha256": 64, "sha384": 96, "sha512": 128}[algorithm]
	return length > 0 && len(sum) == length && strings.ToLower(sum) == sum
}
