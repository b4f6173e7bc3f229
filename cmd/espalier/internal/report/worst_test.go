package report

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"espalier.dev/analysis"
	"espalier.dev/cmd/espalier/internal/input"
)

// severities are findings whose messages name them, in the order of arrival.
func severities(order ...analysis.Severity) (fs []Finding) {
	for i, s := range order {
		fs = append(fs, Finding{
			Finding: analysis.Finding{Rule: "rule", Severity: s, Message: fmt.Sprintf("message-%d", i)},
			Object:  input.Identity{Kind: "A", Name: fmt.Sprint(i)}, File: "a.yaml",
		})
	}
	return fs
}

// TestMaxFindingsKeepsTheWorst checks that a limit keeps the worst findings of a stream in every
// format, and that the worst come first. JUnit lists them by object.
func TestMaxFindingsKeepsTheWorst(t *testing.T) {
	t.Parallel()
	fs := severities(analysis.Info, analysis.Warning, analysis.Info, analysis.Error, analysis.Warning, analysis.Error, analysis.Warning)
	for most, want := range map[int][]int{1: {3}, 2: {3, 5}, 3: {3, 5, 1}, 4: {3, 5, 1, 4}, 6: {3, 5, 1, 4, 6, 0}, 7: {3, 5, 1, 4, 6, 0, 2}, 9: {3, 5, 1, 4, 6, 0, 2}} {
		for _, format := range Formats() {
			out, _ := write(t, Options{Outputs: []string{format}, MaxFindings: most}, fs...)
			type found struct{ i, at int }
			var got []found
			for i := range fs {
				text := fmt.Sprintf("message-%d", i)
				if format == "junit" {
					text += " [rule]"
				}
				if at := strings.Index(out, text); at >= 0 {
					got = append(got, found{i, at})
				}
			}
			if format != "junit" {
				slices.SortFunc(got, func(a, b found) int { return a.at - b.at })
			}
			var order []int
			for _, f := range got {
				order = append(order, f.i)
			}
			expected := slices.Clone(want)
			if format == "junit" {
				slices.Sort(expected)
			}
			if !slices.Equal(order, expected) {
				t.Errorf("%s, at most %d: got %v, want %v\n%s", format, most, order, expected, out)
			}
		}
	}
}

// TestSectionsOfTheWorst checks that sections stay together where findings are sorted.
func TestSectionsOfTheWorst(t *testing.T) {
	t.Parallel()
	for _, format := range []string{"text", "markdown"} {
		for _, most := range []int{0, 3} {
			var out bytes.Buffer
			r, err := New(Options{Outputs: []string{format}, Stdout: &out, MaxFindings: most})
			if err != nil {
				t.Fatal(err)
			}
			fs := severities(analysis.Warning, analysis.Error, analysis.Error, analysis.Warning)
			for i, f := range fs {
				r.Section([]string{"First", "Second"}[i/2])
				r.Add(f)
			}
			if err := r.Close(); err != ExitError(Found) {
				t.Error(err)
			}
			want := []string{"First", "message-1", "message-0", "Second", "message-2", "message-3"}
			if most > 0 {
				want = want[:5]
			}
			if most == 0 && format == "text" { // in the order of arrival
				want[1], want[2] = want[2], want[1]
			}
			last := -1
			for _, text := range want {
				at := strings.Index(out.String(), text)
				if at <= last {
					t.Errorf("%s, at most %d: %s is not at its place\n%s", format, most, text, out.String())
				}
				last = at
			}
			if n := strings.Count(out.String(), "First") + strings.Count(out.String(), "Second"); n != 2 {
				t.Errorf("%s: %d headings\n%s", format, n, out.String())
			}
		}
	}
}

