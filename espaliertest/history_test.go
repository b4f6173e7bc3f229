package espaliertest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"espalier.dev/analysis/timeline"
)

// clientFor returns a client with a user agent.
func clientFor(t testing.TB, c *rest.Config, agent string) kubernetes.Interface {
	t.Helper()
	c.UserAgent = agent
	client, err := kubernetes.NewForConfig(c)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// described returns changes, one on each line.
func described(changes []*Change) string {
	var b strings.Builder
	for _, c := range changes {
		fmt.Fprintf(&b, "%s %s by %s\n", c.Action, c.Object(), c.Origin)
	}
	return b.String()
}

// TestHistory changes objects in all ways, and expects to find who has changed what.
func TestHistory(t *testing.T) {
	t.Parallel()
	s := Start(t, WithCRDs("testdata/crds"))
	ctx := t.Context()
	admin := clientFor(t, s.Config(), "setup/v1 (linux)")
	alice := clientFor(t, s.AddUser(t, "alice", "system:masters"), "controller/v2 "+strings.Repeat("x", 2000))
	do := func(_ any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	do(admin.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "team"}}, metav1.CreateOptions{}))
	m, err := alice.CoreV1().ConfigMaps("team").Create(ctx, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "settings"}, Data: map[string]string{"color": "red"},
	}, metav1.CreateOptions{})
	do(m, err)
	m.Data["color"] = "blue"
	do(admin.CoreV1().ConfigMaps("team").Update(ctx, m, metav1.UpdateOptions{}))
	do(alice.CoreV1().ConfigMaps("team").Patch(ctx, "settings", types.MergePatchType, []byte(`{"data":{"size":"small"}}`), metav1.PatchOptions{}))
	// A dry run and an update that changes nothing are no changes.
	do(alice.CoreV1().ConfigMaps("team").Patch(ctx, "settings", types.MergePatchType, []byte(`{"data":{"size":"large"}}`), metav1.PatchOptions{DryRun: []string{"All"}}))
	do(alice.CoreV1().ConfigMaps("team").Patch(ctx, "settings", types.MergePatchType, []byte(`{"data":{"size":"small"}}`), metav1.PatchOptions{}))
	do(alice.CoreV1().Pods("team").Create(ctx, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "web"}}},
	}, metav1.CreateOptions{}))
	pod, err := alice.CoreV1().Pods("team").Patch(ctx, "web", types.MergePatchType, []byte(`{"status":{"phase":"Running"}}`), metav1.PatchOptions{}, "status")
	do(pod, err)
	do(nil, admin.CoreV1().ConfigMaps("team").DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{FieldSelector: "metadata.name=settings"}))
	do(exchangeOK(t, s, "POST", "/apis/example.com/v1/namespaces/team/crontabs",
		`{"apiVersion":"example.com/v1","kind":"CronTab","metadata":{"name":"nightly","ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"settings","uid":"`+
			string(m.UID)+`"}]},"spec":{"schedule":"0 3 * * *"}}`))
	collected := HistoryFilter{Kind: "crontabs.example.com", Name: "nightly", Verb: "delete"}
	await(t, "the deletion by the garbage collector", func() bool { return len(slices.Collect(s.History(t, collected))) > 0 })

	for _, test := range []struct {
		name    string
		filters []HistoryFilter
		want    string
	}{
		{"configmap", []HistoryFilter{{Kind: "ConfigMap", Name: "settings"}}, `create ConfigMap team/settings by alice (create configmaps, controller/v2)
update ConfigMap team/settings by espalier-admin (update configmaps, setup/v1)
update ConfigMap team/settings by alice (patch configmaps, controller/v2)
delete ConfigMap team/settings by espalier-admin (deletecollection configmaps, setup/v1)
`},
		{"user", []HistoryFilter{{User: "alice", Namespace: "team"}}, `create ConfigMap team/settings by alice (create configmaps, controller/v2)
update ConfigMap team/settings by alice (patch configmaps, controller/v2)
create Pod team/web by alice (create pods, controller/v2)
update Pod team/web by alice (patch pods/status, controller/v2)
`},
		{"several", []HistoryFilter{{Kind: "pods", Verb: "create"}, {Kind: "namespaces", Name: "team"}},
			"create Namespace team by espalier-admin (create namespaces, setup/v1)\ncreate Pod team/web by alice (create pods, controller/v2)\n"},
		{"garbage-collector", []HistoryFilter{collected},
			"delete CronTab team/nightly by controller garbagecollector as system:serviceaccount:kube-system:generic-garbage-collector\n"},
		{"controllers", []HistoryFilter{{Kind: "serviceaccount", Namespace: "team"}}, "create ServiceAccount team/default by controller serviceaccount\n"},
		{"bootstrap", []HistoryFilter{{Kind: "namespaces", Name: "kube-system"}}, "create Namespace kube-system by controller bootstrap\n"},
		{"crds", []HistoryFilter{{User: "crds", Name: "crontabs.example.com"}}, "update CustomResourceDefinition crontabs.example.com by controller crds\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := slices.Collect(s.History(t, test.filters...))
			if test.name == "crds" {
				got = got[:1]
			}
			if text := described(got); text != test.want {
				t.Errorf("got\n%s\nwant\n%s", text, test.want)
			}
		})
	}

	changes := slices.Collect(s.History(t, HistoryFilter{Kind: "configmaps", Name: "settings"}))
	if len(changes) != 4 {
		t.Fatalf("%d changes", len(changes))
	}
	created, updated, deleted := changes[0], changes[1], changes[3]
	if n := len(created.Origin.UserAgent); n != 1024 {
		t.Errorf("the user agent has %d bytes", n)
	}
	if created.Before != nil || created.After.GetUID() != m.UID || fmt.Sprint(created.Revision) != created.After.GetResourceVersion() ||
		created.After.GetAPIVersion() != "v1" {
		t.Errorf("the object after its creation: %v", created.After)
	}
	if got := updated.Diff(); got != "  data:\n-   color: red\n+   color: blue\n" {
		t.Errorf("the difference is\n%s", got)
	}
	if deleted.After != nil || deleted.Before.Object["data"].(map[string]any)["size"] != "small" {
		t.Errorf("the object before its deletion: %v", deleted.Before)
	}
	if updated.Time.Before(created.Time) || created.Time.Before(m.CreationTimestamp.Time) {
		t.Errorf("created at %s, and updated at %s", created.Time, updated.Time)
	}
	got := slices.Collect(s.History(t, HistoryFilter{From: updated.Revision, To: updated.Revision}))
	if described(got) != described(changes[1:2]) {
		t.Errorf("the changes of a revision: %s", described(got))
	}
	for range s.History(t) {
		break
	}
	s.Reset(t)
	if got := described(slices.Collect(s.History(t, HistoryFilter{Kind: "Pod"}))); !strings.HasSuffix(got, "\ndelete Pod team/web by controller reset\n") {
		t.Errorf("after a reset: %s", got)
	}
}

