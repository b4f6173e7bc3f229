// Package jsonx reads JSON text into the values of Kubernetes' unstructured objects: nil,
// bool, int64, float64, string, []any and map[string]any. It accepts and rejects the same
// texts as sigs.k8s.io/json and returns the same values, but the caller is in control: a
// Reader reads the next value, enters it, or skips it without building anything. Copy copies
// such values.
package jsonx

import (
	"fmt"
	"strconv"
	"strings"
	"unsafe"
)

// MaxDepth is the maximum nesting of arrays and objects.
const MaxDepth = 10000

// SyntaxError is returned for invalid JSON.
type SyntaxError struct {
	// Offset is the number of bytes read before the error.
	Offset int
	// Problem describes the error.
	Problem string
}

// Error returns the problem and the offset.
func (e *SyntaxError) Error() string {
	return fmt.Sprintf("invalid JSON at byte %d: %s", e.Offset, e.Problem)
}

// entry is one member of an object, or one item of an array, that is being read.
type entry struct {
	key   string
	value any
}

// Reader reads one JSON text. Its zero value is ready for Reset.
//
// The strings that it returns share memory with one copy of the text, or with the text itself if
// Borrow was called.
type Reader struct {
	src   string
	pos   int
	depth int
	// stack holds the members of all open objects and arrays, so that each map and slice is
	// allocated once, in its final size.
	stack []entry
	// high is the maximum length of stack, which bounds what Release must clear.
	high int
	// nameStart and nameEnd enclose the last name that NextMember read.
	nameStart, nameEnd int
	// Duplicates is set if an object had two members of the same name. The last one won.
	Duplicates bool
}

// Reset prepares r to read src.
func (r *Reader) Reset(src []byte) {
	r.src = string(src)
	r.pos = 0
	r.depth = 0
	r.Duplicates = false
}

// Borrow is Reset without a copy of the text, for callers that read a little of it. src must not be
// changed while r or a string that r has returned is in use: callers clone the strings that they
// keep.
func (r *Reader) Borrow(src []byte) {
	r.Reset(nil)
	r.src = unsafe.String(unsafe.SliceData(src), len(src))
}

// Release drops all references that r holds, so that r can be pooled.
func (r *Reader) Release() {
	clear(r.stack[:max(r.high, len(r.stack))])
	r.stack = r.stack[:0]
	r.high = 0
	r.src = ""
}

// Offset returns the number of bytes read.
func (r *Reader) Offset() int { return r.pos }

func (r *Reader) fail(problem string) error {
	return &SyntaxError{Offset: r.pos, Problem: problem}
}

func (r *Reader) unexpected(where string) error {
	if r.pos >= len(r.src) {
		return r.fail("unexpected end of input " + where)
	}
	return r.fail(fmt.Sprintf("unexpected character %q %s", r.src[r.pos], where))
}

// Peek skips white space and returns the first byte of the next token, or 0 at the end.
func (r *Reader) Peek() byte {
	for r.pos < len(r.src) {
		switch c := r.src[r.pos]; c {
		case ' ', '\t', '\n', '\r':
			r.pos++
		default:
			return c
		}
	}
	return 0
}

// End returns an error unless only white space is left.
func (r *Reader) End() error {
	if r.Peek(); r.pos < len(r.src) {
		return r.unexpected("after the value")
	}
	return nil
}

// EnterObject steps into the object whose "{" is next.
func (r *Reader) EnterObject() error { return r.enter() }

// EnterArray steps into the array whose "[" is next.
func (r *Reader) EnterArray() error { return r.enter() }

func (r *Reader) enter() error {
	if r.depth++; r.depth > MaxDepth {
		return r.fail("exceeded max depth")
	}
	r.pos++
	return nil
}

// NextMember returns the name of the next member of the entered object and leaves r at its
// value; more is false at the end of the object. n is the number of members read so far.
func (r *Reader) NextMember(n int) (key string, more bool, err error) {
	c := r.Peek()
	if c == '}' {
		r.pos++
		r.depth--
		return "", false, nil
	}
	if n > 0 {
		if c != ',' {
			return "", false, r.unexpected("after a member of an object")
		}
		r.pos++
		c = r.Peek()
	}
	if c != '"' {
		return "", false, r.unexpected("where the name of a member is expected")
	}
	r.nameStart = r.pos
	if key, err = r.String(); err != nil {
		return "", false, err
	}
	r.nameEnd = r.pos
	if r.Peek() != ':' {
		return "", false, r.unexpected("after the name of a member")
	}
	r.pos++
	return key, true, nil
}

// Name returns the offsets of the last name that NextMember returned, including its quotes.
func (r *Reader) Name() (start, end int) { return r.nameStart, r.nameEnd }

// NextItem moves to the next item of the entered array; it returns false at the end of the
// array. n is the number of items read so far.
func (r *Reader) NextItem(n int) (more bool, err error) {
	c := r.Peek()
	if c == ']' {
		r.pos++
		r.depth--
		return false, nil
	}
	if n > 0 {
		if c != ',' {
			return false, r.unexpected("after an item of an array")
		}
		r.pos++
		if r.Peek() == ']' {
			return false, r.unexpected("where an item is expected")
		}
	}
	return true, nil
}

