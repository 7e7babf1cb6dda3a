package sessions

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/url"
	"strings"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
)

// errURL never quotes its URL: what is wrong with one is often a password with a
// character that had to be percent-encoded.
var errURL = fmt.Errorf("%w: the Redis URL must have the form redis://user:password@host:port/0, with rediss for TLS, "+
	"?master_name=NAME for Sentinel, redis+cluster for a cluster; in a password, / ? # @ : %% must be percent-encoded", ErrInvalid)

// badURL adds what go-redis says, if that is only the name of a parameter.
func badURL(err error) error {
	if err != nil && strings.Contains(err.Error(), "unexpected option") {
		return fmt.Errorf("%w (%v)", errURL, err)
	}
	return errURL
}

// dial makes the client for a Redis URL.
func dial(o Options) (redis.UniversalClient, error) {
	logging.Disable() // go-redis writes free text to stderr; what it says is in the errors too
	u, err := url.Parse(o.RedisURL)
	if err != nil || u.Hostname() == "" || strings.Contains(u.Path+u.RawQuery+u.Fragment, "@") {
		return nil, errURL
	}
	scheme, form, _ := strings.Cut(u.Scheme, "+")
	if scheme != "redis" && scheme != "rediss" {
		return nil, errURL
	}
	u.Scheme = scheme
	switch query := u.Query(); {
	case form == "sentinel" || form == "" && query.Has("master_name"):
		return dialSentinel(u, o)
	case form == "cluster" || form == "" && query.Has("addr"):
		return dialCluster(u, o)
	case form == "":
		return dialOne(u, o)
	}
	return nil, errURL
}

func dialOne(u *url.URL, o Options) (redis.UniversalClient, error) {
	c, err := redis.ParseURL(u.String())
	if err != nil {
		return nil, badURL(err)
	}
	c.Dialer = dialer(c.TLSConfig, o.TLS)
	c.CredentialsProviderContext = o.Credentials
	c.Protocol, c.DisableIdentity, c.PipelinePoolSize = 2, true, -1
	c.MaxRetries, c.DialerRetries, c.ContextTimeoutEnabled = -1, 1, true
	c.DialTimeout, c.ReadTimeout, c.WriteTimeout = opTimeout, opTimeout, opTimeout
	return redis.NewClient(c), nil
}

func dialCluster(u *url.URL, o Options) (redis.UniversalClient, error) {
	c, err := redis.ParseClusterURL(u.String())
	if err != nil {
		return nil, badURL(err)
	}
	c.Dialer = dialer(c.TLSConfig, o.TLS)
	c.CredentialsProviderContext = o.Credentials
	c.Protocol, c.DisableIdentity, c.PipelinePoolSize = 2, true, -1
	c.MaxRetries, c.DialerRetries, c.ContextTimeoutEnabled = -1, 1, true
	c.DialTimeout, c.ReadTimeout, c.WriteTimeout = opTimeout, opTimeout, opTimeout
	c.DisableRoutingPolicies = true // all is routed by key, and COMMAND may be forbidden
	return redis.NewClusterClient(c), nil
}

// dialSentinel reads user and password of the URL as those of Redis, as in the
// other forms. go-redis would send them to the sentinels, for which there are
// the parameters sentinel_username and sentinel_password.
func dialSentinel(u *url.URL, o Options) (redis.UniversalClient, error) {
	query := u.Query()
	user, password := query.Get("sentinel_username"), query.Get("sentinel_password")
	query.Del("sentinel_username")
	query.Del("sentinel_password")
	u.RawQuery = query.Encode()
	c, err := redis.ParseFailoverURL(u.String())
	if err != nil || c.MasterName == "" {
		return nil, badURL(err)
	}
	if u.User != nil {
		c.Username, c.Password = c.SentinelUsername, c.SentinelPassword
	}
	c.SentinelUsername, c.SentinelPassword = user, password
	c.Dialer = dialer(c.TLSConfig, o.TLS)
	c.CredentialsProviderContext = o.Credentials
	c.Protocol, c.DisableIdentity, c.PipelinePoolSize = 2, true, -1
	c.MaxRetries, c.DialerRetries, c.ContextTimeoutEnabled = -1, 1, true
	c.DialTimeout, c.ReadTimeout, c.WriteTimeout = opTimeout, opTimeout, opTimeout
	return redis.NewFailoverClient(c), nil
}

// dialer connects with TLS if the URL says so. Unlike the one of go-redis it
// heeds ctx during the handshake, and it verifies the name of the very node it
// dials, not that of the first.
func dialer(fromURL, given *tls.Config) func(ctx context.Context, network, addr string) (net.Conn, error) {
	plain := &net.Dialer{Timeout: opTimeout}
	if fromURL == nil {
		return plain.DialContext
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if given != nil {
		config = given.Clone()
	}
	config.InsecureSkipVerify = config.InsecureSkipVerify || fromURL.InsecureSkipVerify
	return (&tls.Dialer{NetDialer: plain, Config: config}).DialContext
}
