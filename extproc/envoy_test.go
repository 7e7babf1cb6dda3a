package extproc

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

func TestSmoke(t *testing.T) {
	for _, f := range []flavour{{"1.40.0", "override"}, {"1.40.0", "static"}, {"1.37.0", "static-early"}} {
		t.Run(f.String(), func(t *testing.T) {
			r := newRig(t, f, rigOptions{})
			resp, err := r.client.Post(r.url("/x"), "text/plain", strings.NewReader("hello"))
			if err != nil {
				t.Fatal(err)
			}
			b, err := io.ReadAll(resp.Body)
			if err != nil || resp.StatusCode != http.StatusOK || string(b) != "upstream answer" {
				t.Fatal(resp.Status, string(b), err)
			}
			r.clean(t)
		})
	}
}
