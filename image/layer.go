package main

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// layer is a tar of files that belong to root and have one time.
type layer struct {
	buffer bytes.Buffer
	tar    *tar.Writer
	seen   map[string]bool
	at     time.Time
	err    error // the first one of writing
}

func newLayer(at time.Time) *layer {
	l := &layer{seen: map[string]bool{}, at: at}
	l.tar = tar.NewWriter(&l.buffer)
	return l
}

// entry writes one header, after those of the folders it is in. The first of two with one path counts.
func (l *layer) entry(h tar.Header) bool {
	if h.Name = strings.Trim(path.Clean("/"+h.Name), "/"); h.Name == "" || l.seen[h.Name] || l.err != nil {
		return false
	}
	if parent := path.Dir(h.Name); parent != "." {
		l.directory(parent, 0o755)
	}
	l.seen[h.Name] = true
	if h.Typeflag == tar.TypeDir {
		h.Name += "/"
	}
	h.ModTime, h.Format = l.at, tar.FormatPAX
	l.err = l.tar.WriteHeader(&h)
	return l.err == nil
}

func (l *layer) directory(name string, mode int64) {
	l.entry(tar.Header{Typeflag: tar.TypeDir, Name: name, Mode: mode})
}

func (l *layer) link(target, name string) {
	l.entry(tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: target, Mode: 0o777})
}

// file adds a file; mode 0 keeps its own.
func (l *layer) file(source, name string, mode fs.FileMode) error {
	file, err := os.Open(source)
	if err != nil {
		return err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	if mode == 0 {
		mode = info.Mode().Perm()
	}
	if l.entry(tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: int64(mode), Size: info.Size()}) {
		_, err = io.Copy(l.tar, file)
	}
	return err
}

// tree adds a file, or a folder with all that is in it, in the order of names.
func (l *layer) tree(source, name string, mode fs.FileMode) error {
	return filepath.WalkDir(source, func(at string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		inside, err := filepath.Rel(source, at)
		if err != nil {
			return err
		}
		to := path.Join(name, filepath.ToSlash(inside))
		switch {
		case entry.IsDir():
			l.directory(to, 0o755)
		case entry.Type()&fs.ModeSymlink != 0 && at != source:
			target, err := os.Readlink(at)
			if err != nil {
				return err
			}
			l.link(target, to)
		default:
			return l.file(at, to, mode)
		}
		return l.err
	})
}

var library = regexp.MustCompile(`(/\S+) \(0x`)

// program adds a program with the libraries and the loader that ldd names.
func (l *layer) program(source, name string) error {
	out, err := exec.Command("ldd", source).Output()
	if err != nil {
		return fmt.Errorf("ldd: %w", err)
	}
	for _, match := range library.FindAllStringSubmatch(string(out), -1) {
		real, err := filepath.EvalSymlinks(match[1])
		if err != nil {
			return err
		}
		if err := l.file(real, match[1], 0); err != nil {
			return err
		}
	}
	return l.file(source, name, 0o755)
}

// spec is what the image says of itself.
type spec struct {
	arch, user string
	entrypoint []string
	env        []string
	labels     map[string]string
	created    time.Time
}

func (s spec) build(l *layer) (v1.Image, error) {
	if err := l.tar.Close(); err != nil {
		return nil, err
	}
	one, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(l.buffer.Bytes())), nil
	})
	if err != nil {
		return nil, err
	}
	image, err := mutate.Append(empty.Image, mutate.Addendum{Layer: one, History: v1.History{Created: v1.Time{Time: s.created}}})
	if err != nil {
		return nil, err
	}
	file, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	file = file.DeepCopy()
	file.Architecture, file.OS, file.Created = s.arch, "linux", v1.Time{Time: s.created}
	file.Config = v1.Config{User: s.user, Entrypoint: s.entrypoint, WorkingDir: "/", Labels: s.labels,
		Env: append([]string{"PATH=/usr/local/bin:/usr/bin:/bin"}, s.env...)}
	return mutate.ConfigFile(image, file)
}
