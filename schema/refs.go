package schema

import (
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// maxRefs bounds how many references deep a schema is followed at first.
const maxRefs = 32

// inliner puts what references name in their place.
type inliner struct {
	root  *node
	byID  map[string]*node // by $anchor and $id
	left  int              // values that may still be made
	depth int              // references that may be inside each other
	typed bool             // a note has the type of what it stands for
	open  []*node          // targets that are being put in place
}

// inline returns a copy of root without references, following them at most depth
// deep. A reference back to a schema that it is part of, one that is too deep,
// and one to another document become {} with a note.
func inline(root *node, depth int, typed bool) (n *node, work int, err error) {
	if !hasRefs(root) {
		return root.copy(), 0, nil
	}
	in := newInliner(root)
	in.left, in.depth, in.typed = maxExpanded, depth, typed
	in.open = append(in.open, root)
	out := in.expand(root)
	if in.left < 0 {
		return nil, maxExpanded, errMany
	}
	out.every(func(n *node) {
		for _, name := range []string{"$defs", "definitions", "$anchor", "$dynamicAnchor", "$id"} {
			n.take(name)
		}
	})
	return out, maxExpanded - in.left, nil
}

// newInliner knows what references in root may name.
func newInliner(root *node) *inliner {
	in := &inliner{root: root, byID: map[string]*node{}}
	root.every(func(n *node) {
		for _, name := range []string{"$anchor", "$dynamicAnchor"} {
			if id := n.get(name).str(); id != "" {
				in.byID["#"+id] = n
			}
		}
		if id := n.get("$id").str(); id != "" {
			in.byID[id] = n
		}
	})
	return in
}

// refOf is the reference in a schema, "" if there is none.
func refOf(n *node) string {
	for _, name := range []string{"$ref", "$dynamicRef", "$recursiveRef"} {
		if ref := n.get(name); ref.isString() {
			return ref.str()
		}
	}
	return ""
}

func hasRefs(root *node) (found bool) {
	root.every(func(n *node) { found = found || refOf(n) != "" })
	return found
}

// expand copies a schema. Definitions are left out: only what refers to them
// counts. What is no schema is shared with the original, and never changed.
func (in *inliner) expand(n *node) *node {
	if in.left--; in.left < 0 || n.members == nil {
		return n
	}
	out := object()
	for _, m := range n.members {
		list := m.value.isArray() && slices.Contains(schemaList, m.name)
		switch {
		case refWords[m.name] && (m.value.isObject() || m.value.isString()):
			continue
		case list:
			m.value = array(m.value.items...)
		case m.value.isObject() && slices.Contains(schemaMap, m.name):
			m.value = object(m.value.members...)
		case !m.value.isSchema() || !slices.Contains(oneSchema, m.name):
			in.left -= m.value.size(in.left)
		}
		out.members = append(out.members, m)
	}
	out.each(in.expand)
	ref := refOf(n)
	if ref == "" || in.left < 0 {
		return out
	}
	target, whole := in.target(ref)
	if said := out.get("description").str(); !whole && said != "" {
		out.set("description", text(said+" ("+target.get("description").str()+")"))
	}
	return merged(target, out)
}

var refWords = setOf([]string{"$defs", "definitions", "$ref", "$dynamicRef", "$recursiveRef"})

// target is a copy of what a reference names; if it is not whole, a note in its
// place.
func (in *inliner) target(ref string) (n *node, whole bool) {
	target := in.find(ref)
	switch {
	case target == nil:
		return in.note("As "+clip(ref, 200)+" says.", nil), false
	case slices.Contains(in.open, target):
		return in.note("Recursive: "+labelOf(ref, target)+" again.", target), false
	case len(in.open) > in.depth:
		return in.note("Form: "+labelOf(ref, target)+".", target), false
	}
	in.open = append(in.open, target)
	defer func() { in.open = in.open[:len(in.open)-1] }()
	return in.expand(target), true
}

// note stands for a schema that is not put in place.
func (in *inliner) note(said string, target *node) *node {
	n := object(member{"description", text(said)})
	if t := target.get("type"); in.typed && t.isString() {
		n.set("type", t)
	}
	return n
}

// labelOf names the target of a reference for the model.
func labelOf(ref string, target *node) string {
	if title := target.get("title").str(); title != "" {
		return clip(title, 60)
	}
	if i := strings.LastIndexByte(ref, '/'); i >= 0 && i < len(ref)-1 {
		return clip(unescape(ref[i+1:]), 60)
	}
	return "the whole"
}

// find resolves a reference within the document (RFC 6901 pointers, anchors,
// $id). Others are not followed: a server must not make this process read a file
// or a URL.
func (in *inliner) find(ref string) *node {
	if n, ok := in.byID[ref]; ok {
		return n
	}
	at := in.root
	if base, fragment, ok := strings.Cut(ref, "#"); ok && base != "" {
		if at = in.byID[base]; at == nil {
			return nil
		}
		ref = "#" + fragment
	}
	if ref == "#" {
		return at
	}
	path, ok := strings.CutPrefix(ref, "#/")
	if !ok {
		return nil
	}
	for _, step := range strings.Split(path, "/") {
		if at.isArray() {
			i, err := strconv.Atoi(step)
			if err != nil || i < 0 || i >= len(at.items) {
				return nil
			}
			at = at.items[i]
			continue
		}
		if at = at.get(unescape(step)); at == nil {
			return nil
		}
	}
	if !at.isSchema() {
		return nil
	}
	return at
}

// pointerEscapes are those of RFC 6901, section 3.
var pointerEscapes = strings.NewReplacer("~1", "/", "~0", "~")

func unescape(step string) string {
	if plain, err := url.PathUnescape(step); err == nil {
		step = plain
	}
	return pointerEscapes.Replace(step)
}

// size counts the values in n, and stops at more than limit.
func (n *node) size(limit int) int {
	count := 1
	for _, m := range n.members {
		if count > limit {
			return count
		}
		count += m.value.size(limit - count)
	}
	for _, item := range n.items {
		if count > limit {
			return count
		}
		count += item.size(limit - count)
	}
	return count
}

// annotations say something about a value and never forbid one.
var annotations = setOf([]string{"title", "description", "default", "examples", "example", "deprecated", "readOnly", "writeOnly", "$comment"})

// merged joins the target of a reference with what stands beside the reference
// (2020-12, 8.2.3.1: both apply). What only annotates takes precedence there;
// where both forbid something in the same way, both stay, under allOf.
func merged(target, beside *node) *node {
	if len(beside.members) == 0 {
		return target
	}
	if !target.isObject() { // true or false
		if target.is("true") {
			return beside
		}
		return target
	}
	clash := object()
	for _, m := range beside.members {
		old := target.get(m.name)
		switch {
		case old == nil || annotations[m.name]:
			target.set(m.name, m.value)
		case old.String() == m.value.String():
		case m.name == "required":
			target.set("required", union(old, m.value))
		case m.name == "allOf":
			target.set("allOf", array(slices.Concat(old.items, m.value.items)...))
		default:
			clash.set(m.name, m.value)
		}
	}
	if len(clash.members) > 0 {
		all := array(clash)
		if old := target.get("allOf"); old.isArray() {
			all.items = append(all.items, old.items...)
		}
		target.set("allOf", all)
	}
	return target
}

// union joins two lists of strings.
func union(a, b *node) *node {
	names := a.names()
	seen := setOf(names)
	for _, name := range b.names() {
		if !seen[name] {
			names = append(names, name)
			seen[name] = true
		}
	}
	return textList(names)
}
