package rig

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Program is one that tests run: Main builds Package, with the race detector where the tests have it, and puts the
// path of the result into Into.
type Program struct {
	Into    *string
	Package string
}

// Main is what TestMain is for tests on real parts. It finds the tools and has them installed, builds the programs, runs
// the tests, and fails if they leave a process running. It returns the exit code.
func Main(m interface{ Run() int }, tools **Tools, programs ...Program) int {
	dir, err := os.MkdirTemp("", "mcp-via-llm-e2e-")
	if err == nil {
		defer os.RemoveAll(dir)
		err = setUp(dir, tools, programs)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	code := m.Run()
	if orphans := Orphans(); len(orphans) > 0 {
		fmt.Fprintf(os.Stderr, "child processes are left running:\n%s\n", strings.Join(orphans, "\n"))
		return 1
	}
	return code
}

func setUp(dir string, tools **Tools, programs []Program) (err error) {
	if *tools, err = FindTools(); err != nil {
		return err
	}
	install := exec.Command(filepath.Join((*tools).Root(), "e2e", "tools.sh"), "test")
	install.Stdout, install.Stderr = os.Stderr, os.Stderr
	if err := install.Run(); err != nil {
		return fmt.Errorf("e2e/tools.sh: %w", err)
	}
	for _, p := range programs {
		*p.Into = filepath.Join(dir, filepath.Base(p.Package))
		if err := (*tools).Build(*p.Into, p.Package); err != nil {
			return err
		}
	}
	return AdoptOrphans()
}

// Build builds a package, named from the repository's root, into output.
func (t *Tools) Build(output, pkg string) error {
	build := exec.Command("go", append(append([]string{"build", "-o", output}, RaceFlags...), pkg)...)
	build.Dir = t.root
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("go build %s: %w\n%s", pkg, err, out)
	}
	return nil
}