// exchangeOK sends a request that must succeed.
func exchangeOK(t *testing.T, s *Server, method, path, body string) (any, error) {
	t.Helper()
	resp, text, err := exchange(t, s, method, path, body)
	if err == nil && resp.StatusCode >= 300 {
		err = fmt.Errorf("%s: %s", resp.Status, text)
	}
	return nil, err
}

// TestHistoryErrors expects errors that say what to do.
func TestHistoryErrors(t *testing.T) {
	t.Parallel()
	inEtcd := Start(t, WithEtcd())
	_, err := inEtcd.Changes()
	_, writeErr := inEtcd.WriteTimeline(t.TempDir())
	for _, err := range []error{err, writeErr} {
		if err == nil || !strings.Contains(err.Error(), "start it without WithEtcd") {
			t.Error(err)
		}
	}
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, test := range []struct {
		compacted int64
		filters   []HistoryFilter
		fails     bool
	}{
		{0, nil, false},
		{7, nil, true},
		{7, []HistoryFilter{{From: 8}}, false},
		{7, []HistoryFilter{{From: 7}}, true},
		{7, []HistoryFilter{{From: 8}, {Kind: "Pod"}}, true},
		{7, []HistoryFilter{{Since: at}}, true},
		{7, []HistoryFilter{{Since: at.Add(1)}}, false},
		{7, []HistoryFilter{{Since: at.Add(1)}, {From: 8}}, false},
		{7, []HistoryFilter{{Until: at.Add(1)}}, true},
	} {
		err := complete(test.compacted, at, test.filters)
		if (err != nil) != test.fails || test.fails && !strings.Contains(err.Error(), "it begins after revision 7 of 2026-01-02T03:04:05Z, because") {
			t.Errorf("%d %v: %v", test.compacted, test.filters, err)
		}
	}
}

