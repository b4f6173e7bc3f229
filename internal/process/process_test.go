package process

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// behaviour is the environment variable that makes the test binary a program: it names what the program does.
const behaviour = "PROCESS_TEST_BEHAVIOUR"

func TestMain(m *testing.M) {
	switch os.Getenv(behaviour) {
	case "":
		os.Exit(m.Run())
	case "exit":
		fmt.Fprintln(os.Stderr, "goodbye")
		os.Exit(3)
	case "polite": // ends when it is asked
		c := make(chan os.Signal, 1)
		signal.Notify(c, syscall.SIGTERM)
		fmt.Println("ready")
		<-c
		os.Exit(0)
	case "stubborn": // ends only when it is killed
		signal.Ignore(syscall.SIGTERM)
		fmt.Println("ready")
		time.Sleep(time.Hour)
	case "connect": // connects to this machine
		if _, err := net.Dial("tcp", os.Getenv("PROCESS_TEST_ADDRESS")); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		os.Exit(0)
	case "parent": // starts a program and waits to be killed
		if err := os.Setenv(behaviour, "stubborn"); err != nil {
			panic(err)
		}
		p, err := Start(Program{Name: "child", Path: os.Args[0]})
		if err != nil {
			panic(err)
		}
		fmt.Println("child", p.PID())
		time.Sleep(time.Hour)
	}
}

// program returns the test binary as a program.
func program(does string, out io.Writer) Program {
	return Program{Name: does, Path: os.Args[0], Env: []string{behaviour + "=" + does}, Stdout: out, Stderr: out}
}

