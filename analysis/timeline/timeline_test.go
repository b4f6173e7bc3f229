package timeline

import (
	"bytes"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"
	"time"
)

// start is the time of the first change.
var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// changes returns changes of all sorts.
func changes(t testing.TB) []*Change {
	t.Helper()
	at := func(ms int) time.Time { return start.Add(time.Duration(ms) * time.Millisecond) }
	one := object(t, `metadata: {name: a, namespace: team, resourceVersion: "5"}`+"\nspec: {size: 1}")
	two := object(t, `metadata: {name: a, namespace: team, resourceVersion: "6"}`+"\nspec: {size: 2}")
	three := object(t, `metadata: {name: a, namespace: team, resourceVersion: "7"}`+"\nspec: {size: 2}")
	widget := Change{Resource: "widgets.example.com", APIVersion: "example.com/v1", Kind: "Widget", Namespace: "team", Name: "a"}
	with := func(c Change, f func(*Change)) *Change { f(&c); return &c }
	return []*Change{
		with(widget, func(c *Change) {
			c.Revision, c.Time, c.Action, c.After = 5, at(0), Create, one
			c.Origin = Origin{User: "alice", Verb: "create", Resource: "widgets.example.com", UserAgent: "kubectl/v1 (linux/amd64) abc"}
		}),
		with(widget, func(c *Change) {
			c.Revision, c.Time, c.Action, c.Before, c.After = 6, at(1500), Update, one, two
			c.Origin = Origin{User: "bob", Verb: "patch", Resource: "widgets.example.com/scale"}
		}),
		with(widget, func(c *Change) {
			c.Revision, c.Time, c.Action, c.Before, c.After = 7, at(1600), Update, two, three
			c.Origin = Origin{Verb: "update"}
		}),
		with(widget, func(c *Change) {
			c.Revision, c.Time, c.Action, c.Before = 8, at(2000), Delete, three
			c.Origin = Origin{User: "system:gc", Verb: "delete", Controller: "garbagecollector"}
		}),
		{Revision: 9, Time: at(3000), Action: Create, Resource: "things", Name: "b", Unreadable: "the stored value cannot be read: no key",
			Origin: Origin{Verb: "post", Resource: "/custom"}},
		{Revision: 9, Time: at(3000), Action: Delete, Resource: "events", Kind: "Event", Namespace: "team", Name: "e", Origin: Origin{Verb: Expire}},
	}
}

// TestText pins the text of changes.
func TestText(t *testing.T) {
	t.Parallel()
	const want = `# Changes of stored objects in TestX
# The timeline begins after revision 4: the first 12 changes are left out, because there are too many
5  03:04:05.000  +0.000s  create Widget team/a  by alice (create widgets.example.com, kubectl/v1)
    + apiVersion: example.com/v1
    + kind: Widget
    + metadata:
    +   name: a
    +   namespace: team
      … 2 more lines
6  03:04:06.500  +1.500s  update Widget team/a  by bob (patch widgets.example.com/scale)
      spec:
    -   size: 1
    +   size: 2
7  03:04:06.600  +1.600s  update Widget team/a  by the server
    (only managedFields and resourceVersion have changed)
8  03:04:07.000  +2.000s  delete Widget team/a  by controller garbagecollector as system:gc
9  03:04:08.000  +3.000s  create things b  by an unknown user (post /custom)
    (the stored value cannot be read: no key)
9  03:04:08.000  +3.000s  delete Event team/e  by the server: its time to live has ended
`
	var b bytes.Buffer
	text := NewText(&b, TextOptions{MaxLines: 5})
	if err := text.Header(Header{Test: "TestX", After: 4, Omitted: 12}); err != nil {
		t.Fatal(err)
	}
	for _, c := range changes(t) {
		if err := text.Change(c); err != nil {
			t.Fatal(err)
		}
	}
	if b.String() != want {
		t.Errorf("got\n%s\nwant\n%s", b.String(), want)
	}
	b.Reset()
	if err := NewText(&b, TextOptions{}).Header(Header{After: 4, Omitted: 12, Compacted: true}); err != nil {
		t.Fatal(err)
	}
	if got := b.String(); got != "# The timeline begins after revision 4: the first 12 changes are left out, because there are too many, and earlier changes were compacted\n" {
		t.Errorf("the header is %q", got)
	}
	b.Reset()
	odd := *changes(t)[4]
	odd.Name, odd.Origin.User, odd.Unreadable = "a\nb\x1b[31m", "eve\u202e", "\x9b\r"
	if err := NewText(&b, TextOptions{}).Change(&odd); err != nil {
		t.Fatal(err)
	}
	if got := b.String(); !strings.HasSuffix(got, "things a b\ufffd[31m  by eve\ufffd (post /custom)\n    (\ufffd\ufffd)\n") {
		t.Errorf("the text is %q", got)
	}
	b.Reset()
	all := NewText(&b, TextOptions{ManagedFields: true})
	if err := errors.Join(all.Header(Header{After: 4, Compacted: true}), all.Change(changes(t)[2])); err != nil {
		t.Fatal(err)
	}
	const managed = `# The timeline begins after revision 4: earlier changes were compacted
7  03:04:06.600  +0.000s  update Widget team/a  by the server
      metadata:
    -   resourceVersion: "6"
    +   resourceVersion: "7"
`
	if b.String() != managed {
		t.Errorf("got\n%s", b.String())
	}
}

