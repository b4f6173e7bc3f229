package etcd

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"os"
)

// The format of a bbolt database: pages of a fixed size, larger ones in several of them. The first
// two have the metadata of the last two transactions. The others are B+ trees of sorted keys, one
// for each bucket, and the root of all is a tree of buckets.
const (
	boltMagic   = 0xED0CDAED
	boltVersion = 2

	pageHeader  = 16 // id, flags, count, overflow
	elementSize = 16
	bucketSize  = 16 // root, sequence
	metaSize    = 64 // up to the checksum, which follows

	branchPage   = 0x01
	leafPage     = 0x02
	freelistPage = 0x10
	bucketFlag   = 0x01

	noFreelist = ^uint64(0)
	maxDepth   = 64
)

// pages checks a bbolt database, which panics in goroutines of its own, or reads memory that the
// file does not have, if its pages are damaged. pages reads headers and keys, but not all of a
// large value: there is no checksum to compare it with.
type pages struct {
	file  *os.File
	size  uint64 // of a page
	count uint64
	root  uint64
	free  uint64 // the page with the list of free pages
	seen  []uint64

	// index is that of the last entry of etcd's log that the database has.
	index uint64
}

// checkPages checks the database in a file. It returns the index of the last entry of etcd's log
// that the database has.
func checkPages(path string) (index uint64, err error) {
	file, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer func() { _ = file.Close() }() // it was only read
	p := &pages{file: file}
	if err := p.open(); err != nil {
		return 0, err
	}
	if err := p.tree(p.root, nil, nil, nil, 0); err != nil {
		return 0, err
	}
	return p.index, p.freelist()
}

// open reads the metadata.
func (p *pages) open() error {
	info, err := p.file.Stat()
	if err != nil {
		return err
	}
	// If the first page is damaged, the size of pages, and so the place of the second, is unknown.
	var newest []byte
	var txid uint64
	for size := uint64(1 << 10); size <= 1<<16; size <<= 1 {
		for id := range uint64(2) {
			meta, err := p.read(id*size+pageHeader, metaSize)
			if errors.Is(err, io.EOF) {
				continue
			}
			if err != nil {
				return err
			}
			if !validMeta(meta) || uint64(binary.NativeEndian.Uint32(meta[8:])) != size {
				continue
			}
			if t := binary.NativeEndian.Uint64(meta[48:]); newest == nil || t > txid {
				newest, txid = meta, t
			}
		}
	}
	if newest == nil {
		return errors.New("it is not a database, or its first pages are damaged")
	}
	p.size = uint64(binary.NativeEndian.Uint32(newest[8:]))
	p.root = binary.NativeEndian.Uint64(newest[16:])
	p.free = binary.NativeEndian.Uint64(newest[32:])
	p.count = binary.NativeEndian.Uint64(newest[40:])
	if have := uint64(info.Size()) / p.size; have < p.count {
		return fmt.Errorf("it has %d pages of %d", have, p.count)
	}
	p.seen = make([]uint64, p.count/64+1)
	return nil
}

// validMeta reports whether the checksum of metadata is right.
func validMeta(meta []byte) bool {
	sum := fnv.New64a()
	_, _ = sum.Write(meta[:metaSize-8])
	return binary.NativeEndian.Uint32(meta) == boltMagic && binary.NativeEndian.Uint32(meta[4:]) == boltVersion &&
		binary.NativeEndian.Uint64(meta[metaSize-8:]) == sum.Sum64()
}

// read reads a part of the file.
func (p *pages) read(offset, n uint64) ([]byte, error) {
	data := make([]byte, n)
	if _, err := p.file.ReadAt(data, int64(offset)); err != nil {
		return nil, fmt.Errorf("read %d bytes at %d: %w", n, offset, err)
	}
	return data, nil
}

// page is a page with those that continue it, or the content of a small bucket inside of another.
type page struct {
	id       uint64
	flags    uint16
	elements int
	data     []byte                                 // the begin of it
	length   uint64                                 // of all of it
	at       func(offset, n uint64) ([]byte, error) // reads beyond data
}

func (g *page) errorf(format string, args ...any) error {
	return fmt.Errorf("page %d: %w", g.id, fmt.Errorf(format, args...))
}

// load reads a page that nothing else refers to.
func (p *pages) load(id uint64) (*page, error) {
	g := &page{id: id}
	if id < 2 || id >= p.count {
		return nil, g.errorf("the database has %d", p.count)
	}
	data, err := p.read(id*p.size, p.size)
	if err != nil {
		return nil, err
	}
	overflow := uint64(binary.NativeEndian.Uint32(data[12:]))
	if self := binary.NativeEndian.Uint64(data); self != id {
		return nil, g.errorf("it is page %d", self)
	}
	if id+overflow >= p.count {
		return nil, g.errorf("it has %d pages, beyond the end", overflow+1)
	}
	for i := id; i <= id+overflow; i++ {
		if p.seen[i/64]&(1<<(i%64)) != 0 {
			return nil, g.errorf("it is used twice")
		}
		p.seen[i/64] |= 1 << (i % 64)
	}
	g.length = (overflow + 1) * p.size
	g.at = func(offset, n uint64) ([]byte, error) { return p.read(id*p.size+offset, n) }
	g.header(data)
	return g, nil
}

// header reads the header of a page.
func (g *page) header(data []byte) {
	g.data = data
	g.flags = binary.NativeEndian.Uint16(data[8:])
	g.elements = int(binary.NativeEndian.Uint16(data[10:]))
}

