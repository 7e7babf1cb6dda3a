package envoy

import (
	"bytes"
	"maps"
	"reflect"
	"strings"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/encoding/protojson"
)

// comments explain the settings that this service depends on, by key; the first
// place of each gets it.
var comments = map[string]string{
	"disabled":                    "Off in the chain: a route turns it on, by its typed_per_filter_config.",
	"failure_mode_allow":          "false: while the service is down, routes with the filter answer 503. true would send requests on\nas plain LLM calls: without tools, and with hidden history missing. A route can override it.",
	"processing_mode":             "What is not named is not sent. With allow_mode_override the service asks for the bodies of the\nrequests that are its own.",
	"message_timeout":             "Bounds the first answer of the service only; Envoy's default of 200ms is too short when busy.",
	"allow_content_length_header": "The provider gets a content-length, not a chunked body (Envoy 1.38 and later).",
	"stream_idle_timeout":         "Above the largest loop_timeout: the service's own limit comes first and its error is in band.",
	"request_headers_to_remove":   "The service's mark on its own requests, and what clients tell it: seen by the filter, never by a provider.",
	"typed_per_filter_config":     "Turns the filter on. To choose a client profile: overrides: {grpc_initial_metadata: [{key: x-mcp-client, value: NAME}]}.",
	"timeout":                     "A route timeout would cover the whole answer. No retry_policy: it would send streamed bodies twice.",
	"idle_timeout":                "Below the idle timeout of providers, because nothing retries a lost race.",
}

// YAML prints the bootstrap with comments, after the header (lines of text
// without "#"). The route configuration of the loop listener is an alias of the
// main one's, so that an edit changes both.
func YAML(b *bootstrapv3.Bootstrap, header string) ([]byte, error) {
	asJSON, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(b)
	if err != nil {
		return nil, err
	}
	var document yaml.Node
	if err := yaml.Unmarshal(asJSON, &document); err != nil { // YAML is a superset of JSON
		return nil, err
	}
	p := printer{comments: maps.Clone(comments)}
	p.tidy(document.Content[0])
	var out bytes.Buffer
	for line := range strings.Lines(header) {
		out.WriteString(strings.TrimRight("# "+strings.TrimSpace(line), " ") + "\n")
	}
	encoder := yaml.NewEncoder(&out)
	encoder.SetIndent(2)
	err = encoder.Encode(document.Content[0])
	return out.Bytes(), err
}

type printer struct {
	comments map[string]string
	routes   *yaml.Node // the first route configuration
}

// tidy turns JSON nodes into block YAML, in place.
func (p *printer) tidy(n *yaml.Node) {
	n.Style = 0
	if n.Kind == yaml.MappingNode {
		explicit(n)
		nameFirst(n)
		for i := 0; i < len(n.Content); i += 2 {
			key, value := n.Content[i], n.Content[i+1]
			key.HeadComment = p.comments[key.Value]
			delete(p.comments, key.Value)
			if key.Value == "route_config" && p.alias(n, i+1) {
				continue
			}
			p.tidy(value)
		}
		for _, key := range n.Content {
			key.Style = 0
		}
		return
	}
	for _, c := range n.Content {
		p.tidy(c)
	}
}

// alias makes the second of two equal route configurations refer to the first.
func (p *printer) alias(n *yaml.Node, at int) bool {
	var this, first any
	if p.routes == nil {
		p.routes = n.Content[at]
		p.routes.Anchor = "routes"
		return false
	}
	if n.Content[at].Decode(&this) != nil || p.routes.Decode(&first) != nil || !reflect.DeepEqual(this, first) {
		return false
	}
	n.Content[at] = &yaml.Node{Kind: yaml.AliasNode, Value: "routes", Alias: p.routes}
	return true
}

// explicit writes out the filter's failure mode, which protojson leaves out
// where it is false: nobody should have to know the default.
func explicit(n *yaml.Node) {
	if at := lookup(n, "@type"); at < 0 || !strings.HasSuffix(n.Content[at].Value, ".ExternalProcessor") || lookup(n, "failure_mode_allow") >= 0 {
		return
	}
	n.Content = append(n.Content,
		&yaml.Node{Kind: yaml.ScalarNode, Value: "failure_mode_allow"},
		&yaml.Node{Kind: yaml.ScalarNode, Value: "false"})
}

// nameFirst moves the name to the front, where a reader looks for it.
func nameFirst(n *yaml.Node) {
	if at := lookup(n, "name"); at > 1 {
		pair := []*yaml.Node{n.Content[at-1], n.Content[at]}
		n.Content = append(pair, append(n.Content[:at-1:at-1], n.Content[at+1:]...)...)
	}
}

// lookup is the index of the key's value in a mapping; -1 without the key.
func lookup(n *yaml.Node, key string) int {
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return i + 1
		}
	}
	return -1
}
