package assist

import (
	"slices"
	"strings"
)

// expression is an expression of CEL up to the cursor.
type expression struct {
	tree      *outline
	functions []Function
	self      celType
	tokens    []token
	// inString is set if the cursor is in a string literal.
	inString bool
	// prefix is the name before the cursor. member is set if a dot is before it: receiver is the type
	// of the value before the dot, or namespace the name of a group of functions.
	prefix    string
	member    bool
	receiver  celType
	namespace string
}

const (
	// maxSteps limits the steps of a path whose type is determined, maxMacros the macros in macros.
	maxSteps  = 60
	maxMacros = 10
)

// token is a token of an expression.
type token struct {
	kind tokenKind
	text string
	// match is the index of the matching bracket, or -1.
	match int
}

type tokenKind uint8

const (
	otherToken tokenKind = iota
	identToken
	stringToken
	numberToken
)

// newExpression reads an expression up to the cursor.
func newExpression(tree *outline, self celType, text string, functions []Function) *expression {
	e := &expression{tree: tree, self: self, functions: functions}
	e.read(text)
	if e.inString {
		return e
	}
	tokens := e.tokens
	if n := len(tokens); n > 0 && tokens[n-1].kind == identToken && strings.HasSuffix(text, tokens[n-1].text) {
		e.prefix = tokens[n-1].text
		tokens = tokens[:n-1]
	}
	e.tokens = tokens
	n := len(tokens)
	if n == 0 || tokens[n-1].text != "." {
		return e
	}
	e.member = true
	if n > 1 && tokens[n-2].kind == identToken && (n == 2 || tokens[n-3].text != ".") {
		if name := tokens[n-2].text; e.isNamespace(name) {
			e.namespace = name
			return e
		}
	}
	e.receiver = e.typeAt(n-2, maxSteps)
	return e
}

// isNamespace reports whether a name groups functions and is no variable.
func (e *expression) isNamespace(name string) bool {
	for _, v := range e.variables() {
		if v.name == name {
			return false
		}
	}
	for _, f := range e.functions {
		if f.Receiver == "" && strings.HasPrefix(f.Name, name+".") {
			return true
		}
	}
	return false
}

// read splits a text into tokens.
func (e *expression) read(text string) {
	var open []int
	for i := 0; i < len(text); {
		c := text[i]
		start := i
		t := token{match: -1}
		switch {
		case c == ' ' || c == '\t' || c == '\n' || c == '\r':
			i++
			continue
		case strings.HasPrefix(text[i:], "//"):
			end := strings.IndexByte(text[i:], '\n')
			if end < 0 {
				e.inString = true
				return
			}
			i += end
			continue
		case c == '"' || c == '\'':
			quote := text[i : i+1]
			if strings.HasPrefix(text[i:], strings.Repeat(quote, 3)) {
				quote = strings.Repeat(quote, 3)
			}
			raw := len(e.tokens) > 0 && e.tokens[len(e.tokens)-1].text == "r"
			for i += len(quote); ; i++ {
				if i >= len(text) {
					e.inString = true
					return
				}
				if text[i] == '\\' && !raw {
					i++
				} else if strings.HasPrefix(text[i:], quote) {
					i += len(quote)
					break
				}
			}
			t.kind = stringToken
		case c >= '0' && c <= '9':
			for i < len(text) && (isIdent(text[i]) || text[i] == '.' && i+1 < len(text) && text[i+1] >= '0' && text[i+1] <= '9') {
				i++
			}
			t.kind = numberToken
		case isIdent(c):
			for i < len(text) && isIdent(text[i]) {
				i++
			}
			t.kind = identToken
		case c == '.' && strings.HasPrefix(text[i:], ".?"):
			i += 2 // an optional field
			e.tokens = append(e.tokens, token{text: ".", match: -1})
			continue
		default:
			i++
			switch c {
			case '(', '[', '{':
				open = append(open, len(e.tokens))
			case ')', ']', '}':
				if n := len(open); n > 0 {
					t.match = open[n-1]
					e.tokens[t.match].match = len(e.tokens)
					open = open[:n-1]
				}
			}
		}
		t.text = text[start:i]
		e.tokens = append(e.tokens, t)
	}
}

