package bounds

import (
	"math/bits"

	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"

	apiservercel "k8s.io/apiserver/pkg/cel"
)

// meters has the functions whose work may exceed their cost in Kubernetes. An evaluation pays for the
// work of these calls. The functions in checked are not called if the work is more than maxWork.
var meters = map[string]meter{
	operators.Equals: equality, operators.NotEquals: equality, operators.In: membership, "includes": search,
	"indexOf": search, "lastIndexOf": search, "distinct": eachWithEach, "sort": sorting, "@sortByAssociatedKeys": sorting,
	"sets.contains": sets, "sets.intersects": sets, "sets.equivalent": sets,
	operators.Add: lists, "slice": lists, "reverse": lists, "flatten": flattening, "lists.range": number,
	"min": values, "max": values, "sum": values, "isSorted": values, "optional.unwrap": lists, "unwrapOpt": lists,
	// CEL checks the type of the argument with an iterator, for which a list of a policy converts all of its values.
	"first": lists, "last": lists,
	"cel.@mapInsert": insertion, "dyn": made,
	"join": joining, "format": formatting, "replace": replacing, "split": splitting,
	"matches": matching, "find": matching, "findAll": matching,
	operators.Less: reading, operators.LessEquals: reading, operators.Greater: reading, operators.GreaterEquals: reading,
	"size": reading, "contains": reading, "startsWith": reading, "endsWith": reading,
	"charAt": copying, "int": copying, "uint": copying, "double": copying, "bool": copying, "duration": copying,
	"timestamp": copying, "isURL": copying, "getQuery": copying, "getEscapedPath": copying,
	"compareTo": reading, "isGreaterThan": reading, "isLessThan": reading,
	"getFullYear": zones, "getMonth": zones, "getDate": zones, "getDayOfMonth": zones, "getDayOfWeek": zones, "getDayOfYear": zones,
	"getHours": zones, "getMinutes": zones, "getSeconds": zones, "getMilliseconds": zones,
}

// checked has the functions whose work can be more than what a request can send, because it is a product,
// or because their arguments have the same values many times.
var checked = map[string]bool{
	"includes": true, "indexOf": true, "lastIndexOf": true, "distinct": true, "sort": true, "@sortByAssociatedKeys": true,
	"sets.contains": true, "sets.intersects": true, "sets.equivalent": true, "slice": true, "reverse": true, "flatten": true,
	"lists.range": true, "min": true, "max": true, "sum": true, "isSorted": true, "optional.unwrap": true, "unwrapOpt": true,
	"dyn": true, "join": true, "format": true, "replace": true, "split": true, "matches": true, "find": true, "findAll": true,
}

// equality visits the values of the smaller argument.
func equality(args []ref.Val) int {
	a, b := args[0], args[1]
	if isScalar(a) || isScalar(b) {
		return 1 + min(textLength(a), textLength(b))/readPerStep
	}
	return weigh(a, readPerStep, weigh(b, readPerStep, maxWork)+1)
}

// membership compares a value with each of a list, or looks a key up.
func membership(args []ref.Val) int {
	list, ok := args[1].(traits.Lister)
	if !ok {
		return 1 + textLength(args[0])/readPerStep
	}
	return comparisons(list, args[0])
}

// search looks for a value in a list, or for a text in a text.
func search(args []ref.Val) int {
	if list, ok := args[0].(traits.Lister); ok {
		return comparisons(list, args[1])
	}
	if isScalar(args[0]) {
		return 1 + (textLength(args[0])+textLength(args[1]))/copiedPerStep
	}
	return equality(args)
}

// comparisons is the work of comparing the values of a list with a value: each comparison visits the
// smaller one.
func comparisons(list traits.Lister, v ref.Val) int {
	size := length(list)
	if isScalar(v) && textLength(v) < readPerStep || size > maxWork {
		return size
	}
	one := weigh(v, readPerStep, maxWork)
	if all := times(size, one); all <= size+maxWork/1000 {
		return all
	}
	return min(times(size, one), weigh(list, readPerStep, maxWork))
}

// eachWithEach compares the values of a list with each other. Most lists have scalars only.
func eachWithEach(args []ref.Val) int {
	return times(length(args[0]), weigh(args[0], readPerStep, maxWork)) / 2
}

// sorting compares each value of the list of keys, which is the last argument, with few others.
func sorting(args []ref.Val) int {
	keys := args[len(args)-1]
	return times(bits.Len(uint(length(keys))), weigh(keys, readPerStep, maxWork)) / 2
}

// sets looks each value of one list up in the other one, or both ways.
func sets(args []ref.Val) int {
	n, m := length(args[0]), length(args[1])
	if n == 0 || m == 0 {
		return 1
	}
	return min(times(n, weigh(args[1], readPerStep, maxWork)), times(m, weigh(args[0], readPerStep, maxWork)))
}

// lists visits the values of lists, but not what is in them.
func lists(args []ref.Val) int {
	n := 1
	for _, v := range args {
		if _, ok := v.(traits.Lister); ok {
			n += length(v)
		}
	}
	return n
}

func flattening(args []ref.Val) int {
	depth := 1
	if len(args) > 1 {
		n, _ := args[1].(types.Int)
		depth = int(max(0, min(n, maxWork)))
	}
	n := 0
	flattened(args[0], depth, &n)
	return n
}

// flattened adds the number of values that flatten copies.
func flattened(v ref.Val, depth int, n *int) {
	list, ok := v.(traits.Lister)
	if !ok || *n > maxWork {
		return
	}
	size := length(list)
	if *n += 1 + size; depth == 0 {
		return
	}
	for i := types.Int(0); i < types.Int(size) && *n <= maxWork; i++ {
		flattened(list.Get(i), depth-1, n)
	}
}

func number(args []ref.Val) int {
	n, _ := args[0].(types.Int)
	return int(min(max(0, n), maxWork+1))
}

// values visits all values of the first argument.
func values(args []ref.Val) int {
	if isScalar(args[0]) {
		return 1 + textLength(args[0])/copiedPerStep
	}
	return weigh(args[0], copiedPerStep, maxWork)
}

// made visits the values that the expression has made. Their type is not known after dyn, and errors about
// a type have the whole value in their text.
func made(args []ref.Val) int {
	s := scale{left: maxWork, perStep: copiedPerStep, made: true}
	if !isScalar(args[0]) {
		s.value(args[0])
	}
	return maxWork - s.left
}

func insertion(args []ref.Val) int {
	if len(args) == 2 {
		return 1 + length(args[1])
	}
	return 1
}

func reading(args []ref.Val) int { return 1 + lengths(args)/readPerStep }

func copying(args []ref.Val) int { return 1 + lengths(args)/copiedPerStep }

// zoneWork is the work of loading a time zone, which is read from a file each time.
const zoneWork = 500

func zones(args []ref.Val) int {
	if len(args) < 2 {
		return 1
	}
	return zoneWork + textLength(args[1])/copiedPerStep
}

// lengths returns the number of bytes of the texts in arguments.
func lengths(args []ref.Val) int {
	n := 0
	for _, v := range args {
		switch v := v.(type) {
		case apiservercel.URL:
			n += lengthOfURL(v)
		case apiservercel.Semver:
			n += lengthOfVersion(v)
		default:
			n += textLength(v)
		}
	}
	return n
}
