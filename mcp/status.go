package mcp

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/mcp-via-llm/mcp-via-llm/excerpt"
)

// maxInstructionsShown bounds what is shown of a server's instructions, in bytes.
const maxInstructionsShown = 2000

// ServerStatus tells how the connection to one server is.
type ServerStatus struct {
	Name            string `json:"name"`
	State           string `json:"state"`               // connecting, connected, reconnecting, unavailable
	Transport       string `json:"transport,omitempty"` // stdio, streamable-http or sse; empty until it is known
	ProtocolVersion string `json:"protocol_version,omitempty"`
	// Capabilities are the names of what the server says that it can do.
	Capabilities []string `json:"capabilities,omitempty"`
	// Instructions are what the server says to hosts about its use. No model gets
	// them.
	Instructions string `json:"instructions,omitempty"`
	// How much it offers. SystemPrompts are those whose text is injected, Prompts
	// those that are functions.
	Tools             int       `json:"tools"`
	Resources         int       `json:"resources"`
	ResourceTemplates int       `json:"resource_templates"`
	Prompts           int       `json:"prompts"`
	SystemPrompts     int       `json:"system_prompts"`
	Error             string    `json:"error,omitempty"`        // why it is not connected
	LastError         string    `json:"last_error,omitempty"`   // why it was not, or could not list its tools, the last time
	LastErrorAt       time.Time `json:"last_error_at,omitzero"` // when that was
	Since             time.Time `json:"since"`                  // when this state began
	Listed            time.Time `json:"listed,omitzero"`        // when its tools were last listed
	// Forwarded counts the extra connections that belong to one caller each.
	Forwarded int `json:"forwarded,omitempty"`
	// Calls are those that run now, of all callers.
	Calls []CallStatus `json:"calls,omitempty"`
}

// CallStatus is one running call, without its arguments.
type CallStatus struct {
	Tool     string        `json:"tool"` // the server's own name
	Since    time.Time     `json:"since"`
	Progress *CallProgress `json:"progress,omitempty"` // nil until the server tells some
}

// failedOnce is when and why a connection was lost or not made.
type failedOnce struct {
	at  time.Time
	err error
}

func (c *conn) note(err error) {
	if err != nil {
		c.failed.Store(&failedOnce{time.Now(), err})
	}
}

// Status lists all configured servers in the order of the configuration.
func (h *Host) Status() []ServerStatus {
	h.mu.RLock()
	defer h.mu.RUnlock()
	all := make([]ServerStatus, 0, len(h.order))
	for _, name := range h.order {
		s := h.servers[name]
		status := s.plain.status()
		status.Forwarded = len(s.byCred)
		status.Calls = s.plain.calls()
		for _, c := range s.byCred {
			status.Calls = append(status.Calls, c.calls()...)
		}
		slices.SortFunc(status.Calls, func(a, b CallStatus) int { return a.Since.Compare(b.Since) })
		all = append(all, status)
	}
	return all
}

func (c *conn) status() ServerStatus {
	st := c.current.Load()
	status := ServerStatus{Name: c.cfg.Name, State: string(st.phase), Since: st.since}
	if s := st.session; s != nil {
		status.ProtocolVersion = s.version()
		status.Transport = s.transport()
		told := s.cs.InitializeResult()
		status.Instructions = excerpt.Head(strings.ToValidUTF8(told.Instructions, "\uFFFD"), maxInstructionsShown)
		var capabilities map[string]json.RawMessage
		if raw, err := json.Marshal(told.Capabilities); err == nil && json.Unmarshal(raw, &capabilities) == nil {
			status.Capabilities = slices.Sorted(maps.Keys(capabilities))
		}
	}
	if cat := st.catalog; cat != nil {
		status.Tools, status.Resources, status.ResourceTemplates = cat.count(KindTool), cat.count(KindResource), cat.count(KindTemplate)
		status.Prompts, status.SystemPrompts = cat.count(KindPrompt), cat.count(KindSystemPrompt)
	}
	if st.err != nil {
		status.Error = st.err.Error()
	}
	if last := c.failed.Load(); last != nil {
		status.LastError, status.LastErrorAt = last.err.Error(), last.at
	}
	if at := c.listed.Load(); at != 0 {
		status.Listed = time.Unix(0, at)
	}
	return status
}

// calls are those that run on the connection now.
func (c *conn) calls() (all []CallStatus) {
	s := c.current.Load().session
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, run := range s.runs {
		run.mu.Lock()
		all = append(all, CallStatus{run.what.name, run.since, run.progress})
		run.mu.Unlock()
	}
	return all
}

func (s *session) transport() string {
	switch w, ok := s.tr.(*wire); {
	case !ok:
		return "stdio"
	case w.sse:
		return transportSSE
	}
	return "streamable-http"
}
