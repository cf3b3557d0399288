package main

import (
	"bytes"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/printer"
	"go/scanner"
	"go/token"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// apiDocument is what the module's packages export.
type apiDocument struct {
	// Totals are those of all packages, Public those of the packages that other
	// modules can import.
	Totals   exported     `json:"totals"`
	Public   exported     `json:"public"`
	Packages []packageAPI `json:"packages"`
	// Problems are files that cannot be read in full.
	Problems []problem `json:"problems"`
}

type packageAPI struct {
	Path string `json:"path"`
	exported
}

// exported counts the identifiers that are declared at the top level of packages, and
// methods on exported types. Fields and methods of interfaces are part of their types.
type exported struct {
	Funcs   int `json:"funcs"`
	Types   int `json:"types"`
	Methods int `json:"methods"`
	Consts  int `json:"consts"`
	Vars    int `json:"vars"`
}

func (e exported) sum() int { return e.Funcs + e.Types + e.Methods + e.Consts + e.Vars }

func (e *exported) add(o exported) {
	e.Funcs += o.Funcs
	e.Types += o.Types
	e.Methods += o.Methods
	e.Consts += o.Consts
	e.Vars += o.Vars
}

// api reads the declarations of the packages that the inventory has found, and lists
// them one a line, so that two versions can be compared.
func (a *auditor) api() (result, error) {
	var inv inventory
	if err := a.load("inventory.json", &inv); err != nil {
		return result{}, err
	}
	doc := apiDocument{Packages: []packageAPI{}, Problems: []problem{}}
	var lines []string
	for _, p := range inv.Packages {
		s := &surface{fset: token.NewFileSet()}
		for _, name := range p.Code {
			problems, err := s.read(a.root, path.Join(p.Dir, name))
			if err != nil {
				return result{}, err
			}
			for _, found := range problems {
				found.Package = p.Path
				doc.Problems = append(doc.Problems, found)
			}
		}
		doc.Packages = append(doc.Packages, packageAPI{Path: p.Path, exported: s.exported})
		doc.Totals.add(s.exported)
		if p.Kind == "library" {
			doc.Public.add(s.exported)
		}
		slices.Sort(s.lines)
		for _, line := range s.lines {
			lines = append(lines, p.Path+" "+line+"\n")
		}
	}
	summary := fmt.Sprintf("%s exported: %s, %s, %s, %s, %s.", count(doc.Totals.sum(), "identifier"),
		count(doc.Totals.Funcs, "func"),
		count(doc.Totals.Types, "type"), count(doc.Totals.Methods, "method"), count(doc.Totals.Consts, "const"),
		count(doc.Totals.Vars, "var"))
	return result{Summary: summary}, errors.Join(a.save("api.json", doc), a.write("api.txt", []byte(strings.Join(lines, ""))))
}

// surface is what is exported by the files of a package that were read.
type surface struct {
	fset *token.FileSet
	exported
	lines []string
}

// read takes in a file. Of one that is no sound Go, what can be read counts.
func (s *surface) read(root, file string) ([]problem, error) {
	parsed, err := parser.ParseFile(s.fset, filepath.Join(root, filepath.FromSlash(file)), nil, parser.SkipObjectResolution)
	if parsed != nil {
		for _, d := range parsed.Decls {
			s.declaration(d)
		}
	}
	var errs scanner.ErrorList
	if err != nil && !errors.As(err, &errs) {
		return nil, err
	}
	var problems []problem
	for _, e := range errs {
		problems = append(problems, problem{File: file, Line: e.Pos.Line, Column: e.Pos.Column, Message: e.Msg})
	}
	return problems, nil
}

func (s *surface) declaration(d ast.Decl) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		s.function(d)
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			switch spec := spec.(type) {
			case *ast.TypeSpec:
				if spec.Name.IsExported() {
					s.Types++
					s.lines = append(s.lines, "type "+s.typeLine(spec))
				}
			case *ast.ValueSpec:
				s.values(d.Tok, spec)
			}
		}
	}
}

func (s *surface) function(d *ast.FuncDecl) {
	if !d.Name.IsExported() {
		return
	}
	if d.Recv == nil {
		s.Funcs++
	} else if len(d.Recv.List) == 1 && ast.IsExported(receiver(d.Recv.List[0].Type)) {
		s.Methods++
	} else {
		return
	}
	s.lines = append(s.lines, s.text(&ast.FuncDecl{Recv: d.Recv, Name: d.Name, Type: d.Type}))
}

// receiver returns the name of a receiver's type.
func receiver(t ast.Expr) string {
	switch t := t.(type) {
	case *ast.StarExpr:
		return receiver(t.X)
	case *ast.ParenExpr:
		return receiver(t.X)
	case *ast.IndexExpr:
		return receiver(t.X)
	case *ast.IndexListExpr:
		return receiver(t.X)
	case *ast.Ident:
		return t.Name
	default:
		return ""
	}
}

// typeLine is a type's name with what sort of a type it is.
func (s *surface) typeLine(spec *ast.TypeSpec) string {
	short := *spec
	short.Doc, short.Comment = nil, nil
	switch spec.Type.(type) {
	case *ast.StructType:
		short.Type = ast.NewIdent("struct")
	case *ast.InterfaceType:
		short.Type = ast.NewIdent("interface")
	}
	return s.text(&short)
}

func (s *surface) values(tok token.Token, spec *ast.ValueSpec) {
	for _, name := range spec.Names {
		if !name.IsExported() {
			continue
		}
		if tok == token.CONST {
			s.Consts++
		} else {
			s.Vars++
		}
		line := tok.String() + " " + name.Name
		if spec.Type != nil {
			line += " " + s.text(spec.Type)
		}
		s.lines = append(s.lines, line)
	}
}

// text is Go source on one line.
func (s *surface) text(node any) string {
	var b bytes.Buffer
	if err := printer.Fprint(&b, s.fset, node); err != nil {
		return fmt.Sprintf("(%v)", err)
	}
	return strings.Join(strings.Fields(b.String()), " ")
}
