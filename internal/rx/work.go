package rx

import (
	"fmt"
	"regexp"
	"regexp/syntax"
	"strings"
	"sync"
	"unicode/utf8"
)

// MaxWork is the largest product of the number of instructions of a regular expression and the
// length of a text. Matching takes at most as many steps, each a few nanoseconds, and nothing
// interrupts it. The usual pattern has less than 100 instructions, which is enough for 2.6 MB.
const MaxWork = 1 << 28

// maxRepeat is a bound of the number of instructions for each byte of a pattern: Go limits nested
// repetitions to 1000 in all, and a case-insensitive or optional byte needs two instructions.
const maxRepeat = 2000

// Regexp is a regular expression that does not match texts if that could take too long.
type Regexp struct {
	*regexp.Regexp
	source string
	// size is the number of instructions. It is not computed for short texts.
	size func() int
}

// Compile compiles a regular expression, without its groups if it has more than max.
func Compile(source string, max int) (*Regexp, error) {
	source = Uncaptured(source, max)
	re, err := regexp.Compile(source)
	if err != nil {
		return nil, err
	}
	return &Regexp{re, source, sync.OnceValue(func() int { return instructions(source) })}, nil
}

// instructions returns the number of instructions of a valid pattern.
func instructions(source string) int {
	tree, err := syntax.Parse(source, syntax.Perl)
	if err != nil {
		return len(source)
	}
	prog, err := syntax.Compile(tree.Simplify())
	if err != nil {
		return len(source)
	}
	return len(prog.Inst)
}

// Match reports whether the pattern matches a text. The error is that the text is too long.
func (r *Regexp) Match(text string) (bool, error) {
	if err := r.Check(text); err != nil {
		return false, err
	}
	return r.MatchString(text), nil
}

// Check returns an error if a text is too long to be matched once.
func (r *Regexp) Check(text string) error {
	if len(text) <= MaxWork/maxRepeat/(len(r.source)+1) || len(text) <= MaxWork/r.size() {
		return nil
	}
	return r.tooLong(text)
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
	for work, rest := 0, text; rest != ""; {
		reader := &counter{Reader: strings.NewReader(rest)}
		at := r.FindReaderIndex(reader)
		// A reader takes several times as long as a string.
		if work += reader.runes; work > MaxWork/4/r.size() {
			return r.tooLong(text)
		}
		if at == nil {
			break
		}
		end := at[1]
		if at[0] == at[1] && end < len(rest) {
			_, n := utf8.DecodeRuneInString(rest[end:])
			end += n
		}
		if end == 0 || at[0] == len(rest) {
			break
		}
		rest = rest[end:]
	}
	return nil
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
