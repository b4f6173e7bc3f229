package answers

import (
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"sigs.k8s.io/yaml"
)

// reasons are why answers differ, with the IDs of the requests. The first one that matches an ID
// counts. What none of them matches is to be repaired.
var reasons = []struct {
	reason string
	ids    *regexp.Regexp
	// varies is set if the answers depend on what else happens at the time.
	varies bool
}{
	{"Kubernetes 1.37 rejects a patch that is not JSON or YAML before it does anything else, with another message.",
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
		regexp.MustCompile(`^[A-Z]+ /apis/example\.com/v1/|^example\.com/\S+ ((create|delete) in all namespaces|get without a namespace|(create|get) in a namespace)$`), false},
	{"A path below a subresource of a custom resource does not exist. kube-apiserver ignores what follows the subresource.",
		regexp.MustCompile(`^example\.com/\S+ \w+ status/more$`), false},
	{"A POST to the path of a custom resource is not allowed. kube-apiserver creates the object in the body, although the name in the path is the one that was authorized.",
		regexp.MustCompile(`^example\.com/\S+ POST the object$`), false},
	{"Custom resources cannot be sent as protobuf: 415. kube-apiserver panics, and closes the connection without an answer.",
		regexp.MustCompile(`^example\.com/\S+ (create from (JSON as protobuf|empty protobuf|protobuf without magic)|put protobuf without magic)$`), false},
	{"The server aggregates cluster roles itself. Beside kube-apiserver, kube-controller-manager does it, which did not run.",
		regexp.MustCompile(`^rbac\.authorization\.k8s\.io/v1/clusterroles list `), false},
	{"A write of the status of a CRD leaves its metadata alone. kube-apiserver changes them, too.",
		regexp.MustCompile(`^apiextensions\.k8s\.io/v1/customresourcedefinitions patch status$`), false},
	{"Discovery and OpenAPI have the methods GET and HEAD, and the answer names them. kube-apiserver answers any method in some paths, and not HEAD in others.",
		regexp.MustCompile(`^(POST|PUT|PATCH|DELETE|OPTIONS|HEAD) /(api|apis|openapi)\b`), false},
	{"The answer has the address or the version of the server, or what the server adds to discovery.",
		regexp.MustCompile(`^GET /(api|apis|version)(/v1|/example.com/v1)?/? `), false},
	{"The answer is about the user, who has a certificate here and a token there.", regexp.MustCompile(`^review Self`), false},
	{"Kubernetes 1.37 adds a status to CSINode.", regexp.MustCompile(`^storage\.k8s\.io/v1/csinodes `), false},
	{"Kubernetes 1.37 describes columns with other descriptions, and 1.36 has a cell too many for IPAddresses.",
		regexp.MustCompile(`^(networking\.k8s\.io/v1/(servicecidrs|ipaddresses)|rbac\.authorization\.k8s\.io/v1/(cluster)?rolebindings|resource\.k8s\.io/v1/resourceslices|` +
			`storage\.k8s\.io/v1/volumeattributesclasses|certificates\.k8s\.io/v1/certificatesigningrequests) get as table`), false},
	{"kube-apiserver removes and adds the template generation of daemon sets when it converts them: answers with metadata only lack it, and a status write without it resets it.",
		regexp.MustCompile(`^apps/v1/daemonsets (get as (metadata|list of metadata|table)|put status$)`), false},
	{"kube-apiserver's own controllers write the status, and are its field managers.",
		regexp.MustCompile(`^(flowcontrol\.apiserver\.k8s\.io/v1/(flowschemas|prioritylevelconfigurations)|apiregistration\.k8s\.io/v1/apiservices) (get|list|patch|apply|put|delete)`), true},
	{"The status of a CRD that is being deleted depends on when the controllers of the server run.",
		regexp.MustCompile(`^apiextensions\.k8s\.io/v1/customresourcedefinitions (delete|get deleted)`), true},
	{crdStatus, regexp.MustCompile(`^apiextensions\.k8s\.io/v1/customresourcedefinitions (get|list|create|patch|apply)`), false},
}

// crdStatus is the reason of answers that are equal but for what withoutStatusManagers removes.
const crdStatus = "Kubernetes 1.37 adds observedGeneration to the status of CRDs, and kube-apiserver's own controllers are the field managers of the status that they write."

// withoutStatusManagers removes from an answer, or from the object that a message in it quotes, what
// crdStatus is about.
func withoutStatusManagers(v any) any {
	switch v := v.(type) {
	case map[string]any:
		delete(v, "observedGeneration")
		for name, field := range v {
			v[name] = withoutStatusManagers(field)
		}
		return v
	case []any:
		kept := slices.DeleteFunc(v, func(item any) bool {
			m, _ := item.(map[string]any)
			return m["manager"] == "kube-apiserver" && m["subresource"] == "status"
		})
		for i, item := range kept {
			kept[i] = withoutStatusManagers(item)
		}
		return kept
	case string:
		return withoutQuotedManagers(v)
	}
	return v
}

// quotedObject matches an object in a message.
var quotedObject = regexp.MustCompile(`"\{(?:[^"\\]|\\.)*\}"`)

// withoutQuotedManagers is withoutStatusManagers for a text: YAML, or a message.
func withoutQuotedManagers(s string) string {
	var object map[string]any
	if yaml.Unmarshal([]byte(s), &object) == nil && object["kind"] != nil {
		return text(withoutStatusManagers(object))
	}
	return quotedObject.ReplaceAllStringFunc(s, func(quoted string) string {
		var object map[string]any
		if unquoted, err := strconv.Unquote(quoted); err == nil && json.Unmarshal([]byte(unquoted), &object) == nil {
			return text(withoutStatusManagers(object))
		}
		return quoted
	})
}

// differsInStatusManagers reports whether crdStatus explains why two answers differ.
func differsInStatusManagers(a, b *Answer) bool {
	var bodies [2]any
	for i, answer := range []*Answer{a, b} {
		if json.Unmarshal(answer.Body, &bodies[i]) != nil {
			return false
		}
		bodies[i] = withoutStatusManagers(bodies[i])
	}
	return a.Status == b.Status && maps.Equal(a.Header, b.Header) && text(bodies[0]) == text(bodies[1])
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
