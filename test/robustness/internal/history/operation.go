package history

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"
)

// Kind is the kind of a request.
type Kind string

// The kinds of requests.
const (
	Create Kind = "create"
	Update Kind = "update"
	Patch  Kind = "patch"
	Apply  Kind = "apply"
	Delete Kind = "delete"
	Get    Kind = "get"
	List   Kind = "list"
	// internal is a change by the server itself: the deletion of the objects of a CRD.
	internal Kind = "internal"
)

// Outcome is what a client knows after a request.
type Outcome string

// The outcomes of requests.
const (
	// OK means that the request has succeeded.
	OK Outcome = "ok"
	// Absent means that the object did not exist.
	Absent Outcome = "absent"
	// Exists means that the object existed already.
	Exists Outcome = "exists"
	// Conflict means that the precondition was not met.
	Conflict Outcome = "conflict"
	// Rejected means that nothing was written, for a reason that says nothing about objects.
	Rejected Outcome = "rejected"
	// Unknown means that a write may or may not take effect, at any time after its call.
	Unknown Outcome = "unknown"
)

// Operation is a request and its outcome.
type Operation struct {
	Client int
	Kind   Kind
	// Key is NAMESPACE/NAME; for lists NAMESPACE/, or empty for all namespaces.
	Key string
	// Value is what a write writes to spec.value.
	Value string `json:",omitempty"`
	// Precondition is the resourceVersion that a write requires, or zero.
	Precondition int64 `json:",omitempty"`
	// Stale is a read that need not be consistent.
	Stale bool `json:",omitempty"`
	// Exact is the revision that a list asks for, or zero.
	Exact int64 `json:",omitempty"`

	Call, Return time.Duration // since the start of the test
	Outcome      Outcome
	// Object is the object in the response.
	Object *Object `json:",omitempty"`
	// Items and Revision are those of a list. Partial is set if pages are missing at the end.
	Items    map[string]Object `json:",omitempty"`
	Revision int64             `json:",omitempty"`
	Partial  bool              `json:",omitempty"`
	// Problem describes a failure.
	Problem string `json:",omitempty"`

	// index is that of the state after the write.
	index int
}

func (o *Operation) write() bool { return o.Kind != Get && o.Kind != List }

// CheckLinearizable checks that the operations are linearizable, and that writes have had
// exactly the acknowledged effects. It returns descriptions of what is wrong, and the
// visualization of a history that is not linearizable.
//
// etcd's own history makes the check fast: it decides which writes without a response took
// effect, and gives the order of all writes. What is left for the search is the point in time
// at which each request took effect.
func CheckLinearizable(truth *Truth, operations []*Operation) (problems []string, visual *porcupine.LinearizationInfo) {
	history, problems := resolve(truth, operations)
	result, info := porcupine.CheckOperationsVerbose(Model(truth), history, 2*time.Minute)
	switch result {
	case porcupine.Ok:
		return problems, nil
	case porcupine.Illegal:
		longest := 0
		for _, partial := range info.PartialLinearizations() {
			for _, sequence := range partial {
				longest = max(longest, len(sequence))
			}
		}
		problems = append(problems, fmt.Sprintf("the history of %d operations is not linearizable: at most %d of them are", len(history), longest))
		problems = append(problems, blocked(info, history)...)
	default:
		problems = append(problems, fmt.Sprintf("the linearizability of %d operations was not decided in time", len(history)))
	}
	return problems, &info
}

// blocked describes the first operations that the longest linearizations leave out.
func blocked(info porcupine.LinearizationInfo, history []porcupine.Operation) (out []string) {
	var best []porcupine.Operation
	for _, partition := range info.PartialLinearizationsOperations() {
		for _, sequence := range partition {
			if len(sequence) > len(best) {
				best = sequence
			}
		}
	}
	in := map[*Operation]bool{}
	for _, o := range best {
		in[o.Input.(*Operation)] = true
	}
	var left []*Operation
	for _, o := range history {
		if op := o.Input.(*Operation); !in[op] {
			left = append(left, op)
		}
	}
	slices.SortFunc(left, func(a, b *Operation) int { return int(a.Return - b.Return) })
	for _, op := range left[:min(5, len(left))] {
		out = append(out, "left over: "+describe(op))
	}
	return out
}

