package sessions

import (
	"bytes"
	"compress/flate"
	"crypto/aes"
	"crypto/cipher"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"
)

// ErrCorrupt says that a stored value cannot be read: damaged, moved from its
// place, encrypted with an unknown key, or written by a newer version. Treat it
// as missing.
var ErrCorrupt = errors.New("stored value cannot be read")

const (
	version = 1

	compressed = 1 << 0
	encrypted  = 1 << 1

	compressOver = 1 << 10
	// maxValue bounds a value before compression, and what an encoded one may grow
	// to: with several times as much, one command would hold up Redis for longer
	// than an operation may take.
	maxValue = 8 << 20

	keyIDSize = 4
)

// Codec makes stored values of plain ones: a version byte, a byte of flags, then
// the value, compressed if it is large and that helps, and encrypted if there
// are keys. Encrypted values are
//
//	version flags keyID(4) nonce(12) AES-256-GCM(ciphertext, tag)
//
// with the header and the value's place as additional data, so that a value opens
// only where it was sealed. A key should not seal more than 2^32 values, as its
// nonces are random (NIST SP 800-38D, section 8.3); replace it before.
type Codec struct {
	// Corrupt, if set, is told of values that a [Sealed] store took for missing.
	Corrupt func(error)

	seal *aesKey // nil: values are not encrypted
	open map[[keyIDSize]byte]*aesKey
}

type aesKey struct {
	id   [keyIDSize]byte
	aead cipher.AEAD
}

// Place is where a value is stored.
type Place struct {
	Scope
	Key, Field string
}

// NewCodec makes a codec with AES-256 keys of 32 bytes in base64: the first seals,
// all open. With no keys it neither encrypts nor decrypts. Errors do not hold keys.
func NewCodec(keys []string) (*Codec, error) {
	c := &Codec{open: map[[keyIDSize]byte]*aesKey{}}
	for i, text := range keys {
		secret, err := base64.StdEncoding.DecodeString(text)
		if err != nil || len(secret) != 32 {
			return nil, fmt.Errorf("%w: encryption key %d is not 32 bytes in base64", ErrInvalid, i+1)
		}
		block, err := aes.NewCipher(secret)
		if err != nil {
			return nil, fmt.Errorf("encryption key %d: %w", i+1, err)
		}
		k := &aesKey{}
		if k.aead, err = cipher.NewGCMWithRandomNonce(block); err != nil {
			return nil, fmt.Errorf("encryption key %d: %w", i+1, err)
		}
		id := sha256.Sum256(append([]byte("mcpvia key id\x00"), secret...))
		copy(k.id[:], id[:])
		if c.open[k.id] != nil {
			return nil, fmt.Errorf("%w: encryption key %d is there twice", ErrInvalid, i+1)
		}
		c.open[k.id] = k
		if c.seal == nil {
			c.seal = k
		}
	}
	return c, nil
}

// additional data: the header, then the place, no part of which can pass for
// another's.
func additional(header []byte, p Place) []byte {
	data := bytes.Clone(header)
	for _, s := range []string{p.Client, p.ID, p.Key, p.Field} {
		data = binary.AppendUvarint(data, uint64(len(s)))
		data = append(data, s...)
	}
	return data
}

// Seal encodes a value for its place. It fails with [ErrTooLarge] over 8 MiB.
func (c *Codec) Seal(p Place, plain []byte) ([]byte, error) {
	if len(plain) > maxValue {
		return nil, fmt.Errorf("%w: %d bytes of at most %d", ErrTooLarge, len(plain), maxValue)
	}
	header, body := []byte{version, 0}, plain
	if len(plain) > compressOver {
		if small := deflate(plain); len(small) < len(plain) {
			header[1] |= compressed
			body = small
		}
	}
	if c.seal == nil {
		return append(header, body...), nil
	}
	header[1] |= encrypted
	header = append(header, c.seal.id[:]...)
	sealed := make([]byte, len(header), len(header)+len(body)+c.seal.aead.Overhead())
	copy(sealed, header)
	return c.seal.aead.Seal(sealed, nil, body, additional(header, p)), nil
}

// Open decodes a value that was sealed for this place. All its errors are
// [ErrCorrupt]. A codec with keys opens no value that is not encrypted: whoever
// can write to Redis could else put words into the model's mouth.
func (c *Codec) Open(p Place, sealed []byte) ([]byte, error) {
	if len(sealed) < 2 || sealed[0] != version || sealed[1]&^(compressed|encrypted) != 0 {
		return nil, fmt.Errorf("%w: not of version %d", ErrCorrupt, version)
	}
	flags, body := sealed[1], sealed[2:]
	if (flags&encrypted != 0) != (c.seal != nil) {
		return nil, fmt.Errorf("%w: encrypted, but there is no key, or not encrypted, but there is one", ErrCorrupt)
	}
	if c.seal != nil {
		if len(body) < keyIDSize {
			return nil, fmt.Errorf("%w: too short", ErrCorrupt)
		}
		k := c.open[[keyIDSize]byte(body)]
		if k == nil {
			return nil, fmt.Errorf("%w: encrypted with an unknown key", ErrCorrupt)
		}
		header := sealed[:2+keyIDSize]
		plain, err := k.aead.Open([]byte{}, nil, sealed[len(header):], additional(header, p))
		if err != nil {
			return nil, fmt.Errorf("%w: %v", ErrCorrupt, err)
		}
		body = plain
	}
	if flags&compressed != 0 {
		return inflate(body)
	}
	if len(body) > maxValue {
		return nil, fmt.Errorf("%w: too large", ErrCorrupt)
	}
	return bytes.Clone(body), nil
}

// Writers are large, so they are used again. BestSpeed: values live for an hour.
var writers = sync.Pool{New: func() any {
	w, err := flate.NewWriter(nil, flate.BestSpeed)
	if err != nil {
		panic(err) // the level is a constant
	}
	return w
}}

func deflate(plain []byte) []byte {
	var b bytes.Buffer
	w := writers.Get().(*flate.Writer)
	defer writers.Put(w)
	w.Reset(&b)
	_, _ = w.Write(plain) // a Buffer has no errors
	_ = w.Close()
	return b.Bytes()
}

func inflate(small []byte) ([]byte, error) {
	r := flate.NewReader(bytes.NewReader(small))
	plain, err := io.ReadAll(io.LimitReader(r, maxValue+1))
	if err != nil {
		return nil, fmt.Errorf("%w: %v", ErrCorrupt, err)
	}
	if len(plain) > maxValue {
		return nil, fmt.Errorf("%w: grows over %d bytes", ErrCorrupt, maxValue)
	}
	return plain, nil
}
