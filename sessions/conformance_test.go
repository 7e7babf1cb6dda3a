package sessions_test

import (
	"testing"

	"github.com/mcp-via-llm/mcp-via-llm/sessions"
	"github.com/mcp-via-llm/mcp-via-llm/sessions/redisrig"
	"github.com/mcp-via-llm/mcp-via-llm/sessions/storetest"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(t testing.TB, o sessions.Options) sessions.Store {
	t.Helper()
	store, err := sessions.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	return store
}

const encryptionKey = "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="

func TestMemoryConforms(t *testing.T) {
	t.Parallel()
	store := open(t, sessions.Options{})
	storetest.Run(t, store)
}

func TestRedisConforms(t *testing.T) {
	t.Parallel()
	s := redisrig.Start(t)
	storetest.Run(t, open(t, sessions.Options{RedisURL: s.URL}))
}

func TestEncryptedRedisConforms(t *testing.T) {
	t.Parallel()
	s := redisrig.Start(t)
	storetest.Run(t, open(t, sessions.Options{RedisURL: s.URL, EncryptionKeys: []string{encryptionKey}}))
}

func TestClusterConforms(t *testing.T) {
	t.Parallel()
	c := redisrig.StartCluster(t)
	storetest.Run(t, open(t, sessions.Options{RedisURL: c.URL}))
}

func TestSentinelConforms(t *testing.T) {
	t.Parallel()
	s := redisrig.StartSentinel(t)
	storetest.Run(t, open(t, sessions.Options{RedisURL: s.URL}))
}