// TestHistoryInBubble expects that no change is compacted because the clock of a bubble runs fast, and
// that those of a server outside are compacted, but not those since a time.
func TestHistoryInBubble(t *testing.T) {
	t.Parallel()
	outside := Start(t)
	synctest.Test(t, func(t *testing.T) {
		for _, s := range []*Server{Start(t), outside.Fork(t)} {
			time.Sleep(time.Hour)
			if _, err := clientFor(t, s.Config(), "").CoreV1().ConfigMaps("default").Create(t.Context(), configMap("late"), metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			if n := len(slices.Collect(s.History(t, HistoryFilter{Kind: "ConfigMap", Name: "late"}))); n != 1 {
				t.Errorf("%d changes", n)
			}
		}
	})
	compacted := Start(t, WithFlags("--etcd-compaction-interval=50ms"))
	await(t, "a compaction", func() bool {
		_, err := compacted.Changes()
		return err != nil
	})
	if _, err := compacted.Changes(HistoryFilter{Since: time.Now().Add(time.Hour)}); err != nil {
		t.Error(err)
	}
}

// TestHistoryOfEncrypted expects to read what is encrypted.
func TestHistoryOfEncrypted(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "encryption.yaml")
	if err := os.WriteFile(file, []byte(`apiVersion: apiserver.config.k8s.io/v1
kind: EncryptionConfiguration
resources:
- resources: [secrets, crontabs.example.com]
  providers:
  - aesgcm:
      keys: [{name: a, secret: MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=}]
`), 0o600); err != nil {
		t.Fatal(err)
	}
	s := Start(t, WithCRDs("testdata/crds"), WithFlags("--encryption-provider-config="+file))
	addSecret(t, s)
	if _, err := exchangeOK(t, s, "POST", "/apis/example.com/v1/namespaces/default/crontabs",
		`{"apiVersion":"example.com/v1","kind":"CronTab","metadata":{"name":"nightly"},"spec":{"schedule":"0 3 * * *"}}`); err != nil {
		t.Fatal(err)
	}
	for kind, want := range map[string]string{"Secret": "map[password:aHVudGVyMg==]", "CronTab": "map[replicas:1 schedule:0 3 * * *]"} {
		changes := slices.Collect(s.History(t, HistoryFilter{Kind: kind}))
		if len(changes) != 1 || changes[0].Unreadable != "" {
			t.Fatalf("%+v", changes)
		}
		after := changes[0].After
		if got := fmt.Sprint(after.Object["data"], after.Object["spec"]); !strings.Contains(got, want) {
			t.Errorf("got %v, want %s", after, want)
		}
		if !changes[0].Encrypted {
			t.Errorf("%s is not encrypted", kind)
		}
		// The text of a Secret never has its data.
		if diff := changes[0].Diff(); kind == "Secret" && (strings.Contains(diff, "aHVudGVyMg") || !strings.Contains(diff, "password: '(masked: 7 bytes")) {
			t.Errorf("the text of the Secret is\n%s", diff)
		}
	}
}

