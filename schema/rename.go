package schema

import (
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"strings"
)

// Anthropic: "Property keys should match pattern '^[a-zA-Z0-9_.-]{1,64}$'"; this
// is checked of the arguments themselves, not of members inside them.
var argumentName = regexp.MustCompile(`^[a-zA-Z0-9_.-]{1,64}$`)

var oddCharacters = regexp.MustCompile(`[^a-zA-Z0-9_.-]`)

// rename gives arguments whose names Anthropic refuses other ones, and says what to
// make of the model's arguments.
func rename(root *node) *back {
	properties := root.get("properties")
	taken := properties.memberSet()
	own := map[string]string{}
	changed := map[string]string{}
	for i := range properties.list() {
		m := &properties.members[i]
		if argumentName.MatchString(m.name) {
			continue
		}
		name := strings.Trim(oddCharacters.ReplaceAllString(m.name, "_"), "_")
		if name == "" || len(name) > 64 || taken[name] {
			sum := sha256.Sum256([]byte(m.name))
			name = name[:min(len(name), 55)] + "_" + hex.EncodeToString(sum[:4])
		}
		taken[name] = true
		own[name], changed[m.name] = m.name, name
		m.name = name
	}
	if len(changed) == 0 {
		return backOf(root)
	}
	names := root.get("required").names()
	for i, name := range names {
		if now, ok := changed[name]; ok {
			names[i] = now
		}
	}
	if names != nil {
		root.set("required", textList(names))
	}
	b := backOf(root)
	if b == nil {
		b = &back{}
	}
	b.names = own
	return b
}
