package chat

import (
	"encoding/json"
	"net/http"

	"github.com/tidwall/gjson"
)

// Error is an error in the shape that OpenAI clients read:
// {"error":{"message","type","param","code"}}.
type Error struct {
	Status  int // HTTP status; 0 means 500
	Message string
	Type    string // such as "invalid_request_error" or "server_error"
	Param   string // the member of the request that is at fault, if one is
	Code    string // stable, for programs
}

func (e *Error) Error() string { return e.Code + ": " + e.Message }

// Object is the error as the one-member object that the client gets.
func (e *Error) Object() []byte {
	optional := func(s string) *string {
		if s == "" {
			return nil
		}
		return &s
	}
	type body struct {
		Message string  `json:"message"`
		Type    string  `json:"type"`
		Param   *string `json:"param"`
		Code    *string `json:"code"`
	}
	out, err := json.Marshal(map[string]body{"error": {e.Message, e.Type, optional(e.Param), optional(e.Code)}})
	if err != nil {
		panic(err) // strings always encode
	}
	return out
}

// WriteTo answers the request with the error.
func (e *Error) WriteTo(w http.ResponseWriter) { WriteError(w, e.Status, e.Object()) }

// WriteError answers with a status and a JSON body that has the error. Headers
// that describe the bytes of another body do not survive it.
func WriteError(w http.ResponseWriter, status int, body []byte) {
	h := w.Header()
	for _, name := range BodyHeaders {
		h.Del(name)
	}
	h.Set("Content-Type", "application/json")
	if status == http.StatusServiceUnavailable && h.Get("Retry-After") == "" {
		h.Set("Retry-After", "1")
	}
	if status == 0 {
		status = http.StatusInternalServerError
	}
	w.WriteHeader(status)
	w.Write(body) //nolint:errcheck // the client is gone, nobody is left to tell
}

// BodyHeaders are the response headers that describe the exact bytes of a body;
// they go whenever the body is rewritten (RFC 9110 sections 8.4, 8.6 and 8.8.3,
// RFC 9530).
var BodyHeaders = []string{"Content-Length", "Content-Encoding", "Etag", "Digest", "Content-Digest", "Repr-Digest", "Content-Md5", "Accept-Ranges"}

// UpstreamError is an error object that the provider sent inside an answer whose
// HTTP status said all was well.
type UpstreamError struct {
	Raw    string // the error object, as sent
	Status int    // the HTTP status that fits it
}

func (e *UpstreamError) Error() string {
	return "the model's provider sent an error: " + gjson.Get(e.Raw, "message").String()
}

// Object is the error as the one-member object that the client gets.
func (e *UpstreamError) Object() []byte { return []byte(`{"error":` + e.Raw + `}`) }

// upstreamError reads the "error" member of an answer; nil if there is none.
// Its code is a number with some providers and a string with others.
func upstreamError(v gjson.Result) *UpstreamError {
	if !present(v) {
		return nil
	}
	e := &UpstreamError{Raw: v.Raw, Status: http.StatusBadGateway}
	if !v.IsObject() {
		e.Raw = `{"message":` + quote(v.String()) + `,"type":"server_error","param":null,"code":null}`
	}
	for _, name := range []string{"code", "status"} {
		if code := v.Get(name).Int(); code >= 400 && code < 600 {
			e.Status = int(code)
			break
		}
	}
	return e
}
