package config

import "strings"

// Glob is a glob over tools, as it stands in the file.
type Glob struct {
	Key, Text string
	// Server is the only one whose tools it can match; "" if there may be others.
	Server string
	// Shown says that it goes by the name that the model gets alone.
	Shown bool
}

// ToolGlobs are those of a client profile, over injected names.
func (c *Config) ToolGlobs(client string) (all []Glob) {
	at, profile := join("clients", client), c.Clients[client]
	add := func(key, text string, shown bool) {
		all = append(all, Glob{Key: key, Text: text, Server: serverOf(text, c.Servers), Shown: shown})
	}
	for i, glob := range profile.Tools.Allow {
		add(index(join(at, "tools.allow"), i), glob, true)
	}
	for i, glob := range profile.Tools.Deny {
		add(index(join(at, "tools.deny"), i), glob, false)
	}
	for i, constraint := range profile.Constraints {
		add(join(index(join(at, "constraints"), i), "tool"), constraint.Tool, false)
	}
	for i, approve := range profile.Approve {
		add(index(join(at, "approve"), i), approve.Tool, false)
	}
	return all
}

// LimitGlobs are those of the limits of a server, over its own names.
func (c *Config) LimitGlobs(server string) (all []Glob) {
	for _, glob := range sortedKeys(c.Servers[server].Limits.Tools) {
		key := join(join(join("servers", server), "limits.tools"), glob)
		all = append(all, Glob{Key: key, Text: glob, Server: server})
	}
	return all
}

// literal is what a glob over injected names begins with, without the kind of what
// is no tool.
func literal(glob string) string {
	if end := strings.IndexAny(glob, `*?[\`); end >= 0 {
		glob = glob[:end]
	}
	for _, kind := range []string{"mcp_resource__", "mcp_prompt__"} {
		glob = strings.TrimPrefix(glob, kind)
	}
	return glob
}

// serverOf is the only server whose tools have names that begin as the glob does;
// "" if there is none, or if there are several (a.b and a_b).
func serverOf(glob string, servers map[string]Server) (only string) {
	begin := literal(glob)
	for _, name := range sortedKeys(servers) {
		if strings.HasPrefix(begin, injected(name)+"__") {
			if only != "" {
				return ""
			}
			only = name
		}
	}
	return only
}
