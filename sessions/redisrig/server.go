// Package redisrig starts real Redis servers for tests: one, a Cluster, or a set
// with Sentinels, on free ports of the loopback interface. All end with the test,
// and what they logged is shown if it has failed.
package redisrig

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// patience bounds each wait for servers on a busy machine.
const patience = 30 * time.Second

// Server is one running redis-server.
type Server struct {
	Addr string // host:port
	URL  string // redis://host:port/0, without credentials

	t      testing.TB
	dir    string
	binary string
	args   []string
	cmd    *exec.Cmd
}

// Start starts a server and waits until it accepts connections. Each of config is
// a line of its configuration, such as "requirepass secret". Nothing is saved to
// disk unless config says so.
func Start(t testing.TB, config ...string) *Server {
	t.Helper()
	return start(t, false, config)
}

func start(t testing.TB, sentinel bool, config []string) *Server {
	t.Helper()
	s := &Server{t: t, dir: t.TempDir(), binary: binary(t)}
	t.Cleanup(s.end)
	for range 5 { // the port may be taken again before the server has it
		port, bus := freePort(t), freePort(t)
		s.Addr = net.JoinHostPort("127.0.0.1", port)
		s.URL = "redis://" + s.Addr + "/0"
		lines := []string{"port " + port, "bind 127.0.0.1", "dir " + s.dir, "logfile " + filepath.Join(s.dir, "log"), "daemonize no"}
		s.args = []string{s.conf()}
		if sentinel {
			s.args = append(s.args, "--sentinel")
		} else {
			lines = append(lines, `save ""`, "appendfsync everysec", "cluster-port "+bus, "enable-debug-command local")
		}
		lines = append(lines, config...)
		if err := os.WriteFile(s.conf(), []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if s.run() {
			return s
		}
	}
	t.Fatalf("redis-server did not start:\n%s", s.log())
	return nil
}

func (s *Server) conf() string { return filepath.Join(s.dir, "redis.conf") }

func (s *Server) log() string {
	text, err := os.ReadFile(filepath.Join(s.dir, "log"))
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// run says whether the server came up.
func (s *Server) run() bool {
	s.cmd = exec.Command(s.binary, s.args...)
	// So that a test binary that is killed leaves no servers behind.
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := s.cmd.Start(); err != nil {
		s.t.Fatalf("start %s: %v", s.binary, err)
	}
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if conn, err := net.Dial("tcp", s.Addr); err == nil {
			conn.Close()
			return true
		}
		var status syscall.WaitStatus
		if pid, _ := syscall.Wait4(s.cmd.Process.Pid, &status, syscall.WNOHANG, nil); pid > 0 {
			s.cmd = nil
			return false
		}
	}
	return false
}

// Pid is the process to send signals to.
func (s *Server) Pid() int { return s.cmd.Process.Pid }

// Pause stops the process (SIGSTOP): connections stay open and nothing answers.
func (s *Server) Pause() { s.signal(syscall.SIGSTOP) }

// Resume lets a paused process go on.
func (s *Server) Resume() { s.signal(syscall.SIGCONT) }

func (s *Server) signal(sig syscall.Signal) {
	s.t.Helper()
	if err := syscall.Kill(s.Pid(), sig); err != nil {
		s.t.Errorf("%v to redis-server: %v", sig, err)
	}
}

// Kill ends the process at once (SIGKILL).
func (s *Server) Kill() {
	if s.cmd != nil {
		_ = s.cmd.Process.Kill()
		_ = s.cmd.Wait()
		s.cmd = nil
	}
}

// Restart kills the process, if it runs, and starts it with the same port and
// folder. The data are lost unless the configuration says "appendonly yes".
func (s *Server) Restart() {
	s.t.Helper()
	s.Kill()
	if !s.run() {
		s.t.Fatalf("redis-server did not start again:\n%s", s.log())
	}
}

func (s *Server) end() {
	s.Kill()
	if s.t.Failed() {
		s.t.Logf("redis-server %s:\n%s", s.Addr, s.log())
	}
}

// Client gives a plain client of this server, closed with the test.
func (s *Server) Client() *redis.Client {
	c := redis.NewClient(&redis.Options{Addr: s.Addr, Protocol: 2, DisableIdentity: true})
	s.t.Cleanup(func() { c.Close() })
	return c
}

// Do sends one command and gives its reply; an error fails the test.
func (s *Server) Do(command string, args ...any) any {
	s.t.Helper()
	reply, err := s.do(command, args)
	if err != nil {
		s.t.Fatalf("%s %v: %v", command, args, err)
	}
	return reply
}

// Try sends one command and gives its error.
func (s *Server) Try(command string, args ...any) error {
	_, err := s.do(command, args)
	return err
}

func (s *Server) do(command string, args []any) (any, error) {
	c := redis.NewClient(&redis.Options{Addr: s.Addr, Protocol: 2, DisableIdentity: true, PoolSize: 1})
	defer c.Close()
	reply, err := c.Do(context.Background(), append([]any{command}, args...)...).Result()
	if err == redis.Nil {
		err = nil
	}
	return reply, err
}

// binary finds the server: on the PATH, or where install.sh puts it.
func binary(t testing.TB) string {
	t.Helper()
	if path, err := exec.LookPath("redis-server"); err == nil {
		return path
	}
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for ; dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		path := filepath.Join(dir, ".tools", "redis", "bin", "redis-server")
		if _, err := os.Stat(path); err == nil {
			return path
		}
	}
	t.Fatal("there is no redis-server: run `make tools`")
	return ""
}

func freePort(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return fmt.Sprint(l.Addr().(*net.TCPAddr).Port)
}

// eventually polls until what says true, and fails the test if it never does.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if ok() {
			return
		}
	}
	t.Fatalf("never: %s", what)
}
