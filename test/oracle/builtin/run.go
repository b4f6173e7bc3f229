package builtin

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"strings"
)

// Case is one write of an object.
type Case struct {
	Op          string
	Subresource string
	Namespace   string
	Object, Old map[string]any
}

// Finding is a difference, with the smallest case that has it.
type Finding struct {
	*Difference
	Case *Case
	// First is the number of the first case, and Count the number of cases.
	First, Count int
	// Known is the name of the known difference, if it is one.
	Known string
}

// Text shows the difference, without the end of long lines.
func (f *Finding) Text() string {
	var b strings.Builder
	for _, line := range f.Lines {
		if len(line) > maxLine {
			line = line[:maxLine] + "…"
		}
		b.WriteString(line + "\n")
	}
	return strings.TrimSuffix(b.String(), "\n")
}

const maxLine = 1000

// Summary is the result of a run for one kind.
type Summary struct {
	Kind                       *Kind
	Creates, Updates, Accepted int
	Equal, Different, Panicked int
	Findings                   []*Finding
}

func (s *Summary) String() string {
	unknown := 0
	for _, f := range s.Findings {
		if f.Known == "" {
			unknown++
		}
	}
	return fmt.Sprintf("%s: %d creates and %d updates, %d of them valid: %d equal, %d different, %d kinds of unknown differences",
		s.Kind.Name, s.Creates, s.Updates, s.Accepted, s.Equal, s.Different, unknown)
}

// Runner runs cases for a reference. It is not safe for concurrent use.
type Runner struct {
	ref *Reference
	gen *generator
	// Seed makes other cases.
	Seed uint64
}

// NewRunner returns a runner of cases. The caller keeps the reference.
func NewRunner(ref *Reference) (*Runner, error) {
	t, err := newTypes(ref)
	if err != nil {
		return nil, err
	}
	return &Runner{ref: ref, gen: &generator{t}}, nil
}

// With returns a runner of the same cases for another reference process.
func (r *Runner) With(ref *Reference) *Runner {
	other := *r
	other.ref = ref
	return &other
}

func (c *Case) request(k *Kind) (*Request, error) {
	req := &Request{
		Op: c.Op, Subresource: c.Subresource, Namespace: c.Namespace, Resource: k.Resource.Resource,
		APIVersion: k.requested().GroupVersion().String(),
	}
	var err error
	if req.Object, err = json.Marshal(c.Object); err != nil {
		return nil, err
	}
	if c.Old != nil {
		req.Old, err = json.Marshal(c.Old)
	}
	return req, err
}

// check runs a case on both sides. The reference iterates over maps, so that its answer may be
// one of several: ours must be one of them.
func (r *Runner) check(k *Kind, c *Case, attempts int) (d *Difference, theirs *Answer, err error) {
	for i := range attempts {
		if d, theirs, err = r.checkOnce(k, c, i > 0); d == nil || err != nil {
			break
		}
	}
	return d, theirs, err
}

// How often the reference is asked before its answer counts as different: in a run, and while a
// case is minimized.
const (
	manyAttempts = 30
	fewAttempts  = 4
)

func (r *Runner) checkOnce(k *Kind, c *Case, again bool) (*Difference, *Answer, error) {
	req, err := c.request(k)
	if err != nil {
		return nil, nil, err
	}
	ask := r.ref.Ask
	if again {
		ask = r.ref.AskAgain
	}
	theirs, err := ask(req)
	if err != nil {
		return nil, nil, fmt.Errorf("%w\n%s", err, c)
	}
	d, err := compare(k, Ours(k, req), theirs)
	if err != nil {
		return nil, nil, fmt.Errorf("%w\n%s", err, c)
	}
	return d, theirs, nil
}

// finding returns a difference with the smallest case that has it. Cases of known differences
// are not minimized.
func (r *Runner) finding(k *Kind, c *Case, d *Difference) (*Finding, error) {
	if name := known(k, c, d); name != "" {
		return &Finding{Difference: d, Case: c, Count: 1, Known: name}, nil
	}
	small := minimize(c, d.Key, func(c *Case) *Difference {
		d, _, err := r.check(k, c, fewAttempts)
		if err != nil {
			return nil
		}
		return d
	})
	again, _, err := r.check(k, small, fewAttempts)
	if err != nil {
		return nil, err
	}
	if again != nil {
		c, d = small, again
	}
	return &Finding{Difference: d, Case: c, Count: 1, Known: known(k, c, d)}, nil
}

