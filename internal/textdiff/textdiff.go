// Package textdiff compares texts line by line and writes the difference in the
// unified format of diff -u, which patch and git read.
//
// Lines that occur once in each text are matched first (the idea of patience diff), so that a
// diff of YAML or JSON aligns distinctive lines instead of braces and repeated keywords. The
// gaps between them are compared by Myers' algorithm if they have few differences; otherwise
// they count as replaced. So the time is bounded by n log n plus a constant for each gap.
//
// Other implementations are not as good for manifests of thousands of lines with many
// changes. The numbers are lines that a diff of 100 changes shows:
//   - golang.org/x/tools/internal/diff, which aymanbagabas/go-udiff publishes, stops its
//     search after 100 differences in a whole file and shows the rest as replaced: 4184
//     lines instead of 300 where fields of a schema get another type.
//   - The anchored diff of the standard library, internal/diff, matches nothing between
//     lines that occur once: 4060 lines instead of 100 in a list of similar items. Its
//     context is fixed and it gives no access to hunks, which package suite prints.
//   - pmezard/go-difflib is no longer maintained, shows the same 4060 lines, and its time
//     is quadratic: four times the text takes 17 times as long.
package textdiff

import (
	"bytes"
	"fmt"
	"path/filepath"
	"slices"
	"sort"
	"strings"
)

// Op is the operation on a line.
type Op byte

// The operations, by the character that a unified diff begins the line with.
const (
	Keep   Op = ' '
	Delete Op = '-'
	Insert Op = '+'
)

// Line is a line of either text. Text includes the line end, if there is one.
type Line struct {
	Op   Op
	Text []byte
}

// Hunk is a group of changes with the lines around them. Lines count from 1.
type Hunk struct {
	OldStart, OldCount int
	NewStart, NewCount int
	Lines              []Line
}

// Header returns the first line of the hunk, without a line end.
func (h Hunk) Header() string {
	return fmt.Sprintf("@@ -%s +%s @@", lineRange(h.OldStart, h.OldCount), lineRange(h.NewStart, h.NewCount))
}

// lineRange omits a count of one; an empty range is written as the line before it.
func lineRange(start, count int) string {
	switch count {
	case 0:
		return fmt.Sprintf("%d,0", start-1)
	case 1:
		return fmt.Sprint(start)
	}
	return fmt.Sprintf("%d,%d", start, count)
}

// Style formats the lines of a diff, for example for a terminal: each function receives a
// whole line without its line end. A nil function leaves the line unchanged.
type Style struct {
	File, Hunk, Delete, Insert func(string) string
}

// Unified returns the difference of two texts with context lines around every change, or
// nothing if the texts are equal.
func Unified(oldName, newName string, old, new []byte, context int) []byte {
	return Style{}.Unified(oldName, newName, old, new, context)
}

// Unified is the function Unified with a style.
func (s Style) Unified(oldName, newName string, old, new []byte, context int) []byte {
	hunks := Hunks(old, new, context)
	if len(hunks) == 0 {
		return nil
	}
	var out bytes.Buffer
	write := func(style func(string) string, line string) {
		if style != nil {
			line = style(line)
		}
		out.WriteString(line)
		out.WriteByte('\n')
	}
	write(s.File, "--- "+oldName)
	write(s.File, "+++ "+newName)
	for _, h := range hunks {
		write(s.Hunk, h.Header())
		for _, l := range h.Lines {
			var style func(string) string
			switch l.Op {
			case Delete:
				style = s.Delete
			case Insert:
				style = s.Insert
			}
			text, ended := bytes.CutSuffix(l.Text, []byte("\n"))
			write(style, string(l.Op)+string(text))
			if !ended {
				write(nil, `\ No newline at end of file`)
			}
		}
	}
	return out.Bytes()
}

