package mcp

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"strings"
	"sync"

	"github.com/tidwall/gjson"
	"github.com/yosida95/uritemplate/v3"
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
// variables of the URI template (RFC 6570) as arguments.
func newTemplate(raw gjson.Result, _ *slog.Logger) (*tool, error) {
	uri := raw.Get("uriTemplate").String()
	if len(uri) > maxURI {
		return nil, errLongURI
	}
	parsed, err := uritemplate.New(uri)
	if err != nil {
		return nil, errors.New("its URI template cannot be read")
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
	needed := neededVariables(uri)
	var arguments []argument
	for _, name := range parsed.Varnames() {
		arguments = append(arguments, argument{name, fmt.Sprintf("What stands for %q in the resource's URI", name), needed[name]})
	}
	return t, t.takes(arguments)
}

// title is what the server calls an item before people.
func title(raw gjson.Result) string {
	return cmp.Or(raw.Get("title").String(), raw.Get("name").String(), raw.Get("uri").String(), raw.Get("uriTemplate").String())
}

var expression = regexp.MustCompile(`\{([+#./;?&]?)([^{}]*)\}`)

// neededVariables are the variables of a URI template without which the URI is not
// whole. Those of fragments, labels, parameters and queries may be left out: RFC
// 6570, section 3.2, expands them together with what introduces them, or to nothing.
func neededVariables(uri string) map[string]bool {
	needed := map[string]bool{}
	for _, e := range expression.FindAllStringSubmatch(uri, -1) {
		if !strings.Contains("+/", e[1]) { // "" is in every string
			continue
		}
		for name := range strings.SplitSeq(e[2], ",") {
			name, _, _ = strings.Cut(strings.TrimSuffix(name, "*"), ":")
			needed[name] = true
		}
	}
	return needed
}

// address is the URI that a read asks for.
func (t *tool) address(args json.RawMessage) (string, error) {
	if t.template == nil {
		return t.uri, nil
	}
	values := uritemplate.Values{}
	gjson.ParseBytes(args).ForEach(func(name, value gjson.Result) bool {
		values.Set(name.String(), uritemplate.String(value.String()))
		return true
	})
	uri, err := t.template.Expand(values)
	if err != nil {
		return "", &errArguments{[]string{"they do not make a URI"}}
	}
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
