package bounds

import (
	"regexp/syntax"
	"strings"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"

	"espalier.dev/internal/rx"
)

const (
	// matchedPerStep is how many instructions a step of matching executes, each at one place in the text.
	matchedPerStep = 40
	// compiledWork is the work of compiling an instruction.
	compiledWork = 4
)

// matching matches a text with a pattern. It executes each instruction of the pattern at most once at each
// place in the text.
func matching(args []ref.Val) int {
	if len(args) < 2 {
		return 1
	}
	text, pattern := textLength(args[0]), args[1]
	source, _ := pattern.(types.String)
	if !strings.Contains(string(source), "{") {
		// An instruction has at least half a byte. That is less than the cost in Kubernetes.
		return 1 + times(text, 2*len(source))/matchedPerStep
	}
	n := instructions(string(source))
	return 1 + times(n, text)/matchedPerStep + times(compiledWork, n)
}

// CostOfPattern returns what it costs at most to match a character with a pattern.
func CostOfPattern(source string) float64 {
	return float64(instructions(source)) / matchedPerStep / stepsPerCost
}

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
