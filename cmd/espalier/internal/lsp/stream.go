package lsp

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/textproto"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/sourcegraph/jsonrpc2"
)

// maxHeader is the maximum size of the header of a message.
const maxHeader = 8 << 10

// stream reads and writes messages with the header of the protocol. Unlike the codec of the JSON-RPC
// library it limits the size of messages, answers those that it cannot read instead of ending the
// connection, keeps the parameters as they are, and never blocks a writer.
type stream struct {
	rwc io.ReadWriteCloser
	in  *bufio.Reader
	// limit is the maximum size of a message, and of all messages that wait to be written.
	limit, queueLimit int

	// params are those of the message that ReadObject has returned last. Only the reader uses it.
	params json.RawMessage
	// tooLarge is called for each message that exceeds the limit, if it is set.
	tooLarge func(size int64)

	mu sync.Mutex
	// queue are the messages that wait, queued is their size.
	queue  [][]byte
	queued int
	closed bool
	// ended is the reason why the reader or the writer has ended.
	ended error

	// start is closed when messages may be read, written and read when the writer and the reader
	// have ended.
	start, written, read chan struct{}
	// wake wakes the writer.
	wake chan struct{}
}

// newStream returns a stream and starts its writer, which ends after close.
func newStream(rwc io.ReadWriteCloser, limit, queueLimit int) *stream {
	s := &stream{
		rwc: rwc, in: bufio.NewReaderSize(rwc, 64<<10), limit: limit, queueLimit: queueLimit,
		wake: make(chan struct{}, 1), start: make(chan struct{}), written: make(chan struct{}), read: make(chan struct{}),
	}
	go s.write()
	return s
}

