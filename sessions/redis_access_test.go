package sessions_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/mcp-via-llm/mcp-via-llm/sessions"
	"github.com/mcp-via-llm/mcp-via-llm/sessions/redisrig"
	"github.com/mcp-via-llm/mcp-via-llm/sessions/storetest"
)

// documentedRights are the rules in the documentation of Redis.
func documentedRights(t *testing.T) []string {
	t.Helper()
	source, err := os.ReadFile("redis.go")
	if err != nil {
		t.Fatal(err)
	}
	match := regexp.MustCompile(`ACL SETUSER gateway on >PASSWORD ([^\n]*\n(?://\t[^\n]*\n)+)`).FindSubmatch(source)
	if match == nil {
		t.Fatal("the rights are not documented")
	}
	return strings.Fields(strings.ReplaceAll(string(match[1]), "//", ""))
}

func setUser(s *redisrig.Server, rights []string) {
	args := []any{"SETUSER", "gateway", "reset", "on", ">secret"}
	for _, right := range rights {
		args = append(args, right)
	}
	s.Do("ACL", args...)
}

func as(url, userinfo string) string { return strings.Replace(url, "://", "://"+userinfo+"@", 1) }

func TestLeastRights(t *testing.T) {
	t.Parallel()
	s := redisrig.Start(t)
	rights := documentedRights(t)
	setUser(s, rights)
	store := open(t, sessions.Options{RedisURL: strings.TrimSuffix(as(s.URL, "gateway:secret"), "0") + "1"})
	for range 2 {
		if err := store.Ping(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	t.Run("conform", func(t *testing.T) { storetest.Run(t, store) })
	for _, right := range rights {
		command, isCommand := strings.CutPrefix(right, "+")
		switch command {
		case "cluster|slots", "hello", "unsubscribe", "ping": // not used here, or allowed to all before they log in
			continue
		}
		if !isCommand && right[0] != '~' && right[0] != '&' {
			continue
		}
		setUser(s, rights)
		s.Do("ACL", "SETUSER", "gateway", map[byte]string{'+': "-" + command, '~': "resetkeys", '&': "resetchannels"}[right[0]])
		lesser := open(t, sessions.Options{RedisURL: strings.TrimSuffix(as(s.URL, "gateway:secret"), "0") + "1"})
		err := lesser.Ping(t.Context())
		if !errors.Is(err, sessions.ErrUnavailable) || isCommand && command != "time" && !strings.Contains(strings.ToLower(err.Error()), command) {
			t.Errorf("without %s: %v", right, err)
		}
	}
}

func TestLeastRightsInACluster(t *testing.T) {
	t.Parallel()
	c := redisrig.StartCluster(t)
	for _, n := range c.Nodes {
		setUser(n, documentedRights(t))
	}
	store := open(t, sessions.Options{RedisURL: as(c.URL, "gateway:secret")})
	if err := store.Ping(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i := range 20 {
		s := sessions.Scope{Client: "c", ID: fmt.Sprint(i)}
		if err := store.Put(t.Context(), s, "k", sessions.Fields{"f": nil}, hour); err != nil {
			t.Error(err)
		}
	}
	if n, err := store.Erase(t.Context(), "c"); n != 20 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
}

func TestPasswordsAreNotShown(t *testing.T) {
	t.Parallel()
	s := redisrig.Start(t, "requirepass right")
	for _, userinfo := range []string{":hunter2", "default:hunter2", "hunter2:hunter2"} {
		store := open(t, sessions.Options{RedisURL: as(s.URL, userinfo)})
		for range 2 { // the second is refused without asking
			err := put(t, store, "k", 1)
			if !errors.Is(err, sessions.ErrUnavailable) || strings.Contains(err.Error(), "hunter2") || !strings.Contains(err.Error(), "WRONGPASS") {
				t.Errorf("%v", err)
			}
		}
	}
	for _, url := range []string{
		"redis://user:hunter2/x@host:6379/0", "redis://user:hunter2?x@host:6379", "redis://user:hunter2#x@host", "redis://user:12/hunter2@host:6379",
		"redis://user:1?hunter2@host", "redis://:hunter2@", "http://user:hunter2@host", "redis://user:hunter2@host:6379/x", "://hunter2",
		"redis://user:hunter2@host:port", "redis+ring://user:hunter2@host", "redis+sentinel://user:hunter2@host", "redis://user:hunter2@host?addr=bad",
		"redis://user:12/hunter2", "redis://user:hunter2%zz@host", "redis://host?master_name=m&sentinel_password=hunter2&unknown=1", "user:hunter2@host:6379",
	} {
		_, err := sessions.Open(sessions.Options{RedisURL: url})
		if !errors.Is(err, sessions.ErrInvalid) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", url, err)
		}
	}
	for _, o := range []sessions.Options{
		{RedisURL: s.URL, KeyPrefix: "{x}"}, {RedisURL: s.URL, EncryptionKeys: []string{"x"}},
	} {
		if _, err := sessions.Open(o); !errors.Is(err, sessions.ErrInvalid) {
			t.Errorf("%v", err)
		}
	}
}

func TestPasswordRotation(t *testing.T) {
	t.Parallel()
	s := redisrig.Start(t)
	var mu sync.Mutex
	password := "one"
	set := func(p string) {
		mu.Lock()
		defer mu.Unlock()
		password = p
		s.Do("ACL", "SETUSER", "gateway", "reset", "on", ">"+p, "~*", "&*", "+@all")
	}
	set("one")
	store := open(t, sessions.Options{RedisURL: s.URL, Credentials: func(context.Context) (string, string, error) {
		mu.Lock()
		defer mu.Unlock()
		return "gateway", password, nil
	}})
	for _, p := range []string{"one", "two", "three"} {
		set(p)
		s.Do("CLIENT", "KILL", "USER", "gateway")
		if err := put(t, store, "k", 1); err != nil {
			t.Errorf("with password %s: %v", p, err)
		}
	}
}

// secure puts TLS before a server and gives the address and the roots to trust.
func secure(t *testing.T, server string) (addr string, roots *x509.CertPool) {
	t.Helper()
	model := httptest.NewUnstartedServer(nil)
	model.StartTLS() // for its certificate, which is one of 127.0.0.1
	defer model.Close()
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: model.TLS.Certificates})
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			serving.Go(func() {
				defer conn.Close()
				up, err := net.Dial("tcp", server)
				if err != nil {
					return
				}
				serving.Go(func() { io.Copy(up, conn); up.Close() })
				io.Copy(conn, up)
			})
		}
	})
	t.Cleanup(func() { l.Close(); serving.Wait() })
	roots = x509.NewCertPool()
	roots.AddCert(model.Certificate())
	return l.Addr().String(), roots
}

func TestTLS(t *testing.T) {
	t.Parallel()
	addr, roots := secure(t, redisrig.Start(t).Addr)
	for name, o := range map[string]sessions.Options{
		"known roots": {RedisURL: "rediss://" + addr, TLS: &tls.Config{RootCAs: roots}},
		"skip_verify": {RedisURL: "rediss://" + addr + "?skip_verify=true"},
	} {
		if err := put(t, open(t, o), "k", 1); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, o := range map[string]sessions.Options{
		"unknown roots": {RedisURL: "rediss://" + addr},
		"wrong name":    {RedisURL: "rediss://" + strings.Replace(addr, "127.0.0.1", "localhost", 1), TLS: &tls.Config{RootCAs: roots}},
		"no TLS":        {RedisURL: "redis://" + addr},
	} {
		if err := put(t, open(t, o), "k", 1); !errors.Is(err, sessions.ErrUnavailable) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