// TestHistoryFilters expects that filters have the same result, whether they select objects by what is
// known before they are decoded, or after it.
func TestHistoryFilters(t *testing.T) {
	t.Parallel()
	s := Start(t, WithCRDs("testdata/crds"))
	addSecret(t, s)
	all := slices.Collect(s.History(t))
	last := all[len(all)-1].Revision
	for _, filters := range [][]HistoryFilter{
		{{Kind: "Secret"}}, {{Kind: "namespace", Name: "default"}}, {{Kind: "customresourcedefinitions", User: "crds"}}, {{From: last}}, {{To: last - 2}},
		{{From: last, Kind: "Secret"}, {To: 5}, {Kind: "ClusterRole", Verb: "create"}}, {{Kind: "Nothing"}},
	} {
		var want []*Change
		for i := range filters {
			if filters[i].To == 0 {
				filters[i].To = last // controllers go on
			}
		}
		for _, c := range all {
			if timeline.Selects(filters, c) {
				want = append(want, c)
			}
		}
		if got := described(slices.Collect(s.History(t, filters...))); got != described(want) || got == "" && filters[0].Kind != "Nothing" {
			t.Errorf("%+v: got\n%swant\n%s", filters, got, described(want))
		}
	}
}

// addSecret creates a Secret with the password hunter2.
func addSecret(t testing.TB, s *Server) {
	t.Helper()
	if _, err := clientFor(t, s.Config(), "").CoreV1().Secrets("default").Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "login"}, Data: map[string][]byte{"password": []byte("hunter2")},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// childVariable is set in a process of TestTimelineOfFailures, and says what TestFailing does.
const childVariable = "ESPALIERTEST_FAILING"

// TestFailing is run by TestTimelineOfFailures in a process of its own.
func TestFailing(t *testing.T) {
	mode := os.Getenv(childVariable)
	if mode == "" {
		return
	}
	for _, name := range []string{"fails", "passes"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			Start(t) // a second server
			s := Start(t, WithCRDs("testdata/crds"))
			addSecret(t, s)
			switch {
			case name == "fails" && mode == "panic":
				panic("the test panics")
			case name == "fails":
				t.Fatal("the test has failed")
			}
		})
	}
}

// TestTimelineOfFailures expects that a test that fails writes what has changed.
func TestTimelineOfFailures(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, mode string
		args       []string
		want       string
	}{
		{"failure", "fail", []string{"-test.artifacts"}, "the test has failed"},
		{"panic", "panic", []string{"-test.artifacts"}, "panic: the test panics"},
		{"temporary", "fail", nil, "the test has failed"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			c := exec.CommandContext(t.Context(), os.Args[0], append(test.args, "-test.run=^TestFailing$", "-test.outputdir="+dir)...)
			c.Env = append(os.Environ(), childVariable+"="+test.mode)
			out, err := c.CombinedOutput()
			if err == nil || !strings.Contains(string(out), test.want) {
				t.Fatalf("%v\n%s", err, out)
			}
			var files []string
			if err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
				if err == nil && !d.IsDir() {
					files = append(files, path)
				}
				return err
			}); err != nil {
				t.Fatal(err)
			}
			said := regexp.MustCompile(`the timeline of stored objects has \d+ changes: (\S+)\.txt, or espalier timeline \S+\.jsonl(.*)`).
				FindAllStringSubmatch(string(out), -1)
			switch {
			case len(said) != 2:
				t.Fatalf("the log does not have both timelines:\n%s", out)
			case test.args == nil:
				if !strings.Contains(said[0][2], "run go test with -artifacts to keep it") || len(files) > 0 {
					t.Errorf("the log has %q, and the files are %q", said[0][0], files)
				}
			default:
				file := said[0][1]
				if want := []string{file + "-2.jsonl", file + "-2.txt", file + ".jsonl", file + ".txt"}; !slices.Equal(files, want) || said[0][2] != "" {
					t.Fatalf("the log has %q, and the files are %q", said[0][0], files)
				}
				checkTimeline(t, file)
			}
		})
	}
}