// FileName returns the name of a file for the header of a patch, as git writes it: below the
// directory prefix, usually a or b, which git apply and patch -p1 remove. Names that these
// programs would misread are quoted.
func FileName(prefix, path string) string {
	name := prefix + "/" + strings.TrimLeft(filepath.ToSlash(filepath.Clean(path)), "/")
	quoted, special := []byte{'"'}, false
	for i := range len(name) {
		switch c := name[i]; {
		case c == '"' || c == '\\':
			quoted, special = append(quoted, '\\', c), true
		case c < ' ' || c == 0x7f:
			quoted, special = fmt.Appendf(quoted, "\\%03o", c), true
		default:
			quoted = append(quoted, c)
		}
	}
	switch {
	case special:
		return string(append(quoted, '"'))
	case strings.Contains(name, " "):
		return name + "\t" // it ends the name
	}
	return name
}

// Hunks returns the changes from old to new, each with context unchanged lines around it;
// changes that are closer than that share a hunk.
func Hunks(old, new []byte, context int) []Hunk {
	a, b := split(old), split(new)
	context = max(context, 0)
	var hunks []Hunk
	var h *Hunk
	endA := 0 // how much of a is in hunks
	prev := match{}
	for _, m := range append(matches(a, b), match{len(a), len(b), 0}) {
		if m.a == prev.a && m.b == prev.b { // no change between the two runs
			prev = match{m.a + m.n, m.b + m.n, 0}
			continue
		}
		// The change is a[prev.a:m.a] → b[prev.b:m.b].
		if h == nil || prev.a-context > endA+context {
			if h != nil {
				h.keep(a[endA:min(endA+context, len(a))])
			}
			start := max(prev.a-context, 0)
			hunks = append(hunks, Hunk{OldStart: start + 1, NewStart: prev.b - (prev.a - start) + 1})
			h = &hunks[len(hunks)-1]
			endA = start
		}
		h.keep(a[endA:prev.a])
		for _, l := range a[prev.a:m.a] {
			h.Lines = append(h.Lines, Line{Delete, l})
		}
		for _, l := range b[prev.b:m.b] {
			h.Lines = append(h.Lines, Line{Insert, l})
		}
		h.OldCount += m.a - prev.a
		h.NewCount += m.b - prev.b
		endA = m.a
		prev = match{m.a + m.n, m.b + m.n, 0}
	}
	if h != nil {
		h.keep(a[endA:min(endA+context, len(a))])
	}
	return hunks
}

func (h *Hunk) keep(lines [][]byte) {
	for _, l := range lines {
		h.Lines = append(h.Lines, Line{Keep, l})
	}
	h.OldCount += len(lines)
	h.NewCount += len(lines)
}

// split returns the lines of a text with their line ends.
func split(text []byte) [][]byte {
	lines := bytes.SplitAfter(text, []byte("\n"))
	if len(lines[len(lines)-1]) == 0 {
		lines = lines[:len(lines)-1]
	}
	return lines
}

// match is a run of n equal lines, at a in the old text and at b in the new one.
type match struct{ a, b, n int }

// matches returns the runs of unchanged lines, in order.
func matches(a, b [][]byte) []match {
	ids := map[string]int{}
	x, y := number(a, ids), number(b, ids)
	m := &matcher{x: x, y: y}
	prefix := 0
	for prefix < min(len(x), len(y)) && x[prefix] == y[prefix] {
		prefix++
	}
	suffix := 0
	for suffix < min(len(x), len(y))-prefix && x[len(x)-1-suffix] == y[len(y)-1-suffix] {
		suffix++
	}
	m.add(0, 0, prefix)
	a0, b0, a1, b1 := prefix, prefix, len(x)-suffix, len(y)-suffix
	for _, anchor := range m.anchors(a0, b0, a1, b1, len(ids)) {
		m.gap(a0, b0, anchor.a, anchor.b)
		m.add(anchor.a, anchor.b, 1)
		a0, b0 = anchor.a+1, anchor.b+1
	}
	m.gap(a0, b0, a1, b1)
	m.add(a1, b1, suffix)
	return m.out
}

// number assigns equal numbers to equal lines.
func number(lines [][]byte, ids map[string]int) []int {
	out := make([]int, len(lines))
	for i, l := range lines {
		id, ok := ids[string(l)]
		if !ok {
			id = len(ids)
			ids[string(l)] = id
		}
		out[i] = id
	}
	return out
}

type matcher struct {
	x, y []int
	out  []match
}

