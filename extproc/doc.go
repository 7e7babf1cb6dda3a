// Package extproc runs any http.Handler on an Envoy external-processing stream.
//
// Envoy's ext_proc filter opens one gRPC stream for an HTTP exchange and sends
// its request and response through it as messages. This package turns such a
// stream into what Go programs know:
//
//	request headers and body   -> *http.Request, its Body fed by body messages
//	the first Transport() trip -> the request, released onto Envoy's own route;
//	                              what the upstream answers is the *http.Response
//	later trips                -> a plain HTTP client to Envoy's loop listener
//	http.ResponseWriter        -> a mutation of the upstream's response and a
//	                              streamed body, or an immediate response
//
// From the bottom up: messages.go and headers.go build and read protobuf,
// machine*.go is the exchange as a state machine without I/O, pipe.go is a
// bounded body, exchange.go runs one stream, transport.go,
// release.go, loop.go and writer.go are what the handler sees, pass.go copies
// the requests that are not ours, server.go ties them to gRPC.
//
// What Envoy accepts in which state was measured on Envoy 1.37 to 1.40, and
// the code follows the measurements where they differ from the documentation:
// https://www.envoyproxy.io/docs/envoy/latest/api-v3/service/ext_proc/v3/external_processor.proto
package extproc
