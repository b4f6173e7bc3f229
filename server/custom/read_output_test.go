package custom

import (
	"bytes"
	"compress/gzip"
	"io"
	"strings"
	"testing"
)

// TestOutput writes objects that are smaller and larger than the buffer, which never grows.
func TestOutput(t *testing.T) {
	t.Parallel()
	const limit = 1000
	var got writes
	o := &output{w: &got, buffers: &buffers{max: limit}}
	var want strings.Builder
	for _, size := range []int{1, limit - 100, limit / 2, limit, 10 * limit, 3, 2*limit - 50} {
		v := &view{text: []byte(`{"metadata":{"uid":"` + strings.Repeat("x", size) + `"}}`), at: int32(len(`{"metadata":{`)), after: true}
		o.text("(")
		o.view(v, 12345)
		o.text(")")
		want.WriteString("(" + string(v.append(nil, 12345)) + ")")
		if o.buffer.Cap() > 2*limit {
			t.Errorf("after %d bytes, the buffer has %d", size, o.buffer.Cap())
		}
	}
	o.flush()
	calls := got.calls
	for range 3 {
		o.bytes([]byte("ab"))
		want.WriteString("ab")
	}
	if got.calls != calls {
		t.Error("short texts are not collected")
	}
	o.flush()
	if o.buffer != nil || o.err != nil {
		t.Error("the buffer was not given back:", o.err)
	}
	if got.String() != want.String() {
		t.Errorf("got %s, want %s", got.String(), want.String())
	}
	if got.calls > 15 {
		t.Errorf("%d writes", got.calls)
	}
}

// writes counts writes.
type writes struct {
	bytes.Buffer
	calls int
}

func (w *writes) Write(p []byte) (int, error) {
	w.calls++
	return w.Buffer.Write(p)
}

// TestGzipStream reads what was written to a stream after each write, as a client does that
// waits for events, before and after the end of the compression.
func TestGzipStream(t *testing.T) {
	t.Parallel()
	r, w := io.Pipe()
	read := make(chan struct{}, 4) // has an element when the client has read everything
	go func() {
		z := newGzipStream(w, newDeflaters())
		for range 1000 {
			_, _ = io.WriteString(z, "initial\n")
		}
		_ = z.store()
		if z.deflater != nil {
			t.Error("the compressor is kept")
		}
		for n := range 3 {
			<-read
			_, _ = z.Write(bytes.Repeat([]byte{byte('a' + n)}, 40_000*(n+1)))
			_ = z.flush()
		}
		<-read
		_ = z.Close()
		_ = w.Close()
	}()
	compressed := &writes{}
	z, err := gzip.NewReader(io.TeeReader(r, compressed))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{strings.Repeat("initial\n", 1000), strings.Repeat("a", 40_000), strings.Repeat("b", 80_000), strings.Repeat("c", 120_000)} {
		got := make([]byte, len(want))
		if _, err := io.ReadFull(z, got); err != nil || string(got) != want {
			t.Fatalf("%.20q, %v, want %.20q", got, err, want)
		}
		read <- struct{}{}
	}
	// The reader checks the sum and the size.
	if rest, err := io.ReadAll(z); len(rest) > 0 || err != nil {
		t.Errorf("%q, %v", rest, err)
	}
	if overhead := compressed.Len() - 240_000; overhead > 1000 {
		t.Errorf("the initial part has %d bytes", overhead)
	}

	// An empty stream is one, too.
	var empty bytes.Buffer
	if err := newGzipStream(&empty, newDeflaters()).Close(); err != nil {
		t.Fatal(err)
	}
	if z, err = gzip.NewReader(&empty); err != nil {
		t.Fatal(err)
	}
	if rest, err := io.ReadAll(z); len(rest) > 0 || err != nil {
		t.Errorf("%q, %v", rest, err)
	}
}
