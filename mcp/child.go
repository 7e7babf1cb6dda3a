package mcp

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"
)

const (
	// stopGrace is how long a child may take to end after its stdin was closed,
	// and again after SIGTERM. 2025-11-25, "Lifecycle: Shutdown".
	stopGrace = time.Second
	// writeTimeout bounds a write to a child that does not read its stdin.
	writeTimeout = 10 * time.Second
	// drainTimeout bounds reading what a dead child left in its pipes.
	drainTimeout = time.Second
	maxLogLine   = 4 << 10
)

// inherited names the variables that a child gets from this process: what
// programs need to find their files, their proxy and their certificates, and
// no credentials.
var inherited = []string{
	"PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM", "TMPDIR", "TZ",
	"LANG", "LC_ALL", "LC_CTYPE",
	"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "no_proxy", "all_proxy",
	"SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE",
}

// child is a running stdio server: a process group of its own, because servers
// are often started through npx or a shell, and killing only the leader would
// leave the real server behind.
type child struct {
	cmd           *exec.Cmd
	stdin, stdout *os.File
	stopping      sync.Once
	ended         chan struct{} // closed when the leader is reaped and its group killed
	endErr        error         // set before ended is closed
	group         sync.WaitGroup
}

func startChild(cfg *Server, log *slog.Logger) (*child, error) {
	cmd := exec.Command(cfg.Command[0], cfg.Command[1:]...)
	cmd.Dir = cfg.Dir
	cmd.Env = childEnv(cfg.Env)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	var pipes [3][2]*os.File // read end, write end
	closeAll := func(files ...*os.File) {
		for _, f := range files {
			if f != nil {
				f.Close()
			}
		}
	}
	var err error
	for i := range pipes {
		if pipes[i][0], pipes[i][1], err = os.Pipe(); err != nil {
			break
		}
	}
	in, out, logs := pipes[0], pipes[1], pipes[2]
	if err == nil {
		// Files, not Readers: Wait must not hang on a grandchild's pipe.
		cmd.Stdin, cmd.Stdout, cmd.Stderr = in[0], out[1], logs[1]
		err = cmd.Start()
	}
	closeAll(in[0], out[1], logs[1])
	if err != nil {
		closeAll(in[1], out[0], logs[0])
		return nil, err
	}
	p := &child{cmd: cmd, stdin: in[1], stdout: out[0], ended: make(chan struct{})}
	p.group.Go(func() { logLines(logs[0], log) })
	p.group.Go(func() { p.reap(logs[0]) })
	return p, nil
}

func childEnv(configured map[string]string) []string {
	var env []string
	for _, name := range inherited {
		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	for name, value := range configured {
		env = append(env, name+"="+value) // exec takes the last one of equal names
	}
	return env
}

// reap waits for the leader and then kills whoever is left of its group.
func (p *child) reap(logs *os.File) {
	p.endErr = errors.New("the process ended")
	if err := p.cmd.Wait(); err != nil {
		p.endErr = fmt.Errorf("the process ended: %w", err)
	}
	_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
	// A descendant that left the group may still hold the pipes.
	limit := time.Now().Add(drainTimeout)
	_ = p.stdout.SetReadDeadline(limit)
	_ = logs.SetReadDeadline(limit)
	close(p.ended)
}

// signal reaches the whole group, unless it is gone and its id may be another's.
func (p *child) signal(sig syscall.Signal) {
	select {
	case <-p.ended:
	default:
		_ = syscall.Kill(-p.cmd.Process.Pid, sig)
	}
}

// stop ends the child and its descendants: stdin is closed, then SIGTERM, then
// SIGKILL. It does not wait.
func (p *child) stop() {
	p.stopping.Do(func() {
		p.stdin.Close()
		p.group.Go(func() {
			for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
				timer := time.NewTimer(stopGrace)
				select {
				case <-p.ended:
					timer.Stop()
					return
				case <-timer.C:
					p.signal(sig)
				}
			}
		})
	})
}

// kill ends the child and its descendants now.
func (p *child) kill() {
	p.signal(syscall.SIGKILL)
	p.stop()
}

// wait returns when no process of the group and no goroutine of p is left.
func (p *child) wait() { p.group.Wait() }

// logLines writes what a server says on stderr to the log: of a long line the
// beginning, and of too many some. It reads everything, so that the server never waits.
func logLines(r *os.File, log *slog.Logger) {
	defer r.Close()
	room := newThrottle(stderrRate, stderrBurst, func(left int) {
		log.Warn("the server writes too much on stderr; lines were left out", "lines", left)
	})
	defer room.end()
	lines := bufio.NewReaderSize(r, maxLogLine)
	for within := false; ; {
		line, more, err := lines.ReadLine()
		if err != nil {
			if !errors.Is(err, io.EOF) {
				log.Debug("reading stderr", "error", err)
			}
			return
		}
		if !within && len(line) > 0 && room.allow(1+len(line)>>10) {
			attrs := []any{"stream", "stderr"}
			if more {
				attrs = append(attrs, "cut", true)
			}
			log.Info(string(line), attrs...)
		}
		within = more
	}
}
