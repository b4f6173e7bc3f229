package etcd

import (
	"context"
	"errors"
	"strconv"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/server/v3/etcdserver"
	"go.etcd.io/raft/v3/raftpb"
	"go.uber.org/zap/zapcore"
)

const (
	// campaignInterval is the time between attempts to win the election.
	campaignInterval = time.Millisecond
	// keptEntries is the length of a log that etcd does not compact when it applies it.
	keptEntries = 100
	// settleTime is the time that a member with a longer log waits after it has applied it, unless
	// a probe is answered earlier.
	settleTime = 500 * time.Millisecond
)

// Elect makes a member without peers its own leader as soon as possible, and returns when it serves
// requests. Without it, the member would wait for several ticks of its clock, in case there is
// another leader.
func Elect(ctx context.Context, s *etcdserver.EtcdServer) error { return elect(ctx, s, nil) }

// elect is Elect with a probe, which may be nil.
func elect(ctx context.Context, s *etcdserver.EtcdServer, p *probe) error {
	p.enable(true)
	defer p.enable(false)
	retry := time.NewTicker(campaignInterval)
	defer retry.Stop()
	var applied progress
	for {
		if s.Leader() == 0 && len(s.Cluster().Members()) == 1 {
			// The answer is read first: it must not be older than what is committed.
			answer := p.answer()
			committed, done := s.CommittedIndex(), s.AppliedIndex()
			switch {
			case applied.settled(committed, done, time.Now()), committed > 0 && answer == committed && done == committed:
				campaign(ctx, s)
			case committed > keptEntries && done == committed:
				p.send(ctx, s, committed)
			}
		}
		select {
		case <-s.ReadyNotify():
			return nil
		case <-s.StopNotify():
			return errors.New("etcd stopped while starting")
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-retry.C:
		}
	}
}

// progress is that of a member which applies its log when it starts.
type progress struct {
	committed uint64
	since     time.Time
}

// settled reports whether a member can campaign. Raft looks for changes of the members in what it
// does not know to be applied, and panics if etcd has compacted it. etcd may do so after the
// first hundred entries, just before it tells raft. So a member with a longer log campaigns some
// time after it has applied everything.
func (p *progress) settled(committed, applied uint64, now time.Time) bool {
	if p.since.IsZero() || committed != p.committed || applied < committed {
		p.committed, p.since = committed, now
	}
	// While nothing is committed, the length of the log is not known.
	return committed > 0 && committed <= keptEntries || now.Sub(p.since) >= settleTime
}

// campaign makes a member start an election. The message is the one with which a leader hands over
// to another member. A member that has not applied its own log yet ignores it, if the log is
// complete, see [progress].
func campaign(ctx context.Context, s *etcdserver.EtcdServer) {
	id := uint64(s.MemberID())
	// On failure the member waits for its clock.
	_ = s.Process(ctx, &raftpb.Message{Type: raftpb.MsgTimeoutNow.Enum(), From: &id, To: &id})
}

// probe finds out when raft knows what etcd has applied, which cannot be observed directly. It
// sends the heartbeat of a leader of the first term, long replaced, that does not exist. Raft
// changes nothing, and answers. The answer is in the next batch of work that raft gives to etcd,
// and that comes only after etcd has told raft that the batch before is done. etcd does not find
// the recipient, and logs this. A nil probe gets no answers.
type probe struct {
	enabled  atomic.Bool
	answered atomic.Uint64
}

// The message about an unknown recipient, and its field with the ID.
const unknownPeer, unknownPeerID = "ignored message send request; unknown remote peer target", "unknown-target-peer-id"

func (p *probe) enable(on bool) {
	if p != nil {
		p.enabled.Store(on)
	}
}

// active reports whether answers are expected.
func (p *probe) active() bool { return p != nil && p.enabled.Load() }

// answer returns the ID of the last probe that was answered, or 0.
func (p *probe) answer() uint64 {
	if p == nil {
		return 0
	}
	return p.answered.Load()
}

// send sends a probe with an ID.
func (p *probe) send(ctx context.Context, s *etcdserver.EtcdServer, id uint64) {
	to, term := uint64(s.MemberID()), uint64(1)
	if p == nil || id == to {
		return
	}
	// On failure there is no answer.
	_ = s.Process(ctx, &raftpb.Message{Type: raftpb.MsgHeartbeat.Enum(), From: &id, To: &to, Term: &term})
}

// read reads the answer to a probe from etcd's log.
func (p *probe) read(message string, fields []zapcore.Field) {
	if !p.active() || message != unknownPeer {
		return
	}
	for _, f := range fields {
		if f.Key != unknownPeerID {
			continue
		}
		if id, err := strconv.ParseUint(f.String, 16, 64); err == nil {
			p.answered.Store(id)
		}
	}
}