// bytes returns a part of a page.
func (g *page) bytes(offset, n uint64) ([]byte, error) {
	switch {
	case offset > g.length || n > g.length-offset:
		return nil, g.errorf("%d bytes at %d are beyond its end", n, offset)
	case offset+n <= uint64(len(g.data)):
		return g.data[offset : offset+n], nil
	}
	return g.at(offset, n)
}

// tree checks a page and everything below. Its keys are not less than low, and less than high,
// which are nil if there is no limit. bucket is the name of the bucket, or nil for the root.
func (p *pages) tree(id uint64, bucket, low, high []byte, depth int) error {
	g, err := p.load(id)
	if err != nil {
		return err
	}
	return p.node(g, bucket, low, high, depth)
}

// node checks the elements of a page of a tree.
func (p *pages) node(g *page, bucket, low, high []byte, depth int) error {
	if depth > maxDepth {
		return g.errorf("it is too deep")
	}
	if g.flags != branchPage && g.flags != leafPage {
		return g.errorf("unexpected type %#x", g.flags)
	}
	if g.flags == branchPage && g.elements == 0 {
		return g.errorf("it has no elements")
	}
	table, err := g.bytes(pageHeader, uint64(g.elements)*elementSize)
	if err != nil {
		return err
	}
	key := func(i int) ([]byte, error) {
		e := table[i*elementSize:]
		if g.flags == leafPage {
			e = e[4:] // after the flags
		}
		position, size := uint64(binary.NativeEndian.Uint32(e)), uint64(binary.NativeEndian.Uint32(e[4:]))
		return g.bytes(pageHeader+uint64(i)*elementSize+position, size)
	}
	var next []byte
	if g.elements > 0 {
		if next, err = key(0); err != nil {
			return err
		}
	}
	for i := range g.elements {
		this := next
		if bytes.Compare(this, low) < 0 || i > 0 && bytes.Equal(this, low) || high != nil && bytes.Compare(this, high) >= 0 {
			return g.errorf("its keys are out of order")
		}
		low = this
		limit := high
		if next = nil; i+1 < g.elements {
			if next, err = key(i + 1); err != nil {
				return err
			}
			limit = next
		}
		e := table[i*elementSize : (i+1)*elementSize]
		if g.flags == branchPage {
			err = p.tree(binary.NativeEndian.Uint64(e[8:]), bucket, this, limit, depth+1)
		} else {
			err = p.leaf(g, bucket, this, i, e, depth)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// leaf checks the value of a key, which may be a bucket.
func (p *pages) leaf(g *page, bucket, key []byte, i int, element []byte, depth int) error {
	offset := pageHeader + uint64(i)*elementSize + uint64(binary.NativeEndian.Uint32(element[4:])) + uint64(len(key))
	size := uint64(binary.NativeEndian.Uint32(element[12:]))
	if offset > g.length || size > g.length-offset {
		return g.errorf("a value is beyond its end")
	}
	isBucket := binary.NativeEndian.Uint32(element)&bucketFlag != 0
	if !isBucket {
		if bucket == nil {
			return g.errorf("the root has a key that is not a bucket")
		}
		if string(bucket) == string(keyBucket) && !isRevision(key) {
			return g.errorf("the key %x is not a revision", key)
		}
		if string(bucket) != string(metaBucket) || string(key) != string(indexKey) {
			return nil
		}
		value, err := g.bytes(offset, size)
		if err == nil && len(value) == 8 {
			p.index = binary.BigEndian.Uint64(value)
		}
		return err
	}
	if size < bucketSize {
		return g.errorf("a bucket has %d bytes", size)
	}
	value, err := g.bytes(offset, size)
	if err != nil {
		return err
	}
	name := append([]byte{}, key...)
	if root := binary.NativeEndian.Uint64(value); root != 0 {
		return p.tree(root, name, nil, nil, depth+1)
	}
	// A small bucket is a page inside of the value.
	value = value[bucketSize:]
	if len(value) < pageHeader {
		return g.errorf("a bucket has %d bytes", size)
	}
	inner := &page{id: g.id, length: uint64(len(value))}
	inner.header(value)
	if inner.flags != leafPage {
		return g.errorf("a bucket in it has the type %#x", inner.flags)
	}
	return p.node(inner, name, nil, nil, depth+1)
}

// isRevision reports whether a key of etcd's data is a revision: two numbers, separated by an
// underscore, and a mark if it is that of a deletion. etcd panics if it is not.
func isRevision(key []byte) bool {
	return (len(key) == 17 || len(key) == 18 && key[17] == 't') && key[8] == '_'
}

// freelist checks the list of free pages, if there is one.
func (p *pages) freelist() error {
	if p.free == noFreelist {
		return nil
	}
	g, err := p.load(p.free)
	if err != nil {
		return err
	}
	if g.flags != freelistPage {
		return g.errorf("unexpected type %#x instead of the list of free pages", g.flags)
	}
	offset, n := uint64(pageHeader), uint64(g.elements)
	if n == 0xFFFF { // the first element is their number
		first, err := g.bytes(offset, 8)
		if err != nil {
			return err
		}
		offset, n = offset+8, binary.NativeEndian.Uint64(first)
	}
	if n > p.count {
		return g.errorf("%d pages are free, of %d", n, p.count)
	}
	list, err := g.bytes(offset, n*8)
	if err != nil {
		return err
	}
	for ; len(list) > 0; list = list[8:] {
		id := binary.NativeEndian.Uint64(list)
		if id < 2 || id >= p.count || p.seen[id/64]&(1<<(id%64)) != 0 {
			return g.errorf("page %d is not free", id)
		}
	}
	return nil
}
