package sessions_test

import (
	"bytes"
	"testing"

	"github.com/mcp-via-llm/mcp-via-llm/sessions"
	"github.com/mcp-via-llm/mcp-via-llm/sessions/redisrig"
)

// BenchmarkTurn is what a turn with history costs: one Load of 20 anchors and one
// Put of 8 KiB.
func BenchmarkTurn(b *testing.B) {
	f := sessions.Fields{"turn": bytes.Repeat([]byte(`{"role":"tool","content":"sunny"},`), 240)}
	anchors := make([]string, 20)
	for i := range anchors {
		anchors[i] = string(rune('a' + i))
	}
	for name, start := range map[string]func() sessions.Options{
		"memory": func() sessions.Options { return sessions.Options{} },
		"redis":  func() sessions.Options { return sessions.Options{RedisURL: redisrig.Start(b).URL} },
		"encrypted": func() sessions.Options {
			return sessions.Options{RedisURL: redisrig.Start(b).URL, EncryptionKeys: []string{encryptionKey}}
		},
		"cluster": func() sessions.Options { return sessions.Options{RedisURL: redisrig.StartCluster(b).URL} },
	} {
		b.Run(name, func(b *testing.B) {
			store := open(b, start())
			for b.Loop() {
				if err := store.Put(b.Context(), aScope, "c", f, hour); err != nil {
					b.Fatal(err)
				}
				if _, err := store.Load(b.Context(), aScope, hour, anchors...); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkCodec encodes and decodes 8 KiB.
func BenchmarkCodec(b *testing.B) {
	value := bytes.Repeat([]byte(`{"role":"tool","content":"sunny"},`), 240)
	for name, c := range map[string]*sessions.Codec{"plain": codec(b), "encrypted": codec(b, encryptionKey)} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(value)))
			b.ReportAllocs()
			for b.Loop() {
				sealed, err := c.Seal(here, value)
				if err == nil {
					_, err = c.Open(here, sealed)
				}
				if err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
