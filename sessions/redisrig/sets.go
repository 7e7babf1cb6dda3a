package redisrig

import (
	"context"
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
)

// slots is the number of hash slots of a Redis Cluster.
const slots = 16384

// Cluster is a Redis Cluster of three primaries without replicas. A node that is
// down takes only its own slots with it.
type Cluster struct {
	URL   string // redis+cluster://…
	Nodes []*Server
}

// StartCluster starts three nodes and waits until all know the whole cluster.
func StartCluster(t testing.TB, config ...string) *Cluster {
	t.Helper()
	c := &Cluster{}
	config = append([]string{"cluster-enabled yes", "cluster-node-timeout 2000", "cluster-require-full-coverage no"}, config...)
	for range 3 {
		c.Nodes = append(c.Nodes, Start(t, config...))
	}
	c.URL = "redis+cluster://" + c.Nodes[0].Addr + "?addr=" + c.Nodes[1].Addr + "&addr=" + c.Nodes[2].Addr
	for i, n := range c.Nodes {
		n.Do("CLUSTER", "SET-CONFIG-EPOCH", i+1)
		n.Do("CLUSTER", "ADDSLOTSRANGE", i*slots/3, (i+1)*slots/3-1)
	}
	for _, n := range c.Nodes[1:] {
		host, port, _ := net.SplitHostPort(n.Addr)
		bus := n.Do("CONFIG", "GET", "cluster-port").([]any)[1]
		c.Nodes[0].Do("CLUSTER", "MEET", host, port, bus)
	}
	for _, n := range c.Nodes {
		client := n.Client()
		eventually(t, "all nodes know all slots", func() bool {
			info, err := client.ClusterInfo(context.Background()).Result()
			return err == nil && strings.Contains(info, "cluster_state:ok") &&
				strings.Contains(info, fmt.Sprintf("cluster_slots_assigned:%d", slots)) &&
				strings.Contains(info, "cluster_known_nodes:3")
		})
	}
	return c
}

// Sentinel is a primary with one replica, watched by three sentinels that fail
// over within a second or two.
type Sentinel struct {
	URL       string // redis://…?master_name=primary&…
	Nodes     []*Server
	Sentinels []*Server
}

// StartSentinel starts the set and waits until the sentinels know each other and
// the replica, so that they can fail over. Lines of config are for the nodes.
func StartSentinel(t testing.TB, config ...string) *Sentinel {
	t.Helper()
	s := &Sentinel{}
	primary := Start(t, config...)
	host, port, _ := net.SplitHostPort(primary.Addr)
	replica := Start(t, append([]string{"replicaof " + host + " " + port, "repl-diskless-sync-delay 0"}, config...)...)
	s.Nodes = []*Server{primary, replica}
	eventually(t, "the replica follows", func() bool {
		return strings.Contains(replica.Do("INFO", "replication").(string), "master_link_status:up")
	})
	addrs := make([]string, 3)
	for i := range addrs {
		sentinel := start(t, true, []string{
			"sentinel monitor primary " + host + " " + port + " 2",
			"sentinel down-after-milliseconds primary 500",
			"sentinel failover-timeout primary 1000",
		})
		s.Sentinels = append(s.Sentinels, sentinel)
		addrs[i] = sentinel.Addr
	}
	s.URL = "redis://" + addrs[0] + "/0?master_name=primary&addr=" + addrs[1] + "&addr=" + addrs[2]
	for _, sentinel := range s.Sentinels {
		eventually(t, "the sentinels know each other", func() bool {
			facts := sentinel.primary()
			return facts["num-other-sentinels"] == "2" && facts["num-slaves"] == "1"
		})
	}
	return s
}

// primary is what a sentinel knows of the primary.
func (s *Server) primary() map[string]string {
	client := redis.NewSentinelClient(&redis.Options{Addr: s.Addr, DisableIdentity: true})
	defer client.Close()
	facts, err := client.Master(context.Background(), "primary").Result()
	if err != nil {
		return nil
	}
	return facts
}

// Primary gives the node that the sentinels take for the primary.
func (s *Sentinel) Primary() *Server {
	facts := s.Sentinels[0].primary()
	for _, n := range s.Nodes {
		if n.Addr == net.JoinHostPort(facts["ip"], facts["port"]) {
			return n
		}
	}
	return nil
}
