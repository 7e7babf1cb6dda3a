package credential

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"syscall"
	"time"
)

// zone is how near to us an address is. What a server names may be as near as
// the server itself is, and no nearer: otherwise a server on the internet could
// have us call what only we can reach.
type zone int

const (
	zonePublic zone = iota
	zonePrivate
	zoneLoopback
	zoneLink      // link-local: open to nobody but a server there
	zoneForbidden // cloud metadata: hands out credentials of the machine
)

// metadataAddrs answer with credentials of the machine or pod: AWS, Azure, Google
// and Oracle (the first), ECS tasks, EKS pods, Azure's wire server, Alibaba,
// Oracle's older one.
var metadataAddrs = []netip.Addr{
	netip.MustParseAddr("169.254.169.254"), netip.MustParseAddr("fd00:ec2::254"),
	netip.MustParseAddr("169.254.170.2"), netip.MustParseAddr("169.254.170.23"), netip.MustParseAddr("fd00:ec2::23"),
	netip.MustParseAddr("168.63.129.16"), netip.MustParseAddr("100.100.100.200"), netip.MustParseAddr("192.0.0.192"),
}

// notGlobal are the blocks that RFC 6890 and its successors keep from the
// internet and netip does not know.
var notGlobal = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"), netip.MustParsePrefix("100.64.0.0/10"), netip.MustParsePrefix("192.0.0.0/24"),
	netip.MustParsePrefix("192.0.2.0/24"), netip.MustParsePrefix("198.18.0.0/15"), netip.MustParsePrefix("198.51.100.0/24"),
	netip.MustParsePrefix("203.0.113.0/24"), netip.MustParsePrefix("240.0.0.0/4"),
	netip.MustParsePrefix("::/96"), netip.MustParsePrefix("100::/64"), netip.MustParsePrefix("2001:db8::/32"), netip.MustParsePrefix("fec0::/10"),
}

var (
	nat64   = netip.MustParsePrefix("64:ff9b::/96") // RFC 6052
	sixTo4  = netip.MustParsePrefix("2002::/16")    // RFC 3056
	anyAddr = []netip.Addr{netip.IPv4Unspecified(), netip.IPv6Unspecified()}
)

// zoneOf looks through the IPv6 spellings of an IPv4 address.
func zoneOf(ip netip.Addr) zone {
	ip = ip.WithZone("").Unmap()
	raw := ip.As16()
	switch {
	case nat64.Contains(ip):
		ip = netip.AddrFrom4([4]byte(raw[12:16]))
	case sixTo4.Contains(ip):
		ip = netip.AddrFrom4([4]byte(raw[2:6]))
	}
	in := func(p netip.Prefix) bool { return p.Contains(ip) }
	switch {
	case slices.Contains(metadataAddrs, ip), ip.IsMulticast():
		return zoneForbidden
	case ip.IsLinkLocalUnicast():
		return zoneLink
	case ip.IsLoopback(), slices.Contains(anyAddr, ip): // the kernel takes the unspecified address for loopback
		return zoneLoopback
	case ip.IsPrivate(), slices.ContainsFunc(notGlobal, in):
		return zonePrivate
	}
	return zonePublic
}

// reaches reports whether a server in z may name an address in target.
func (z zone) reaches(target zone) bool {
	switch {
	case target == zoneForbidden:
		return false
	case z == zoneLink || target == zoneLink:
		return z == target || target == zonePublic
	}
	return target <= z
}

// errForbidden is why an address is not dialled. It does not tell the address:
// a server that may only guess must not learn what is there.
var errForbidden = errors.New("refused to call an address of a network that the MCP server is not in")

// dialer dials what allowed lets pass. It judges the address that is really
// dialled, so a name cannot change its meaning between a check and its use.
func dialer(allowed func(zone) bool) *net.Dialer {
	return &net.Dialer{
		Timeout: 10 * time.Second, KeepAlive: 30 * time.Second,
		Control: func(_, address string, _ syscall.RawConn) error {
			at, err := netip.ParseAddrPort(address)
			if err != nil || !allowed(zoneOf(at.Addr())) {
				return errForbidden
			}
			return nil
		},
	}
}

// byOperator allows what the operator has written into the configuration.
func byOperator(z zone) bool { return z != zoneForbidden }

// literal is the zone of a host that is written as an address, or as localhost.
func literal(host string) (zone, bool) {
	if strings.EqualFold(strings.TrimSuffix(host, "."), "localhost") {
		return zoneLoopback, true
	}
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return zonePublic, false
	}
	return zoneOf(ip), true
}

// named parses an address that a server or a document names. It must be https;
// where the operator has configured plain http, also http on that host.
func (s *Source) named(raw string) (*url.URL, error) {
	u, err := url.Parse(raw)
	if err != nil || u.Hostname() == "" || u.User != nil {
		return nil, errors.New("is no absolute URL")
	}
	if u.Scheme == "https" || u.Scheme == "http" && slices.ContainsFunc(s.operators(), func(ours *url.URL) bool {
		return ours.Scheme == "http" && sameHost(ours.Hostname(), u.Hostname())
	}) {
		return u, nil
	}
	return nil, fmt.Errorf("at %s is not https", u.Hostname())
}

// operators are the addresses that the operator has configured.
func (s *Source) operators() []*url.URL {
	all := []*url.URL{s.URL}
	if o := s.Auth.OAuth; o != nil && o.Issuer != "" {
		if u, err := url.Parse(o.Issuer); err == nil {
			all = append(all, u)
		}
	}
	return all
}

func sameHost(a, b string) bool {
	za, la := literal(a)
	zb, lb := literal(b)
	return strings.EqualFold(a, b) || la && lb && za == zoneLoopback && zb == zoneLoopback
}

// SameOrigin reports whether two URLs have the same scheme, host and port (RFC
// 6454, section 4).
func SameOrigin(a, b *url.URL) bool {
	return a.Scheme == b.Scheme && strings.EqualFold(a.Hostname(), b.Hostname()) && port(a) == port(b)
}

func port(u *url.URL) string {
	switch {
	case u.Port() != "":
		return u.Port()
	case u.Scheme == "https":
		return "443"
	}
	return "80"
}
