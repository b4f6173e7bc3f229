package publish

import (
	"bufio"
	"bytes"
	"compress/flate"
	"encoding/binary"
	"hash/crc32"
	"io"
	"slices"
	"sort"
	"sync"
)

// piece is a part of a text. It is immutable, and most pieces are in many documents.
type piece struct {
	// raw is the content, or nil if it is packed.
	raw []byte
	// packed is the content as a deflate stream that ends at a byte without being final, so
	// that the packed pieces of a text are one stream.
	packed []byte
	size   int    // of the content
	crc    uint32 // of the content, if it is packed
}

func rawPiece(content []byte) *piece { return &piece{raw: content, size: len(content)} }

// memory returns the size of what is kept.
func (p *piece) memory() int { return len(p.raw) + len(p.packed) }

// packer packs pieces. The zero value is ready. It is safe for concurrent use.
type packer struct{ writers sync.Pool }

// smallPiece is the size below which packing does not pay.
const smallPiece = 256

// pack returns the piece of a content.
func (p *packer) pack(content []byte) (*piece, error) {
	if len(content) < smallPiece {
		return rawPiece(content), nil
	}
	var out bytes.Buffer
	w, _ := p.writers.Get().(*flate.Writer)
	if w == nil {
		var err error
		if w, err = flate.NewWriter(&out, flate.BestSpeed); err != nil {
			return nil, err
		}
	} else {
		w.Reset(&out)
	}
	defer p.writers.Put(w)
	if _, err := w.Write(content); err != nil {
		return nil, err
	}
	if err := w.Flush(); err != nil {
		return nil, err
	}
	return &piece{packed: bytes.Clone(out.Bytes()), size: len(content), crc: crc32.ChecksumIEEE(content)}, nil
}

// unpacker unpacks pieces. One goroutine at a time may use it.
type unpacker struct {
	from    bytes.Reader
	inflate io.ReadCloser
	buffer  []byte
}

// content returns the content of a piece, which is valid until the next call.
func (u *unpacker) content(p *piece) ([]byte, error) {
	if p.packed == nil {
		return p.raw, nil
	}
	u.from.Reset(p.packed)
	if u.inflate == nil {
		u.inflate = flate.NewReader(&u.from)
	} else if err := u.inflate.(flate.Resetter).Reset(&u.from, nil); err != nil {
		return nil, err
	}
	u.buffer = slices.Grow(u.buffer[:0], p.size)[:p.size]
	_, err := io.ReadFull(u.inflate, u.buffer)
	return u.buffer, err
}

// text is a document in pieces.
type text []*piece

// size returns the size of the content.
func (t text) size() (size int) {
	for _, p := range t {
		size += p.size
	}
	return size
}

// isPacked reports whether most of the text is packed.
func (t text) isPacked() bool {
	packed, size := 0, 0
	for _, p := range t {
		if size += p.size; p.packed != nil {
			packed += p.size
		}
	}
	return packed > size/2
}

// reader returns a reader of the whole text. One goroutine at a time may use it.
func (t text) reader() io.ReadSeeker {
	r := &textReader{text: t, ends: make([]int64, len(t)), last: -1}
	size := int64(0)
	for i, piece := range t {
		size += int64(piece.size)
		r.ends[i] = size
	}
	return io.NewSectionReader(r, 0, size)
}

// textReader is an io.ReaderAt of a text.
type textReader struct {
	text text
	ends []int64 // the offsets after each piece
	// last is the number of the piece whose content is known: reads are shorter than pieces.
	last     int
	content  []byte
	unpacker unpacker
}

func (r *textReader) ReadAt(to []byte, offset int64) (n int, err error) {
	for i := sort.Search(len(r.ends), func(i int) bool { return r.ends[i] > offset }); i < len(r.text) && n < len(to); i++ {
		if r.last != i {
			r.last = -1
			if r.content, err = r.unpacker.content(r.text[i]); err != nil {
				return n, err
			}
			r.last = i
		}
		skip := offset + int64(n) - (r.ends[i] - int64(len(r.content)))
		n += copy(to[n:], r.content[skip:])
	}
	if n < len(to) {
		return n, io.EOF
	}
	return n, nil
}