// typeAt returns the type of the expression that ends with a token.
func (e *expression) typeAt(i, depth int) celType {
	unknown := celType{name: "dyn"}
	if i < 0 || depth <= 0 {
		return unknown
	}
	switch t := e.tokens[i]; {
	case t.kind == stringToken:
		return celType{name: "string"}
	case t.kind == numberToken:
		return celType{name: "int"}
	case t.kind == identToken && i > 0 && e.tokens[i-1].text == ".":
		return e.field(e.typeAt(i-2, depth-1), t.text)
	case t.kind == identToken:
		return e.variable(t.text, i, depth-1)
	case t.text == "]" && t.match > 0:
		base := e.tokens[t.match-1]
		if base.kind == identToken || base.text == ")" || base.text == "]" {
			return e.tree.element(e.typeAt(t.match-1, depth-1))
		}
		return celType{name: "list"}
	case t.text == "]":
		return celType{name: "list"}
	case t.text == "}":
		return celType{name: "map"}
	case t.text == ")" && t.match >= 0:
		name := t.match - 1
		switch {
		case name < 0 || e.tokens[name].kind != identToken:
			return e.typeAt(i-1, depth-1)
		case name > 1 && e.tokens[name-1].text == ".":
			if before := e.tokens[name-2]; before.kind == identToken {
				if f := e.function("", before.text+"."+e.tokens[name].text); f != nil {
					return e.result(f, unknown)
				}
			}
			receiver := e.typeAt(name-2, depth-1)
			return e.result(e.function(receiver.name, e.tokens[name].text), receiver)
		}
		return e.result(e.function("", e.tokens[name].text), unknown)
	}
	return unknown
}

// field returns the type of a field of an object or of an entry of a map.
func (e *expression) field(t celType, name string) celType {
	for _, f := range e.tree.fields(t) {
		if f.name == name {
			return f.of
		}
	}
	if t.name == "map" {
		return e.tree.element(t)
	}
	return celType{name: "dyn"}
}

// function returns the function with a receiver and a name, or nil.
func (e *expression) function(receiver, name string) *Function {
	for i := range e.functions {
		if f := &e.functions[i]; f.Name == name && (f.Receiver == receiver || receiver == "dyn" && f.Receiver != "") {
			return f
		}
	}
	return nil
}

// result returns the type of the result of a function.
func (e *expression) result(f *Function, receiver celType) celType {
	if f == nil {
		return celType{name: "dyn"}
	}
	switch name := f.result(); name {
	case "receiver":
		return receiver
	case "elem":
		return e.tree.element(receiver)
	default:
		base, elem, ok := strings.Cut(strings.TrimSuffix(name, ")"), "(")
		if ok {
			return celType{name: base, elemName: elem}
		}
		return celType{name: name}
	}
}

// variable is a variable of an expression.
type variable struct {
	name, doc string
	of        celType
}

// variables returns the variables at the cursor: those of the macros around it, the innermost first,
// self and oldSelf.
func (e *expression) variables() (all []variable) {
	for _, j := range e.calls(len(e.tokens)) {
		for _, name := range e.macroNames(j, len(e.tokens)) {
			all = append(all, variable{name: name, of: e.macroVariable(j, len(e.tokens), name, maxSteps)})
		}
	}
	return append(all, variable{"self", "The value that the rule is about.", e.self},
		variable{"oldSelf", "The value before an update. A rule that uses it is evaluated on updates only.", e.self})
}

// variable returns the type of the variable with a name before a token.
func (e *expression) variable(name string, at, depth int) celType {
	for _, j := range e.calls(at) {
		if slices.Contains(e.macroNames(j, at), name) {
			return e.macroVariable(j, at, name, depth)
		}
	}
	if name == "self" || name == "oldSelf" {
		return e.self
	}
	return celType{name: "dyn"}
}

// calls returns the opening parentheses of the methods whose arguments include a token, the innermost
// first.
func (e *expression) calls(at int) (calls []int) {
	for j := at - 1; j > 2; j-- {
		switch t := e.tokens[j]; {
		case t.text == ")" && t.match >= 0:
			j = t.match // a call that has ended
		case t.text == "(" && e.tokens[j-2].text == "." && len(calls) < maxMacros:
			calls = append(calls, j)
		}
	}
	return calls
}

// macroNames returns the variables of the macro whose arguments start after token j.
func (e *expression) macroNames(j, at int) []string {
	comma := func(i int) bool { return i+1 < at && e.tokens[i].kind == identToken && e.tokens[i+1].text == "," }
	if !comma(j + 1) {
		return nil
	}
	name := e.tokens[j+1].text
	switch e.tokens[j-1].text {
	case "optMap", "optFlatMap", "bind", "map", "sortBy":
		return []string{name}
	case "all", "exists", "exists_one", "existsOne", "filter", "transformList", "transformMap", "transformMapEntry":
		if comma(j + 3) {
			return []string{name, e.tokens[j+3].text}
		}
		return []string{name}
	}
	return nil
}

// macroVariable returns the type of a variable of the macro whose arguments start after token j.
func (e *expression) macroVariable(j, at int, name string, depth int) celType {
	switch e.tokens[j-1].text {
	case "optMap", "optFlatMap", "bind":
		return celType{name: "dyn"}
	}
	receiver := e.typeAt(j-3, depth-1)
	key := celType{name: "int"}
	if receiver.name == "map" {
		key = celType{name: "string"}
	}
	switch names := e.macroNames(j, at); {
	case len(names) == 2 && names[0] == name, len(names) == 1 && receiver.name == "map":
		return key
	}
	return e.tree.element(receiver)
}