// TestAddGroup checks that formats for people show and count a group as one finding, and that
// formats for programs list its members. Suppressed members are in neither.
func TestAddGroup(t *testing.T) {
	t.Parallel()
	for _, format := range Formats() {
		var out bytes.Buffer
		r, err := New(Options{
			Outputs: []string{format}, Stdout: &out, Semantics: "kep", Unordered: true,
			Filter:  func(f Finding) (Finding, bool) { return f, f.Message != "message-1" },
			Grouped: func(shown, of int) string { return fmt.Sprintf("%d for %d", shown, of) },
		})
		if err != nil {
			t.Fatal(err)
		}
		var kept []int
		r.AddGroup(severities(analysis.Error, analysis.Error, analysis.Error, analysis.Error), func(indices []int) Finding {
			kept = indices
			return Finding{Finding: analysis.Finding{Rule: "rule", Message: "the group"}}
		})
		alone := severities(analysis.Warning, analysis.Warning)
		r.AddGroup(alone, func([]int) Finding { t.Error("merges one finding"); return Finding{} })
		if err := r.Close(); err != ExitError(Found) {
			t.Error(err)
		}
		if !slices.Equal(kept, []int{0, 2, 3}) {
			t.Errorf("kept %v", kept)
		}
		forPeople := slices.Contains([]string{"text", "github", "markdown"}, format)
		for text, want := range map[string]bool{
			"the group": forPeople, "1 for 3": forPeople, "1 error, 1 warning": forPeople, "message-2": !forPeople, "message-1": false, "message-0": true,
		} {
			if strings.Contains(out.String(), text) != want {
				t.Errorf("%s: %q is there: %t\n%s", format, text, !want, out.String())
			}
		}
		if s := r.Summary(); s.Errors != 3 || s.Warnings != 1 || s.Suppressed != 2 {
			t.Errorf("got %+v", s)
		}
	}
}

// TestMarkdownLength checks that Markdown stays below the limit for a comment, that the worst
// findings are kept, and that every finding is whole.
func TestMarkdownLength(t *testing.T) {
	t.Parallel()
	detail := slices.Repeat([]string{"<detail> & more"}, 8)
	many := func(n int, s analysis.Severity, text string) (fs []Finding) {
		for i := range n {
			fs = append(fs, Finding{Finding: analysis.Finding{
				Rule: "rule", Severity: s, Path: "spec.`x`", Message: fmt.Sprintf("%s-%d-%s", s, i, text), Detail: detail}})
		}
		return fs
	}
	for name, tt := range map[string]struct {
		findings       []Finding
		errors, others int
	}{
		"few":                    {slices.Concat(many(3, analysis.Info, ""), many(3, analysis.Error, "")), 3, 3},
		"the worst last":         {slices.Concat(many(1000, analysis.Info, ""), many(20, analysis.Error, "")), 20, 1},
		"the worst first":        {slices.Concat(many(20, analysis.Error, ""), many(1000, analysis.Info, "")), 20, 1},
		"too many of the worst":  {many(10_000, analysis.Error, strings.Repeat("é`<", 100)), 10, 0},
		"long messages":          {many(30, analysis.Error, strings.Repeat("<", 100_000)), 1, 0},
		"one with many details":  {[]Finding{{Finding: analysis.Finding{Severity: analysis.Error, Message: "error-", Detail: slices.Repeat([]string{"  * detail"}, 50_000)}}}, 1, 0},
		"one with a long detail": {[]Finding{{Finding: analysis.Finding{Severity: analysis.Error, Message: "error-", Detail: []string{strings.Repeat("*", 200_000), "b"}}}}, 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			out, _ := write(t, Options{Outputs: []string{"markdown"}}, tt.findings...)
			if len(out) > MaxMarkdown {
				t.Errorf("%d bytes", len(out))
			}
			errors, infos := strings.Count(out, "- **error** "), strings.Count(out, "- **info** ")
			if errors < tt.errors || infos < tt.others {
				t.Errorf("%d errors and %d infos are listed", errors, infos)
			}
			if last, first := strings.LastIndex(out, "- **error** "), strings.Index(out, "- **info** "); infos > 0 && last > first {
				t.Error("an error follows an info")
			}
			left := len(tt.findings) - errors - infos
			if got := strings.Contains(out, fmt.Sprintf("\n%s not shown, because", analysis.Plural(left, "more finding"))); got != (left > 0) {
				t.Errorf("%d findings are left out\n%s", left, out[max(0, len(out)-300):])
			}
			if open, closed := strings.Count(out, "<details>"), strings.Count(out, "</details>"); open != closed {
				t.Errorf("%d of %d details are closed", closed, open)
			}
			for _, line := range strings.Split(out, "\n") {
				if strings.Count(line, "`")%2 != 0 && !strings.Contains(line, "\\`") {
					t.Fatalf("broken code span: %.200s", line)
				}
			}
			if !strings.Contains(out, "(semantics: kep)**\n") {
				t.Error("no summary")
			}
		})
	}
}