// output is what programs have written. It is safe for concurrent use.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(data []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(data)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// await waits until a condition holds.
func await(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for range 6000 {
		if condition() {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("waited in vain: %s", what)
}

func TestRun(t *testing.T) {
	t.Parallel()
	var out output
	err := Run(t.Context(), program("exit", &out), time.Minute)
	if err == nil || err.Error() != "exit status 3" || out.String() != "goodbye\n" {
		t.Errorf("%v, %q", err, out.String())
	}
	err = Run(t.Context(), Program{Name: "nothing", Path: filepath.Join(t.TempDir(), "missing")}, time.Minute)
	if !errors.Is(err, os.ErrNotExist) || !strings.HasPrefix(err.Error(), "start nothing: ") {
		t.Error(err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("enough")
	var polite output
	go func() {
		for polite.String() == "" {
			time.Sleep(time.Millisecond)
		}
		cancel(cause)
	}()
	if err := Run(ctx, program("polite", &polite), time.Minute); !errors.Is(err, cause) {
		t.Error(err)
	}
	begin := time.Now()
	if err := Run(ctx, program("stubborn", nil), 0); !errors.Is(err, cause) || time.Since(begin) > time.Minute {
		t.Errorf("%v after %v", err, time.Since(begin))
	}
}

// TestLog appends the output of programs to a file, which errors name.
func TestLog(t *testing.T) {
	t.Parallel()
	p := program("exit", nil)
	p.Log = filepath.Join(t.TempDir(), "log")
	for range 2 {
		r, err := Start(p)
		if err != nil {
			t.Fatal(err)
		}
		if r.Err() == nil {
			t.Error("it exited with code 0")
		}
		if err := r.Check(); err == nil || err.Error() != "exit has exited: exit status 3; its log is "+p.Log {
			t.Error(err)
		}
	}
	if data, err := os.ReadFile(p.Log); err != nil || string(data) != "goodbye\ngoodbye\n" {
		t.Errorf("%q, %v", data, err)
	}
	p.Log = filepath.Join(t.TempDir(), "missing", "log")
	if _, err := Start(p); !errors.Is(err, os.ErrNotExist) || !strings.HasPrefix(err.Error(), "start exit: ") {
		t.Error(err)
	}
}

// TestWatch reports the end of a process, unless it was stopped or killed.
func TestWatch(t *testing.T) {
	t.Parallel()
	ended := make(chan error, 3)
	watched := func(does string) *Process {
		t.Helper()
		var out output
		p, err := Start(program(does, &out))
		if err != nil {
			t.Fatal(err)
		}
		if does == "polite" {
			await(t, "the start", func() bool { return out.String() != "" })
		}
		if err := p.Check(); does == "polite" && err != nil {
			t.Error(err)
		}
		p.Watch(func(err error) { ended <- err })
		return p
	}
	watched("polite").Stop(time.Minute)
	watched("polite").Kill()
	watched("exit")
	if err := <-ended; err.Error() != "exit has exited: exit status 3" {
		t.Error(err)
	}
	time.Sleep(20 * time.Millisecond)
	if len(ended) > 0 {
		t.Errorf("the end of a process that was stopped is reported: %v", <-ended)
	}
}

// TestStop ends a program that can be asked, and one that must be killed.
func TestStop(t *testing.T) {
	t.Parallel()
	for does, code := range map[string]int{"polite": 0, "stubborn": -1} {
		t.Run(does, func(t *testing.T) {
			t.Parallel()
			var out output
			p, err := Start(program(does, &out))
			if err != nil {
				t.Fatal(err)
			}
			await(t, "the start", func() bool { return out.String() != "" })
			grace := time.Minute
			if does == "stubborn" {
				grace = time.Millisecond
			}
			if asked := p.Stop(grace); asked != (does == "polite") {
				t.Errorf("it ended without being killed: %t", asked)
			}
			p.Stop(grace) // it has ended
			p.Kill()
			if got := p.ExitCode(); got != code {
				t.Errorf("the exit code is %d", got)
			}
		})
	}
}

// TestEnvironment checks that a variable of the environment is stronger than that of a program.
func TestEnvironment(t *testing.T) {
	t.Setenv("PROCESS_TEST_SET", "environment")
	env := Program{Env: []string{"PROCESS_TEST_SET=program", "PROCESS_TEST_UNSET=program"}}.command().Environ()
	got := map[string]string{}
	for _, e := range env {
		name, value, _ := strings.Cut(e, "=")
		got[name] = value
	}
	if got["PROCESS_TEST_SET"] != "environment" || got["PROCESS_TEST_UNSET"] != "program" {
		t.Errorf("%q", env)
	}
	only := Program{Env: []string{"A=1"}, Environment: []string{"B=2"}, Dir: t.TempDir()}.command()
	if !slices.Equal(only.Env, []string{"B=2"}) || only.Dir == "" {
		t.Errorf("%q in %q", only.Env, only.Dir)
	}
}

// supervisor returns a supervisor that restarts quickly, and its messages.
func supervisor(t *testing.T) (*Supervisor, *output) {
	t.Helper()
	var messages output
	s := NewSupervisor(func(message string) { fmt.Fprintln(&messages, message) })
	s.Backoff, s.MaxBackoff, s.Grace = time.Millisecond, 4*time.Millisecond, 50*time.Millisecond
	t.Cleanup(s.Stop)
	return s, &messages
}

// TestRestart restarts a program that exits, with growing pauses, and reports that it fails.
func TestRestart(t *testing.T) {
	t.Parallel()
	s, messages := supervisor(t)
	var out output
	if err := s.Keep(program("exit", &out)); err != nil {
		t.Fatal(err)
	}
	await(t, "the fourth start", func() bool { return strings.Count(out.String(), "goodbye") >= 4 })
	if err := <-s.Failed(); err.Error() != "exit has exited: exit status 3" {
		t.Error(err)
	}
	s.Stop()
	starts := strings.Count(out.String(), "goodbye")
	want := "exit has exited: exit status 3; restarting it in 1ms\n" +
		"exit has exited: exit status 3; restarting it in 2ms\n" +
		"exit has exited: exit status 3; restarting it in 4ms\n"
	if got := messages.String(); !strings.HasPrefix(got, want) {
		t.Errorf("it reports\n%s", got)
	}
	time.Sleep(20 * time.Millisecond)
	if strings.Count(out.String(), "goodbye") != starts {
		t.Error("it was started after Stop")
	}
	if err := s.Keep(program("exit", &out)); err == nil {
		t.Error("a program was started after Stop")
	}
}

// TestSettled forgets the exits of a program that ran long enough.
func TestSettled(t *testing.T) {
	t.Parallel()
	s, messages := supervisor(t)
	s.Settled = 0
	if err := s.Keep(program("exit", nil)); err != nil {
		t.Fatal(err)
	}
	await(t, "five exits", func() bool { return strings.Count(messages.String(), "\n") >= 5 })
	s.Stop()
	if got := messages.String(); strings.Contains(got, "in 2ms") {
		t.Errorf("it reports\n%s", got)
	}
	select {
	case err := <-s.Failed():
		t.Errorf("it failed: %v", err)
	default:
	}
}

// TestRestartMissing tries again to start a program whose file does not exist any more.
func TestRestartMissing(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "program")
	if err := os.Symlink(os.Args[0], path); err != nil {
		t.Skip(err)
	}
	s, messages := supervisor(t)
	var out output
	p := program("polite", &out)
	p.Path = path
	if err := s.Keep(Program{Name: "missing", Path: path + "-not"}); err == nil {
		t.Error("a missing program was started")
	}
	p.Env = []string{behaviour + "=exit"}
	if err := s.Keep(p); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	await(t, "a message", func() bool { return strings.Contains(messages.String(), "start polite: ") })
}

// TestStopAll ends all programs within the grace period, also those that ignore the signal.
func TestStopAll(t *testing.T) {
	t.Parallel()
	s, messages := supervisor(t)
	var out output
	for _, does := range []string{"polite", "stubborn", "polite"} {
		if err := s.Keep(program(does, &out)); err != nil {
			t.Fatal(err)
		}
	}
	await(t, "the start", func() bool { return strings.Count(out.String(), "ready") == 3 })
	s.Stop()
	s.Stop()
	if messages.String() != "" {
		t.Errorf("it reports %q", messages.String())
	}
}
