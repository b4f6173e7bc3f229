package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"
)

// killer kills the server of a cluster again and again, and starts it with the same data and port.
type killer struct {
	cancel context.CancelFunc
	done   chan struct{}
	mutex  sync.Mutex
	err    error
}

func startKiller(c *cluster, interval time.Duration) *killer {
	ctx, cancel := context.WithCancel(context.Background())
	k := &killer{cancel: cancel, done: make(chan struct{})}
	go func() { // ends with stop
		defer close(k.done)
		for kills := 1; ; kills++ {
			select {
			case <-ctx.Done():
				return
			case <-c.server.ended:
				k.fail(c.server.check())
				return
			case <-time.After(interval):
			}
			c.server.killNow()
			p, err := startProcess(c.r.output, c.args[0], c.args[1:]...)
			if err != nil {
				k.fail(err)
				return
			}
			c.server = p
			if err := c.await(ctx, c.url("/readyz"), p); err != nil && ctx.Err() == nil {
				k.fail(fmt.Errorf("after kill %d: %w", kills, err))
				return
			}
		}
	}()
	return k
}

func (k *killer) fail(err error) {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	k.err = err
}

// check returns an error if the server could not be started again.
func (k *killer) check() error {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	return k.err
}

// stop returns when no more kills follow.
func (k *killer) stop() {
	k.cancel()
	<-k.done
}

// forwarder forwards connections to a server that is sometimes down: new connections wait for it.
type forwarder struct {
	listener net.Listener
	port     int
	wait     sync.WaitGroup
}

func startForwarder(to int) (*forwarder, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	f := &forwarder{listener: l, port: l.Addr().(*net.TCPAddr).Port}
	f.wait.Go(func() { // ends with stop
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go forward(conn, fmt.Sprintf("127.0.0.1:%d", to)) // ends with the connection
		}
	})
	return f, nil
}

// forward copies the data of a connection in both directions until one side closes it.
func forward(conn net.Conn, address string) {
	defer conn.Close()
	for begin := time.Now(); time.Since(begin) < startTimeout; time.Sleep(startPoll) {
		to, err := net.Dial("tcp", address)
		if err != nil {
			continue
		}
		defer to.Close()
		done := make(chan struct{}, 2)
		copyData := func(to, from net.Conn) {
			_, _ = io.Copy(to, from) // either side may be gone
			done <- struct{}{}
		}
		go copyData(to, conn)
		go copyData(conn, to)
		<-done
		return
	}
}

// stop ends the listener. Connections end with their server.
func (f *forwarder) stop() error {
	err := f.listener.Close()
	f.wait.Wait()
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}
