package extproc

import (
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
)

func fromEnvoy(msg *pb.ProcessingRequest) input { return envoyInput{msg} }

func answer(status int, body string, last bool) input {
	return answerInput{head: &answerHead{status: status, header: http.Header{"X-A": {"1"}}}, body: []byte(body), last: last}
}

func more(body string, last bool) input { return answerInput{body: []byte(body), last: last} }

var (
	release   = releaseInput{}
	allOfBody = requestInput{last: true}
	upstream  = fromEnvoy(responseHeaders(false, ":status", "200", "x-up", "1"))
	upBody    = fromEnvoy(responseBody("up", false))
	bareUp    = fromEnvoy(responseHeaders(true, ":status", "200", "x-up", "1"))
	clientEnd = fromEnvoy(requestBody("", true))
)

// machineCases show, for each phase, what an answer becomes and what is
// illegal. The outputs are those of the last input.
var machineCases = []struct {
	name   string
	bare   bool
	inputs []input
	want   []string
	err    string
}{
	{"a body message", false, []input{fromEnvoy(requestBody("ab", false))}, []string{"request body ab"}, ""},
	{"the end", false, []input{fromEnvoy(requestBody("ab", true))}, []string{"request body ab", "request end"}, ""},
	{"a second end", false, []input{clientEnd, fromEnvoy(requestBody("ab", true))}, []string{"late ab"}, ""},
	{"the end in the headers", true, []input{clientEnd}, []string{"late "}, ""},
	{"trailers end too", false, []input{fromEnvoy(requestTrailers("a", "b"))}, []string{"request end"}, ""},
	{"trailers after the end", false, []input{clientEnd, fromEnvoy(requestTrailers("a", "b"))}, []string{"late "}, ""},

	{"release", false, []input{release}, []string{"request headers"}, ""},
	{"release of all", false, []input{releaseInput{body: []byte("ab"), last: true}}, []string{"request headers", `request body "ab" end`, "drop request"}, ""},
	{"release without a body", false, []input{releaseInput{last: true}}, []string{"request headers", `request body "" end`, "drop request"}, ""},
	{"release of a bare request", true, []input{releaseInput{last: true}}, []string{"request headers"}, ""},
	{"release of a bare request with a body", true, []input{releaseInput{body: []byte("ab"), last: true}}, []string{`request headers replace "ab"`}, ""},
	{"release of a bare request in parts", true, []input{release}, nil, "release does not fit an exchange in phase held/none"},
	{"second release", false, []input{release, release}, nil, "release does not fit an exchange in phase open/none"},
	{"release after an answer", false, []input{answer(200, "", false), release}, nil, "release does not fit an exchange in phase held/collecting"},
	{"the body's end", false, []input{release, allOfBody}, []string{`request body "" end`, "drop request"}, ""},
	{"the body's end with trailers", false, []input{release, fromEnvoy(requestTrailers("a", "b")), requestInput{body: []byte("x"), last: true}}, []string{`request body "x"`, "request trailers", "drop request"}, ""},
	{"a body before the release", false, []input{allOfBody}, nil, "outbound request body does not fit an exchange in phase held/none"},
	{"a body after its end", false, []input{release, allOfBody, allOfBody}, nil, "outbound request body does not fit an exchange in phase closed/none"},

	{"the upstream's head", false, []input{release, upstream}, []string{"response head 200"}, ""},
	{"the upstream's body", false, []input{release, upstream, fromEnvoy(responseBody("ab", true))}, []string{"response body ab", "response end"}, ""},
	{"the upstream's body twice", false, []input{release, upstream, fromEnvoy(responseBody("", true)), fromEnvoy(responseBody("ab", true))}, []string{"late ab"}, ""},
	{"two heads", false, []input{release, upstream, upstream}, nil, "response_headers does not fit an exchange in phase open/none"},
	{"a body without a head", false, []input{fromEnvoy(responseBody("ab", true))}, nil, "response_body does not fit an exchange in phase held/none"},
	{"trailers without a head", false, []input{fromEnvoy(responseTrailers("a", "b"))}, nil, "response_trailers does not fit an exchange in phase held/none"},
	{"request headers again", false, []input{fromEnvoy(requestHeaders(ModeStatic, false))}, nil, "request_headers does not fit an exchange in phase held/none"},
	{"an unknown message", false, []input{fromEnvoy(&pb.ProcessingRequest{})}, nil, "a message of no known kind does not fit an exchange in phase held/none"},

	{"held, whole answer", false, []input{answer(418, "no", true)}, []string{"drop request", `immediate 418 x-a=1 "no"`}, ""},
	{"held, streamed answer, client not done", false, []input{answer(200, "a", false)}, []string{"drop request"}, ""},
	{"held, streamed answer, client done", false, []input{clientEnd, answer(200, "a", false)}, []string{"drop request", "streamed head :status=200 x-a=1", `streamed body "a"`}, ""},
	{"held, streamed answer, client done later", false, []input{answer(200, "a", false), more("b", false), clientEnd}, []string{"request end", "streamed head :status=200 x-a=1", `streamed body "ab"`}, ""},
	{"held, streamed answer, whole before the client's end", false, []input{answer(200, "a", false), more("b", true)}, []string{`immediate 200 x-a=1 "ab"`}, ""},
	{"streamed answer goes on", true, []input{answer(200, "", false), more("b", false)}, []string{`streamed body "b"`}, ""},
	{"streamed answer ends", true, []input{answer(200, "", false), more("b", true)}, []string{`streamed body "b" end`}, ""},
	{"streamed answer ends without data", true, []input{answer(200, "", false), more("", true)}, []string{`streamed body "" end`}, ""},
	{"an answer after its end", true, []input{answer(200, "", true), more("b", true)}, nil, "answer does not fit an exchange in phase held/closed"},
	{"an answer without a head", true, []input{more("b", true)}, nil, "answer does not fit an exchange in phase held/none"},
	{"upstream's messages after a streamed answer", true, []input{answer(200, "", false), upstream}, nil, ""},

	{"pending, whole answer", true, []input{releaseInput{last: true}, answer(504, "no", true)}, []string{`immediate 504 x-a=1 "no"`}, ""},
	{"pending, streamed answer", true, []input{releaseInput{last: true}, answer(504, "n", false)}, nil, ""},
	{"pending, streamed answer, then whole", true, []input{releaseInput{last: true}, answer(504, "n", false), more("o", true)}, []string{`immediate 504 x-a=1 "no"`}, ""},
	{"pending, streamed answer, then the upstream's head", true, []input{releaseInput{last: true}, answer(504, "n", false), upstream}, []string{"response head 200"}, ""},
	{"pending, streamed answer, then the upstream", true, []input{releaseInput{last: true}, answer(504, "n", false), upstream, upBody}, []string{"response headers :status=504 x-a=1 -x-up", `response body "n"`, "response body up"}, ""},

	{"an answer before the upstream's body", false, []input{release, upstream, answer(200, "a", false)}, nil, ""},
	{"it goes out with the upstream's body", false, []input{release, upstream, answer(200, "a", false), more("b", false), upBody}, []string{"response headers x-a=1 -x-up", `response body "ab"`, "response body up"}, ""},
	{"or with its trailers", false, []input{release, upstream, answer(200, "a", false), fromEnvoy(responseTrailers("t", "1"))}, []string{"response headers x-a=1 -x-up", `response body "a"`, "response end"}, ""},
	{"or whole, in its place", false, []input{release, upstream, answer(504, "n", false), more("o", true)}, []string{`immediate 504 x-a=1 "no"`}, ""},
	{"mutated answer", false, []input{release, upstream, upBody, answer(200, "", false)}, []string{"response headers x-a=1 -x-up"}, ""},
	{"mutated answer, whole", false, []input{release, upstream, upBody, answer(502, "no", true)}, []string{"response headers :status=502 x-a=1 -x-up", `response body "no" end`}, ""},
	{"mutated answer ends, trailers dropped", false, []input{release, upstream, fromEnvoy(responseTrailers("t", "1")), answer(200, "a", true)}, []string{"response headers x-a=1 -x-up", `response body "a" end`}, ""},
	{"mutated answer ends with trailers", false, []input{release, upstream, fromEnvoy(responseTrailers("t", "1", "u", "2")), answer(200, "a", false), answerInput{last: true, trailer: http.Header{"T": {"3"}}}}, []string{"response trailers t=3 -u"}, ""},
	{"trailers where the upstream had none", false, []input{release, upstream, upBody, answer(200, "a", false), answerInput{last: true, trailer: http.Header{"T": {"3"}}}}, []string{`response body "" end`}, ""},
	{"bare upstream, bare answer", false, []input{release, bareUp, answer(200, "", true)}, []string{"response headers x-a=1 -x-up"}, ""},
	{"bare upstream, body", false, []input{release, bareUp, answer(502, "no", true)}, []string{`immediate 502 x-a=1 "no"`}, ""},
	{"bare upstream, streamed body", false, []input{release, bareUp, answer(502, "n", false)}, nil, ""},

	{"Envoy answers a held request", false, []input{upstream}, []string{"cancel handler", "response headers"}, ""},
	{"and goes on", false, []input{upstream, fromEnvoy(responseBody("x", true))}, []string{`response body "x" end`}, ""},
	{"and ends with trailers", false, []input{upstream, fromEnvoy(responseTrailers("a", "b"))}, []string{"response trailers"}, ""},
	{"the handler is out then", false, []input{upstream, answer(200, "", true)}, nil, "answer does not fit an exchange in phase held/foreign"},
}

