package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
)

// fieldComments reads the comments of all struct fields of a package, by
// "Type.Field", and those of the types by "Type".
func fieldComments(dir string) (map[string]string, error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return nil, err
	}
	comments := map[string]string{}
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
		if err != nil {
			return nil, err
		}
		for _, d := range file.Decls {
			declaration, ok := d.(*ast.GenDecl)
			if !ok {
				continue
			}
			for _, s := range declaration.Specs {
				spec, ok := s.(*ast.TypeSpec)
				if !ok {
					continue
				}
				doc := spec.Doc
				if doc == nil && len(declaration.Specs) == 1 {
					doc = declaration.Doc
				}
				comments[spec.Name.Name] = line(doc)
				if body, ok := spec.Type.(*ast.StructType); ok {
					addFields(comments, spec.Name.Name, body)
				}
			}
		}
	}
	return comments, nil
}

func addFields(comments map[string]string, owner string, body *ast.StructType) {
	for _, field := range body.Fields.List {
		doc := field.Doc
		if doc == nil {
			doc = field.Comment
		}
		for _, name := range field.Names {
			comments[owner+"."+name.Name] = line(doc)
		}
	}
}

// line makes one line of a comment.
func line(doc *ast.CommentGroup) string { return strings.Join(strings.Fields(doc.Text()), " ") }

// field is one key of the configuration file.
type field struct {
	key, comment string
	in           reflect.Type
}

// fields lists the keys of a struct in the order of its declaration.
func (r *reference) fields(in reflect.Type) []field {
	var all []field
	for i := range in.NumField() {
		f := in.Field(i)
		key := f.Tag.Get("yaml")
		if f.Anonymous {
			all = append(all, r.fields(f.Type)...)
		}
		if key == "" {
			continue
		}
		comment := r.comments[in.Name()+"."+f.Name]
		if comment == "" {
			r.missing = append(r.missing, in.Name()+"."+f.Name)
		}
		all = append(all, field{key, r.keys(withoutName(comment, f.Name)), f.Type})
	}
	return all
}

// withoutName drops the Go name that a comment begins with, where a verb follows
// that reads well without it.
func withoutName(comment, name string) string {
	rest, ok := strings.CutPrefix(comment, name+" ")
	if !ok {
		return comment
	}
	verb, _, _ := strings.Cut(rest, " ")
	if strings.HasSuffix(verb, "s") && verb != "is" && verb != "has" && verb != "was" && verb != "servers" {
		return strings.ToUpper(rest[:1]) + rest[1:]
	}
	for _, head := range []string{"is ", "are "} {
		if text, ok := strings.CutPrefix(rest, head); ok {
			return strings.ToUpper(text[:1]) + text[1:]
		}
	}
	return comment
}

var goName = regexp.MustCompile(`\b[A-Z][a-z]+(?:[A-Z][A-Za-z]*)+\b`)

// keys replaces the names of fields, such as ClientSecretFile, by their keys.
func (r *reference) keys(comment string) string {
	return goName.ReplaceAllStringFunc(comment, func(name string) string {
		if key := r.names[name]; key != "" {
			return "`" + key + "`"
		}
		return name
	})
}

// collect fills in the keys of all fields that can be reached.
func (r *reference) collect(in reflect.Type) {
	for i := range in.NumField() {
		f := in.Field(i)
		if key := f.Tag.Get("yaml"); key != "" {
			r.names[f.Name] = key
		}
		if deeper, _ := inside(f.Type); deeper != nil {
			r.collect(deeper)
		}
	}
}
