package bounds

import (
	"strings"
	"unicode/utf8"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
)

// joining copies the texts of a list and a separator between them.
func joining(args []ref.Val) int {
	between := 0
	if len(args) > 1 {
		between = textLength(args[1])
	}
	n := weigh(args[0], copiedPerStep, maxWork)
	return n + times(length(args[0]), between)/copiedPerStep
}

// formattedWork is the work of writing one value.
const formattedWork = 5

// formatting writes the values in a list, each at most once for each clause of the format, and as many
// digits as the format asks for.
func formatting(args []ref.Val) int {
	format, _ := args[0].(types.String)
	n := len(format)/copiedPerStep + digits(string(format))
	return n + times(formattedWork, weigh(args[1], copiedPerStep, maxWork))
}

// digits returns the sum of the numbers in a text, which are precisions of a format.
func digits(format string) int {
	sum, number := 0, 0
	for i := range len(format) {
		if c := format[i]; c >= '0' && c <= '9' {
			number = min(number*10+int(c-'0'), maxWork+1)
			continue
		}
		sum, number = min(sum+number, maxWork+1), 0
	}
	return sum
}

// replacing copies a text and what it replaces.
func replacing(args []ref.Val) int {
	return (textLength(args[0])+sizeOfReplacement(args))/copiedPerStep + searching(args)
}

func splitting(args []ref.Val) int { return textLength(args[0])/copiedPerStep + searching(args) }

// shortText is the length of a text for which no search takes longer than to read the other text.
const shortText = 64

// searching is the work of searching the first argument for the second with package strings. If that is
// long, the search may compare it with every sixteenth place.
func searching(args []ref.Val) int {
	if len(args) < 2 || textLength(args[1]) <= shortText {
		return 1
	}
	return times(textLength(args[0])/16, textLength(args[1])) / 1000
}

// sizeOfReplacement returns the length of the result of replace.
func sizeOfReplacement(args []ref.Val) int {
	if len(args) < 3 {
		return 0
	}
	text, isText := args[0].(types.String)
	old, isOld := args[1].(types.String)
	with, isWith := args[2].(types.String)
	if !isText || !isOld || !isWith || len(with) <= len(old) {
		return 0
	}
	n := strings.Count(string(text), string(old))
	if len(args) > 3 {
		if limit, ok := args[3].(types.Int); ok && limit >= 0 {
			n = min(n, int(limit))
		}
	}
	return len(text) + n*(len(with)-len(old))
}

// indexOf and lastIndexOf find texts in the time that it takes to read them. Those of CEL compare the
// whole text at each place.
func indexOf(args []ref.Val) (ref.Val, bool)     { return index(args, false) }
func lastIndexOf(args []ref.Val) (ref.Val, bool) { return index(args, true) }

// index returns false if it is not about texts.
func index(args []ref.Val, last bool) (ref.Val, bool) {
	if len(args) < 2 || len(args) > 3 {
		return nil, false
	}
	text, isText := args[0].(types.String)
	part, isPart := args[1].(types.String)
	if !isText || !isPart {
		return nil, false
	}
	s, sub := normalized(string(text)), normalized(string(part))
	at := types.Int(0)
	if last {
		at = types.Int(utf8.RuneCountInString(s) - 1)
	}
	if len(args) == 3 {
		offset, ok := args[2].(types.Int)
		if !ok {
			return nil, false
		}
		if at = offset; at < 0 {
			return types.NewErr("index out of range: %d", int(at)), true
		}
	}
	if sub == "" {
		return emptyAt(s, at, last && len(args) == 2), true
	}
	if last {
		return types.Int(lastPlace(s, sub, int(at))), true
	}
	return types.Int(place(s, sub, int(at))), true
}

// normalized returns a text in which bytes that are not UTF-8 are replaced, as CEL does.
func normalized(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	return string([]rune(s))
}

// emptyAt returns where an empty text is in s, if the search starts at a place, or at the end.
func emptyAt(s string, at types.Int, atEnd bool) ref.Val {
	end := types.Int(utf8.RuneCountInString(s))
	if atEnd {
		return end
	}
	return min(at, end)
}

// bytesBefore returns the number of bytes of the first characters of s.
func bytesBefore(s string, characters int) int {
	if characters >= len(s) {
		return len(s)
	}
	for i := range s {
		if characters == 0 {
			return i
		}
		characters--
	}
	return len(s)
}

// place returns the first place of sub in s, in characters, from a place on, or -1.
func place(s, sub string, from int) int {
	start := bytesBefore(s, from)
	if len(sub) <= shortText {
		return characters(s, start, strings.Index(s[start:], sub))
	}
	for at := range places(s[start:], sub) {
		return characters(s, start, at)
	}
	return -1
}

// characters returns the number of characters before a place, which is -1 or a number of bytes after start.
func characters(s string, start, at int) int {
	if at < 0 {
		return -1
	}
	return utf8.RuneCountInString(s[:start+at])
}

// lastPlace returns the last place of sub in s, in characters, up to a place, or -1. If the place is
// behind the text, it returns -1, too.
func lastPlace(s, sub string, to int) int {
	if to >= utf8.RuneCountInString(s) {
		return -1
	}
	end := min(len(s), bytesBefore(s, to)+len(sub))
	if len(sub) <= shortText {
		return characters(s, 0, strings.LastIndex(s[:end], sub))
	}
	found := -1
	for at := range places(s[:end], sub) {
		found = at
	}
	return characters(s, 0, found)
}

// places yields all places of sub in s in bytes, by the algorithm of Knuth, Morris and Pratt.
func places(s, sub string) func(yield func(int) bool) {
	return func(yield func(int) bool) {
		if len(sub) > len(s) {
			return
		}
		// Where the search goes on after i bytes of sub have matched.
		next := make([]int32, len(sub)+1)
		next[0] = -1
		for i, k := 0, int32(-1); i < len(sub); {
			for k >= 0 && sub[i] != sub[k] {
				k = next[k]
			}
			i, k = i+1, k+1
			next[i] = k
		}
		matched := int32(0)
		for i := range len(s) {
			for matched >= 0 && (int(matched) == len(sub) || s[i] != sub[matched]) {
				matched = next[matched]
			}
			if matched++; int(matched) == len(sub) && !yield(i+1-len(sub)) {
				return
			}
		}
	}
}