func TestMachine(t *testing.T) {
	for _, test := range machineCases {
		t.Run(test.name, func(t *testing.T) {
			m := newMachine(test.bare)
			var out []output
			var err error
			for i, in := range test.inputs {
				if out, err = m.step(in); err != nil && i < len(test.inputs)-1 {
					t.Fatal(err)
				}
			}
			var got []string
			for _, o := range out {
				got = append(got, describeOutput(o))
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(test.want, "\n"))
			}
			var illegal *StepError
			if test.err == "" && err != nil || test.err != "" && (!errors.As(err, &illegal) || err.Error() != "extproc: "+test.err) {
				t.Errorf("error %v", err)
			}
		})
	}
}

func describeOutput(o output) string {
	switch o.do {
	case doSend:
		return describe(o.msg)
	case doRequestBody:
		return "request body " + string(o.data)
	case doRequestEnd:
		return "request end"
	case doRequestDrop:
		return "drop request"
	case doResponseHead:
		return "response head " + strconv.Itoa(o.status)
	case doResponseBody:
		return "response body " + string(o.data)
	case doResponseEnd:
		return "response end"
	case doCountLate:
		return "late " + string(o.data)
	}
	return "cancel handler"
}

// TestOrder: the check before each Send lets no disorder out.
func TestOrder(t *testing.T) {
	for name, msgs := range map[string][]*pb.ProcessingResponse{
		"body before headers":          {bodyAnswer(sideRequest, nil, false)},
		"trailers before headers":      {trailersAnswer(sideResponse, nil)},
		"headers twice":                {headersAnswer(sideResponse, nil), headersAnswer(sideResponse, nil)},
		"body after its end":           {headersAnswer(sideRequest, nil), bodyAnswer(sideRequest, nil, true), bodyAnswer(sideRequest, nil, false)},
		"trailers after the body's":    {headersAnswer(sideRequest, nil), bodyAnswer(sideRequest, nil, true), trailersAnswer(sideRequest, nil)},
		"immediate after headers":      {headersAnswer(sideResponse, nil), immediateAnswer(200, nil, nil)},
		"two immediate":                {immediateAnswer(200, nil, nil), immediateAnswer(200, nil, nil)},
		"streamed body without a head": {streamedBody(nil, false)},
		"streamed head twice":          {streamedHead(nil), streamedHead(nil)},
		"streamed after release":       {headersAnswer(sideRequest, nil), streamedHead(nil)},
		"release after streamed":       {streamedHead(headerList(200, nil)), headersAnswer(sideRequest, nil)},
	} {
		t.Run(name, func(t *testing.T) {
			var o order
			for i, msg := range msgs {
				err := o.check(msg)
				if last := i == len(msgs)-1; last != errors.Is(err, errOrder) {
					t.Errorf("message %d: %v", i, err)
				}
			}
		})
	}
}
