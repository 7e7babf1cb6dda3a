// Command image makes a container image as an archive that `docker load`, `podman load`, `ctr image import` and `kind load
// image-archive` take: one layer from scratch, with no daemon, no registry and no base image. The same files give the same
// bytes.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

func main() {
	if err := run(os.Args[1:]); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

// list is a flag that may be given more than once.
type list []string

func (l *list) String() string     { return strings.Join(*l, " ") }
func (l *list) Set(s string) error { *l = append(*l, s); return nil }

func run(args []string) error {
	var spec spec
	var entrypoint string
	var add, ldd, link, env, label list
	flags := flag.NewFlagSet("image", flag.ContinueOnError)
	ref := flags.String("ref", "", "the image's name and tag")
	out := flags.String("o", "", "the archive to write")
	flags.StringVar(&spec.arch, "arch", "amd64", "the architecture")
	flags.StringVar(&spec.user, "user", "65532:65532", "user and group that the program runs as")
	flags.StringVar(&entrypoint, "entrypoint", "[]", "the command, a JSON array")
	flags.Var(&add, "add", "SOURCE:PATH[:MODE], a file or a folder; may be given more than once")
	flags.Var(&ldd, "ldd", "SOURCE[:PATH], a program of this machine with the libraries it is linked to")
	flags.Var(&link, "link", "TARGET:PATH, a symbolic link")
	flags.Var(&env, "env", "NAME=VALUE")
	flags.Var(&label, "label", "NAME=VALUE")
	if err := flags.Parse(args); err != nil {
		return err
	}
	tag, err := name.NewTag(*ref, name.WeakValidation)
	if err != nil {
		return fmt.Errorf("-ref: %w", err)
	}
	if *out == "" {
		return errors.New("-o names the archive to write")
	}
	if err := json.Unmarshal([]byte(entrypoint), &spec.entrypoint); err != nil {
		return fmt.Errorf("-entrypoint: %w", err)
	}
	spec.env, spec.labels = env, map[string]string{}
	for _, l := range label {
		key, value, _ := strings.Cut(l, "=")
		spec.labels[key] = value
	}
	if spec.created, err = sourceDate(); err != nil {
		return err
	}
	layer := newLayer(spec.created)
	if err := layer.fill(add, ldd, link); err != nil {
		return err
	}
	image, err := spec.build(layer)
	if err != nil {
		return err
	}
	return tarball.WriteToFile(*out, tag, image)
}

// sourceDate is when the image was made, as far as the image says: SOURCE_DATE_EPOCH (reproducible-builds.org), else 1970.
func sourceDate() (time.Time, error) {
	text := os.Getenv("SOURCE_DATE_EPOCH")
	if text == "" {
		return time.Unix(0, 0).UTC(), nil
	}
	seconds, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return time.Time{}, fmt.Errorf("SOURCE_DATE_EPOCH: %w", err)
	}
	return time.Unix(seconds, 0).UTC(), nil
}

// fill adds what the flags name.
func (l *layer) fill(add, ldd, link []string) error {
	l.directory("tmp", 0o1777)
	for _, a := range add {
		parts := strings.Split(a, ":")
		if len(parts) < 2 {
			return fmt.Errorf("-add %s: not of the form SOURCE:PATH[:MODE]", a)
		}
		var mode uint64
		if len(parts) > 2 {
			var err error
			if mode, err = strconv.ParseUint(parts[2], 8, 16); err != nil {
				return fmt.Errorf("-add %s: %w", a, err)
			}
		}
		if err := l.tree(parts[0], parts[1], fs.FileMode(mode)); err != nil {
			return fmt.Errorf("-add %s: %w", a, err)
		}
	}
	for _, program := range ldd {
		source, path, ok := strings.Cut(program, ":")
		if !ok {
			path = source
		}
		if err := l.program(source, path); err != nil {
			return fmt.Errorf("-ldd %s: %w", program, err)
		}
	}
	for _, pair := range link {
		target, path, ok := strings.Cut(pair, ":")
		if !ok {
			return fmt.Errorf("-link %s: not of the form TARGET:PATH", pair)
		}
		l.link(target, path)
	}
	return l.err
}
