// Command validate checks Kubernetes manifests against schemas, with no cluster: those of Kubernetes itself, and those of
// custom resource definitions. It is strict: a field that a schema does not have is an error, as is a kind without one.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
)

func main() {
	schemas := flag.String("schemas", "", "the folder with the JSON schemas of Kubernetes, NAME-GROUP-VERSION.json")
	crds := flag.String("crds", "", "a folder with custom resource definitions")
	flag.Parse()
	if err := run(*schemas, *crds, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(schemas, crds string, files []string) error {
	v := newValidator(schemas)
	if err := v.addDefinitions(crds); err != nil {
		return err
	}
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
