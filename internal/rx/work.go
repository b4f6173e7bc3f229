package rx

import (
	"fmt"
	"regexp"
	"regexp/syntax"
	"strings"
	"sync"
	"unicode/utf8"
)

// MaxWork bounds the steps of matching, which nothing interrupts: a step is one instruction of a regular
// expression at one position of a text, and takes up to 10 nanoseconds. The product of the number of
// instructions and the length of the text is a bound of the steps. If it is larger, the steps are counted:
// at most positions, only few of the instructions matter.
const MaxWork = 1 << 27

// Regexp is a regular expression that does not match texts if that could take too long.
type Regexp struct {
	*regexp.Regexp
	// size is the number of instructions.
	size func() int
	// program has the instructions, for counting.
	program func() *syntax.Prog
}

// Compile compiles a regular expression, without its groups if it has more than max.
func Compile(source string, max int) (*Regexp, error) {
	source = Uncaptured(source, max)
	re, err := regexp.Compile(source)
	if err != nil {
		return nil, err
	}
	return &Regexp{re, sync.OnceValue(func() int { return len(instructions(source).Inst) }),
		sync.OnceValue(func() *syntax.Prog { return instructions(source) })}, nil
}

// instructions compiles a valid pattern.
func instructions(source string) *syntax.Prog {
	tree, err := syntax.Parse(source, syntax.Perl)
	if err == nil {
		var prog *syntax.Prog
		if prog, err = syntax.Compile(tree.Simplify()); err == nil {
			return prog
		}
	}
	panic(err) // package regexp has compiled it in the same way
}

// uncounted is the work that is done without counting its steps, which is faster.
const uncounted = MaxWork / 4

// Work is the work of several matches, such as those of all strings of an object: of at most
// MaxWork, and of those that need not be counted. The zero value is ready for use, by one goroutine.
type Work struct {
	// bound is the work that need not be counted, counted the work that was.
	bound, counted int
	last           error
}

// Exceeded reports whether a text was too long.
func (w *Work) Exceeded() bool { return w.counted > MaxWork }

// Err returns why the last text could not be matched, or nil.
func (w *Work) Err() error { return w.last }

// Match reports whether a pattern matches a text. If that would take too long, it is false, and Err
// returns an error.
func (w *Work) Match(r *Regexp, text string) bool {
	w.last = nil
	if n := r.size() * (len(text) + 1); n <= uncounted-w.bound {
		w.bound += n
		return r.MatchString(text)
	}
	matched, steps := r.count(text, MaxWork-w.counted, false)
	if w.counted += steps; w.Exceeded() {
		w.last = r.tooLong(text)
		return false
	}
	return matched
}

// Check returns an error if it takes too long to find the first match in a text.
func (r *Regexp) Check(text string) error {
	if r.size()*(len(text)+1) <= MaxWork {
		return nil
	}
	if _, steps := r.count(text, MaxWork, true); steps > MaxWork {
		return r.tooLong(text)
	}
	return nil
}

// count matches a text like package regexp, in the same steps, and counts them. It ends when there are more
// than limit. Where the first match ends is not known as soon as there is one: find is set for the steps until then.
func (r *Regexp) count(text string, limit int, find bool) (matched bool, steps int) {
	prog := r.program()
	steps = len(prog.Inst)
	anchored := prog.StartCond()&syntax.EmptyBeginText != 0
	m := machine{prog: prog, seen: make([]int, len(prog.Inst))}
	next := make([]uint32, 0, len(prog.Inst))
	before := rune(-1)
	for at := 0; steps <= limit; {
		r, width := rune(-1), 0
		if at < len(text) {
			r, width = utf8.DecodeRuneInString(text[at:])
		}
		if at == 0 || !anchored {
			next = append(next, uint32(prog.Start))
		}
		if len(next) == 0 {
			return matched, steps
		}
		if m.follow(next, syntax.EmptyOpContext(before, r)) {
			if matched = true; !find {
				return true, steps + m.steps
			}
		}
		next = next[:0]
		for _, pc := range m.reading {
			if i := &prog.Inst[pc]; r >= 0 && i.MatchRune(r) {
				next = append(next, i.Out)
			}
		}
		steps += m.steps
		if width == 0 {
			return matched, steps
		}
		before, at = r, at+width
	}
	return matched, steps
}

// machine follows the instructions that read nothing.
type machine struct {
	prog *syntax.Prog
	// seen has the round in which an instruction was reached last.
	seen  []int
	round int
	steps int // of the last round
	// reading are the instructions that read the next character.
	reading, stack []uint32
}

// follow finds the instructions that read the next character. It reports whether the pattern matches.
func (m *machine) follow(from []uint32, here syntax.EmptyOp) (matched bool) {
	m.round++
	m.reading, m.steps = m.reading[:0], 0
	m.stack = append(m.stack[:0], from...)
	for len(m.stack) > 0 {
		pc := m.stack[len(m.stack)-1]
		m.stack = m.stack[:len(m.stack)-1]
		m.steps++
		if m.seen[pc] == m.round {
			continue
		}
		m.seen[pc] = m.round
		switch i := &m.prog.Inst[pc]; i.Op {
		case syntax.InstMatch:
			matched = true
		case syntax.InstAlt, syntax.InstAltMatch:
			m.stack = append(m.stack, i.Out, i.Arg)
		case syntax.InstCapture, syntax.InstNop:
			m.stack = append(m.stack, i.Out)
		case syntax.InstEmptyWidth:
			if syntax.EmptyOp(i.Arg)&^here == 0 {
				m.stack = append(m.stack, i.Out)
			}
		case syntax.InstFail:
		default:
			m.reading = append(m.reading, pc)
		}
	}
	return matched
}

// CheckAll returns an error if it takes too long to find all matches in a text: every match may
// read the whole rest of the text.
func (r *Regexp) CheckAll(text string) error {
	if err := r.Check(text); err != nil {
		return err
	}
	if n := len(text) + 1; n <= MaxWork/n/(r.size()+1) {
		return nil
	}
	if r.Reads(text, len(text)+1, MaxWork/2/r.size()) > MaxWork/2/r.size() {
		return r.tooLong(text)
	}
	return nil
}

// Reads returns how many characters are read to find up to a number of matches in a text, or more than limit.
func (r *Regexp) Reads(text string, matches, limit int) (sum int) {
	for ; matches > 0 && text != "" && sum <= limit; matches-- {
		reader := &counter{Reader: strings.NewReader(text)}
		at := r.FindReaderIndex(reader)
		if sum += reader.runes; at == nil {
			break
		}
		end := at[1]
		if at[0] == end && end < len(text) {
			_, n := utf8.DecodeRuneInString(text[end:])
			end += n
		}
		if end == 0 || at[0] == len(text) {
			break
		}
		text = text[end:]
	}
	return sum
}

func (r *Regexp) tooLong(text string) error { return &TooLongError{len(text), r.size()} }

// TooLongError is the error for a text that would take too long to be matched.
type TooLongError struct{ length, size int }

func (e *TooLongError) Error() string {
	return fmt.Sprintf("a text of %d bytes is too long for a regular expression of %d instructions", e.length, e.size)
}

// counter counts the runes that are read.
type counter struct {
	*strings.Reader
	runes int
}

func (c *counter) ReadRune() (rune, int, error) {
	c.runes++
	return c.Reader.ReadRune()
}
