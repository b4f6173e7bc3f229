package kinds_test

import (
	"errors"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/fields"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"espalier.dev/internal/testcase"
	"espalier.dev/kinds"
	"espalier.dev/kinds/apps"
	"espalier.dev/kinds/cel"
	"espalier.dev/kinds/core"
	"espalier.dev/kinds/events"
	"espalier.dev/kinds/kind"
	"espalier.dev/kinds/pods"
	"espalier.dev/kinds/resource"
)

// TestRules runs the cases in testdata/rules: objects with problems that the random objects of test/oracle, which
// compares all rules with recorded answers of kube-apiserver, do not have.
//
// A case has an object in the section NAME/object and, if it is an update, the old one in NAME/old. The name of a
// subresource follows an @, and <x*100> is 100 times x. NAME/result has the warnings and the errors, and NAME/stored,
// if it is there, the object that is stored. With -update, both are written.
func TestRules(t *testing.T) {
	t.Parallel()
	offline, err := kinds.NewOffline(cel.New())
	if err != nil {
		t.Fatal(err)
	}
	testcase.GoldenArchives(t, "testdata/rules/*.txtar", *update, func(t *testing.T, a *txtar.Archive) {
		for _, f := range a.Files {
			if name, ok := strings.CutSuffix(f.Name, "/object"); ok {
				result, stored := answer(t, offline, name, string(f.Data), testcase.Section(a, name+"/old"))
				testcase.SetSection(a, name+"/result", result)
				if testcase.Section(a, name+"/stored") != "" {
					testcase.SetSection(a, name+"/stored", stored)
				}
			}
		}
	})
}

// repeated is a text that is repeated, such as <x*100>.
var repeated = regexp.MustCompile(`<([^<>*]+)\*(\d+)>`)

// varying are the fields of stored objects with the time or a random name.
var varying = regexp.MustCompile(`(lastPhaseTransitionTime|name): ("[^"]+Z"|[0-9a-f-]{36})\n`)

// answer returns the warnings and errors of a request, and the object that is stored.
func answer(t *testing.T, offline *kinds.Offline, name, object, old string) (result, stored string) {
	t.Helper()
	read := func(text string) (runtimeschema.GroupVersionKind, kind.Object) {
		text = repeated.ReplaceAllStringFunc(text, func(s string) string {
			m := repeated.FindStringSubmatch(s)
			n, _ := strconv.Atoi(m[2])
			return strings.Repeat(m[1], n)
		})
		data, err := yaml.YAMLToJSON([]byte(text))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		r, err := offline.Request(data)
		if err != nil || r.Undecodable != nil {
			t.Fatalf("%s: %v, %v", name, err, r.Undecodable)
		}
		return r.Kind, r.Object
	}
	w := kinds.OfflineWrite{}
	_, w.Subresource, _ = strings.Cut(name, "@")
	w.Kind, w.Object = read(object)
	if old != "" {
		_, w.Old = read(old)
	}
	var out strings.Builder
	warnings, err := offline.Write(w)
	for _, text := range warnings {
		out.WriteString("warning: " + text + "\n")
	}
	var status apierrors.APIStatus
	switch {
	case errors.As(err, &status) && status.Status().Details != nil:
		for _, c := range status.Status().Details.Causes {
			out.WriteString(c.Field + ": " + c.Message + "\n")
		}
	case err != nil:
		out.WriteString(err.Error() + "\n")
	default:
		text, err := offline.Encode(w.Kind, w.Object)
		if err != nil {
			t.Fatal(err)
		}
		if text, err = yaml.JSONToYAML(text); err != nil {
			t.Fatal(err)
		}
		stored = varying.ReplaceAllString(string(text), "$1: (varies)\n")
	}
	return out.String(), stored
}

// TestFields checks the fields that field selectors can have.
func TestFields(t *testing.T) {
	t.Parallel()
	event := &corev1.Event{InvolvedObject: corev1.ObjectReference{Kind: "Pod"}, ReportingController: "c"}
	for _, c := range []struct {
		got  fields.Set
		n    int
		want string
	}{
		{apps.Rules()["replicasets"].Fields(&appsv1.ReplicaSet{Status: appsv1.ReplicaSetStatus{Replicas: 3}}), 1, "status.replicas=3"},
		{core.Rules()["nodes"].Fields(&corev1.Node{}), 1, "spec.unschedulable=false"},
		{resource.Rules(nil)["resourceslices"].Fields(&resourcev1.ResourceSlice{Spec: resourcev1.ResourceSliceSpec{Driver: "d"}}), 2, "spec.driver=d,spec.nodeName="},
		{pods.Rules()["pods"].Fields(&corev1.Pod{Status: corev1.PodStatus{Phase: "Running", PodIPs: []corev1.PodIP{{IP: "10.0.0.1"}}}}), 8, "spec.hostNetwork=false,status.phase=Running,status.podIP=10.0.0.1"},
		{events.CoreRules().Fields(event), 11, "involvedObject.kind=Pod,source=c,reportingComponent=c"},
		{events.Rules()["events"].Fields(event), 10, "regarding.kind=Pod,reportingController=c"},
	} {
		if len(c.got) != c.n {
			t.Errorf("got %d fields: %v", len(c.got), c.got)
		}
		for _, field := range strings.Split(c.want, ",") {
			if name, value, _ := strings.Cut(field, "="); c.got[name] != value {
				t.Errorf("got %v, want %s", c.got, field)
			}
		}
	}
}
