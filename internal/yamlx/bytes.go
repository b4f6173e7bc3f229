package yamlx

// NewBytesReader returns a Reader of a text that is in memory already. It needs no
// buffer, which counts where there are many small files. src must not be changed.
func NewBytesReader(src []byte, o Options) *Reader {
	return &Reader{o: o.withDefaults(), line: 1, buf: src, eof: true}
}