// Members reads the object whose "{" is next. It calls visit with the name of each
// member; visit must read the value.
func (r *Reader) Members(visit func(name string) error) error {
	r.Peek()
	if err := r.EnterObject(); err != nil {
		return err
	}
	for n := 0; ; n++ {
		name, more, err := r.NextMember(n)
		if err != nil || !more {
			return err
		}
		if err := visit(name); err != nil {
			return err
		}
	}
}

// Member finds a member of the object src. The text of its value is src[start:end], the last one
// of n. The rest of the object, which may be large, is only skipped.
func Member(src []byte, name string) (start, end, n int, err error) {
	var r Reader
	r.Borrow(src)
	if r.Peek() != '{' {
		return 0, 0, 0, r.unexpected("instead of an object")
	}
	err = r.Members(func(key string) error {
		r.Peek()
		at := r.Offset()
		if err := r.SkipRaw(); err != nil {
			return err
		}
		if key == name {
			start, end, n = at, r.Offset(), n+1
		}
		return nil
	})
	if err == nil {
		err = r.End()
	}
	return start, end, n, err
}

// Items reads the array whose "[" is next. It calls visit with the index of each item;
// visit must read the item.
func (r *Reader) Items(visit func(i int) error) error {
	r.Peek()
	if err := r.EnterArray(); err != nil {
		return err
	}
	for n := 0; ; n++ {
		more, err := r.NextItem(n)
		if err != nil || !more {
			return err
		}
		if err := visit(n); err != nil {
			return err
		}
	}
}

// Mark returns the position from which Object or Array collects pushed values.
func (r *Reader) Mark() int { return len(r.stack) }

// Push adds a member (or, with an empty key, an item) to the collected values.
func (r *Reader) Push(key string, value any) {
	r.stack = append(r.stack, entry{key, value})
	if len(r.stack) > r.high {
		r.high = len(r.stack)
	}
}

// removal is the value of a member that removes earlier ones of its name.
var removal any = new(struct{ _ byte })

// PushRemoval removes the member of this name that was pushed before, if any. Like a later
// member, it wins.
func (r *Reader) PushRemoval(key string) { r.Push(key, removal) }

// Object returns the members pushed since mark as an object.
func (r *Reader) Object(mark int) map[string]any {
	members := r.stack[mark:]
	m := make(map[string]any, len(members))
	want := len(members)
	for i := range members {
		if members[i].value == removal {
			delete(m, members[i].key)
			want--
			continue
		}
		m[members[i].key] = members[i].value
	}
	if len(m) != want {
		r.Duplicates = true
	}
	r.stack = r.stack[:mark]
	return m
}

// Array returns the items pushed since mark as an array.
func (r *Reader) Array(mark int) []any {
	items := r.stack[mark:]
	a := make([]any, len(items))
	for i := range items {
		a[i] = items[i].value
	}
	r.stack = r.stack[:mark]
	return a
}

// Value reads the next value of any type.
func (r *Reader) Value() (any, error) {
	switch c := r.Peek(); c {
	case '{':
		return r.object()
	case '[':
		return r.array()
	default:
		return r.Scalar(c)
	}
}

func (r *Reader) object() (any, error) {
	if err := r.enter(); err != nil {
		return nil, err
	}
	mark := r.Mark()
	for n := 0; ; n++ {
		key, more, err := r.NextMember(n)
		if err != nil {
			return nil, err
		}
		if !more {
			return r.Object(mark), nil
		}
		v, err := r.Value()
		if err != nil {
			return nil, err
		}
		r.Push(key, v)
	}
}

func (r *Reader) array() (any, error) {
	if err := r.enter(); err != nil {
		return nil, err
	}
	mark := r.Mark()
	for n := 0; ; n++ {
		more, err := r.NextItem(n)
		if err != nil {
			return nil, err
		}
		if !more {
			return r.Array(mark), nil
		}
		v, err := r.Value()
		if err != nil {
			return nil, err
		}
		r.Push("", v)
	}
}

// Scalar reads the next value, which starts with c and is not an object or array.
func (r *Reader) Scalar(c byte) (any, error) {
	switch c {
	case '"':
		s, err := r.String()
		if err != nil {
			return nil, err
		}
		return s, nil
	case 't':
		return true, r.literal("true")
	case 'f':
		return false, r.literal("false")
	case 'n':
		return nil, r.literal("null")
	case '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
		return r.number()
	}
	return nil, r.unexpected("where a value is expected")
}

// Skip skips the next value without building it. It rejects what Value rejects.
func (r *Reader) Skip() error { return r.skip(false, false) }

// SkipNoting is Skip that sets Duplicates as Value does.
func (r *Reader) SkipNoting() error { return r.skip(true, false) }

