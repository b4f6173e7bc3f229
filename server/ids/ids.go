// Package ids makes the names and UIDs of new objects: at random, or from a seed so that a test can
// repeat them.
package ids

import (
	"crypto/sha256"
	"encoding/binary"
	"maps"
	"strings"
	"sync"

	"github.com/google/uuid"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/storage/names"
)

// Source makes names and UIDs from a seed. What it makes does not depend on the order of requests for
// different objects: the seed decides the nth UID of an object with a name, and the nth name with
// a prefix. A nil Source makes random ones.
type Source struct {
	seed uint64

	mu sync.Mutex
	// counts has the number of values that were made for something.
	counts map[string]uint64
}

// New returns a source for a seed.
func New(seed uint64) *Source { return &Source{seed: seed, counts: map[string]uint64{}} }

// After returns a source for a seed that does not repeat what another source with the same seed has made
// for objects that were stored at a revision.
func After(seed uint64, revision int64) *Source {
	data := binary.LittleEndian.AppendUint64([]byte("after"), seed)
	sum := sha256.Sum256(binary.LittleEndian.AppendUint64(data, uint64(revision)))
	return New(binary.LittleEndian.Uint64(sum[:8]))
}

// Clone returns a source that makes what s would make next.
func (s *Source) Clone() *Source {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return &Source{seed: s.seed, counts: maps.Clone(s.counts)}
}

// next returns the next bytes for something that the parts describe.
func (s *Source) next(parts ...string) [sha256.Size]byte {
	// No part has a zero byte.
	of := strings.Join(parts, "\x00")
	s.mu.Lock()
	n := s.counts[of]
	s.counts[of]++
	s.mu.Unlock()
	data := binary.LittleEndian.AppendUint64(nil, s.seed)
	data = binary.LittleEndian.AppendUint64(data, n)
	return sha256.Sum256(append(data, of...))
}

// SetUID replaces the UID of a new object that has a name.
func (s *Source) SetUID(r schema.GroupResource, obj metav1.Object) {
	if s == nil {
		return
	}
	sum := s.next("uid", r.String(), obj.GetNamespace(), obj.GetName())
	id := uuid.UUID(sum[:16])
	id[6] = id[6]&0x0f | 0x40 // version 4
	id[8] = id[8]&0x3f | 0x80 // variant of RFC 9562
	obj.SetUID(types.UID(id.String()))
}

// Uint64N returns a number between 0 and n-1, for something with a name.
func (s *Source) Uint64N(name string, n uint64) uint64 {
	sum := s.next("number", name)
	return binary.LittleEndian.Uint64(sum[:8]) % n
}

// Names returns what completes the generateName of new objects of a resource.
func (s *Source) Names(r schema.GroupResource) names.NameGenerator {
	if s == nil {
		return names.SimpleNameGenerator
	}
	return generator{s, r}
}

type generator struct {
	source   *Source
	resource schema.GroupResource
}

const (
	// maxName, suffixLength and suffixes are those of the generator of k8s.io/apiserver.
	maxName      = 63
	suffixLength = 5
	suffixes     = "bcdfghjklmnpqrstvwxz2456789"
)

// GenerateName returns the next name with a prefix.
func (g generator) GenerateName(base string) string {
	base = base[:min(len(base), maxName-suffixLength)]
	sum := g.source.next("name", g.resource.String(), base)
	suffix := make([]byte, suffixLength)
	for i := range suffix {
		suffix[i] = suffixes[int(sum[i])%len(suffixes)]
	}
	return base + string(suffix)
}