// TestIndent limits the lines of a diff.
func TestIndent(t *testing.T) {
	t.Parallel()
	for lines, want := range map[int]string{
		0: "    a\n    b\n    c\n", 3: "    a\n    b\n    c\n", 4: "    a\n    b\n    c\n",
		2: "    a\n    b\n      … 1 more lines\n", 1: "    a\n      … 2 more lines\n",
	} {
		if got := Indent("a\nb\nc\n", lines); got != want {
			t.Errorf("%d lines: got %q, want %q", lines, got, want)
		}
	}
}

// TestFilter selects changes.
func TestFilter(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		filter Filter
		want   []int
	}{
		"all":            {Filter{}, []int{0, 1, 2, 3, 4, 5}},
		"kind":           {Filter{Kind: "widget"}, []int{0, 1, 2, 3}},
		"resource":       {Filter{Kind: "Widgets"}, []int{0, 1, 2, 3}},
		"group":          {Filter{Kind: "widgets.example.com"}, []int{0, 1, 2, 3}},
		"kind and group": {Filter{Kind: "Widget.example.com"}, []int{0, 1, 2, 3}},
		"other group":    {Filter{Kind: "widgets.example.org"}, nil},
		"namespace":      {Filter{Namespace: "team"}, []int{0, 1, 2, 3, 5}},
		"name":           {Filter{Name: "b"}, []int{4}},
		"user":           {Filter{User: "alice"}, []int{0}},
		"controller":     {Filter{User: "garbagecollector"}, []int{3}},
		"verb":           {Filter{Verb: "patch"}, []int{1}},
		"from":           {Filter{From: 8}, []int{3, 4, 5}},
		"to":             {Filter{To: 5}, []int{0}},
		"since":          {Filter{Since: start.Add(2 * time.Second)}, []int{3, 4, 5}},
		"until":          {Filter{Until: start.Add(1500 * time.Millisecond)}, []int{0, 1}},
		"both":           {Filter{Kind: "Widget", Verb: "update", From: 6, To: 7}, []int{2}},
	} {
		var got []int
		for i, c := range changes(t) {
			if test.filter.Match(c) {
				got = append(got, i)
			}
		}
		if !reflect.DeepEqual(got, test.want) {
			t.Errorf("%s: got %v, want %v", name, got, test.want)
		}
	}
}

// TestRevisions expects the revisions that several filters select, and that a change whose kind is not
// known may be selected.
func TestRevisions(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		filters  []Filter
		from, to int64
	}{
		{nil, 0, 0},
		{[]Filter{{From: 3, To: 5}}, 3, 5},
		{[]Filter{{From: 3, To: 5}, {From: 2, To: 9}, {From: 4, To: 4}}, 2, 9},
		{[]Filter{{From: 3, To: 5}, {From: 2}, {From: 4, To: 4}}, 2, 0},
		{[]Filter{{From: 3}, {To: 4}}, 0, 0},
	} {
		if from, to := Revisions(test.filters); from != test.from || to != test.to {
			t.Errorf("%v: got %d to %d", test.filters, from, to)
		}
	}
	f := Filter{Kind: "Widget", Name: "a"}
	known, unknown := *changes(t)[0], *changes(t)[0]
	known.Kind, unknown.Kind = "Gadget", ""
	if f.MayMatch(&known) || !f.MayMatch(&unknown) || f.Match(&unknown) {
		t.Error("whether a change may match depends on its kind")
	}
	if unknown.Name = "b"; f.MayMatch(&unknown) {
		t.Error("a change with another name may match")
	}
	if all := []Filter{f, {Name: "b"}}; !Selects(all, &unknown) || Selects(all[:1], &unknown) || !Selects(nil, &unknown) {
		t.Error("one of the filters must match, if there are any")
	}
}