// resolve assigns the changes in etcd to the operations that made them, and drops operations
// that had no effect and say nothing.
func resolve(truth *Truth, operations []*Operation) (history []porcupine.Operation, problems []string) {
	byValue := map[string]*Operation{}
	var deletes []*Operation
	deleted := map[string]*Operation{} // acknowledged deletions by UID
	for _, op := range operations {
		switch {
		case op.Kind == Delete && op.Outcome == Unknown:
			deletes = append(deletes, op)
		case op.Kind == Delete && op.Outcome == OK && op.Object != nil:
			if other := deleted[op.Object.UID]; other != nil {
				problems = append(problems, fmt.Sprintf("two deletions of one object succeeded: %s and %s", describe(other), describe(op)))
			}
			deleted[op.Object.UID] = op
		case op.write() && op.Kind != Delete:
			byValue[op.Value] = op
		}
	}
	slices.SortFunc(deletes, func(a, b *Operation) int { return int(a.Call - b.Call) })

	add := func(op *Operation) {
		end := int64(op.Return)
		if op.Outcome == Unknown || op.Kind == internal {
			end = math.MaxInt64
		}
		history = append(history, porcupine.Operation{ClientId: op.Client, Input: op, Call: int64(op.Call), Return: end})
	}
	effective := map[*Operation]bool{}
	for i, change := range truth.Changes {
		var op *Operation
		if change.After != nil {
			op = byValue[change.After.Value]
			if op != nil && effective[op] {
				problems = append(problems, fmt.Sprintf("revision %d repeats the write of %s", change.Revision, describe(op)))
				op = &Operation{Kind: internal, Key: change.Key, Outcome: OK}
			}
		} else if op = deleted[change.Before.UID]; op == nil {
			op, deletes = deletion(truth, change, deletes)
		}
		if op == nil {
			problems = append(problems, fmt.Sprintf("no request made the change of %s in revision %d", change.Key, change.Revision))
			op = &Operation{Kind: internal, Key: change.Key, Outcome: OK}
		}
		op.index = i + 1
		effective[op] = true
		add(op)
		switch op.Outcome {
		case Unknown, OK:
		default:
			problems = append(problems, fmt.Sprintf("revision %d has the effect of a failed request: %s", change.Revision, describe(op)))
		}
		if op.Outcome == OK && op.Kind != Delete && op.Kind != internal &&
			(op.Object == nil || op.Object.Revision != change.Revision || op.Object.Digest != change.After.Digest) {
			problems = append(problems, fmt.Sprintf("the response differs from revision %d in etcd (%+v): %s", change.Revision, *change.After, describe(op)))
		}
	}
	for _, op := range operations {
		if effective[op] {
			continue
		}
		switch {
		case op.write() && op.Outcome == OK:
			problems = append(problems, "an acknowledged write is not in etcd: "+describe(op))
		case op.Outcome == Unknown || op.Outcome == Rejected || op.Stale || op.Exact != 0:
		default:
			add(op)
		}
	}
	return history, problems
}

// deletion returns the operation that may have deleted an object without an acknowledgment,
// and the operations that are left. Of those that are possible, the earliest is the least
// restrictive choice. It returns nil if there is none.
func deletion(truth *Truth, change Change, deletes []*Operation) (*Operation, []*Operation) {
	n := slices.IndexFunc(deletes, func(op *Operation) bool {
		return op.Key == change.Key && op.Call <= change.At && (op.Precondition == 0 || op.Precondition == change.Before.Revision)
	})
	if len(truth.Sweeps) > 0 && truth.Sweeps[0] <= change.At && (n < 0 || truth.Sweeps[0] <= deletes[n].Call) {
		return &Operation{Kind: internal, Key: change.Key, Outcome: OK, Call: truth.Sweeps[0]}, deletes
	}
	if n < 0 {
		return nil, deletes
	}
	op := deletes[n]
	return op, slices.Delete(deletes, n, n+1)
}

