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
	values := make([]string, len(m.GetHeaders())) // of all fields, one after the other
	for i, v := range m.GetHeaders() {
		if strings.HasPrefix(v.Key, ":") {
			continue
		}
		key := canonical(v.Key)
		values[i] = headerValue(v)
		if earlier, ok := h[key]; ok {
			h[key] = append(earlier, values[i])
		} else {
			h[key] = values[i : i+1 : i+1]
		}
	}
	return h
}

// canonical is textproto.CanonicalMIMEHeaderKey, which allocates for each name that
// net/http does not know.
func canonical(key string) string {
	if known, ok := frequent[key]; ok {
		return known
	}
	return textproto.CanonicalMIMEHeaderKey(key)
}

// frequent are the names that Envoy, the SDKs of model providers and tracers send.
var frequent = func() map[string]string {
	keys := map[string]string{}
	for _, key := range []string{
		"accept", "accept-encoding", "accept-language", "authorization", "baggage", "cache-control", "content-encoding", "content-length", "content-type",
		"cookie", "date", "host", "openai-organization", "openai-processing-ms", "openai-project", "openai-version", "server", "traceparent", "tracestate",
		"transfer-encoding", "user-agent", "via", "x-envoy-attempt-count", "x-envoy-decorator-operation", "x-envoy-expected-rq-timeout-ms",
		"x-envoy-external-address", "x-envoy-internal", "x-envoy-original-path", "x-envoy-upstream-service-time", "x-forwarded-client-cert",
		"x-forwarded-for", "x-forwarded-host", "x-forwarded-proto", "x-ratelimit-limit-requests", "x-ratelimit-limit-tokens",
		"x-ratelimit-remaining-requests", "x-ratelimit-remaining-tokens", "x-ratelimit-reset-requests", "x-ratelimit-reset-tokens", "x-request-id",
		"x-stainless-arch", "x-stainless-async", "x-stainless-helper-method", "x-stainless-lang", "x-stainless-os", "x-stainless-package-version",
		"x-stainless-read-timeout", "x-stainless-retry-count", "x-stainless-runtime", "x-stainless-runtime-version", "x-stainless-timeout",
	} {
		keys[key] = textproto.CanonicalMIMEHeaderKey(key)
	}
	return keys
}()

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
	var set, removed []string
	for key, values := range to {
		if len(values) > 0 && !slices.Equal(from[key], values) && !keep(key) {
			set = append(set, key)
		}
	}
	for key := range from {
		if len(to[key]) == 0 && !keep(key) {
			removed = append(removed, key)
		}
	}
	if len(set) == 0 && len(removed) == 0 {
		return nil
	}
	mut := &pb.HeaderMutation{}
	slices.Sort(set) // so that messages are reproducible
	slices.Sort(removed)
	for _, key := range set {
		mut.SetHeaders = append(mut.SetHeaders, setOptions(key, to[key])...)
		if key == "Content-Length" && len(from[key]) > 0 {
			// Envoy removes first. Without allow_content_length_header it does not set,
			// and after a mode override the old length would stay: of another body.
			mut.RemoveHeaders = append(mut.RemoveHeaders, "content-length")
		}
	}
	for _, key := range removed {
		mut.RemoveHeaders = append(mut.RemoveHeaders, strings.ToLower(key))
	}
	return mut
}

// setOptions replaces a field by the given values. Further values need the
// deprecated `append`: APPEND_IF_EXISTS_OR_ADD is the zero value, which Envoy
// cannot tell from "not set" and takes as overwrite (seen on 1.37 to 1.40).
func setOptions(key string, values []string) []*corev3.HeaderValueOption {
	options := make([]*corev3.HeaderValueOption, len(values))
	for i, value := range values {
		parts := new(struct {
			option corev3.HeaderValueOption
			value  corev3.HeaderValue
		})
		o := &parts.option
		o.Header = &parts.value
		o.Header.Key, o.Header.RawValue = strings.ToLower(key), []byte(value)
		if i == 0 {
			o.AppendAction = corev3.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD
		} else {
			o.Append = wrapperspb.Bool(true)
		}
		options[i] = o
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
