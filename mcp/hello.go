package mcp

import (
	"encoding/json"
	"slices"

	"github.com/tidwall/gjson"
)

// introduces says whether a server introduces itself in its answer.
func introduces(method string) bool { return method == methodInitialize || method == methodDiscover }

// hello gives the result of initialize or server/discover in the types that MCP has,
// and names what in it was of another, or the whole as it is if it is no object. The
// SDK takes no result with a single member of a wrong type, not even one that nobody
// needs.
func hello(raw []byte) (result []byte, odd []string) {
	told := gjson.ParseBytes(raw)
	if !told.IsObject() {
		return raw, nil
	}
	m := mender{out: map[string]any{}, in: told}
	for _, name := range []string{"protocolVersion", "instructions", "resultType", "cacheScope"} {
		m.text(name)
	}
	m.object("_meta")
	if ttl := told.Get("ttlMs"); ttl.Type == gjson.Number {
		m.out["ttlMs"] = max(0, ttl.Int())
	}
	if versions := told.Get("supportedVersions"); versions.Exists() {
		known := []string{}
		for _, v := range versions.Array() { // of a text, that text
			if v.Type == gjson.String {
				known = append(known, v.Str)
			}
		}
		m.out["supportedVersions"] = known
	}
	switch info := told.Get("serverInfo"); {
	case info.IsObject():
		of := mender{out: map[string]any{"name": "", "version": ""}, in: info, at: "serverInfo."}
		for _, name := range []string{"name", "version", "title", "description", "websiteUrl"} {
			of.text(name)
		}
		m.out["serverInfo"], m.odd = of.out, append(m.odd, of.odd...)
	case says(info) != "":
		m.out["serverInfo"] = map[string]any{"name": says(info), "version": ""}
		m.odd = append(m.odd, "serverInfo")
	}
	switch caps := told.Get("capabilities"); {
	case caps.IsObject():
		of := mender{out: map[string]any{}, in: caps, at: "capabilities."}
		of.capabilities()
		m.out["capabilities"], m.odd = of.out, append(m.odd, of.odd...)
	case caps.Exists() && caps.Type != gjson.Null:
		m.out["capabilities"] = struct{}{}
		m.odd = append(m.odd, "capabilities")
	}
	result, err := json.Marshal(m.out)
	if err != nil {
		return raw, nil
	}
	return result, m.odd
}

// mender copies the members of an object that have the right type, and notes those
// that have another.
type mender struct {
	in  gjson.Result
	at  string // in front of the names
	out map[string]any
	odd []string
}

func (m *mender) text(name string) {
	switch value := m.in.Get(name); {
	case value.Type == gjson.String:
		m.out[name] = value.Str
	case value.Exists() && value.Type != gjson.Null:
		m.odd = append(m.odd, m.at+name)
		if value.Type == gjson.Number {
			m.out[name] = value.Raw
		}
	}
}

func (m *mender) object(name string) {
	switch value := m.in.Get(name); {
	case value.IsObject():
		m.out[name] = json.RawMessage(value.Raw)
	case value.Exists() && value.Type != gjson.Null:
		m.odd = append(m.odd, m.at+name)
	}
}

// flags are the members of the capabilities that the SDK knows, all boolean.
var flags = map[string][]string{
	"tools": {"listChanged"}, "prompts": {"listChanged"}, "resources": {"listChanged", "subscribe"},
	"logging": nil, "completions": nil,
}

// capabilities copies what a server says that it can do. One that is no object is
// there, unless it is as good as false.
func (m *mender) capabilities() {
	m.object("experimental")
	m.object("extensions")
	for name, members := range flags {
		value := m.in.Get(name)
		if !value.IsObject() && value.Exists() && value.Type != gjson.Null {
			m.odd = append(m.odd, m.at+name)
		}
		if !isYes(value) {
			continue
		}
		of := map[string]bool{}
		for _, member := range members {
			flag := value.Get(member)
			if flag.Exists() && !flag.IsBool() && flag.Type != gjson.Null {
				m.odd = append(m.odd, m.at+name+"."+member)
			}
			of[member] = isYes(flag)
		}
		m.out[name] = of
	}
	slices.Sort(m.odd)
}

// isYes reports whether a value means that something is there: true, "true", an
// object, an empty list.
func isYes(value gjson.Result) bool {
	switch value.Type {
	case gjson.String:
		return value.Str != "" && value.Str != "false"
	case gjson.Number:
		return value.Num != 0
	case gjson.False, gjson.Null:
		return false
	}
	return value.Exists()
}
