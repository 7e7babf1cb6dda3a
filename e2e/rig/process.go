package rig

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"
)

// Process is a child process in a process group of its own, with everything it printed.
type Process struct {
	Name string

	cmd  *exec.Cmd
	log  log
	done chan struct{}
}

// StartProcess starts a program. Its standard output and standard error are kept, to be shown when something fails.
func StartProcess(name string, env []string, program string, arguments ...string) (*Process, error) {
	p := &Process{Name: name, cmd: exec.Command(program, arguments...), done: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = &p.log, &p.log
	p.cmd.Env = append(os.Environ(), env...)
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	// A grandchild that keeps the output pipe open must not make Wait hang.
	p.cmd.WaitDelay = time.Second
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	go func() {
		defer close(p.done)
		p.cmd.Wait() // the exit code is read from ProcessState
	}()
	return p, nil
}

// PID is the process's number.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Done is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// ExitCode is the exit code of a process that has ended, -1 if a signal ended it.
func (p *Process) ExitCode() int { return p.cmd.ProcessState.ExitCode() }

// Log is all that the process has printed so far.
func (p *Process) Log() string { return p.log.String() }

// Signal sends a signal to the process alone.
func (p *Process) Signal(s syscall.Signal) error { return p.cmd.Process.Signal(s) }

// Kill ends the process and its group at once.
func (p *Process) Kill() {
	syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL) // fails only if all have gone already
	<-p.done
}

// Stop asks the process to end, kills its group after grace, and reports an error if it had to, or if the process left
// something running in its group.
func (p *Process) Stop(grace time.Duration) error {
	var failed error
	if err := p.Signal(syscall.SIGTERM); err == nil {
		select {
		case <-p.done:
		case <-time.After(grace):
			failed = fmt.Errorf("%s did not end within %v of SIGTERM", p.Name, grace)
		}
	}
	group := -p.cmd.Process.Pid
	if failed == nil && !errors.Is(syscall.Kill(group, 0), syscall.ESRCH) {
		failed = fmt.Errorf("%s left a process running", p.Name)
	}
	p.Kill()
	return failed
}

// log is a writer that keeps the newest bytes.
type log struct {
	mu   sync.Mutex
	data []byte
}

const logLimit = 4 << 20

func (l *log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.data)+len(p) > logLimit {
		l.data = bytes.Clone(l.data[len(l.data)/2:])
	}
	l.data = append(l.data, p...)
	return len(p), nil
}

func (l *log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return string(l.data)
}
