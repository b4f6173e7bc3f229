package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"
)

// killer kills and restarts the server again and again.
type killer struct {
	kills  int // read after stop
	err    error
	cancel context.CancelFunc
	done   chan struct{}
}

// startKiller kills the server each time it has been ready for a time.
func startKiller(ctx context.Context, c *cluster, interval time.Duration) *killer {
	waits, cancel := context.WithCancel(ctx)
	k := &killer{cancel: cancel, done: make(chan struct{})}
	go func() { // ends with stop
		defer close(k.done)
		for {
			select {
			case <-waits.Done():
				return
			case <-time.After(interval):
			}
			if k.err = c.restart(ctx); k.err != nil {
				c.fail(k.err)
				return
			}
			k.kills++
		}
	}()
	return k
}

// stop ends the kills. The server is ready then, or an error is returned.
func (k *killer) stop() error {
	k.cancel()
	<-k.done
	return k.err
}

// unwanted are texts that the log of the server must not have.
var unwanted = []string{"DATA RACE", "[SHOULD NOT HAPPEN]", "panic:", "Observed a panic", "fatal error:"}

// checkLogs returns an error for each line of a log that must not be there, up to a limit.
func checkLogs(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	var problems []error
	scanner := bufio.NewScanner(file)
	scanner.Buffer(nil, 16<<20)
	for number := 1; scanner.Scan() && len(problems) < 20; number++ {
		for _, text := range unwanted {
			if strings.Contains(scanner.Text(), text) {
				problems = append(problems, fmt.Errorf("%s:%d: %s", path, number, scanner.Text()))
				break
			}
		}
	}
	return errors.Join(append(problems, scanner.Err())...)
}
