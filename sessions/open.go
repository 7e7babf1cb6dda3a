package sessions

// Options say where the store is and how large it may grow.
type Options struct {
	// MaxEntries and MaxBytes bound the store in memory. Zero: 100,000 keys, 256 MiB.
	MaxEntries int
	MaxBytes   int64
}

// Open gives the store that o describes.
func Open(o Options) (Store, error) {
	if o.MaxEntries == 0 {
		o.MaxEntries = 100_000
	}
	if o.MaxBytes == 0 {
		o.MaxBytes = 256 << 20
	}
	return NewMemory(o.MaxEntries, o.MaxBytes), nil
}
