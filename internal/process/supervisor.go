package process

import (
	"fmt"
	"sync"
	"time"
)

// Supervisor keeps programs running.
type Supervisor struct {
	// Report receives messages about programs that have exited.
	Report func(message string)
	// Backoff is the time before the first restart of a program. It doubles with each restart, up to MaxBackoff.
	Backoff, MaxBackoff time.Duration
	// Settled is the time after which a program counts as healthy: Backoff applies to its next restart.
	Settled time.Duration
	// Grace is the time that programs have to end.
	Grace time.Duration

	mu      sync.Mutex
	stopped chan struct{} // closed by Stop
	once    sync.Once
	running sync.WaitGroup
	failed  chan error
}

// NewSupervisor returns a supervisor with the usual times.
func NewSupervisor(report func(string)) *Supervisor {
	return &Supervisor{
		Report:  report,
		Backoff: 500 * time.Millisecond, MaxBackoff: 30 * time.Second,
		Settled: time.Minute, Grace: 5 * time.Second,
		stopped: make(chan struct{}), failed: make(chan error, 1),
	}
}

// maxExits is the number of exits in a row after which Failed reports a program.
const maxExits = 3

// Failed receives an error when a program has exited three times in a row and was never healthy. The
// program is still restarted.
func (s *Supervisor) Failed() <-chan error { return s.failed }

// Keep starts a program, and again each time it exits, until Stop is called.
func (s *Supervisor) Keep(p Program) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-s.stopped:
		return fmt.Errorf("start %s: the supervisor has been stopped", p.Name)
	default:
	}
	first, err := Start(p)
	if err != nil {
		return err
	}
	s.running.Go(func() { s.keep(p, first) })
	return nil
}

// keep waits for the exits of a program, and restarts it.
func (s *Supervisor) keep(p Program, r *Process) {
	exits := 0
	for {
		begin := time.Now()
		var err error
		if r != nil {
			select {
			case <-r.Done():
				err = r.Check()
			case <-s.stopped:
				r.Stop(s.Grace)
				return
			}
		} else if r, err = Start(p); err == nil {
			continue
		}
		if time.Since(begin) > s.Settled {
			exits = 0
		}
		exits++
		pause := s.pause(exits)
		s.Report(fmt.Sprintf("%v; restarting it in %v", err, pause))
		if exits >= maxExits {
			select {
			case s.failed <- err:
			default: // one is waiting to be received
			}
		}
		select {
		case <-time.After(pause):
		case <-s.stopped:
			return
		}
		r = nil
	}
}

// pause returns the time before a restart.
func (s *Supervisor) pause(exits int) time.Duration {
	pause := s.Backoff
	for range exits - 1 {
		if pause *= 2; pause >= s.MaxBackoff {
			return s.MaxBackoff
		}
	}
	return pause
}

// Stop ends all programs at the same time, and waits for their end, at most a little longer than Grace.
func (s *Supervisor) Stop() {
	s.mu.Lock()
	s.once.Do(func() { close(s.stopped) })
	s.mu.Unlock()
	s.running.Wait()
}
