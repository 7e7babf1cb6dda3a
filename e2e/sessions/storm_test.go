package sessions_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"
)

var stormSeed = flag.Uint64("storm.seed", 0, "the seed of TestStorm; 0: another one each time")

// storm is what TestStorm knows of its conversations.
type storm struct {
	*world
	mu       sync.Mutex
	outcomes map[string]int // by outcome
	told     map[string]int // by what the model was told of an order
}

func (s *storm) ended(outcome string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.outcomes[outcome]++
}

// TestStorm has many mixed turns, each resumed on whatever replica has its turn, while replicas are killed and started
// again and Redis is killed, started again and stopped for seconds. Every request ends in one of the promised ways, no
// order is placed twice, and no conversation sees anything of another.
func TestStorm(t *testing.T) {
	total := 1000
	if testing.Short() {
		total = 200
	}
	s := startStorm(t)
	s.run(t, total, 80, []func(*storm, *testing.T, time.Duration){killFirst, killSecond, hangRedis, restartRedis}, "mixed", "mixed", "mixed", "mixed", "long")
}

// TestStormOfRounds asserts the same of orders that are placed within a turn, before a mixed one, where Redis stays.
func TestStormOfRounds(t *testing.T) {
	t.Parallel()
	s := startStorm(t)
	s.run(t, 150, 24, []func(*storm, *testing.T, time.Duration){killFirst, killSecond}, "ordered")
}

func startStorm(t *testing.T) *storm {
	return &storm{world: start(t, setup{redis: persistent, client: "keepalive: 1s"}), outcomes: map[string]int{}, told: map[string]int{}}
}

// run has that many conversations, of kinds chosen among these, while parts fail.
func (s *storm) run(t *testing.T, total, clients int, faults []func(*storm, *testing.T, time.Duration), kinds ...string) {
	seed := *stormSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("go test ./e2e/sessions -run %s -storm.seed=%d", t.Name(), seed)
	stop, raged := make(chan struct{}), make(chan int, 1)
	go func() { raged <- s.rage(t, rand.New(rand.NewPCG(seed, 0)), faults, stop) }()
	begin := time.Now()
	work := make(chan int)
	var working sync.WaitGroup
	for range clients {
		working.Go(func() {
			for n := range work {
				s.converse(t, n, kinds, rand.New(rand.NewPCG(seed, uint64(n))))
			}
		})
	}
	for n := 1; n <= total && !t.Failed(); n++ {
		work <- n
	}
	close(work)
	working.Wait()
	close(stop)
	t.Logf("%d conversations in %v with %d faults; requests: %v; told of orders: %v", total, time.Since(begin).Round(time.Second), <-raged, s.outcomes, s.told)
	for key, n := range s.shop.ran {
		if n > 1 && strings.HasPrefix(key, "order ") {
			t.Errorf("%s ran %d times", key, n)
		}
	}
}

// rage breaks one part after the other until stop is closed, and says how many.
func (s *storm) rage(t *testing.T, r *rand.Rand, faults []func(*storm, *testing.T, time.Duration), stop <-chan struct{}) (n int) {
	for {
		for _, i := range r.Perm(len(faults)) {
			select {
			case <-stop:
				return n
			case <-time.After(time.Duration(500+r.IntN(2500)) * time.Millisecond):
			}
			faults[i](s, t, time.Duration(1000+r.IntN(2000))*time.Millisecond)
			n++
		}
	}
}

// The faults last for about the given time, and mend what they break.

func killFirst(s *storm, t *testing.T, away time.Duration)  { s.kill(t, 0, away/4) }
func killSecond(s *storm, t *testing.T, away time.Duration) { s.kill(t, 1, away/4) }

func (s *storm) kill(t *testing.T, replica int, away time.Duration) {
	s.Replicas[replica].Process.Kill()
	time.Sleep(away)
	s.revive(t, replica)
}

func hangRedis(s *storm, _ *testing.T, away time.Duration) {
	s.redis.Pause()
	time.Sleep(away)
	s.redis.Resume()
}

func restartRedis(s *storm, _ *testing.T, away time.Duration) {
	s.redis.Kill()
	time.Sleep(away / 4)
	s.redis.Restart()
}

// converse has one conversation up to its answer and, sometimes, the last request again.
func (s *storm) converse(t *testing.T, n int, kinds []string, r *rand.Rand) {
	kind := kinds[r.IntN(len(kinds))]
	c := s.talk(plan{Nonce: fmt.Sprintf("n%dx", n), Kind: kind, Order: r.IntN(400), Look: r.IntN(400)}, r.IntN(2) == 0)
	c.who = fmt.Sprintf("client %d", n%10)
	first := c.insist(t, s.ended)
	last := first
	for len(last.calls) > 0 && !t.Failed() {
		time.Sleep(time.Duration(r.IntN(400)) * time.Millisecond) // the client is at its own call
		last = c.insist(t, s.ended)
	}
	if want := "done " + c.plan.Nonce; !strings.HasSuffix(last.text, want) && !t.Failed() {
		t.Errorf("%s ended with %v", c.id, last)
	}
	if t.Failed() {
		return // it may be half a conversation
	}
	if kind == "mixed" && r.IntN(4) == 0 {
		c.messages = c.messages[:len(c.messages)-1]
		c.insist(t, s.ended)
	}
	if kind != "long" {
		s.judge(t, c, first.extension.Get("mcp_tools_called").Raw)
	}
}

// judge asserts that what the model was told of an order is what became of it.
func (s *storm) judge(t *testing.T, c *conversation, started string) {
	seen, key := s.model.of(c), "order "+c.plan.Nonce
	ran, told := s.shop.count(s.shop.ran, key), seen.results["0 c1"]
	word := "nothing"
	switch {
	case seen.degraded:
		word = "degraded"
		if started != "[]" {
			t.Errorf("%s: the client was told that %s began, and the model never heard of it", c.id, started)
		}
	case told == "did "+key+", time 1":
		word = "done"
	case strings.Contains(told, "outcome of this call is unknown"):
		word = "unknown"
	default:
		t.Errorf("%s: the model was told %q", c.id, told)
	}
	if ran > 1 || word == "done" && ran != 1 {
		t.Errorf("%s: the order ran %d times, and the model was told %q:\n%s", c.id, ran, told, strings.Join(c.ends, "\n"))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.told[word]++
}