// Model returns the sequential specification. The state is an index of the truth.
func Model(truth *Truth) porcupine.Model {
	return porcupine.Model{
		Init: func() any { return 0 },
		Step: func(state, input, _ any) (bool, any) {
			index, op := state.(int), input.(*Operation)
			if op.index > 0 {
				return op.index == index+1 && allowed(truth.State(index), op), op.index
			}
			return observes(truth, index, op), index
		},
		DescribeOperation: func(input, _ any) string { return describe(input.(*Operation)) },
		DescribeState:     func(state any) string { return fmt.Sprint(state) },
	}
}

// allowed reports whether a write can succeed in a state.
func allowed(state map[string]Object, op *Operation) bool {
	current, exists := state[op.Key]
	switch op.Kind {
	case Create:
		return !exists
	case Apply, internal:
		return true
	}
	return exists && (op.Precondition == 0 || op.Precondition == current.Revision)
}

// observes reports whether a request without an effect can have its outcome at an index.
func observes(truth *Truth, index int, op *Operation) bool {
	if op.Kind == List {
		return truth.IndexAt(op.Revision) == index
	}
	current, exists := truth.State(index)[op.Key]
	switch op.Outcome {
	case OK:
		return exists && *op.Object == current
	case Absent:
		return !exists
	case Exists:
		return exists
	case Conflict:
		return !exists || op.Precondition != current.Revision
	}
	return false
}

func describe(op *Operation) string {
	var b strings.Builder
	fmt.Fprintf(&b, "client %d: %s %s", op.Client, op.Kind, op.Key)
	if op.Value != "" {
		fmt.Fprintf(&b, " %s", op.Value)
	}
	if op.Precondition != 0 {
		fmt.Fprintf(&b, " if %d", op.Precondition)
	}
	fmt.Fprintf(&b, " [%v, %v] → %s", op.Call.Round(time.Microsecond), op.Return.Round(time.Microsecond), op.Outcome)
	if op.Object != nil {
		fmt.Fprintf(&b, " %d %s", op.Object.Revision, op.Object.Value)
	}
	if op.Kind == List {
		fmt.Fprintf(&b, " %d items at %d", len(op.Items), op.Revision)
	}
	if op.Problem != "" {
		fmt.Fprintf(&b, " (%s)", op.Problem)
	}
	return b.String()
}

// CheckReads checks what reads have returned: lists are exact at their revision, and the reads
// of a client that need not be consistent do not go back in time.
func CheckReads(truth *Truth, operations []*Operation) (problems []string) {
	floor := map[int]int{} // by client: the index of the last stale read
	for _, op := range operations {
		if op.Outcome != OK && op.Outcome != Absent {
			continue
		}
		switch {
		case op.Kind == List:
			index := truth.IndexAt(op.Revision)
			if text := differs(truth.State(index), op); text != "" {
				problems = append(problems, text+": "+describe(op))
			}
			if op.Exact != 0 && op.Revision != op.Exact {
				problems = append(problems, fmt.Sprintf("the list has another revision than %d: %s", op.Exact, describe(op)))
			}
			if op.Stale {
				if index < floor[op.Client] {
					problems = append(problems, "the list goes back in time: "+describe(op))
				}
				floor[op.Client] = max(index, floor[op.Client])
			}
		case op.Kind == Get && op.Stale:
			index := floor[op.Client]
			for index < len(truth.states) && !observes(truth, index, op) {
				index++
			}
			if index == len(truth.states) {
				problems = append(problems, "the object was never so, or goes back in time: "+describe(op))
				continue
			}
			floor[op.Client] = index
		}
	}
	return problems
}

// differs describes a difference between a list and the state at its revision.
func differs(state map[string]Object, op *Operation) string {
	expected := 0
	last := ""
	for key := range op.Items {
		last = max(last, key)
	}
	for key, o := range state {
		if !strings.HasPrefix(key, op.Key) || op.Partial && key > last {
			continue
		}
		expected++
		if got, ok := op.Items[key]; !ok {
			return fmt.Sprintf("the list lacks %s at %d", key, o.Revision)
		} else if got != o {
			return fmt.Sprintf("the list has %s as %+v instead of %+v", key, got, o)
		}
	}
	if len(op.Items) != expected {
		return fmt.Sprintf("the list has %d objects instead of %d", len(op.Items), expected)
	}
	return ""
}
