package sessions_test

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"strings"
	"testing"

	"github.com/mcp-via-llm/mcp-via-llm/sessions"
	"pgregory.net/rapid"
)

func newKey() string {
	secret := make([]byte, 32)
	rand.Read(secret)
	return base64.StdEncoding.EncodeToString(secret)
}

func codec(t testing.TB, keys ...string) *sessions.Codec {
	t.Helper()
	c, err := sessions.NewCodec(keys)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

var here = sessions.Place{Scope: sessions.Scope{Client: "c", ID: "i"}, Key: "k", Field: "f"}

func TestCodecGivesBackWhatItTook(t *testing.T) {
	codecs := []*sessions.Codec{codec(t), codec(t, newKey())}
	rapid.Check(t, func(t *rapid.T) {
		c := rapid.SampledFrom(codecs).Draw(t, "codec")
		value := bytes.Repeat(rapid.SliceOf(rapid.Byte()).Draw(t, "value"), rapid.IntRange(1, 200).Draw(t, "times"))
		place := sessions.Place{Scope: sessions.Scope{Client: rapid.String().Draw(t, "client")}, Key: rapid.String().Draw(t, "key")}
		sealed, err := c.Seal(place, value)
		if err != nil {
			t.Fatal(err)
		}
		if len(sealed) > len(value)+34 {
			t.Errorf("%d bytes of %d", len(sealed), len(value))
		}
		plain, err := c.Open(place, sealed)
		if err != nil || !bytes.Equal(plain, value) {
			t.Errorf("%q, %v", plain, err)
		}
	})
}

func TestCodecCompressesAndHides(t *testing.T) {
	text := []byte(strings.Repeat(`{"role":"tool","content":"sunny"},`, 100))
	for name, c := range map[string]*sessions.Codec{"plain": codec(t), "encrypted": codec(t, newKey())} {
		sealed, err := c.Seal(here, text)
		if err != nil || len(sealed) > len(text)/10 {
			t.Errorf("%s: %d bytes of %d, %v", name, len(sealed), len(text), err)
		}
	}
	c := codec(t, newKey())
	one, _ := c.Seal(here, []byte("sunny"))
	two, _ := c.Seal(here, []byte("sunny"))
	if bytes.Contains(one, []byte("sunny")) || bytes.Equal(one, two) {
		t.Errorf("%q, %q", one, two)
	}
}

// A value opens only in its place, and not at all after any change.
func TestCodecRefuses(t *testing.T) {
	old, young := newKey(), newKey()
	c := codec(t, old)
	sealed, err := c.Seal(here, bytes.Repeat([]byte("x"), 2000))
	if err != nil {
		t.Fatal(err)
	}
	refuse := func(what string, c *sessions.Codec, p sessions.Place, sealed []byte) {
		t.Helper()
		if plain, err := c.Open(p, sealed); !errors.Is(err, sessions.ErrCorrupt) {
			t.Errorf("%s: opened %q, %v", what, plain, err)
		}
	}
	for _, p := range []sessions.Place{
		{Scope: sessions.Scope{Client: "c", ID: "i"}, Key: "k", Field: "g"},
		{Scope: sessions.Scope{Client: "c", ID: "i"}, Key: "l", Field: "f"},
		{Scope: sessions.Scope{Client: "c", ID: "j"}, Key: "k", Field: "f"},
		{Scope: sessions.Scope{Client: "d", ID: "i"}, Key: "k", Field: "f"},
		{Scope: sessions.Scope{Client: "ci", ID: ""}, Key: "k", Field: "f"},
		{Scope: sessions.Scope{Client: "c", ID: "i"}, Key: "", Field: "kf"},
	} {
		refuse("another place", c, p, sealed)
	}
	for i := range sealed {
		damaged := bytes.Clone(sealed)
		damaged[i] ^= 1
		refuse("a damaged byte", c, here, damaged)
		refuse("a short value", c, here, sealed[:i])
	}
	refuse("an unknown key", codec(t, young), here, sealed)
	refuse("no key", codec(t), here, sealed)
	open, err := codec(t).Seal(here, []byte("x"))
	if err != nil {
		t.Fatal(err)
	}
	refuse("a value that is not encrypted", c, here, open)
	open[0]++
	refuse("a newer version", codec(t), here, open)

	// Rotation: both open what was sealed before; only the new one seals.
	both := codec(t, young, old)
	if _, err := both.Open(here, sealed); err != nil {
		t.Error(err)
	}
	sealed, err = both.Seal(here, nil)
	if err != nil {
		t.Fatal(err)
	}
	refuse("the old key", c, here, sealed)
	if plain, err := codec(t, young).Open(here, sealed); err != nil || plain == nil {
		t.Errorf("%v, %v", plain, err)
	}
}

func TestCodecBounds(t *testing.T) {
	c := codec(t)
	if _, err := c.Seal(here, make([]byte, 8<<20+1)); !errors.Is(err, sessions.ErrTooLarge) {
		t.Errorf("more than 8 MiB: %v", err)
	}
	sealed, err := c.Seal(here, make([]byte, 8<<20))
	if err != nil || len(sealed) > 64<<10 {
		t.Fatalf("8 MiB of zeros: %d bytes, %v", len(sealed), err)
	}
	if plain, err := c.Open(here, sealed); err != nil || len(plain) != 8<<20 {
		t.Errorf("%d bytes, %v", len(plain), err)
	}
	// A stream that goes on: stored blocks of deflate (RFC 1951, section 3.2.4).
	block := append([]byte{0, 0xff, 0xff, 0, 0}, make([]byte, 0xffff)...)
	bomb := append([]byte{1, 1}, bytes.Repeat(block, 8<<20/0xffff+2)...)
	if _, err := c.Open(here, bomb); !errors.Is(err, sessions.ErrCorrupt) {
		t.Errorf("a bomb: %v", err)
	}
}

func TestBadKeysAreNotQuoted(t *testing.T) {
	good := newKey()
	for _, keys := range [][]string{{"c2VjcmV0"}, {good, "secret!"}, {good, good}, {""}} {
		_, err := sessions.NewCodec(keys)
		if !errors.Is(err, sessions.ErrInvalid) {
			t.Errorf("%q: %v", keys, err)
		}
		for _, key := range keys {
			if key != "" && strings.Contains(err.Error(), key) {
				t.Errorf("quoted: %v", err)
			}
		}
	}
}

func FuzzCodecOpen(f *testing.F) {
	keys := []string{encryptionKey}
	for _, c := range []*sessions.Codec{codec(f), codec(f, keys...)} {
		for _, value := range []string{"", "short", strings.Repeat("long", 1000)} {
			sealed, err := c.Seal(here, []byte(value))
			if err != nil {
				f.Fatal(err)
			}
			f.Add(sealed)
		}
	}
	plain, encrypting := codec(f), codec(f, keys...)
	f.Fuzz(func(t *testing.T, sealed []byte) {
		for _, c := range []*sessions.Codec{plain, encrypting} {
			value, err := c.Open(here, sealed)
			if err != nil {
				if !errors.Is(err, sessions.ErrCorrupt) {
					t.Fatal(err)
				}
				continue
			}
			again, err := c.Seal(here, value)
			if err != nil {
				t.Fatal(err)
			}
			if back, err := c.Open(here, again); err != nil || !bytes.Equal(back, value) {
				t.Fatalf("%q became %q, %v", value, back, err)
			}
		}
	})
}

// A record with one unreadable value is missing as a whole, and reported.
func TestSealedStore(t *testing.T) {
	inner := sessions.NewMemory(100, 1<<20)
	defer inner.Close()
	c := codec(t, newKey())
	var reported []error
	c.Corrupt = func(err error) { reported = append(reported, err) }
	store := sessions.Sealed(inner, c)
	s := here.Scope
	ctx := t.Context()
	f := sessions.Fields{"f": []byte("sunny"), "g": []byte("rainy")}
	for _, key := range []string{"good", "bad"} {
		if err := store.Put(ctx, s, key, f, hour); err != nil {
			t.Fatal(err)
		}
	}
	raw, err := inner.Load(ctx, s, 0, "good")
	if err != nil || bytes.Contains(raw[0]["f"], []byte("sunny")) {
		t.Fatalf("%q, %v", raw, err)
	}
	// Moved from one record to another.
	if err := inner.Put(ctx, s, "bad", sessions.Fields{"g": raw[0]["g"]}, hour); err != nil {
		t.Fatal(err)
	}
	found, err := store.Load(ctx, s, hour, "good", "bad", "missing")
	if err != nil || len(found[0]) != 2 || string(found[0]["f"]) != "sunny" || found[1] != nil || found[2] != nil {
		t.Errorf("%q, %v", found, err)
	}
	if len(reported) != 1 || !errors.Is(reported[0], sessions.ErrCorrupt) {
		t.Errorf("reported %v", reported)
	}
	if _, err := store.Settle(ctx, s, "bad", "g", []byte("x"), hour); !errors.Is(err, sessions.ErrCorrupt) {
		t.Errorf("settled on a bad value: %v", err)
	}
	if v, err := store.Settle(ctx, s, "good", "g", []byte("x"), hour); err != nil || string(v) != "rainy" {
		t.Errorf("%q, %v", v, err)
	}
	if err := store.Put(ctx, s, "good", sessions.Fields{"f": make([]byte, 9<<20)}, hour); !errors.Is(err, sessions.ErrTooLarge) {
		t.Errorf("a large value: %v", err)
	}
}