// checkTimeline checks the files of a timeline.
func checkTimeline(t *testing.T, file string) {
	t.Helper()
	text, err := os.ReadFile(file + ".txt")
	if err != nil {
		t.Fatal(err)
	}
	lines, err := os.Open(file + ".jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = lines.Close() }()
	r, err := timeline.NewReader(lines)
	if err != nil {
		t.Fatal(err)
	}
	if h := r.Header(); h.Test != "TestFailing/fails" || h.Omitted != 0 || h.Compacted || h.After == 0 {
		t.Errorf("%+v", h)
	}
	var secret *Change
	for c, err := range r.All() {
		if err != nil {
			t.Fatal(err)
		}
		if c.Origin.Controller == "bootstrap" || c.Kind == "CustomResourceDefinition" && c.Origin.Controller == "" {
			t.Errorf("the timeline has the start of the server: %s", c.Object())
		}
		if c.Kind == "Secret" {
			secret = c
		}
	}
	if secret == nil || secret.Origin.User != "espalier-admin" || !strings.HasPrefix(fmt.Sprint(secret.After.Object["data"]), "map[password:(masked: 7 bytes, digest ") {
		t.Errorf("the Secret is %+v", secret)
	}
	if !strings.Contains(string(text), "  create Secret default/login  by espalier-admin (create secrets") || strings.Contains(string(text), "aHVudGVyMg") {
		t.Errorf("the text is\n%s", text)
	}
}

// brokenTB is a testing.TB of another package, which embeds one that it does not have.
type brokenTB struct {
	testing.TB
	logs []string
}

func (b *brokenTB) Helper()      {}
func (b *brokenTB) Name() string { return "broken" }
func (b *brokenTB) Logf(format string, args ...any) {
	b.logs = append(b.logs, fmt.Sprintf(format, args...))
}

// TestTimelineLimits checks that a timeline is bounded, and what happens if it cannot be written.
func TestTimelineLimits(t *testing.T) {
	t.Parallel()
	s := Start(t, WithoutControllers())
	client := clientFor(t, s.Config(), "")
	for i := range 10 {
		m := configMap(fmt.Sprint("m", i))
		m.Data = map[string]string{"a": strings.Repeat("x", 1000)}
		if _, err := client.CoreV1().ConfigMaps("default").Create(t.Context(), m, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	h, err := s.server.History()
	if err != nil {
		t.Fatal(err)
	}
	var all int
	for range h.Changes(t.Context(), s.ready) {
		all++
	}
	file, n, err := writeTimeline(t.TempDir(), t.Name(), h, s.ready, 5000)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(file + ".jsonl")
	if err != nil {
		t.Fatal(err)
	}
	if n == 0 || n > 3 || len(text) > 7000 || !strings.Contains(string(text), fmt.Sprintf(`"omitted":%d`, all-n)) || !strings.Contains(string(text), `"name":"m9"`) {
		t.Errorf("%d changes of %d:\n%s", n, all, text)
	}
	broken := &brokenTB{}
	s.writeTimeline(broken)
	if len(broken.logs) != 1 || !strings.Contains(broken.logs[0], "cannot write the timeline of stored objects: the test has no artifact directory") ||
		!strings.Contains(broken.logs[0], "call Server.WriteTimeline") {
		t.Errorf("the log is %q", broken.logs)
	}
	dir := filepath.Join(t.TempDir(), "new")
	for _, want := range []string{"timeline.txt", "timeline-2.txt"} {
		file, err := s.WriteTimeline(dir)
		if err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(file)
		if err != nil || filepath.Base(file) != want || !strings.Contains(string(text), "create ConfigMap default/m0") {
			t.Errorf("%s: %v\n%s", file, err, text)
		}
	}
	// Reset deletes everything in one revision.
	s.Reset(t)
	if h, err = s.server.History(); err != nil {
		t.Fatal(err)
	}
	if file, n, err = writeTimeline(t.TempDir(), t.Name(), h, s.ready, 6000); err != nil {
		t.Fatal(err)
	}
	if text, err = os.ReadFile(file + ".jsonl"); err != nil {
		t.Fatal(err)
	}
	if n < 10 || len(text) > 12_000 || strings.Count(string(text), `"action":"delete"`) < 10 || !strings.Contains(string(text), `"before"`) {
		t.Errorf("%d changes after a reset:\n%s", n, text)
	}
	if _, _, err := writeTimeline(filepath.Join(t.TempDir(), "missing"), t.Name(), h, s.ready, 5000); err == nil {
		t.Error("it writes to a directory that does not exist")
	}
}
