package credential

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
)

func TestZones(t *testing.T) {
	for want, addresses := range map[zone][]string{
		zonePublic:   {"8.8.8.8", "2606:4700::1111", "::ffff:8.8.8.8", "64:ff9b::8.8.8.8", "2002:808:808::1"},
		zonePrivate:  {"10.1.2.3", "172.16.0.1", "192.168.0.1", "100.64.0.1", "fd12::1", "::ffff:10.0.0.1", "64:ff9b::10.0.0.1", "2002:a00:1::", "198.18.0.1", "255.255.255.255", "fec0::1", "::10.0.0.1"},
		zoneLoopback: {"127.0.0.1", "127.8.8.8", "::1", "::ffff:127.0.0.1", "0.0.0.0", "::", "64:ff9b::127.0.0.1", "2002:7f00:1::"},
		zoneLink:     {"169.254.1.1", "fe80::1", "fe80::1%eth0", "::ffff:169.254.1.1"},
		zoneForbidden: {"169.254.169.254", "::ffff:169.254.169.254", "64:ff9b::169.254.169.254", "2002:a9fe:a9fe::", "fd00:ec2::254", "169.254.170.2",
			"100.100.100.200", "168.63.129.16", "224.0.0.1", "ff02::1"},
	} {
		for _, address := range addresses {
			if got := zoneOf(netip.MustParseAddr(address)); got != want {
				t.Errorf("%s is in zone %d, want %d", address, got, want)
			}
		}
	}
	reach := map[zone]string{ // public, private, loopback, link, forbidden
		zonePublic: "10000", zonePrivate: "11000", zoneLoopback: "11100", zoneLink: "10010",
	}
	for from, want := range reach {
		got := ""
		for to := zonePublic; to <= zoneForbidden; to++ {
			got += map[bool]string{true: "1", false: "0"}[from.reaches(to)]
		}
		if got != want {
			t.Errorf("zone %d reaches %s, want %s", from, got, want)
		}
	}
}

// A server that is somewhere public names an address here: it is not called,
// however the address is spelled, and whatever kind of address it is.
func TestServerCannotSendUsToOurOwnNetworks(t *testing.T) {
	var hits atomic.Int32
	inner := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { hits.Add(1) }))
	defer inner.Close()
	port := parse(t, inner.URL).Port()
	conf := &OAuth{Client: Client{ID: "id", Secret: "s3cret"}}
	s := source(t, "https://mcp.example.com/mcp", &Auth{OAuth: conf})
	g := &clientGrant{source: s, conf: conf}
	c := challenge{status: 401, zone: zonePublic}
	for _, host := range []string{"127.0.0.1", "localhost", "[::1]", "[::ffff:127.0.0.1]", "0.0.0.0", "169.254.169.254", "10.255.255.1"} {
		evil := "https://" + host + ":" + port
		for name, do := range map[string]func() error{
			"resource metadata": func() error {
				c := c
				c.metadata = evil + "/m"
				_, err := g.resource(t.Context(), c)
				return err
			},
			"issuer": func() error {
				_, err := g.metadata(t.Context(), c, evil)
				return err
			},
			"token endpoint": func() error {
				_, err := s.ask(t.Context(), &authServer{tokenURL: parse(t, evil+"/token"), zone: c.zone}, request{client: &conf.Client, params: url.Values{}})
				return err
			},
		} {
			err := do()
			var known *Error
			if !errors.As(err, &known) || !known.Refused || hits.Load() != 0 {
				t.Errorf("%s at %s: %v, %d requests arrived", name, host, err, hits.Load())
			} else if strings.Contains(known.Text, "s3cret") || strings.Contains(known.Text, "://") || strings.Contains(known.Text, "refused to connect") {
				t.Errorf("the error tells too much: %v", err)
			}
		}
	}
	// The same from a server that is here too.
	c.zone = zoneLoopback
	if _, err := g.metadata(t.Context(), c, inner.URL); err == nil || hits.Load() == 0 && !strings.Contains(err.Error(), "certificate") {
		t.Errorf("%v, %d requests arrived", err, hits.Load())
	}
}

func TestNamed(t *testing.T) {
	for _, row := range []struct {
		server, issuer, address string
		ok                      bool
	}{
		{"https://mcp.example.com", "", "https://idp.example.com/x", true},
		{"https://mcp.example.com", "", "http://mcp.example.com/x", false}, // a downgrade
		{"https://mcp.example.com", "", "http://idp.example.com", false},
		{"http://mcp.internal:8080", "", "http://mcp.internal:9090/x", true},
		{"http://mcp.internal:8080", "", "http://idp.internal", false},
		{"http://mcp.internal:8080", "http://idp.internal", "http://idp.internal/token", true},
		{"http://127.0.0.1:1", "", "http://localhost:2", true},
		{"https://mcp.example.com", "", "https://user:pw@idp.example.com", false},
		{"https://mcp.example.com", "", "//idp.example.com", false},
		{"https://mcp.example.com", "", "file:///etc/passwd", false},
		{"https://mcp.example.com", "", "https://", false},
		{"https://mcp.example.com", "", ":", false},
	} {
		s := source(t, row.server, &Auth{OAuth: &OAuth{Issuer: row.issuer}})
		if _, err := s.named(row.address); (err == nil) != row.ok {
			t.Errorf("%s of %s: %v", row.address, row.server, err)
		}
	}
}

func TestSameOrigin(t *testing.T) {
	for _, row := range []struct {
		a, b string
		want bool
	}{
		{"https://h/x", "https://H:443/y", true}, {"http://h", "http://h:80", true}, {"https://h", "http://h", false},
		{"https://h", "https://h:444", false}, {"https://h", "https://g", false}, {"https://h", "https://h.evil", false},
	} {
		a, _ := url.Parse(row.a)
		b, _ := url.Parse(row.b)
		if got := SameOrigin(a, b); got != row.want {
			t.Errorf("%s and %s: %v", row.a, row.b, got)
		}
	}
}

// Even the configured server is not called at the address of cloud metadata: its
// name may be in somebody else's hands.
func TestMetadataAddressIsNeverCalled(t *testing.T) {
	s := source(t, "http://169.254.169.254/mcp", &Auth{Token: "s3cret"})
	if got := call(t, s, ""); !strings.Contains(got, errForbidden.Error()) {
		t.Error(got)
	}
}

// Where a server is, is known by the address that answered, unless something else
// stands in between.
func TestZoneOfServer(t *testing.T) {
	private := netip.MustParseAddr("10.0.0.1")
	egress := parse(t, "http://127.0.0.1:10002")
	for _, row := range []struct {
		server   string
		egress   *url.URL
		answered netip.Addr
		want     zone
	}{
		{"https://mcp.internal", nil, private, zonePrivate},
		{"https://mcp.example.com", nil, netip.MustParseAddr("8.8.8.8"), zonePublic},
		{"https://mcp.internal", egress, netip.MustParseAddr("127.0.0.1"), zonePublic},
		{"https://10.0.0.1", egress, netip.MustParseAddr("127.0.0.1"), zonePrivate},
		{"https://mcp.internal", nil, netip.Addr{}, zonePublic},
		{"http://localhost:1", nil, netip.Addr{}, zoneLoopback},
	} {
		s := sourceWith(t, Options{URL: parse(t, row.server), Egress: row.egress, Auth: &Auth{OAuth: &OAuth{}}})
		if got := s.zone(row.answered); got != row.want {
			t.Errorf("%s, answered by %v: zone %d, want %d", row.server, row.answered, got, row.want)
		}
	}
}
