// Command validate checks Kubernetes manifests against schemas, with no cluster: those of Kubernetes itself, and those of
// custom resource definitions. It is strict: a field that a schema does not have is an error, as is a kind without one.
// With -values it checks that a chart's values schema has the shapes of the same schemas, or, with -write, gives it them.
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
)

func main() {
	schemas := flag.String("schemas", "", "the folder with the JSON schemas of Kubernetes, NAME-GROUP-VERSION.json")
	crds := flag.String("crds", "", "a folder with custom resource definitions")
	values := flag.String("values", "", "a chart's values.schema.json")
	write := flag.Bool("write", false, "write to the file of -values")
	flag.Parse()
	v := newValidator(*schemas)
	err := v.addDefinitions(*crds)
	if err == nil && *values != "" {
		err = v.valuesFile(*values, *write)
	}
	if err == nil && flag.NArg() > 0 {
		err = v.manifests(flag.Args())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// valuesFile compares a chart's values schema with the shapes that it takes from elsewhere, or puts them into it.
func (v *validator) valuesFile(path string, write bool) error {
	old, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	made, err := v.withShapes(old)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if write {
		return os.WriteFile(path, made, 0o644)
	}
	if !bytes.Equal(old, made) {
		return fmt.Errorf("%s has other shapes than Kubernetes and the custom resources: run this again with -write", path)
	}
	return nil
}

func (v *validator) manifests(files []string) error {
	var errs []error
	total := 0
	for _, path := range files {
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		resources, err := documents(content)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		for _, r := range resources {
			total++
			if err := v.check(r); err != nil {
				errs = append(errs, fmt.Errorf("%s: %s: %w", path, r, err))
			}
		}
	}
	fmt.Printf("%d resources in %d files, %d of them wrong\n", total, len(files), len(errs))
	return errors.Join(errs...)
}