// envelope is what all messages have.
type envelope struct {
	ID     json.RawMessage `json:"id"`
	Method *string         `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  json.RawMessage `json:"error"`
}

// ReadObject implements jsonrpc2.ObjectStream. It leaves the parameters of a request in s.params:
// the library would decode and encode them again, which matters for large documents.
func (s *stream) ReadObject(v any) error {
	<-s.start
	err := s.readObject(v)
	if err != nil {
		s.end(err)
		close(s.read)
	}
	return err
}

func (s *stream) readObject(v any) error {
	for {
		if s.isClosed() {
			return io.EOF
		}
		data, err := s.readMessage()
		if err != nil {
			return err
		}
		if data == nil {
			continue
		}
		small, params, code, err := unpack(data)
		if err == nil {
			if err = json.Unmarshal(small, v); err == nil {
				s.params = params
				return nil
			}
			code = jsonrpc2.CodeInvalidRequest
		}
		s.reject(code, err)
	}
}

// unpack checks a message and returns it without its parameters.
func unpack(data []byte) (small []byte, params json.RawMessage, code int64, err error) {
	if trimmed := bytes.TrimLeft(data, " \t\r\n"); len(trimmed) > 0 && trimmed[0] == '[' {
		return nil, nil, jsonrpc2.CodeInvalidRequest, errors.New("batches are not supported")
	}
	var e envelope
	if err := json.Unmarshal(data, &e); err != nil {
		var syntax *json.SyntaxError
		if errors.As(err, &syntax) {
			return nil, nil, jsonrpc2.CodeParseError, err
		}
		return nil, nil, jsonrpc2.CodeInvalidRequest, err
	}
	if e.Method == nil {
		return data, nil, 0, nil
	}
	header := map[string]any{"method": *e.Method}
	if len(e.ID) > 0 && string(e.ID) != "null" {
		var id jsonrpc2.ID
		if err := id.UnmarshalJSON(e.ID); err != nil {
			return nil, nil, jsonrpc2.CodeInvalidRequest, fmt.Errorf("id %s is neither a string nor a natural number", e.ID)
		}
		header["id"] = id
	}
	small, err = json.Marshal(header)
	return small, e.Params, jsonrpc2.CodeInvalidRequest, err
}

// reject answers a message whose id is unknown.
func (s *stream) reject(code int64, err error) {
	_ = s.WriteObject(map[string]any{
		"jsonrpc": "2.0", "id": nil,
		"error": jsonrpc2.Error{Code: code, Message: err.Error()},
	})
}

// readMessage returns the next message, or nil for one that is too large.
func (s *stream) readMessage() ([]byte, error) {
	length, err := s.readHeader()
	if err != nil {
		return nil, err
	}
	if length > int64(s.limit) {
		s.reject(jsonrpc2.CodeInvalidRequest, fmt.Errorf("the message has %d bytes: at most %d are supported", length, s.limit))
		if s.tooLarge != nil {
			s.tooLarge(length)
		}
		if _, err := io.CopyN(io.Discard, s.in, length); err != nil {
			return nil, unexpected(err)
		}
		return nil, nil
	}
	// The memory grows with what arrives, not with what the header promises.
	var message bytes.Buffer
	message.Grow(int(min(length, 1<<20)) + bytes.MinRead)
	if n, err := message.ReadFrom(io.LimitReader(s.in, length)); err != nil || n < length {
		return nil, unexpected(err)
	}
	return message.Bytes(), nil
}

// unexpected returns the error of a message that ends early.
func unexpected(err error) error {
	if err == nil || errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// errHeader is the error of a header that leaves unknown where the next message starts.
var errHeader = errors.New("invalid header")

// readHeader reads the header of a message and returns the length of the message.
func (s *stream) readHeader() (length int64, err error) {
	length = -1
	for size := 0; ; {
		line, err := s.in.ReadSlice('\n')
		size += len(line)
		switch {
		case errors.Is(err, bufio.ErrBufferFull) || size > maxHeader:
			return 0, fmt.Errorf("%w: longer than %d bytes", errHeader, maxHeader)
		case errors.Is(err, io.EOF) && size > 0:
			return 0, io.ErrUnexpectedEOF
		case err != nil:
			return 0, err
		}
		text := strings.TrimRight(string(line), "\r\n")
		if text == "" {
			if length < 0 {
				return 0, fmt.Errorf("%w: no Content-Length", errHeader)
			}
			return length, nil
		}
		name, value, ok := strings.Cut(text, ":")
		if !ok {
			return 0, fmt.Errorf("%w: %.100q has no colon", errHeader, text)
		}
		switch textproto.CanonicalMIMEHeaderKey(strings.TrimSpace(name)) {
		case "Content-Length":
			length, err = strconv.ParseInt(strings.TrimSpace(value), 10, 64)
			if err != nil || length < 0 {
				return 0, fmt.Errorf("%w: Content-Length is %.100q", errHeader, value)
			}
		case "Content-Type":
		default:
			// The protocol has no others. A page in a browser can send anything but the first line of a request.
			return 0, fmt.Errorf("%w: %.100q is neither Content-Length nor Content-Type", errHeader, name)
		}
	}
}

// WriteObject implements jsonrpc2.ObjectStream. It returns when the message waits to be written.
func (s *stream) WriteObject(v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	message := append(make([]byte, 0, len(data)+32), "Content-Length: "...)
	message = append(strconv.AppendInt(message, int64(len(data)), 10), "\r\n\r\n"...)
	message = append(message, data...)

	s.mu.Lock()
	switch {
	case s.closed:
		s.mu.Unlock()
		return jsonrpc2.ErrClosed
	case s.queued > 0 && s.queued+len(message) > s.queueLimit:
		err := fmt.Errorf("the client does not read: %d bytes wait for it", s.queued)
		s.mu.Unlock()
		s.end(err)
		// This unblocks the writer and the reader.
		_ = s.rwc.Close()
		return err
	}
	s.queue = append(s.queue, message)
	s.queued += len(message)
	s.mu.Unlock()
	s.signal()
	return nil
}

// signal wakes the writer.
func (s *stream) signal() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// write writes messages until the stream is closed and all messages are written, or until a write
// fails.
func (s *stream) write() {
	defer close(s.written)
	for {
		s.mu.Lock()
		messages, closed := s.queue, s.closed
		s.queue = nil
		s.mu.Unlock()
		for _, m := range messages {
			if _, err := s.rwc.Write(m); err != nil {
				s.end(err)
				_ = s.rwc.Close()
				return
			}
			s.mu.Lock()
			s.queued -= len(m)
			s.mu.Unlock()
		}
		if len(messages) > 0 {
			continue
		}
		if closed {
			return
		}
		<-s.wake
	}
}

// end records why the stream has ended, and lets the writer end.
func (s *stream) end(reason error) {
	s.mu.Lock()
	if s.ended == nil {
		s.ended = reason
	}
	s.closed = true
	s.mu.Unlock()
	s.signal()
}

// reason returns why the stream has ended, or nil.
func (s *stream) reason() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ended
}

func (s *stream) isClosed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}

// drainTime is how long Close waits for messages to be written, readTime how long finished waits for
// the reader.
const (
	drainTime = time.Second
	readTime  = 250 * time.Millisecond
)

// Close implements jsonrpc2.ObjectStream. It waits for a bounded time until all messages are written.
func (s *stream) Close() error {
	s.end(jsonrpc2.ErrClosed)
	timer := time.NewTimer(drainTime)
	defer timer.Stop()
	select {
	case <-s.written:
	case <-timer.C:
	}
	return s.rwc.Close()
}

// finished waits for a bounded time until the reader and the writer have ended. Closing a
// connection ends both, but it does not interrupt the read of a standard input that is a terminal or
// a file.
func (s *stream) finished() {
	timer := time.NewTimer(readTime)
	defer timer.Stop()
	for _, done := range []chan struct{}{s.written, s.read} {
		select {
		case <-done:
		case <-timer.C:
			return
		}
	}
}
