package admin

import (
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// Guard keeps the pages of strange web sites away from what next serves. The pages
// have no authentication: who reaches the address may read them, and a browser on
// the operator's machine reaches it for any site that it has open.
//
//   - A site whose name was made to resolve to this address (DNS rebinding) is told
//     by the Host header: it must be an address, localhost, a name without dots, one
//     of Kubernetes' Services (NAME.NAMESPACE.svc, also with .cluster.local), or own,
//     the host of the listener as configured. No stranger can have a name like these.
//   - A site that asks under the right name is told by Sec-Fetch-Site (W3C, Fetch
//     Metadata) or, where the browser sends none, by Origin. Links from elsewhere to
//     a page work.
func Guard(next http.Handler, own string) http.Handler {
	own = hostname(own)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case !trusted(hostname(r.Host), own):
			refuse(w, r, http.StatusMisdirectedRequest, "The admin pages are not served under this name. Use an address, localhost (kubectl port-forward), or the name of a Kubernetes Service.")
		case crossOrigin(r):
			refuse(w, r, http.StatusForbidden, "The admin pages are for no other site.")
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// refuse answers people with a text and programs with JSON.
func refuse(w http.ResponseWriter, r *http.Request, status int, why string) {
	if !strings.HasSuffix(r.URL.Path, ".json") && wantsPage(r) {
		http.Error(w, why, status)
		return
	}
	Refuse(w, status, why)
}

// hostname is the host of an authority, in lower case, without port, brackets and
// the dot at the end.
func hostname(authority string) string {
	host, port, err := net.SplitHostPort(authority)
	if _, odd := strconv.ParseUint(port, 10, 16); err != nil || odd != nil {
		host = strings.TrimSuffix(strings.TrimPrefix(authority, "["), "]")
	}
	return strings.TrimSuffix(strings.ToLower(host), ".")
}

func trusted(host, own string) bool {
	if _, err := netip.ParseAddr(host); err == nil || !strings.Contains(host, ".") || host == own {
		return true // HTTP/1.0 without a Host is no browser's, either
	}
	return slices.ContainsFunc([]string{".localhost", ".svc", ".svc.cluster.local"}, func(end string) bool { return strings.HasSuffix(host, end) })
}

func crossOrigin(r *http.Request) bool {
	switch r.Header.Get("Sec-Fetch-Site") {
	case "same-origin", "none":
		return false
	case "": // not a browser, an old one, or plain HTTP to another machine
		origin := r.Header.Get("Origin")
		if origin == "" {
			return false
		}
		u, err := url.Parse(origin)
		return err != nil || !strings.EqualFold(u.Host, r.Host)
	}
	link := (r.Method == http.MethodGet || r.Method == http.MethodHead) &&
		r.Header.Get("Sec-Fetch-Mode") == "navigate" && r.Header.Get("Sec-Fetch-Dest") == "document"
	return !link || strings.HasPrefix(r.URL.Path, "/debug/pprof/") // a profile is work
}
