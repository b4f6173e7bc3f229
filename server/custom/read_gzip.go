package custom

import (
	"compress/flate"
	"encoding/binary"
	"hash/crc32"
	"io"
	"sync"
)

// gzipStream is a gzip stream whose compression can end before the stream does. A watch
// compresses its initial events only: a compressor needs almost a megabyte of memory, and a
// watch may last for hours. What follows is stored in the same stream as it is.
type gzipStream struct {
	w         io.Writer
	deflaters *sync.Pool
	deflater  *flate.Writer // nil when the compression has ended
	sum, size uint32        // of what was written
}

// newGzipStream begins a stream. The caller must call Close.
func newGzipStream(w io.Writer, deflaters *sync.Pool) *gzipStream {
	z := &gzipStream{w: w, deflaters: deflaters, deflater: deflaters.Get().(*flate.Writer)}
	z.deflater.Reset(w)
	// The method is deflate. There is no file name and no time, and the operating system is
	// unknown. If the client has gone, the next write fails, too.
	_, _ = w.Write([]byte{0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255})
	return z
}

// newDeflaters returns a pool of compressors.
func newDeflaters() *sync.Pool {
	return &sync.Pool{New: func() any {
		z, err := flate.NewWriter(nil, flate.BestSpeed)
		if err != nil {
			panic(err) // there is such a level
		}
		return z
	}}
}

// storedBytes is the largest size of a stored block.
const storedBytes = 1<<16 - 1

// Write adds data to the stream.
func (z *gzipStream) Write(p []byte) (int, error) {
	z.sum = crc32.Update(z.sum, crc32.IEEETable, p)
	z.size += uint32(len(p))
	if z.deflater != nil {
		return z.deflater.Write(p)
	}
	for n := 0; n < len(p); {
		part := p[n:min(n+storedBytes, len(p))]
		if err := z.block(0, len(part)); err != nil {
			return n, err
		}
		if _, err := z.w.Write(part); err != nil {
			return n, err
		}
		n += len(part)
	}
	return len(p), nil
}

// block writes the head of a stored block. The stream is at the boundary of a byte: stored
// blocks end there, and so does flushed compressed data.
func (z *gzipStream) block(final byte, size int) error {
	head := [5]byte{final}
	binary.LittleEndian.PutUint16(head[1:], uint16(size))
	binary.LittleEndian.PutUint16(head[3:], ^uint16(size))
	_, err := z.w.Write(head[:])
	return err
}

// flush makes sure that a client can read what was written. An empty block marks the place: Go's
// decompressor returns the end of a block only when it knows that another block follows.
func (z *gzipStream) flush() error {
	if z.deflater != nil {
		return z.deflater.Flush() // it ends with such a block
	}
	return z.block(0, 0)
}

// store ends the compression: what follows is stored as it is.
func (z *gzipStream) store() error {
	if z.deflater == nil {
		return nil
	}
	err := z.flush()
	z.deflater.Reset(io.Discard) // it must not keep the response
	z.deflaters.Put(z.deflater)
	z.deflater = nil
	return err
}

// Close ends the stream.
func (z *gzipStream) Close() error {
	if err := z.store(); err != nil {
		return err
	}
	if err := z.block(1, 0); err != nil {
		return err
	}
	tail := binary.LittleEndian.AppendUint32(nil, z.sum)
	_, err := z.w.Write(binary.LittleEndian.AppendUint32(tail, z.size))
	return err
}
