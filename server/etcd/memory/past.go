package memory

import (
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"espalier.dev/internal/persistent"
)

// Oldest returns the oldest revision that [State.At] returns.
func (s *State) Oldest() int64 { return max(s.compacted, s.history.first) }

// At returns the state at an earlier revision, with the history up to it. It costs the same for
// every revision. It has no leases, because nothing expires in the past: keys keep the number of
// theirs. If the revision is compacted or in the future, it returns etcd's errors for reads.
func (s *State) At(revision int64) (*State, error) {
	switch {
	case revision > s.revision:
		return nil, rpctypes.ErrFutureRev
	case revision < s.Oldest():
		return nil, rpctypes.ErrCompacted
	}
	out := *s
	out.revision = revision
	out.history.n = int(revision-s.history.first) + 1
	// A clone may be appended to: it copies the chunk that has the end, and forgets those after it.
	end := out.history.skip + out.history.n
	out.history.chunks = out.history.chunks[:(end+chunkLen-1)/chunkLen]
	out.history = out.history.clone()
	if rest := end % chunkLen; rest != 0 {
		clear(out.history.chunks[len(out.history.chunks)-1][rest:])
	}
	out.leases, out.deadlines = persistent.Map[*lease]{}, persistent.Map[*lease]{}
	out.size = out.history.at(revision).size
	return &out, nil
}

// Newest returns the state without its history: only its newest revision can be read. It keeps no
// older one in memory.
func (s *State) Newest() *State {
	out := *s
	out.compacted = s.revision
	out.history = s.history.compact(s.revision)
	return &out
}
