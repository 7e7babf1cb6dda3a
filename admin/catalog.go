package admin

import (
	"slices"

	"github.com/mcp-via-llm/mcp-via-llm/mcp"
)

// Offer is one thing of MCP servers that a client profile has.
type Offer struct {
	Name   string `json:"name"`   // as the model gets it
	Server string `json:"server"` // as configured; empty for the two functions that reach what is left out
	Kind   string `json:"kind"`   // tool, resource, resource_template, prompt, or system_prompt: no function but instructions
	Tokens int    `json:"tokens"` // an estimate of what it costs in every request
	// LeftOut: max_tools or max_tools_bytes has no room for it; the model finds it with mcp_search_tools.
	LeftOut     bool   `json:"left_out,omitempty"`
	ReadOnly    bool   `json:"read_only,omitempty"` // the server says that it changes nothing
	Description string `json:"description,omitempty"`
}

// Catalog is what a client profile has now.
type Catalog struct {
	Client      string   `json:"client"`
	Schema      string   `json:"schema_dialect"` // that the functions are written in
	Offers      []Offer  `json:"offers"`
	Tokens      int      `json:"tokens"` // of all that goes into each request
	Offered     int      `json:"offered"`
	LeftOut     int      `json:"left_out"`
	Unavailable []string `json:"servers_unavailable"`
}

// NewCatalog lists a toolset.
func NewCatalog(client, schema string, set *mcp.Toolset) Catalog {
	c := Catalog{Client: client, Schema: schema, Offers: []Offer{}, Unavailable: append([]string{}, set.Unavailable()...)}
	for _, t := range slices.Concat(set.Tools(), set.Instructions()) {
		c.Offers = append(c.Offers, Offer{t.Name, t.Server, t.Kind, t.Tokens, false, t.ReadOnly, t.Description})
		c.Offered++
		c.Tokens += t.Tokens
	}
	for _, t := range set.Omitted() {
		c.Offers = append(c.Offers, Offer{t.Name, t.Server, t.Kind, 0, true, t.ReadOnly, t.Description})
		c.LeftOut++
	}
	return c
}
