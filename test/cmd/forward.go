package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"
)

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
