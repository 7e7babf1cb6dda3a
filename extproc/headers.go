package extproc

import (
	"net/http"
	"net/textproto"
	"slices"
	"strconv"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// hopByHop are the fields of one connection (RFC 9110, section 7.6.1); Envoy
// frames its own connections, so they are neither copied nor mutated.
var hopByHop = map[string]bool{
	"Connection": true, "Keep-Alive": true, "Proxy-Authenticate": true,
	"Proxy-Authorization": true, "Proxy-Connection": true, "Te": true,
	"Trailer": true, "Transfer-Encoding": true, "Upgrade": true,
	"Http2-Settings": true,
}

// protected reports whether a mutation must leave the field alone: routing
// fields and x-envoy-* are refused by Envoy's default HeaderMutationRules
// (each refusal counts in rejected_header_mutations), framing is Envoy's.
func protected(key string) bool {
	return hopByHop[key] || key == "Host" || strings.HasPrefix(key, ":") ||
		strings.HasPrefix(key, "X-Envoy-")
}

func headerValue(v *corev3.HeaderValue) string {
	if len(v.RawValue) > 0 {
		return string(v.RawValue)
	}
	return v.Value
}

// pseudo returns the value of a pseudo header such as ":path", or "".
func pseudo(m *corev3.HeaderMap, name string) string {
	for _, v := range m.GetHeaders() {
		if v.Key == name {
			return headerValue(v)
		}
	}
	return ""
}

// toHeader gives the ordinary fields of a message, values in their order.
func toHeader(m *corev3.HeaderMap) http.Header {
	h := make(http.Header, len(m.GetHeaders()))
	for _, v := range m.GetHeaders() {
		if !strings.HasPrefix(v.Key, ":") {
			key := textproto.CanonicalMIMEHeaderKey(v.Key)
			h[key] = append(h[key], headerValue(v))
		}
	}
	return h
}

// contentLength reads the field's value; -1 when it is absent or no number.
func contentLength(h http.Header) int64 {
	n, err := strconv.ParseInt(h.Get("Content-Length"), 10, 64)
	if err != nil || n < 0 {
		return -1
	}
	return n
}

// diff is the smallest mutation that turns the fields `from` into `to`; nil if
// there is none. Keys for which keep is true stay as they are in `from`.
func diff(from, to http.Header, keep func(string) bool) *pb.HeaderMutation {
	mut := &pb.HeaderMutation{}
	for _, key := range sortedKeys(to) {
		if keep(key) || len(to[key]) == 0 || slices.Equal(from[key], to[key]) {
			continue
		}
		mut.SetHeaders = append(mut.SetHeaders, setOptions(key, to[key])...)
		if key == "Content-Length" && len(from[key]) > 0 {
			// Envoy removes first. Without allow_content_length_header it does not set,
			// and after a mode override the old length would stay: of another body.
			mut.RemoveHeaders = append(mut.RemoveHeaders, "content-length")
		}
	}
	for _, key := range sortedKeys(from) {
		if !keep(key) && len(to[key]) == 0 {
			mut.RemoveHeaders = append(mut.RemoveHeaders, strings.ToLower(key))
		}
	}
	if len(mut.SetHeaders) == 0 && len(mut.RemoveHeaders) == 0 {
		return nil
	}
	return mut
}

// setOptions replaces a field by the given values. Further values need the
// deprecated `append`: APPEND_IF_EXISTS_OR_ADD is the zero value, which Envoy
// cannot tell from "not set" and takes as overwrite (seen on 1.37 to 1.40).
func setOptions(key string, values []string) []*corev3.HeaderValueOption {
	options := make([]*corev3.HeaderValueOption, len(values))
	for i, value := range values {
		options[i] = &corev3.HeaderValueOption{
			Header: &corev3.HeaderValue{Key: strings.ToLower(key), RawValue: []byte(value)},
		}
		if i == 0 {
			options[i].AppendAction = corev3.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD
		} else {
			options[i].Append = wrapperspb.Bool(true)
		}
	}
	return options
}

// headerList is the head of a streamed immediate response. Envoy keeps only
// the last of several equal names there, so list fields are joined (RFC 9110,
// section 5.3); set-cookie is no list, its last value wins.
func headerList(status int, h http.Header) *corev3.HeaderMap {
	m := &corev3.HeaderMap{Headers: []*corev3.HeaderValue{
		{Key: ":status", RawValue: []byte(strconv.Itoa(status))},
	}}
	for _, key := range sortedKeys(h) {
		if protected(key) || len(h[key]) == 0 {
			continue
		}
		value := strings.Join(h[key], ", ")
		if key == "Set-Cookie" {
			value = h[key][len(h[key])-1]
		}
		m.Headers = append(m.Headers, &corev3.HeaderValue{Key: strings.ToLower(key), RawValue: []byte(value)})
	}
	return m
}

// sortedKeys makes messages reproducible.
func sortedKeys(h http.Header) []string {
	keys := make([]string, 0, len(h))
	for key := range h {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}
