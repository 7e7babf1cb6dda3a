package mcp

import (
	"cmp"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"sync"

	"github.com/tidwall/gjson"
)

// maxURI bounds the address of a resource, in bytes.
const maxURI = 8 << 10

var errLongURI = fmt.Errorf("its URI has more than %d bytes", maxURI)

// newResource makes a function without arguments of an element of resources/list.
func newResource(raw gjson.Result, _ *slog.Logger) (*tool, error) {
	uri := raw.Get("uri").String()
	if len(uri) > maxURI {
		return nil, errLongURI
	}
	t := &tool{
		kind: KindResource, name: cmp.Or(raw.Get("name").String(), uri), raw: raw.Raw, uri: uri,
		readOnly: true, repeatable: true, functions: new(sync.Map),
	}
	facts := []string{uri}
	if mime := raw.Get("mimeType").String(); mime != "" {
		facts = append(facts, mime)
	}
	if size := raw.Get("size").Int(); size > 0 {
		facts = append(facts, fmt.Sprintf("%d bytes", size))
	}
	t.description = strings.TrimSpace(fmt.Sprintf("Reads the resource %q (%s). %s", title(raw), strings.Join(facts, ", "), raw.Get("description").String()))
	return t, nil
}

// newTemplate makes a function of an element of resources/templates/list, with the
// variables of the URI template as arguments.
func newTemplate(raw gjson.Result, _ *slog.Logger) (*tool, error) {
	uri := raw.Get("uriTemplate").String()
	if len(uri) > maxURI {
		return nil, errLongURI
	}
	parsed, err := parseURITemplate(uri)
	if err != nil {
		return nil, err
	}
	t := &tool{
		kind: KindTemplate, name: cmp.Or(raw.Get("name").String(), uri), raw: raw.Raw, uri: uri, template: parsed,
		readOnly: true, repeatable: true, functions: new(sync.Map),
	}
	facts := uri
	if mime := raw.Get("mimeType").String(); mime != "" {
		facts += ", " + mime
	}
	t.description = strings.TrimSpace(fmt.Sprintf("Reads a resource of the kind %q (%s). %s", title(raw), facts, raw.Get("description").String()))
	var arguments []argument
	for _, name := range parsed.variables {
		arguments = append(arguments, argument{name, fmt.Sprintf("What stands for %q in the resource's URI", name), parsed.needed[name]})
	}
	return t, t.takes(arguments)
}

// title is what the server calls an item before people.
func title(raw gjson.Result) string {
	return cmp.Or(raw.Get("title").String(), raw.Get("name").String(), raw.Get("uri").String(), raw.Get("uriTemplate").String())
}

// address is the URI that a read asks for.
func (t *tool) address(args json.RawMessage) (string, error) {
	if t.template == nil {
		return t.uri, nil
	}
	uri := t.template.expand(stringArguments(args))
	if len(uri) > maxURI {
		return "", &errArguments{[]string{fmt.Sprintf("they make a URI of more than %d bytes", maxURI)}}
	}
	return uri, nil
}

// contents takes in a raw resources/read result. Several resources are told apart by
// their addresses; one alone is what was asked for.
func (c *content) contents(raw []byte) {
	all := gjson.GetBytes(raw, "contents").Array()
	for _, resource := range all {
		part := ""
		if text := resource.Get("text"); len(all) == 1 && text.Exists() && !resource.Get("blob").Exists() {
			part = text.String()
		} else {
			part = c.resource(resource)
		}
		if strings.TrimSpace(part) != "" {
			c.parts = append(c.parts, part)
		}
	}
}
