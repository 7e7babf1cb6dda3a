package redisrig_test

import (
	"testing"

	"github.com/mcp-via-llm/mcp-via-llm/sessions/redisrig"
)

func TestRestartKeepsThePort(t *testing.T) {
	s := redisrig.Start(t)
	addr, pid := s.Addr, s.Pid()
	s.Do("SET", "k", "v")
	s.Restart()
	if s.Addr != addr || s.Pid() == pid || s.Do("GET", "k") != nil {
		t.Errorf("address %s then %s, process %d then %d", addr, s.Addr, pid, s.Pid())
	}
}

func TestSets(t *testing.T) {
	c := redisrig.StartCluster(t)
	if len(c.Nodes) != 3 {
		t.Errorf("%d nodes", len(c.Nodes))
	}
	s := redisrig.StartSentinel(t)
	if p := s.Primary(); p != s.Nodes[0] {
		t.Errorf("primary is %v", p)
	}
}
