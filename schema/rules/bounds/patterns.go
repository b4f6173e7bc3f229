package bounds

import (
	"regexp"
	"regexp/syntax"
	"strings"
	"unicode/utf8"

	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"

	"espalier.dev/internal/rx"
)

const (
	// matchedPerStep is how many instructions a step of matching executes, each at one place in the text.
	matchedPerStep = 40
	// compiledWork is the work of compiling an instruction.
	compiledWork = 4
	// rangeWork is that of a range of characters without regard to case.
	rangeWork = 60_000
)

// matching matches a text with a pattern. It executes each instruction of the pattern at most once at each
// place in the text.
func matching(args []ref.Val) int {
	if len(args) < 2 {
		return 1
	}
	text, pattern := textLength(args[0]), args[1]
	source, _ := pattern.(types.String)
	ranges := times(foldedRanges(string(source)), rangeWork)
	if ranges > maxWork {
		return ranges
	}
	if !strings.Contains(string(source), "{") {
		// An instruction has at least half a byte. That is less than the cost in Kubernetes.
		return 1 + ranges + times(text, 2*len(source))/matchedPerStep
	}
	n := instructions(string(source))
	return 1 + ranges + times(n, text)/matchedPerStep + times(compiledWork, n)
}

// CostOfPattern returns what it costs at most to match a character with a pattern.
func CostOfPattern(source string) float64 {
	return float64(instructions(source)) / matchedPerStep / stepsPerCost
}

const (
	// stepsPerInstruction are those of compiling an instruction, stepsPerClass those of reading a byte of a pattern that
	// names classes of characters, and stepsPerRange those of a range of characters without regard to case.
	stepsPerInstruction, stepsPerClass, stepsPerRange = 600, 25_000, 7_000_000
)

// stepsOfPattern returns the work of compiling a constant pattern, which an environment does several times.
func stepsOfPattern(e ast.Expr) (steps float64) {
	if e.Kind() != ast.LiteralKind {
		return 0
	}
	source, _ := e.AsLiteral().(types.String)
	text := string(source)
	if strings.Contains(text, `\p`) || strings.Contains(text, `\P`) {
		steps = float64(len(text)) * stepsPerClass
	}
	if n := foldedRanges(text); n > 0 {
		steps += float64(n) * stepsPerRange
		text = caseless.ReplaceAllString(text, "(?s") // to count its instructions would take as long
	}
	return steps + float64(instructions(text))*stepsPerInstruction
}

// foldedRanges returns how many ranges of a pattern may have many characters that are looked at one by one, because
// the pattern does not regard their case.
func foldedRanges(source string) int {
	isLarge := func(r rune) bool { return r >= utf8.RuneSelf }
	if !caseless.MatchString(source) || !strings.ContainsFunc(source, isLarge) && !strings.Contains(source, `\x{`) {
		return 0
	}
	return strings.Count(source, "-")
}

var caseless = regexp.MustCompile(`\(\?[a-zA-Z]*i`)

// instructions returns about the number of instructions of a pattern.
func instructions(source string) int {
	tree, err := syntax.Parse(source, syntax.Perl)
	if err != nil {
		return len(source)
	}
	return sizeOf(tree)
}

func sizeOf(re *syntax.Regexp) int {
	n := 1 + len(re.Rune)
	if re.Op == syntax.OpCharClass {
		n = 1
	}
	for _, sub := range re.Sub {
		n = min(n+sizeOf(sub), maxWork)
	}
	if re.Op == syntax.OpRepeat {
		n = times(n, max(re.Max, re.Min+1, 1))
	}
	return n
}

// findingAll is the work of a call of findAll that has found a number of texts. Each search may have read the
// whole rest of the text. If that matters, the searches are repeated to find out.
func findingAll(args []ref.Val, found, usual int) int {
	text, isText := args[0].(types.String)
	source, isPattern := args[1].(types.String)
	n := matching(args)
	if !isText || !isPattern || times(n, found+1) <= usual {
		return n
	}
	re, err := rx.Compile(string(source), 0)
	if err != nil {
		return n
	}
	return times(re.Reads(string(text), found+1, maxWork*matchedPerStep), instructions(string(source))) / matchedPerStep
}
