package proto

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"

	"espalier.dev/analysis/generate"
)

// lockVersion is the version of the format of lock files.
const lockVersion = 1

// Protobuf reserves these numbers for itself, and allows none above the last.
const (
	firstOwnNumber, lastOwnNumber = 19000, 19999
	maxNumber                     = 1<<29 - 1
)

// Lock holds all names and numbers that the messages of a package ever had. Nothing is removed
// from it: which of its entries are in use depends on the schemas alone.
type Lock struct {
	pkg      string
	messages map[messageKey]*lockMessage
	names    map[string]bool
}

// messageKey identifies a message by what it stands for.
type messageKey struct {
	// in is the name of the message of the object around it, and at the field there. For a
	// kind, in is empty.
	in, at string
	// as is "object", or "list of T", "map of T" or "nullable T" with the type T. Thus
	// messages other than those of objects never change.
	as string
}

// lockMessage has the fields that a message ever had.
type lockMessage struct {
	name   string
	fields map[fieldKey]*lockField
	// names are the names of the fields by their names in JSON, and taken their collision keys.
	names map[string]string
	taken map[string]bool
	last  int32
}

// fieldKey identifies a field.
type fieldKey struct{ json, typ string }

type lockField struct {
	name   string
	number int32
}

// NewLock returns the lock of a package that has not been generated before.
func NewLock(pkg string) *Lock {
	l := &Lock{pkg: pkg, messages: map[messageKey]*lockMessage{}, names: map[string]bool{}}
	for _, name := range []string{objectMetaName, intOrStringName, resourceName} {
		l.names[name] = true
	}
	return l
}

// message returns the entry of a message, which is new if the message is. preferred is the
// name that a new message gets if it is not taken.
func (l *Lock) message(key messageKey, preferred string) *lockMessage {
	if m := l.messages[key]; m != nil {
		return m
	}
	name := preferred
	if key != sharedKey(preferred) {
		name = unique(preferred, func(n string) bool { return l.names[n] })
	}
	m := newLockMessage(name)
	l.add(key, m)
	return m
}

func newLockMessage(name string) *lockMessage {
	return &lockMessage{name: name, fields: map[fieldKey]*lockField{}, names: map[string]string{}, last: firstNumber - 1,
		taken: map[string]bool{collisionKey(emptyName): true, collisionKey(unknownName): true}}
}

func (l *Lock) add(key messageKey, m *lockMessage) {
	l.messages[key] = m
	l.names[m.name] = true
}

// assign sets the name and the number of a field with the given name in JSON.
func (m *lockMessage) assign(f *field, property string) {
	key := fieldKey{property, f.lockType()}
	known := m.fields[key]
	if known == nil {
		name, ok := m.names[property]
		if !ok {
			name = unique(fieldName(property), func(n string) bool { return m.taken[collisionKey(n)] })
		}
		number := m.last + 1
		if number == firstOwnNumber {
			number = lastOwnNumber + 1
		}
		known = &lockField{name, number}
		m.add(key, known)
	}
	f.name, f.number = known.name, known.number
}

func (m *lockMessage) add(key fieldKey, f *lockField) {
	m.fields[key] = f
	m.names[key.json] = f.name
	m.taken[collisionKey(f.name)] = true
	m.last = max(m.last, f.number)
}

// reserve sets the numbers and names of fields that out had and has no more.
func (m *lockMessage) reserve(out *message) {
	used := map[int32]bool{}
	names := map[string]bool{}
	for _, f := range out.fields {
		used[f.number], names[f.name] = true, true
	}
	for _, f := range m.fields {
		if !used[f.number] {
			out.reservedNumbers = append(out.reservedNumbers, f.number)
		}
		if !names[f.name] {
			names[f.name] = true
			out.reservedNames = append(out.reservedNames, f.name)
		}
	}
	slices.Sort(out.reservedNumbers)
	slices.Sort(out.reservedNames)
}

// The file has one line for each message and field, so that version control shows and merges
// changes well.
type (
	lockFile struct {
		Comment  string        `json:"comment"`
		Version  int           `json:"version"`
		Package  string        `json:"package"`
		Messages []fileMessage `json:"messages"`
		Checksum string        `json:"checksum"`
	}
	fileMessage struct {
		Name   string      `json:"name"`
		In     string      `json:"in,omitempty"`
		At     string      `json:"at"`
		As     string      `json:"as"`
		Fields []fileField `json:"fields,omitempty"`
	}
	fileField struct {
		Number int32  `json:"number"`
		Name   string `json:"name"`
		JSON   string `json:"json"`
		Type   string `json:"type"`
	}
)

// Bytes returns the content of the lock file.
func (l *Lock) Bytes() []byte {
	var b bytes.Buffer
	line := func(indent string, v any) {
		b.WriteString(indent)
		e := json.NewEncoder(&b)
		e.SetEscapeHTML(false)
		_ = e.Encode(v) // strings and numbers
		b.Truncate(b.Len() - 1)
	}
	b.WriteString("{\n\"comment\": ")
	line("", lockComment)
	fmt.Fprintf(&b, ",\n\"version\": %d,\n\"package\": %q,\n\"messages\": [", lockVersion, l.pkg)
	for i, m := range l.file() {
		fields := m.Fields
		m.Fields = nil
		if i > 0 {
			b.WriteByte(',')
		}
		line("\n", m)
		if len(fields) == 0 {
			continue
		}
		b.Truncate(b.Len() - 1)
		b.WriteString(",\"fields\":[")
		for j, f := range fields {
			if j > 0 {
				b.WriteByte(',')
			}
			line("\n  ", f)
		}
		b.WriteString("]}")
	}
	b.WriteString("\n],\n")
	fmt.Fprintf(&b, "\"checksum\": %q\n}\n", checksum(b.Bytes()))
	return b.Bytes()
}

