package answers

import (
	"regexp"
	"strings"
)

// reasons are why answers differ, with the IDs of the requests. The first one that matches an ID
// counts. What none of them matches is to be repaired.
var reasons = []struct {
	reason string
	ids    *regexp.Regexp
	// varies is set if the answers depend on what else happens at the time.
	varies bool
}{
	{"Kubernetes 1.37 rejects a patch that is not JSON or YAML before it does anything else, with other words.",
		regexp.MustCompile(` (patch (json|merge|strategic-merge)-patch (broken|no body)|apply (broken YAML|an array|a string))$`), false},
	{"Kubernetes 1.37 has other messages about owner references, with their index.",
		regexp.MustCompile(` (create with a bad owner|patch strategic-merge-patch owner without a key)$`), false},
	{"A malformed resourceVersion is an error of the client: 400. Parts of kube-apiserver, such as the watch cache, answer 500.",
		regexp.MustCompile(`[ &?]resourceVersion=(x|-1)$| watch path( without a name)?$| put a bad resourceVersion$`), false},
	{"The server can delete objects that it cannot decode. kube-apiserver ignores the option unless AllowUnsafeMalformedObjectDeletion is enabled.",
		regexp.MustCompile(` delete with unsafe options$`), false},
	{"No kubelet runs, and nothing can be reached through a proxy.",
		regexp.MustCompile(`^v1/(pods|nodes|services) \w+ (proxy|log)$`), false},
	{"A path that does not exist in a version with custom resources has a Status. kube-apiserver answers with a text.",
		regexp.MustCompile(`^[A-Z]+ /apis/example\.com/v1/`), false},
	{"Discovery and OpenAPI have the methods GET and HEAD, and the answer names them. kube-apiserver answers any method in some paths, and not HEAD in others.",
		regexp.MustCompile(`^(POST|PUT|PATCH|DELETE|OPTIONS|HEAD) /(api|apis|openapi)\b`), false},
	{"The answer has the address or the version of the server, or what the server adds to discovery.",
		regexp.MustCompile(`^GET /(api|apis|version)(/v1|/example.com/v1)?/? `), false},
	{"The answer is about the user, who has a certificate here and a token there.", regexp.MustCompile(`^review Self`), false},
	{"Kubernetes 1.37 adds a status to CSINode.", regexp.MustCompile(`^storage\.k8s\.io/v1/csinodes `), false},
	{"Kubernetes 1.37 describes columns in other words, and 1.36 has a cell too many for IPAddresses.",
		regexp.MustCompile(`^(networking\.k8s\.io/v1/(servicecidrs|ipaddresses)|rbac\.authorization\.k8s\.io/v1/(cluster)?rolebindings|resource\.k8s\.io/v1/resourceslices|` +
			`storage\.k8s\.io/v1/volumeattributesclasses|certificates\.k8s\.io/v1/certificatesigningrequests) get as table`), false},
	{"kube-apiserver removes and adds the template generation of daemon sets when it converts them: answers with metadata only lack it, and it is reset by who writes a status without it.",
		regexp.MustCompile(`^apps/v1/daemonsets (get as (metadata|list of metadata|table)|put status$)`), false},
	{"kube-apiserver's own controllers write the status, and are its field managers.",
		regexp.MustCompile(`^(flowcontrol\.apiserver\.k8s\.io/v1/(flowschemas|prioritylevelconfigurations)|apiregistration\.k8s\.io/v1/apiservices) (get|list|patch|apply|put|delete)`), true},
	{"The status of a CRD that is being deleted depends on when the controllers of the server run.",
		regexp.MustCompile(`^apiextensions\.k8s\.io/v1/customresourcedefinitions (delete|get deleted)`), true},
}

// unexplained is the reason of other differences.
const unexplained = "To be repaired."

// reasonOf returns why the answer to a request differs.
func reasonOf(id string) string {
	for _, r := range reasons {
		if r.ids.MatchString(id) {
			return r.reason
		}
	}
	return unexplained
}

// varies reports whether the answer to a request is not always the same.
func varies(id string) bool {
	for _, r := range reasons {
		if r.ids.MatchString(id) {
			return r.varies
		}
	}
	return false
}

// listing returns the text of the list of differences: their lines, below the reasons.
func listing(lines, ids []string) string {
	below := map[string][]string{}
	for i, line := range lines {
		reason := reasonOf(ids[i])
		below[reason] = append(below[reason], line)
	}
	var b strings.Builder
	write := func(reason string) {
		if len(below[reason]) > 0 {
			b.WriteString("# " + reason + "\n" + strings.Join(below[reason], "\n") + "\n\n")
		}
	}
	for _, r := range reasons {
		write(r.reason)
	}
	write(unexplained)
	return b.String()
}