// SkipRaw is Skip for callers that keep the text: it accepts numbers that do not fit a
// float64.
func (r *Reader) SkipRaw() error { return r.skip(false, true) }

func (r *Reader) skip(note, raw bool) error {
	switch c := r.Peek(); c {
	case '{':
		if err := r.enter(); err != nil {
			return err
		}
		mark := r.Mark()
		for n := 0; ; n++ {
			key, more, err := r.NextMember(n)
			if err != nil {
				return err
			}
			if !more {
				r.noteDuplicates(mark)
				return nil
			}
			if note {
				r.Push(key, nil)
			}
			if err := r.skip(note, raw); err != nil {
				return err
			}
		}
	case '[':
		if err := r.enter(); err != nil {
			return err
		}
		for n := 0; ; n++ {
			more, err := r.NextItem(n)
			if err != nil || !more {
				return err
			}
			if err := r.skip(note, raw); err != nil {
				return err
			}
		}
	case '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
		text, _, err := r.numberText()
		if err != nil || raw {
			return err
		}
		return r.checkRange(text)
	case '"':
		return r.skipString()
	case 't':
		return r.literal("true")
	case 'f':
		return r.literal("false")
	case 'n':
		return r.literal("null")
	}
	return r.unexpected("where a value is expected")
}

// noteDuplicates drops the members pushed since mark, and sets Duplicates if two have the
// same name.
func (r *Reader) noteDuplicates(mark int) {
	members := r.stack[mark:]
	r.stack = r.stack[:mark]
	if r.Duplicates {
		return
	}
	if len(members) > 16 {
		seen := make(map[string]struct{}, len(members))
		for i := range members {
			seen[members[i].key] = struct{}{}
		}
		r.Duplicates = len(seen) != len(members)
		return
	}
	for i := range members {
		for j := range i {
			if members[i].key == members[j].key {
				r.Duplicates = true
				return
			}
		}
	}
}

func (r *Reader) literal(text string) error {
	if strings.HasPrefix(r.src[r.pos:], text) {
		r.pos += len(text)
		return nil
	}
	for i := 0; i < len(text); i++ {
		if r.pos >= len(r.src) || r.src[r.pos] != text[i] {
			return r.unexpected("in the literal " + text)
		}
		r.pos++
	}
	return nil
}

// numberText reads a number and reports whether it is written as an integer.
func (r *Reader) numberText() (text string, integer bool, err error) {
	start := r.pos
	s := r.src
	i := r.pos
	if i < len(s) && s[i] == '-' {
		i++
	}
	switch {
	case i < len(s) && s[i] == '0':
		i++
	case i < len(s) && '1' <= s[i] && s[i] <= '9':
		for i++; i < len(s) && isDigit(s[i]); i++ {
		}
	default:
		r.pos = i
		return "", false, r.unexpected("in a number")
	}
	integer = true
	if i < len(s) && s[i] == '.' {
		integer = false
		digits := i + 1
		for i++; i < len(s) && isDigit(s[i]); i++ {
		}
		if i == digits {
			r.pos = i
			return "", false, r.unexpected("after the decimal point of a number")
		}
	}
	if i < len(s) && (s[i] == 'e' || s[i] == 'E') {
		integer = false
		i++
		if i < len(s) && (s[i] == '+' || s[i] == '-') {
			i++
		}
		digits := i
		for ; i < len(s) && isDigit(s[i]); i++ {
		}
		if i == digits {
			r.pos = i
			return "", false, r.unexpected("in the exponent of a number")
		}
	}
	r.pos = i
	return s[start:i], integer, nil
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

func (r *Reader) number() (any, error) {
	text, integer, err := r.numberText()
	if err != nil {
		return nil, err
	}
	if integer {
		if n, ok := smallInt(text); ok {
			return n, nil
		}
		if n, err := strconv.ParseInt(text, 10, 64); err == nil {
			return n, nil
		}
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return nil, r.fail("number " + shorten(text) + " does not fit a 64-bit float")
	}
	return f, nil
}

// smallInt converts an integer of at most 18 digits.
func smallInt(text string) (int64, bool) {
	digits := text
	if digits[0] == '-' {
		digits = digits[1:]
	}
	if len(digits) > 18 {
		return 0, false
	}
	var n int64
	for i := 0; i < len(digits); i++ {
		n = n*10 + int64(digits[i]-'0')
	}
	if len(digits) != len(text) {
		n = -n
	}
	return n, true
}

// checkRange rejects a number that does not fit a float64. Most numbers are too
// short to be out of range.
func (r *Reader) checkRange(text string) error {
	if len(text) < 300 && strings.IndexByte(text, 'e') < 0 && strings.IndexByte(text, 'E') < 0 {
		return nil
	}
	if _, err := strconv.ParseFloat(text, 64); err != nil {
		return r.fail("number " + shorten(text) + " does not fit a 64-bit float")
	}
	return nil
}

// shorten keeps error messages readable for any input.
func shorten(text string) string {
	if len(text) > 40 {
		return text[:37] + "..."
	}
	return text
}
