package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"go/build"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// inventory says what a module consists of.
type inventory struct {
	Module string `json:"module"`
	// Requires is the Go version of go.mod, Toolchain the one that looked.
	Requires  string `json:"requires_go"`
	Toolchain string `json:"toolchain"`
	Platform  string `json:"platform"`
	// Vendored: the dependencies are in vendor/.
	Vendored bool `json:"vendored"`
	// Nested are the directories of other modules, which are left out.
	Nested []string `json:"nested_modules"`
	// Excluded are the Go files of no package: those that build constraints leave out
	// on this platform.
	Excluded []string      `json:"excluded_go_files"`
	Packages []packageInfo `json:"packages"`
	Totals   sizes         `json:"totals"`
	Problems []problem     `json:"problems"`
}

// packageInfo is a package of the module.
type packageInfo struct {
	Path string `json:"path"`
	Name string `json:"name"`
	// Dir is relative to the module's directory; "." is that itself.
	Dir string `json:"dir"`
	// Kind is library, internal (only the module may import it) or command.
	Kind string `json:"kind"`
	// Code and Tests are names of Go files. Cgo: some of the code imports "C".
	Code  []string `json:"code"`
	Tests []string `json:"tests"`
	Cgo   bool     `json:"cgo"`
	sizes
}

// sizes counts Go files and their lines.
type sizes struct {
	CodeFiles      int `json:"code_files"`
	TestFiles      int `json:"test_files"`
	GeneratedFiles int `json:"generated_files"`
	CodeLines      int `json:"code_lines"`
	TestLines      int `json:"test_lines"`
}

func (s *sizes) add(o sizes) {
	s.CodeFiles += o.CodeFiles
	s.TestFiles += o.TestFiles
	s.GeneratedFiles += o.GeneratedFiles
	s.CodeLines += o.CodeLines
	s.TestLines += o.TestLines
}

// inventory lists the module's packages and counts their files and lines.
func (a *auditor) inventory() (result, error) {
	tree, err := a.walk()
	if err != nil {
		return result{}, err
	}
	if _, err := os.Stat(filepath.Join(a.root, "go.mod")); err != nil {
		return result{}, a.noModule(tree)
	}
	doc := inventory{Nested: tree.modules, Packages: []packageInfo{}, Problems: []problem{}, Excluded: []string{}}
	if err := a.identify(&doc); err != nil {
		return result{}, err
	}
	packages, problems, err := a.list("-find")
	if err != nil {
		return result{}, err
	}
	if len(problems) > 0 && len(packages) == 0 {
		packages = a.listByHand(doc.Module, tree)
	}
	doc.Problems = append(doc.Problems, problems...)
	inPackage := map[string]bool{}
	for _, p := range packages {
		if p.Name == "" && len(p.GoFiles)+len(p.CgoFiles)+len(p.TestGoFiles)+len(p.XTestGoFiles) == 0 {
			continue // no Go file is left on this platform
		}
		info, err := a.measure(p)
		if err != nil {
			return result{}, err
		}
		for _, file := range slices.Concat(info.Code, info.Tests) {
			inPackage[path.Join(info.Dir, file)] = true
		}
		doc.Packages = append(doc.Packages, info)
		doc.Totals.add(info.sizes)
	}
	for _, file := range tree.goFiles {
		if !inPackage[file] {
			doc.Excluded = append(doc.Excluded, file)
		}
	}
	return result{
		Summary: fmt.Sprintf("%s: %s, %s of Go with %d lines, %s with %d lines.", doc.Module, count(len(doc.Packages), "package"),
			count(doc.Totals.CodeFiles, "file"), doc.Totals.CodeLines, count(doc.Totals.TestFiles, "test file"), doc.Totals.TestLines),
		Decisions: map[string]string{
			"module": shorten(doc.Module, 1000), "packages": fmt.Sprint(len(doc.Packages)),
			"toolchain": doc.Toolchain,
		},
	}, a.save("inventory.json", doc)
}

// listByHand finds the packages where go list cannot, as for want of what go.mod
// requires: what is here can be counted all the same.
func (a *auditor) listByHand(module string, tree tree) []listed {
	var packages []listed
	seen := map[string]bool{}
	for _, file := range tree.goFiles {
		dir := path.Dir(file)
		if seen[dir] {
			continue
		}
		seen[dir] = true
		// Of files that are wanting, as without a package clause, those remain that are not.
		p, _ := build.Default.ImportDir(filepath.Join(a.root, filepath.FromSlash(dir)), 0)
		if len(p.GoFiles)+len(p.CgoFiles)+len(p.TestGoFiles)+len(p.XTestGoFiles) == 0 {
			continue
		}
		packages = append(packages, listed{
			Dir: p.Dir, ImportPath: path.Join(module, dir), Name: p.Name, GoFiles: p.GoFiles, CgoFiles: p.CgoFiles,
			TestGoFiles: p.TestGoFiles, XTestGoFiles: p.XTestGoFiles,
		})
	}
	slices.SortFunc(packages, func(x, y listed) int { return strings.Compare(x.ImportPath, y.ImportPath) })
	return packages
}

