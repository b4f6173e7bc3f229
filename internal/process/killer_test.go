package process

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"
)

// killer returns a killer of a program.
func killer(does string, out *output) *Killer {
	return &Killer{
		Interval: time.Millisecond,
		Start:    func() (*Process, error) { return Start(program(does, out)) },
	}
}

// TestKiller kills a program several times. In the end one process runs, and all others have ended.
func TestKiller(t *testing.T) {
	t.Parallel()
	var out output
	k := killer("stubborn", &out)
	var started []*Process
	begin := k.Start
	k.Start = func() (*Process, error) {
		p, err := begin()
		started = append(started, p)
		return p, err
	}
	first, err := k.Start()
	if err != nil {
		t.Fatal(err)
	}
	k.Ready = func(context.Context, *Process) error {
		await(t, "the start", func() bool { return strings.Count(out.String(), "ready") == len(started) })
		return nil
	}
	await(t, "the first start", func() bool { return out.String() != "" })
	k.Run(t.Context(), first)
	await(t, "three kills", func() bool { return k.Kills() >= 3 })
	if err := k.Stop(); err != nil || k.Kills() != len(started)-1 {
		t.Errorf("%d kills of %d processes: %v", k.Kills(), len(started), err)
	}
	for i, p := range started {
		if last := i == len(started)-1; (p.Check() == nil) != last || last != (p == k.Process()) {
			t.Errorf("process %d of %d: %v", i, len(started), p.Check())
		}
	}
	k.Process().Kill()
}

// TestKillerFails reports a program that ends by itself, cannot be started, or is never ready.
func TestKillerFails(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	for name, c := range map[string]struct {
		does   string
		change func(*Killer)
		want   string
	}{
		"ends":      {does: "exit", change: func(k *Killer) { k.Interval = time.Hour }, want: "exit has exited: exit status 3"},
		"no start":  {does: "polite", change: func(k *Killer) { k.Start = func() (*Process, error) { return nil, broken } }, want: "after kill 0: broken"},
		"not ready": {does: "polite", change: func(k *Killer) { k.Ready = func(context.Context, *Process) error { return broken } }, want: "after kill 1: broken"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := killer(c.does, new(output))
			p, err := k.Start()
			if err != nil {
				t.Fatal(err)
			}
			c.change(k)
			failed := make(chan error, 1)
			k.Failed = func(err error) { failed <- err }
			k.Run(t.Context(), p)
			reported := <-failed
			if err := k.Stop(); err == nil || err.Error() != c.want || !errors.Is(err, reported) {
				t.Errorf("%v, reported as %v", err, reported)
			}
			k.Process().Kill()
		})
	}
}
