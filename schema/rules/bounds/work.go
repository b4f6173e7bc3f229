package bounds

import (
	"reflect"
	"sync"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"

	apiservercel "k8s.io/apiserver/pkg/cel"
)

// The work of a call is counted in steps. A step is to visit one value, which takes about a tenth of a
// microsecond, or as long as that: to convert copiedPerStep bytes, or to read readPerStep bytes.
const (
	// maxWork is the largest work of one call. Nothing interrupts a call, so it must take less than a
	// second. The largest objects of requests have fewer values.
	maxWork       = 5_000_000
	copiedPerStep = 20
	readPerStep   = 256
	// stepsPerCost is how many steps cost 1. Evaluations of loops take about as long for a cost of 1.
	stepsPerCost = 10
)

// Costs for evaluations that do not track them: of a value that is visited, and of a byte that is
// read or copied. To read ReadPerVisit bytes costs as much as to visit a value.
const (
	VisitCost    = 1.0 / stepsPerCost
	ReadCost     = VisitCost / readPerStep
	CopyCost     = VisitCost / copiedPerStep
	ReadPerVisit = readPerStep
)

// meter returns the work of a call. If that is more than maxWork, the result is any number above maxWork.
type meter func(args []ref.Val) int

// scale counts the values in a value. A value that stands in many places counts for each, because the
// functions of CEL visit it again.
type scale struct {
	left    int  // what may still be counted
	perStep int  // the number of bytes of a text that count like a value
	made    bool // whether a list or map of an object counts as one value
}

// weigh returns the number of values in a value, or a number above most.
func weigh(v ref.Val, perStep, most int) int {
	s := scale{left: most, perStep: perStep}
	s.value(v)
	return most - s.left
}

func (s *scale) text(length int) { s.left -= 1 + length/s.perStep }

func (s *scale) value(v ref.Val) {
	switch v := v.(type) {
	case types.String:
		s.text(len(v))
	case types.Bytes:
		s.text(len(v))
	case *types.Optional:
		s.left--
		if v.HasValue() {
			s.value(v.GetValue())
		}
	case apiservercel.URL:
		s.text(lengthOfURL(v))
	case apiservercel.Semver:
		s.text(lengthOfVersion(v))
	case traits.Lister:
		s.list(v)
	case traits.Mapper:
		s.mapping(v)
	default:
		s.other(v)
	}
}

// other counts a value that is not of CEL. The objects of mutating policies do not export their fields.
func (s *scale) other(v ref.Val) {
	s.left--
	if v == nil {
		return
	}
	if v.Type() == types.UnknownType {
		s.native(v.Value())
		return
	}
	object := reflect.ValueOf(v)
	if object.Kind() != reflect.Pointer || object.Elem().Kind() != reflect.Struct {
		return
	}
	f := object.Elem().FieldByName("fields")
	if !f.IsValid() || f.Type() != reflect.TypeFor[map[string]ref.Val]() {
		return
	}
	for _, field := range reflect.NewAt(f.Type(), f.Addr().UnsafePointer()).Elem().Interface().(map[string]ref.Val) {
		if s.left < 0 {
			return
		}
		s.value(field)
	}
}

func (s *scale) list(l traits.Lister) {
	if s.made && !isMade(l) {
		s.left--
		return
	}
	if n, ok := parsed[[]any](l); ok {
		s.native(n)
		return
	}
	size := length(l)
	s.left--
	if size > s.left {
		s.left = -1
		return
	}
	for i := types.Int(0); i < types.Int(size) && s.left >= 0; i++ {
		s.value(l.Get(i))
	}
}

func (s *scale) mapping(m traits.Mapper) {
	if s.made && !isMade(m) {
		s.left--
		return
	}
	if n, ok := parsed[map[string]any](m); ok {
		s.native(n)
		return
	}
	s.left--
	if length(m) > s.left {
		s.left = -1
		return
	}
	for it := m.Iterator(); s.left >= 0 && it.HasNext() == types.True; {
		key := it.Next()
		s.value(key)
		if value, found := m.Find(key); found {
			s.value(value)
		}
	}
}

// native counts the values of a part of an object.
func (s *scale) native(v any) {
	switch v := v.(type) {
	case string:
		s.text(len(v))
	case []any:
		s.left--
		for _, item := range v {
			if s.left < 0 {
				return
			}
			s.native(item)
		}
	case map[string]any:
		s.left--
		for key, value := range v {
			if s.left < 0 {
				return
			}
			s.text(len(key))
			s.native(value)
		}
	default:
		s.left--
	}
}

// joinedList is the type of lists that are made of two others, which must not be asked for their values.
var joinedList = sync.OnceValue(func() reflect.Type {
	one := types.NewRefValList(types.DefaultTypeAdapter, []ref.Val{types.True})
	return reflect.TypeOf(one.(traits.Adder).Add(one))
})

// isMade reports whether an expression has made a list or a map.
func isMade(v ref.Val) bool {
	if reflect.TypeOf(v) == joinedList() {
		return true
	}
	switch v.Value().(type) {
	case []ref.Val, map[ref.Val]ref.Val:
		return true
	}
	return false
}

// parsed returns the list or the map of a custom resource of which v is a view. The lists and maps of CEL
// tell whether they are empty, those views do not.
func parsed[T any](v any) (native T, ok bool) {
	if _, ofCEL := v.(traits.Zeroer); ofCEL {
		return native, false
	}
	native, ok = v.(ref.Val).Value().(T)
	return native, ok
}

// length returns the size of a list or a map, which is known.
func length(v any) int {
	if sized, ok := v.(traits.Sizer); ok {
		if n, ok := sized.Size().(types.Int); ok {
			return max(0, int(n))
		}
	}
	return 0
}

func lengthOfURL(u apiservercel.URL) int {
	if u.URL == nil {
		return 0
	}
	return len(u.Host) + len(u.Path) + len(u.RawPath) + len(u.RawQuery) + len(u.Fragment) + len(u.Opaque)
}

func lengthOfVersion(v apiservercel.Semver) int {
	n := 0
	for _, p := range v.Pre {
		n += 1 + len(p.VersionStr)
	}
	for _, b := range v.Build {
		n += 1 + len(b)
	}
	return n
}

// isScalar reports whether a value has no others in it.
func isScalar(v ref.Val) bool {
	switch v.(type) {
	case types.String, types.Int, types.Bool, types.Double, types.Uint, types.Null, types.Bytes, types.Timestamp, types.Duration:
		return true
	}
	return false
}

// textLength returns the number of bytes of a text.
func textLength(v ref.Val) int {
	switch v := v.(type) {
	case types.String:
		return len(v)
	case types.Bytes:
		return len(v)
	}
	return 0
}

// huge is more than any work, and small enough for sums.
const huge = 1 << 50

// times returns a product of two numbers that are not negative, or huge if it is more.
func times(a, b int) int {
	if a > 0 && b > huge/a {
		return huge
	}
	return a * b
}
