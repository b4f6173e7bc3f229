package replay

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
)

func event1(verb, more string) string {
	return fmt.Sprintf(`{"apiVersion":"audit.k8s.io/v1","kind":"Event","stage":"ResponseComplete","verb":%q,"objectRef":{"resource":"things","apiGroup":"example.com","name":"a"},"responseStatus":{"code":200}%s}`, verb, more)
}

// TestParse checks which events are judged.
func TestParse(t *testing.T) {
	const body = `,"requestObject":{"kind":"Thing"}`
	const mutated = `,"annotations":{"mutation.webhook.admission.k8s.io/round_0_index_0":"{\"configuration\":\"c\",\"webhook\":\"w\",\"mutated\":true}"}`
	for line, want := range map[string]string{
		event1("create", body):                    "judged",
		event1("update", body):                    "judged",
		event1("create", ""):                      string(NoBody),
		event1("create", `,"requestObject":null`): string(NoBody),
		event1("patch", body):                     string(NoPatched),
		event1("patch", body+`,"responseObject":{"apiVersion":"example.com/v1"}`):                                "judged",
		event1("patch", body+`,"responseObject":{"apiVersion":"meta.k8s.io/v1","kind":"PartialObjectMetadata"}`): string(NoPatched),
		event1("create", body+mutated): string(NoMutated),
		event1("create", body+mutated+`,"responseObject":{"apiVersion":"example.com/v1"}`):                                                                               "judged",
		event1("create", body+strings.Replace(mutated, "true", "false", 1)):                                                                                              "judged",
		event1("create", body+`,"responseStatus":{"code":422,"message":"admission webhook \"x\" denied the request"}`):                                                   string(Failed),
		event1("create", body+`,"responseStatus":{"code":422,"message":"things \"a\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no"}`): string(Failed),
		event1("update", body+`,"responseStatus":{"code":422}`):                                                                                                          string(Failed),
		event1("update", `,"requestObject":{"metadata":{"name":"a","resourceVersion":"1"}},"responseStatus":{"code":422}`):                                               "judged",
		event1("update", `,"requestObject":{"metadata":{"name":"b","resourceVersion":"1"}},"responseStatus":{"code":400}`):                                               string(Failed),
		event1("get", ""):                                   string(OtherVerbs),
		event1("deletecollection", ""):                      string(OtherVerbs),
		event1("create", body+`,"stage":"RequestReceived"`): string(Unfinished),
		event1("create", body+`,"stage":"Panic"`):           string(Unfinished),
		event1("update", body+`,"objectRef":{"resource":"things","subresource":"status"}`):                                                        string(Subresources),
		event1("create", body+`,"responseStatus":{"code":409}`):                                                                                   string(Failed),
		event1("create", body+`,"responseStatus":{"code":422}`):                                                                                   "judged",
		event1("create", body+`,"responseStatus":null`):                                                                                           string(Unfinished),
		`{"apiVersion":"audit.k8s.io/v1","kind":"EventList","items":[` + strings.Repeat(event1("get", "")+",", 2) + event1("create", body) + `]}`: string(OtherVerbs) + "," + string(OtherVerbs) + ",judged",
		`{"apiVersion":"audit.k8s.io/v1","kind":"EventList"}`:                                                                                     "",
		`{"apiVersion":"audit.k8s.io/v1","kind":"Policy"}`:                                                                                        "error",
		`{"apiVersion":"example.com/v1","kind":"Event"}`:                                                                                          "error",
		`{"apiVersion":"audit.k8s.io/v1","kind":"Event"`:                                                                                          "error",
		`[]`: "error",
		`{"apiVersion":"audit.k8s.io/v1","kind":"Event"} more`: "error",
	} {
		var got []string
		err := Parse([]byte(line), func(r *Request) { got = append(got, cmp.Or(string(r.Skip), "judged")) })
		if err != nil {
			got = []string{"error"}
		}
		if strings.Join(got, ",") != want {
			t.Errorf("%s: %q, want %q (%v)", line, got, want, err)
		}
	}
}

// TestHistory checks that the history has the last accepted state of each object, and forgets
// all objects when they become too many.
func TestHistory(t *testing.T) {
	var h History
	one := key{"example.com", "things", "", "one"}
	old := func(update bool) any {
		t.Helper()
		got, err := h.Old(&Request{key: one, Update: update})
		if err != nil {
			t.Fatal(err)
		}
		return got["n"]
	}
	if got := old(true); got != nil {
		t.Errorf("an empty history has %v", got)
	}
	for _, r := range []Request{
		{key: one, effect: stored, after: []byte(`{"n":1}`)},
		{key: one, effect: stored, after: []byte(`{"n":3}`)},
		{key: one, effect: nothing},
		{effect: stored, after: []byte(`{"n":5}`)}, // the name is not known
		{key: key{group: "example.com", resource: "others"}, effect: changedAll},
	} {
		h.Add(&r)
	}
	if got := old(true); fmt.Sprint(got) != "3" {
		t.Errorf("the old object has %v", got)
	}
	if got := old(false); got != nil {
		t.Errorf("an object that is created has an old one: %v", got)
	}
	large := slices.Repeat([]byte(" "), historySize/4)
	for i := range 5 {
		h.Add(&Request{key: key{name: fmt.Sprint(i)}, effect: stored, after: large})
	}
	if got := old(true); got != nil || h.size > historySize || len(h.objects) == 0 {
		t.Errorf("the history has %d objects of %d bytes, and %v", len(h.objects), h.size, got)
	}
}

// TestRules checks the rules and their severities.
func TestRules(t *testing.T) {
	var got []string
	for _, r := range Rules() {
		got = append(got, fmt.Sprintf("%s %s %t", r.ID, r.Severity, r.Summary != ""))
	}
	if want := []string{"replay-rejected error true", "replay-accepted warning true", "semantics warning true"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
