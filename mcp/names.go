package mcp

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strconv"
	"strings"
)

// OpenAI: a function's name is made of a-z, A-Z, 0-9, underscores and dashes,
// with a maximum length of 64.
const (
	maxName  = 64
	hashHead = 55 // what is kept of a name in front of "_" and eight hex digits
)

// Prefixes of the names of what is no tool.
const (
	resourcePrefix = "mcp_resource"
	promptPrefix   = "mcp_prompt"
)

// origin says what of which server an injected name stands for.
type origin struct {
	server, tool string // tool is the server's own name
	prefix       string // "" for a tool
	key          string // tells apart what has one name on one server
}

func (o origin) full() string {
	switch {
	case o.prefix != "":
		return o.prefix + "__" + o.server + "__" + o.tool
	case o.server == "": // one of the host's own, see budget.go
		return o.tool
	}
	return o.server + "__" + o.tool
}

// clean replaces every character that a name may not hold by "_".
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9', r == '_', r == '-':
			return r
		}
		return '_'
	}, s)
}

// rank orders who may keep a name that several want: tools first, and of these
// who wrote it exactly so, then who wrote the tool's part so, then the others.
func (o origin) rank() int {
	rank := 0
	if o.prefix != "" {
		rank = 3
	}
	switch {
	case clean(o.full()) == o.full():
		return rank
	case clean(o.tool) == o.tool:
		return rank + 1
	}
	return rank + 2
}

func (o origin) compare(p origin) int {
	return cmp.Or(cmp.Compare(o.rank(), p.rank()), strings.Compare(o.prefix, p.prefix),
		strings.Compare(o.server, p.server), strings.Compare(o.tool, p.tool), strings.Compare(o.key, p.key))
}

// hashed is the name of a tool that cannot have its plain name. The hash is of
// the full original name, so it is the same on every node and after a restart.
// Should that be taken too (server "a" with tool "b__c" and server "a__b" with
// tool "c" have one full name, and resources of a server may share a name), the
// next variant is for it.
func (o origin) hashed(variant int) string {
	full := o.full()
	if variant > 0 {
		full = o.server + "\x00" + o.tool + "\x00" + strconv.Itoa(variant)
		if o.prefix != "" {
			full += "\x00" + o.prefix + "\x00" + o.key
		}
	}
	sum := sha256.Sum256([]byte(full))
	head := clean(o.full())
	return head[:min(len(head), hashHead)] + "_" + hex.EncodeToString(sum[:4])
}

// rename gives a tool a hashed name that is not taken.
func (o origin) rename(taken map[string]bool) string {
	for variant := 0; ; variant++ {
		if name := o.hashed(variant); !taken[name] {
			return name
		}
	}
}

// injectedNames names the tools, all different, in the order given. The outcome
// does not depend on that order.
func injectedNames(tools []origin) []string {
	order := make([]int, len(tools))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return tools[a].compare(tools[b]) })
	names := make([]string, len(tools))
	taken := make(map[string]bool, len(tools))
	var later []int
	for _, i := range order {
		name := clean(tools[i].full())
		if len(name) > maxName || taken[name] {
			later = append(later, i)
			continue
		}
		names[i], taken[name] = name, true
	}
	for _, i := range later {
		names[i] = tools[i].rename(taken)
		taken[names[i]] = true
	}
	return names
}
