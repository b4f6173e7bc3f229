package memnet

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// bufferSize is the number of bytes that may be written before they are read.
const bufferSize = 256 << 10

// conn is one end of a connection.
type conn struct {
	in, out       *stream
	local, remote net.Addr
}

func (c *conn) Read(p []byte) (int, error) {
	n, err := c.in.read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = c.fail("read", err)
	}
	return n, err
}

func (c *conn) Write(p []byte) (int, error) {
	n, err := c.out.write(p)
	if err != nil {
		err = c.fail("write", err)
	}
	return n, err
}

// Close closes both directions. The other end can still read what was written.
func (c *conn) Close() error {
	if !c.in.closeRead() {
		return c.fail("close", net.ErrClosed)
	}
	c.out.closeWrite()
	return nil
}

func (c *conn) LocalAddr() net.Addr  { return c.local }
func (c *conn) RemoteAddr() net.Addr { return c.remote }

func (c *conn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

func (c *conn) SetReadDeadline(t time.Time) error {
	if !c.in.setDeadline(&c.in.reading, t) {
		return c.fail("set", net.ErrClosed)
	}
	return nil
}

func (c *conn) SetWriteDeadline(t time.Time) error {
	if !c.out.setDeadline(&c.out.writing, t) {
		return c.fail("set", net.ErrClosed)
	}
	return nil
}

func (c *conn) fail(op string, err error) error {
	return &net.OpError{Op: op, Net: network, Source: c.local, Addr: c.remote, Err: err}
}

// stream is one direction of a connection.
type stream struct {
	mu      sync.Mutex
	changed *sync.Cond
	buffer  []byte
	// reading and writing are the ends. One that is closed is not used again.
	reading, writing end
}

// end is one end of a stream.
type end struct {
	closed bool
	// expired is set when the deadline has passed, which timer does.
	expired bool
	timer   *time.Timer
}

// stopTimer stops the timer. One that has fired finds that it is not the current one.
func (e *end) stopTimer() {
	if e.timer != nil {
		e.timer.Stop()
		e.timer = nil
	}
}

func newStream() *stream {
	s := &stream{}
	s.changed = sync.NewCond(&s.mu)
	return s
}

func (s *stream) read(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		switch {
		case s.reading.closed:
			return 0, net.ErrClosed
		case s.reading.expired:
			return 0, os.ErrDeadlineExceeded
		case len(p) == 0:
			return 0, nil
		case len(s.buffer) > 0:
			n := copy(p, s.buffer)
			if s.buffer = s.buffer[n:]; len(s.buffer) == 0 {
				s.buffer = nil
			}
			s.changed.Broadcast()
			return n, nil
		case s.writing.closed:
			return 0, io.EOF
		}
		s.changed.Wait()
	}
}

func (s *stream) write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	written := 0
	for {
		switch {
		case s.writing.closed:
			return written, net.ErrClosed
		case s.reading.closed:
			return written, syscall.EPIPE
		case s.writing.expired:
			return written, os.ErrDeadlineExceeded
		case written == len(p):
			return written, nil
		}
		if n := min(bufferSize-len(s.buffer), len(p)-written); n > 0 {
			s.buffer = append(s.buffer, p[written:written+n]...)
			written += n
			s.changed.Broadcast()
			continue
		}
		s.changed.Wait()
	}
}

// closeRead closes the end that reads, and drops what was not read. It reports whether it was open.
func (s *stream) closeRead() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.reading.closed {
		return false
	}
	s.reading.closed = true
	s.reading.stopTimer()
	s.buffer = nil
	s.changed.Broadcast()
	return true
}

// closeWrite closes the end that writes.
func (s *stream) closeWrite() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.writing.closed = true
	s.writing.stopTimer()
	s.changed.Broadcast()
}

// setDeadline sets the deadline of an end of the stream; the zero time means none. It reports
// whether the end is open.
func (s *stream) setDeadline(e *end, t time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e.closed {
		return false
	}
	e.stopTimer()
	e.expired = !t.IsZero() && !t.After(time.Now())
	if !t.IsZero() && !e.expired {
		var timer *time.Timer
		timer = time.AfterFunc(time.Until(t), func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			if e.timer == timer {
				e.expired = true
				s.changed.Broadcast()
			}
		})
		e.timer = timer
	}
	s.changed.Broadcast()
	return true
}
