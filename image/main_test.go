package main

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o640); err != nil {
		t.Fatal(err)
	}
}

// The same files give the same bytes, whoever owns them and however old they are; and they are read back as they were.
func TestArchive(t *testing.T) {
	dir := t.TempDir()
	write(t, dir+"/tree/b/c", "in a folder")
	write(t, dir+"/tree/a", "a")
	if err := os.Symlink("a", dir+"/tree/d"); err != nil {
		t.Fatal(err)
	}
	write(t, dir+"/program", "#!")
	var archives [2][]byte
	for i := range archives {
		out := fmt.Sprintf("%s/%d.tar", dir, i)
		err := run([]string{"-ref", "example.test/a/b:1", "-o", out, "-entrypoint", `["/program","serve"]`, "-env", "A=b=c", "-label", "x=y z",
			"-add", dir + "/program:/bin/program:755", "-add", dir + "/tree:/data", "-link", "bin/program:/program"})
		if err != nil {
			t.Fatal(err)
		}
		if archives[i], err = os.ReadFile(out); err != nil {
			t.Fatal(err)
		}
		old := time.Unix(1, 0)
		if err := os.Chtimes(dir+"/program", old, old); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(archives[0], archives[1]) {
		t.Error("two archives of the same files differ")
	}
	image, err := tarball.ImageFromPath(dir+"/0.tar", nil)
	if err != nil {
		t.Fatal(err)
	}
	file, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	c := file.Config
	if c.User != "65532:65532" || !slices.Equal(c.Entrypoint, []string{"/program", "serve"}) || !slices.Contains(c.Env, "A=b=c") || c.Labels["x"] != "y z" || file.OS != "linux" {
		t.Errorf("configuration %+v", c)
	}
	layers, err := image.Layers()
	if err != nil || len(layers) != 1 {
		t.Fatalf("%d layers, %v", len(layers), err)
	}
	content, err := layers[0].Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	defer content.Close()
	want := []string{
		"tmp/ 1777 ", "bin/ 755 ", "bin/program 755 #!", "data/ 755 ", "data/a 640 a", "data/b/ 755 ", "data/b/c 640 in a folder",
		"data/d 777 -> a", "program 777 -> bin/program",
	}
	if got := listing(t, content); !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func listing(t *testing.T, r io.Reader) (all []string) {
	t.Helper()
	for reader := tar.NewReader(r); ; {
		h, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(reader)
		if err != nil {
			t.Fatal(err)
		}
		if h.Uid != 0 || h.ModTime.Unix() != 0 {
			t.Errorf("%s belongs to %d, made at %v", h.Name, h.Uid, h.ModTime)
		}
		if h.Linkname != "" {
			text = []byte("-> " + h.Linkname)
		}
		all = append(all, fmt.Sprintf("%s %o %s", h.Name, h.Mode, text))
	}
}

// A program of this machine comes with its loader and libraries.
func TestProgramWithLibraries(t *testing.T) {
	l := newLayer(time.Unix(0, 0))
	if err := l.program("/bin/sh", "/bin/sh"); err != nil {
		t.Fatal(err)
	}
	if err := l.tar.Close(); err != nil {
		t.Fatal(err)
	}
	all := strings.Join(listing(t, &l.buffer), "\n")
	if !strings.Contains(all, "libc.so") || !strings.Contains(all, "ld-") {
		t.Errorf("no C library or no loader in %.300s", all)
	}
}

func TestWrongUse(t *testing.T) {
	for _, args := range []string{"-o x", "-ref a:b", "-ref a:b -o x -entrypoint /p", "-ref a:b -o x -add y", "-ref a:b -o x -add y:/y:9", "-ref a:b -o x -link y", "-ref a:b -o x -add /nonexistent:/y"} {
		if err := run(strings.Fields(args)); err == nil {
			t.Errorf("%s: accepted", args)
		}
	}
}