// noModule says that there is nothing to examine, and where there may be.
func (a *auditor) noModule(tree tree) error {
	f := &failure{Category: "contract_violation", Message: "the workspace has no go.mod: give the directory of a Go module with " +
		"--workspace"}
	if len(tree.modules) > 0 {
		f.Message += "; below it are " + strings.Join(tree.modules[:min(5, len(tree.modules))], ", ")
	}
	return f
}

// identify finds out whose module it is and which toolchain looks at it.
func (a *auditor) identify(doc *inventory) error {
	c, err := a.goCommand("env", "GOVERSION", "GOOS", "GOARCH")
	if err != nil {
		return err
	}
	if words := strings.Fields(string(c.stdout)); c.ok && len(words) == 3 {
		doc.Toolchain, doc.Platform = words[0], words[1]+"/"+words[2]
	}
	data, err := os.ReadFile(filepath.Join(a.root, "go.mod"))
	if err != nil {
		return err
	}
	doc.Module, doc.Requires = directive(data, "module"), directive(data, "go")
	if _, err := os.Stat(filepath.Join(a.root, "vendor", "modules.txt")); err == nil {
		doc.Vendored = true
	}
	return nil
}

// directive returns the argument of a directive of go.mod, also of a file that is
// not sound; empty: it has none.
func directive(modfile []byte, name string) string {
	for line := range strings.Lines(string(modfile)) {
		line, _, _ = strings.Cut(line, "//")
		if words := strings.Fields(line); len(words) == 2 && words[0] == name {
			return strings.Trim(words[1], "\"`")
		}
	}
	return ""
}

// measure counts a package's files and lines.
func (a *auditor) measure(p listed) (packageInfo, error) {
	info := packageInfo{
		Path: p.ImportPath, Name: p.Name, Dir: relative(a.root, p.Dir), Kind: kind(p), Cgo: len(p.CgoFiles) > 0,
		Code:  slices.Sorted(slices.Values(slices.Concat(p.GoFiles, p.CgoFiles))),
		Tests: slices.Sorted(slices.Values(slices.Concat(p.TestGoFiles, p.XTestGoFiles))),
	}
	for _, file := range slices.Concat(info.Code, info.Tests) {
		lines, generated, err := measureFile(filepath.Join(p.Dir, file))
		if err != nil {
			return info, err
		}
		if generated {
			info.GeneratedFiles++
		}
		if strings.HasSuffix(file, "_test.go") {
			info.TestFiles++
			info.TestLines += lines
		} else {
			info.CodeFiles++
			info.CodeLines += lines
		}
	}
	return info, nil
}

func kind(p listed) string {
	switch {
	case p.Name == "main":
		return "command"
	case slices.Contains(strings.Split(p.ImportPath, "/"), "internal"):
		return "internal"
	default:
		return "library"
	}
}

// generatedMark is the line by which generated Go code says that it is.
var generatedMark = regexp.MustCompile(`^// Code generated .* DO NOT EDIT\.$`)

// measureFile counts a file's lines and reports whether it is generated.
func measureFile(file string) (lines int, generated bool, err error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return 0, false, err
	}
	scanner := bufio.NewScanner(bytes.NewReader(data))
	scanner.Buffer(nil, len(data)+1)
	head := true
	for scanner.Scan() {
		lines++
		head = head && !bytes.HasPrefix(scanner.Bytes(), []byte("package "))
		generated = generated || head && generatedMark.Match(scanner.Bytes())
	}
	return lines, generated, scanner.Err()
}

// tree is what a module's directory holds.
type tree struct {
	// goFiles are those in directories that the toolchain looks into.
	goFiles []string
	modules []string
}

// walk finds Go files and other modules. Like the toolchain, it does not look into
// vendor, testdata and what begins with a dot or an underscore.
func (a *auditor) walk() (tree, error) {
	found := tree{modules: []string{}}
	err := filepath.WalkDir(a.root, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, within := d.Name(), relative(a.root, file)
		hidden := strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_")
		switch {
		case file == a.root:
			return nil
		case d.IsDir() && (hidden || name == "testdata" || name == "vendor"):
			return fs.SkipDir
		case d.IsDir():
			if _, err := os.Stat(filepath.Join(file, "go.mod")); err == nil {
				found.modules = append(found.modules, within)
				return fs.SkipDir
			} else if !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		case d.Type().IsRegular() && strings.HasSuffix(name, ".go") && !hidden:
			found.goFiles = append(found.goFiles, within)
		}
		return nil
	})
	return found, err
}