// TestFile writes a file and reads it.
func TestFile(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	h := Header{Test: "TestX", After: 4, Omitted: 2, Compacted: true}
	w, err := NewWriter(&b, h, nil)
	if err != nil {
		t.Fatal(err)
	}
	written := append(changes(t), &Change{Revision: 10, Time: start, Action: Create, Resource: "secrets", Name: "s", After: secret("aHVudGVyMg==")})
	for _, c := range written {
		if err := w.Write(c); err != nil {
			t.Fatal(err)
		}
	}
	if text := b.String(); strings.Contains(text, "aHVudGVyMg") || strings.Count(text, "\n") != len(written)+1 {
		t.Fatalf("the file is\n%s", text)
	}
	r, err := NewReader(&b)
	if err != nil {
		t.Fatal(err)
	}
	h.Format = Format
	if r.Header() != h {
		t.Errorf("the header is %+v", r.Header())
	}
	n := 0
	for c, err := range r.All() {
		if err != nil {
			t.Fatal(err)
		}
		if n < len(written)-1 && !reflect.DeepEqual(c, written[n]) {
			t.Errorf("got %+v, want %+v", c, written[n])
		}
		n++
	}
	if n != len(written) || r.Line() != n+2 {
		t.Errorf("read %d changes, and the last line is %d", n, r.Line())
	}
	if _, err := NewWriter(failing{}, h, NewMasker()); err == nil {
		t.Error("an error of the writer is lost")
	}
}

// failing is a writer and a reader that fails.
type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, errors.New("the disk is full") }
func (failing) Read([]byte) (int, error)  { return 0, errors.New("the disk is broken") }

// TestBrokenFiles expects errors with the line and the reason.
func TestBrokenFiles(t *testing.T) {
	t.Parallel()
	const header = `{"timeline":"v1","after":0}` + "\n"
	const good = `{"revision":5,"time":"2026-01-02T03:04:05Z","action":"create","resource":"pods","name":"a","origin":{"verb":"create"}}` + "\n"
	for name, test := range map[string]struct{ file, want string }{
		"empty":       {"", "line 1: not a timeline: the file is empty"},
		"blank":       {"\n\n", "line 1: not a timeline: the file is empty"},
		"text":        {"hello\n", `line 1: not a timeline: its first line is a JSON object with the field "timeline"`},
		"other JSON":  {`{"kind":"List"}`, `line 1: not a timeline: its first line is a JSON object with the field "timeline"`},
		"newer":       {`{"timeline":"v2"}`, `line 1: the format of the timeline is "v2", and this release reads "v1": use the release that wrote it, or a newer one`},
		"only header": {header, ""},
		"good":        {header + "\n" + good, ""},
		"no line end": {header + strings.TrimSpace(good), ""},
		"cut":         {header + good + good[:40], "line 3: not a change: the line ends within a change: the file is not complete"},
		"garbage":     {header + good + "\n}\n", "line 4: not a change: invalid character '}' looking for beginning of value"},
		"type":        {header + `{"revision":"x"}`, "line 2: not a change: json: cannot unmarshal string into Go struct field Change.revision of type int64"},
		"action":      {header + strings.Replace(good, `"create","resource"`, `"creates","resource"`, 1), `line 2: not a change: the field action is "creates": must be create, update or delete`},
		"no revision": {header + strings.Replace(good, "revision", "x", 1), "line 2: not a change: the field revision is required"},
		"no name":     {header + strings.Replace(good, `"name"`, `"x"`, 1), "line 2: not a change: the fields resource and name are required"},
		"no time":     {header + strings.Replace(good, `"time"`, `"x"`, 1), "line 2: not a change: the field time is required"},
		"order":       {header + good + strings.Replace(good, "5", "4", 1), "line 3: not a change: revision 4 is after revision 5: changes must be in their order"},
		"no kind":     {header + strings.Replace(good, `"origin"`, `"after":{"a":1},"origin"`, 1), "line 2: not a change: the object has no kind"},
		"long error": {header + strings.Replace(good, `"2026-01-02T03:04:05Z"`, `"`+strings.Repeat("5", 500)+`"`, 1),
			"line 2: not a change: parsing time \"" + strings.Repeat("5", 186) + "…"},
		"long line": {header + strings.Repeat("x", maxLine+1), "line 2: longer than 64 MiB"},
		"new field": {header + strings.Replace(good, `"name"`, `"later":1,"name"`, 1), ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := ""
			r, err := NewReader(strings.NewReader(test.file))
			for err == nil {
				_, err = r.Next()
			}
			if !errors.Is(err, io.EOF) {
				got = err.Error()
				if s := (*SyntaxError)(nil); !errors.As(err, &s) || errors.Unwrap(s) == nil {
					t.Errorf("%T is not a SyntaxError", err)
				}
			}
			if got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
	if _, err := NewReader(failing{}); err == nil || err.Error() != "the disk is broken" {
		t.Error(err)
	}
	// All ends with the first error.
	r, err := NewReader(strings.NewReader(header + good + "x\n" + good))
	if err != nil {
		t.Fatal(err)
	}
	n, failures := 0, 0
	for _, err := range r.All() {
		n++
		if err != nil {
			failures++
		}
	}
	if n != 2 || failures != 1 {
		t.Errorf("%d results, %d of them errors", n, failures)
	}
}
