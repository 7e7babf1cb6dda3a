package sessions

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"time"
)

// tag is a short hash of names, of which none can be made to look like others.
func tag(names ...string) string {
	h := sha256.New()
	for _, name := range names {
		_ = binary.Write(h, binary.BigEndian, uint64(len(name)))
		h.Write([]byte(name))
	}
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil)[:16])
}

// scopeKeys makes the names of the keys of one scope.
type scopeKeys struct {
	tag    string // of the scope
	base   string // what all its keys begin with
	client string // index of the client's scopes
}

func (r *Redis) keys(s Scope) scopeKeys {
	t := tag(s.Client, s.ID)
	return scopeKeys{tag: t, base: r.base(t), client: r.clientIndex(s.Client)}
}

func (r *Redis) base(tag string) string           { return r.prefix + "{" + tag + "}:" }
func (r *Redis) clientIndex(client string) string { return r.base(tag(client)) + "c" }
func (k scopeKeys) index() string                 { return k.base + "i" }

// member is the name of a key in the index of its scope.
func member(k kind, name string) string { return string(k) + ":" + name }

// skew is how far the clocks of two cluster nodes may be apart: so much longer a
// client's index knows a scope than the scope lives.
const skew = time.Minute

func (k scopeKeys) touch(op string, ttl time.Duration) call {
	return call{op: op, keys: []string{k.client}, args: []any{milliseconds(ttl + skew), k.tag}, soft: op == "slide"}
}

func milliseconds(ttl time.Duration) int64 { return max(1, ttl.Milliseconds()) }
