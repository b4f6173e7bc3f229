package yamlx

// NewBytesReader returns a Reader of text in memory. It needs no buffer, which matters for
// many small files. src must not be changed: documents may share its memory.
func NewBytesReader(src []byte, o Options) *Reader {
	o = o.withDefaults()
	return &Reader{o: o, line: o.Line, buf: src, eof: true, keeps: true}
}
