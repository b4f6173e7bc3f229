package process

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// Killer kills a program again and again, and starts it again.
type Killer struct {
	// Interval is the time from the moment when the program is ready until it is killed.
	Interval time.Duration
	// Start starts the program.
	Start func() (*Process, error)
	// Ready returns when the program is ready, or cannot become so.
	Ready func(context.Context, *Process) error
	// Failed receives the error of Err, if it is not nil.
	Failed func(error)

	cancel  context.CancelFunc
	done    chan struct{}
	mu      sync.Mutex
	current *Process
	kills   int
	err     error
}

// Run begins to kill a program that is ready, until Stop is called, the program cannot be started again, or ends by itself.
func (k *Killer) Run(ctx context.Context, p *Process) {
	waits, cancel := context.WithCancel(ctx)
	k.cancel, k.done, k.current = cancel, make(chan struct{}), p
	go func() { // ends with Stop
		defer close(k.done)
		for k.wait(waits) {
			if err := k.restart(ctx); err != nil {
				k.fail(err)
				return
			}
		}
	}()
}

// wait waits for the next kill, and reports whether there is one.
func (k *Killer) wait(ctx context.Context) bool {
	timer := time.NewTimer(k.Interval)
	defer timer.Stop()
	p := k.Process()
	select {
	case <-ctx.Done():
		return false
	case <-p.Done():
		k.fail(p.Check())
		return false
	case <-timer.C:
		return true
	}
}

// restart kills the program, starts it, and waits until it is ready.
func (k *Killer) restart(ctx context.Context) error {
	if err := k.Process().Check(); err != nil {
		return err // it has ended by itself
	}
	k.Process().Kill()
	p, err := k.Start()
	if err == nil {
		k.mu.Lock()
		k.current, k.kills = p, k.kills+1
		k.mu.Unlock()
		err = k.Ready(ctx, p)
	}
	if err != nil {
		return fmt.Errorf("after kill %d: %w", k.Kills(), err)
	}
	return nil
}

// fail reports an error.
func (k *Killer) fail(err error) {
	k.mu.Lock()
	k.err = err
	k.mu.Unlock()
	if k.Failed != nil {
		k.Failed(err)
	}
}

// Process returns the process that was started last.
func (k *Killer) Process() *Process {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.current
}

// Kills returns the number of kills after which the program has been started again.
func (k *Killer) Kills() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.kills
}

// Err returns an error if the program has ended by itself, or was not ready after a kill.
func (k *Killer) Err() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.err
}

// Stop returns when no more kills follow. The program is ready then, or the result is that of Err.
func (k *Killer) Stop() error {
	k.cancel()
	<-k.done
	return k.Err()
}