// add appends a run, or extends the last one if it continues there.
func (m *matcher) add(a, b, n int) {
	if n == 0 {
		return
	}
	if len(m.out) > 0 {
		if last := &m.out[len(m.out)-1]; last.a+last.n == a && last.b+last.n == b {
			last.n += n
			return
		}
	}
	m.out = append(m.out, match{a, b, n})
}

// anchors returns lines that occur once in x[a0:a1] and once in y[b0:b1]: a longest
// increasing subsequence of them.
func (m *matcher) anchors(a0, b0, a1, b1, ids int) []match {
	const none, many = -1, -2
	inY := slices.Repeat([]int{none}, ids)
	inX := slices.Repeat([]int{none}, ids)
	once := func(at []int, id, i int) {
		if at[id] == none {
			at[id] = i
		} else {
			at[id] = many
		}
	}
	for i := a0; i < a1; i++ {
		once(inX, m.x[i], i)
	}
	for j := b0; j < b1; j++ {
		once(inY, m.y[j], j)
	}
	var pairs []match
	for i := a0; i < a1; i++ {
		if id := m.x[i]; inX[id] >= 0 && inY[id] >= 0 {
			pairs = append(pairs, match{i, inY[id], 1})
		}
	}
	var tails []int // tails[k]: the pair that ends the best sequence of length k+1
	before := make([]int, len(pairs))
	for i, p := range pairs {
		k := sort.Search(len(tails), func(k int) bool { return pairs[tails[k]].b >= p.b })
		before[i] = -1
		if k > 0 {
			before[i] = tails[k-1]
		}
		if k == len(tails) {
			tails = append(tails, i)
		} else {
			tails[k] = i
		}
	}
	if len(tails) == 0 {
		return nil
	}
	var out []match
	for i := tails[len(tails)-1]; i >= 0; i = before[i] {
		out = append(out, pairs[i])
	}
	slices.Reverse(out)
	return out
}

// maxEdits bounds the work of gap, which is quadratic in it.
const maxEdits = 500

// gap adds the unchanged runs of x[a0:a1] and y[b0:b1], by Myers' greedy algorithm.
func (m *matcher) gap(a0, b0, a1, b1 int) {
	n, o := a1-a0, b1-b0
	if n == 0 || o == 0 {
		return
	}
	// far[k] is the farthest index in x on the diagonal k = (index in x) - (index in y) after
	// d edits; trace holds it for every d, to reconstruct the path.
	limit := min(n+o, maxEdits)
	far := make([]int, 2*limit+3)
	at := func(k int) int { return k + limit + 1 }
	var trace [][]int
	for d := 0; d <= limit; d++ {
		trace = append(trace, slices.Clone(far[at(-d-1):at(d+1)+1]))
		for k := -d; k <= d; k += 2 {
			var i int
			if k == -d || k != d && far[at(k-1)] < far[at(k+1)] {
				i = far[at(k+1)]
			} else {
				i = far[at(k-1)] + 1
			}
			for i < n && i-k >= 0 && i-k < o && m.x[a0+i] == m.y[b0+i-k] {
				i++
			}
			far[at(k)] = i
			if i >= n && i-k >= o {
				m.back(trace, a0, b0, n, o)
				return
			}
		}
	}
}

// back follows the trace of gap from the end to the beginning.
func (m *matcher) back(trace [][]int, a0, b0, n, o int) {
	var runs []match
	i, j := n, o
	for d := len(trace) - 1; d >= 0; d-- {
		far := trace[d]
		at := func(k int) int { return k + d + 1 }
		k := i - j
		before := k - 1
		if k == -d || k != d && far[at(k-1)] < far[at(k+1)] {
			before = k + 1
		}
		pi := far[at(before)]
		pj := pi - before
		if d == 0 {
			pi, pj = 0, 0
		}
		run := 0
		for i > pi && j > pj {
			i, j, run = i-1, j-1, run+1
		}
		if run > 0 {
			runs = append(runs, match{a0 + i, b0 + j, run})
		}
		i, j = pi, pj
	}
	for _, r := range slices.Backward(runs) {
		m.add(r.a, r.b, r.n)
	}
}