// writeGzip writes the text compressed. Packed pieces are written as they are.
func (t text) writeGzip(to io.Writer) error {
	w := bufio.NewWriterSize(to, 64<<10)
	// Errors of w are those of Flush.
	_, _ = w.Write([]byte{0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff}) // RFC 1952: deflate, no name, no time, unknown system
	crc, size := uint32(0), uint32(0)
	for _, p := range t {
		size += uint32(p.size)
		if p.packed != nil {
			_, _ = w.Write(p.packed)
			crc = joinCRC(crc, p.crc, p.size)
			continue
		}
		crc = crc32.Update(crc, crc32.IEEETable, p.raw)
		for block := range slices.Chunk(p.raw, 0xffff) { // RFC 1951: blocks that are not compressed
			n := uint16(len(block))
			_, _ = w.Write(binary.LittleEndian.AppendUint16(binary.LittleEndian.AppendUint16([]byte{0}, n), ^n))
			_, _ = w.Write(block)
		}
	}
	end := []byte{1, 0, 0, 0xff, 0xff} // an empty block, the final one
	_, _ = w.Write(binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(end, crc), size))
	return w.Flush()
}

// joinCRC returns the CRC of two texts of which the second has a size. A CRC is a remainder of
// polynomials: that of the first text is multiplied by x to the number of bits that follow.
func joinCRC(first, second uint32, size int) uint32 {
	power := uint32(1) << 30 // x, in the order of bits of crc32.IEEE
	for range 3 {
		power = multiply(power, power) // the bits of a byte
	}
	for ; size > 0; size >>= 1 {
		if size&1 != 0 {
			first = multiply(power, first)
		}
		power = multiply(power, power)
	}
	return first ^ second
}

// multiply multiplies polynomials modulo that of crc32.IEEE. The highest bit is that of x to the
// power of 0.
func multiply(a, b uint32) (product uint32) {
	for bit := uint32(1) << 31; bit != 0; bit >>= 1 {
		if a&bit != 0 {
			product ^= b
		}
		carry := b & 1
		b >>= 1
		if carry != 0 {
			b ^= crc32.IEEE
		}
	}
	return product
}

// joined is a document of parts: the members of some of its objects, and the text around them.
type joined struct {
	frame    [][]byte // one more than sections
	sections [][]*piece
}

// text returns the document.
func (j *joined) text() text {
	comma := rawPiece([]byte{','})
	out := text{rawPiece(j.frame[0])}
	for s, members := range j.sections {
		for i, m := range members {
			if i > 0 {
				out = append(out, comma)
			}
			out = append(out, m)
		}
		out = append(out, rawPiece(j.frame[s+1]))
	}
	return out
}

// protoChunk is the size of JSON that is converted at once.
const protoChunk = 1 << 20

// proto returns the document as protobuf. convert converts one, and needs many times its size: a large
// document is converted in chunks, each of which has some of the members. The chunks together are a
// message of all of them, because messages in protobuf are merged if they follow each other.
func (j *joined) proto(convert func([]byte) ([]byte, error), pack func([]byte) (*piece, error)) (text, error) {
	var out text
	var unpacker unpacker
	for s, members := range j.sections {
		for first := true; len(members) > 0 || first && s == 0; first = false {
			n, size := 0, 0
			for ; n < len(members) && (n == 0 || size < protoChunk); n++ {
				size += members[n].size
			}
			chunk, err := j.chunk(s, members[:n], &unpacker)
			if err != nil {
				return nil, err
			}
			data, err := convert(chunk)
			if err != nil {
				return nil, err
			}
			piece, err := pack(data)
			if err != nil {
				return nil, err
			}
			out, members = append(out, piece), members[n:]
		}
	}
	return out, nil
}

// chunk returns a document with some members of one section.
func (j *joined) chunk(section int, members []*piece, u *unpacker) ([]byte, error) {
	var out []byte
	for s, frame := range j.frame {
		out = append(out, frame...)
		for i := 0; s == section && i < len(members); i++ {
			content, err := u.content(members[i])
			if err != nil {
				return nil, err
			}
			if i > 0 {
				out = append(out, ',')
			}
			out = append(out, content...)
		}
	}
	return out, nil
}