const lockComment = generate.Marker + " It keeps field numbers stable: commit it with the .proto file."

// file returns the messages sorted by name, with their fields sorted by number.
func (l *Lock) file() []fileMessage {
	messages := make([]fileMessage, 0, len(l.messages))
	for key, m := range l.messages {
		out := fileMessage{Name: m.name, In: key.in, At: key.at, As: key.as}
		for key, f := range m.fields {
			out.Fields = append(out.Fields, fileField{f.number, f.name, key.json, key.typ})
		}
		slices.SortFunc(out.Fields, func(a, b fileField) int { return cmp.Compare(a.Number, b.Number) })
		messages = append(messages, out)
	}
	slices.SortFunc(messages, func(a, b fileMessage) int { return cmp.Compare(a.Name, b.Name) })
	return messages
}

func checksum(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// LockError is why a lock file cannot be used.
type LockError struct {
	Problem LockProblem
	// Detail has the message and field in question, or the error of the JSON parser.
	Detail string
}

// LockProblem is a problem of a lock file.
type LockProblem string

const (
	// LockBroken is a file that is not a lock file, for example because of merge conflicts.
	LockBroken LockProblem = "the lock file cannot be read"
	// LockMissing is a .proto file without its lock file.
	LockMissing LockProblem = "the lock file is missing"
	// LockEdited is a file whose checksum does not match.
	LockEdited LockProblem = "the lock file was edited"
	// LockNewer is a file in a format that is not supported.
	LockNewer LockProblem = "the lock file has an unsupported version"
	// LockForeign is the lock file of another package.
	LockForeign LockProblem = "the lock file belongs to another package"
	// LockInconsistent is a file in which names or numbers are used twice or are not allowed.
	LockInconsistent LockProblem = "the lock file is inconsistent"
)

// Error returns the problem and how to fix it.
func (e *LockError) Error() string {
	return fmt.Sprintf("%s: %s: restore it from version control and run espalier generate again; without it, fields get new numbers",
		e.Problem, e.Detail)
}

// ParseLock returns the lock of a package from the content of its lock file.
func ParseLock(data []byte, pkg string) (*Lock, error) {
	var file lockFile
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(&file); err != nil {
		return nil, &LockError{LockBroken, err.Error()}
	}
	if file.Version != lockVersion {
		return nil, &LockError{LockNewer, fmt.Sprintf("version %d, supported is %d", file.Version, lockVersion)}
	}
	l := NewLock(file.Package)
	for _, m := range file.Messages {
		if err := l.read(m); err != nil {
			return nil, err
		}
	}
	switch {
	case !bytes.Equal(l.Bytes(), bytes.ReplaceAll(data, []byte("\r\n"), []byte("\n"))):
		return nil, &LockError{LockEdited, "it is not as espalier generate wrote it"}
	case file.Package != pkg:
		return nil, &LockError{LockForeign, fmt.Sprintf("%q, not %q", file.Package, pkg)}
	}
	return l, nil
}

// read adds a message of the file.
func (l *Lock) read(in fileMessage) error {
	bad := func(format string, args ...any) error {
		return &LockError{LockInconsistent, "message " + in.Name + ": " + fmt.Sprintf(format, args...)}
	}
	key := messageKey{in.In, in.At, in.As}
	switch {
	case in.Name != identifier(in.Name):
		return bad("the name is not an identifier")
	case l.names[in.Name] && !l.isShared(key, in.Name):
		return bad("the name is used twice")
	case l.messages[key] != nil:
		return bad("it stands for the same as %s", l.messages[key].name)
	}
	m := newLockMessage(in.Name)
	numbers := map[int32]bool{}
	for _, f := range in.Fields {
		key := fieldKey{f.JSON, f.Type}
		name, renamed := m.names[f.JSON]
		switch {
		case f.Number < firstNumber || f.Number > maxNumber || f.Number >= firstOwnNumber && f.Number <= lastOwnNumber:
			return bad("field %q has the number %d", f.JSON, f.Number)
		case numbers[f.Number]:
			return bad("the number %d is used twice", f.Number)
		case m.fields[key] != nil:
			return bad("field %q has two numbers", f.JSON)
		case renamed && name != f.Name:
			return bad("field %q has two names", f.JSON)
		case f.Name != identifier(f.Name), !renamed && m.taken[collisionKey(f.Name)]:
			return bad("the name %q of field %q is used twice or is not an identifier", f.Name, f.JSON)
		}
		numbers[f.Number] = true
		m.add(key, &lockField{f.Name, f.Number})
	}
	l.add(key, m)
	return nil
}

// isShared reports whether the key is that of a message that all packages share.
func (l *Lock) isShared(key messageKey, name string) bool {
	return key == sharedKey(name) && l.messages[key] == nil
}

// sharedKey returns the key of a message that all packages share.
func sharedKey(name string) messageKey { return messageKey{at: name, as: "shared"} }