// Run runs n cases of a kind, from the given number on.
func (r *Runner) Run(k *Kind, seeds []map[string]any, first, n int) (*Summary, error) {
	s := &Summary{Kind: k}
	byKey := map[string]*Finding{}
	record := func(number int, c *Case) (*Answer, error) {
		d, theirs, err := r.check(k, c, manyAttempts)
		if err != nil {
			return nil, err
		}
		if c.Op == "create" {
			s.Creates++
		} else {
			s.Updates++
		}
		if theirs.Panic != "" {
			s.Panicked++
			return theirs, nil
		}
		if theirs.Error == "" {
			s.Accepted++
		}
		if d == nil {
			s.Equal++
			return theirs, nil
		}
		s.Different++
		if f := byKey[d.Key]; f != nil {
			f.Count++
			return theirs, nil
		}
		f, err := r.finding(k, c, d)
		if err != nil {
			return nil, err
		}
		f.First = number
		byKey[d.Key] = f
		s.Findings = append(s.Findings, f)
		return theirs, nil
	}
	for i := first; i < first+n; i++ {
		if err := r.runCase(k, seeds, i, record); err != nil {
			return nil, err
		}
	}
	slices.SortStableFunc(s.Findings, func(a, b *Finding) int { return b.Count - a.Count })
	return s, nil
}

// Objects returns n objects that are made from seeds, the seeds among them, and reports which of
// them the rules of this project accept.
func (r *Runner) Objects(k *Kind, seeds []map[string]any, n int) (objects []map[string]any, accepted []bool, err error) {
	rnd := rand.New(rand.NewPCG(r.Seed, uint64(n)))
	for i := range max(n, len(seeds)) {
		c := &Case{Op: "create", Object: deepCopy(seeds[i%len(seeds)]).(map[string]any)}
		if k.Namespaced {
			c.Namespace = "default"
		}
		if i >= len(seeds) {
			for range 1 + rnd.IntN(3) {
				r.gen.mutate(rnd, c.Object, k.goType)
			}
		}
		req, err := c.request(k)
		if err != nil {
			return nil, nil, err
		}
		a := Ours(k, req)
		objects, accepted = append(objects, c.Object), append(accepted, a.Error == "" && a.Panic == "")
	}
	return objects, accepted, nil
}

// runCase creates an object that is made from a seed, and updates it if it is valid.
func (r *Runner) runCase(k *Kind, seeds []map[string]any, number int, record func(int, *Case) (*Answer, error)) error {
	h := fnv.New64a()
	h.Write([]byte(k.Name))
	rnd := rand.New(rand.NewPCG(h.Sum64()^r.Seed, uint64(number)))
	// The first cases are the seeds as they are.
	seed, changes := pick(rnd, seeds), 1+min(rnd.IntN(4), rnd.IntN(4))
	if number < len(seeds) {
		seed, changes = seeds[number], 0
	} else if rnd.IntN(3) == 0 {
		changes = 0
	}
	c := &Case{Op: "create", Object: deepCopy(seed).(map[string]any)}
	if k.Namespaced {
		c.Namespace = "default"
	}
	for range changes {
		r.gen.mutate(rnd, c.Object, k.goType)
	}
	var a *Answer
	var err error
	if changes > 0 || number < len(seeds) {
		a, err = record(number, c)
	} else {
		_, a, err = r.check(k, c, manyAttempts)
	}
	if err != nil || a.Object == nil || k.converted {
		return err
	}
	stored, err := parse(a.Object)
	if err != nil {
		return err
	}
	old := stored.(map[string]any)
	old["metadata"].(map[string]any)["resourceVersion"] = "5"
	status := seed["status"] // as controllers write it
	if status != nil && rnd.IntN(2) == 0 {
		old["status"] = deepCopy(status)
	}
	c = &Case{Op: "update", Namespace: c.Namespace, Old: old, Object: deepCopy(old).(map[string]any)}
	endpoints := []string{"", ""}
	for _, name := range k.Subresources {
		_, ok := k.rules.Subresources[name]
		if ok || name == "status" && k.rules.Status != nil {
			endpoints = append(endpoints, name)
		}
	}
	c.Subresource = pick(rnd, endpoints)
	if status != nil && c.Subresource == "status" {
		c.Object["status"] = deepCopy(status)
	}
	for range 1 + min(rnd.IntN(3), rnd.IntN(3)) {
		r.gen.mutate(rnd, c.Object, k.goType)
	}
	_, err = record(number, c)
	return err
}
