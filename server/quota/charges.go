package quota

import (
	"context"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	quota "k8s.io/apiserver/pkg/quota/v1"
)

// charge is what a request was charged for, from the time when a quota has been changed until
// its object is stored, or is known to be not.
type charge struct {
	namespace string
	// key and uid are those of the object, and create is set if it is new.
	key    string
	uid    types.UID
	create bool
	// used is by the names of the quotas.
	used map[string]corev1.ResourceList
	// ended is when the request ended; zero while it runs.
	ended time.Time
}

// Charges are the charges of this server's requests whose objects may not be stored yet. It is
// safe for concurrent use.
type Charges struct {
	mu sync.Mutex
	// open is by the keys of the objects.
	open   map[string]map[*charge]bool
	spaces map[string]*space
}

// space is a namespace whose quotas are being changed.
type space struct {
	// turn has an element while a goroutine changes the quotas.
	turn chan struct{}
	// users is the number of goroutines that have a reference.
	users int
	// waiting are the requests that wait for their turn. The next turn handles all of them.
	waiting []*request
}

// NewCharges returns Charges without any.
func NewCharges() *Charges {
	return &Charges{open: map[string]map[*charge]bool{}, spaces: map[string]*space{}}
}

// enter returns a namespace. The caller must leave it.
func (c *Charges) enter(namespace string) *space {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.spaces[namespace]
	if s == nil {
		s = &space{turn: make(chan struct{}, 1)}
		c.spaces[namespace] = s
	}
	s.users++
	return s
}

func (c *Charges) leave(namespace string, s *space) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.users--; s.users == 0 {
		delete(c.spaces, namespace)
	}
}

// take returns the requests that wait for their turn.
func (c *Charges) take(s *space) []*request {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := s.waiting
	s.waiting = nil
	return all
}

func (c *Charges) wait(s *space, r *request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s.waiting = append(s.waiting, r)
}

// withdraw removes a request, and reports whether it was still waiting.
func (c *Charges) withdraw(s *space, r *request) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, other := range s.waiting {
		if other == r {
			s.waiting = append(s.waiting[:i], s.waiting[i+1:]...)
			return true
		}
	}
	return false
}

// add adds the charge of a request, which ends with ctx.
func (c *Charges) add(ctx context.Context, ch *charge) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open[ch.key] == nil {
		c.open[ch.key] = map[*charge]bool{}
	}
	c.open[ch.key][ch] = true
	// The function runs once, when the server has answered.
	context.AfterFunc(ctx, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		ch.ended = time.Now()
	})
}

// remove removes a charge. mu is held.
func (c *Charges) remove(ch *charge) {
	delete(c.open[ch.key], ch)
	if len(c.open[ch.key]) == 0 {
		delete(c.open, ch.key)
	}
}

// in returns the charges of a namespace. mu is held.
func (c *Charges) in(namespace string) (found []*charge) {
	for _, charges := range c.open {
		for ch := range charges {
			if ch.namespace == namespace {
				found = append(found, ch)
			}
		}
	}
	return found
}

// stored removes the charge of a new object, because it is stored now.
func (c *Charges) stored(key string, uid func() types.UID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for ch := range c.open[key] {
		if ch.create && ch.uid == uid() {
			c.remove(ch)
		}
	}
}

// due returns the namespaces with requests that ended some time ago, and whose objects have not
// been stored: they may have failed.
func (c *Charges) due(age time.Duration) map[string]bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	found := map[string]bool{}
	for _, charges := range c.open {
		for ch := range charges {
			if !ch.ended.IsZero() && time.Since(ch.ended) > age {
				found[ch.namespace] = true
			}
		}
	}
	return found
}

// settle removes the charges of a namespace whose requests have ended, and returns the quotas that
// have to be counted again.
func (c *Charges) settle(namespace string) map[string]bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	quotas := map[string]bool{}
	for _, ch := range c.in(namespace) {
		if !ch.ended.IsZero() {
			c.remove(ch)
			for name := range ch.used {
				quotas[name] = true
			}
		}
	}
	return quotas
}

// pending returns what the requests in flight are charged for, without those whose objects are
// stored.
func (c *Charges) pending(namespace, name string, exists func(key string) bool) corev1.ResourceList {
	c.mu.Lock()
	defer c.mu.Unlock()
	sum := corev1.ResourceList{}
	for _, ch := range c.in(namespace) {
		if !ch.create || !exists(ch.key) {
			sum = quota.Add(sum, ch.used[name])
		}
	}
	return sum
}
