package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// toolchainEnvironment is what go is executed with: the module on its own, whatever
// workspace is around it, by the toolchain that is installed unless told otherwise.
func toolchainEnvironment(environ []string, dir string) []string {
	out := append([]string{}, environ...)
	out = append(out, "GO111MODULE=on", "GOWORK=off", "LC_ALL=C", "PWD="+dir)
	if variable(environ, "GOTOOLCHAIN") == "" {
		out = append(out, "GOTOOLCHAIN=local")
	}
	return out
}

// maxOutput bounds what is kept of a command's output, in bytes.
const maxOutput = 64 << 20

// bounded keeps the beginning of what is written to it.
type bounded struct{ bytes.Buffer }

func (b *bounded) Write(p []byte) (int, error) {
	if room := maxOutput - b.Len(); room > 0 {
		b.Buffer.Write(p[:min(room, len(p))])
	}
	return len(p), nil
}

// command is a go command that has ended.
type command struct {
	stdout, stderr []byte
	// ok: its exit status was 0.
	ok bool
}

// output is all that it printed.
func (c command) output() string { return string(c.stdout) + string(c.stderr) }

// goCommand executes go in the module's directory. A non-zero exit status is an
// answer, and no error.
func (a *auditor) goCommand(args ...string) (command, error) {
	var stdout, stderr bounded
	cmd := exec.Command("go", args...)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = a.root, a.environ, &stdout, &stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return command{}, fmt.Errorf("go %s cannot be executed: %w", args[0], err)
	}
	return command{stdout: stdout.Bytes(), stderr: stderr.Bytes(), ok: err == nil}, nil
}

// listed is a package as go list describes it.
type listed struct {
	Dir, ImportPath, Name, ForTest               string
	GoFiles, CgoFiles, TestGoFiles, XTestGoFiles []string
	Imports                                      []string
	Error                                        *listError
	DepsErrors                                   []*listError
}

// listError is why a package, or one that it imports, cannot be loaded.
type listError struct{ Pos, Err string }

// list asks go list for the module's packages, those of its tests included if need
// be. Packages that cannot be loaded are among them. The problems are those for
// which there is no list at all.
func (a *auditor) list(flags ...string) ([]listed, []problem, error) {
	pattern := "-json=Dir,ImportPath,Name,ForTest,GoFiles,CgoFiles,TestGoFiles,XTestGoFiles,Imports,Error,DepsErrors"
	var packages []listed
	stderr, ok, err := a.stream(func(stdout io.Reader) error {
		decoder := json.NewDecoder(stdout)
		for {
			var p listed
			if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
				return nil
			} else if err != nil {
				return fmt.Errorf("go list prints what is no JSON: %w", err)
			}
			packages = append(packages, p)
		}
	}, append(append([]string{"list", "-e", pattern}, flags...), "./...")...)
	if err != nil || ok {
		return packages, nil, err
	}
	return packages, a.problemsOf(stderr), nil
}

// stream executes go in the module's directory and has its standard output read
// while it works. It returns standard error.
func (a *auditor) stream(read func(io.Reader) error, args ...string) (stderr string, ok bool, err error) {
	var errors bounded
	cmd := exec.Command("go", args...)
	cmd.Dir, cmd.Env, cmd.Stderr = a.root, a.environ, &errors
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return "", false, err
	}
	if err := cmd.Start(); err != nil {
		return "", false, fmt.Errorf("go %s cannot be executed: %w", args[0], err)
	}
	readErr := read(stdout)
	_, _ = io.Copy(io.Discard, stdout) // go must not wait for a reader that has given up
	ok = cmd.Wait() == nil
	return errors.String(), ok, readErr
}

// loaded says which of the module's packages can be compiled, because what they import
// is there.
type loaded struct {
	// total counts all packages; sound are those that have code, and soundWithTests those
	// whose tests lack nothing, either.
	total                 int
	sound, soundWithTests []string
	// problems are what packages lack, testProblems what their tests alone do.
	problems, testProblems []problem
	// lacking are the packages that lack something, be it what an import of theirs
	// does, and imports is what each package imports.
	lacking map[string]bool
	imports map[string][]string
}

// broken lists the packages that do not compile, given what does not: those that lack
// something or have a problem of their own, and those that import them.
func (l loaded) broken(problems []problem) []string {
	broken := maps.Clone(l.lacking)
	for _, p := range problems {
		if _, own := l.imports[p.Package]; own {
			broken[p.Package] = true
		}
	}
	for grown := true; grown; {
		grown = false
		for pkg, imports := range l.imports {
			if !broken[pkg] && slices.ContainsFunc(imports, func(i string) bool { return broken[i] }) {
				broken[pkg], grown = true, true
			}
		}
	}
	return slices.Sorted(maps.Keys(broken))
}

// loadPackages finds what the module's packages and tests lack.
func (a *auditor) loadPackages() (loaded, error) {
	packages, problems, err := a.list("-test")
	if err != nil {
		return loaded{}, err
	}
	l := loaded{problems: problems, lacking: map[string]bool{}, imports: map[string][]string{}}
	testsBroken := map[string]bool{}
	for _, p := range packages {
		own, _, _ := strings.Cut(p.ImportPath, " ")
		subject, isTest := own, p.ForTest != ""
		if generated, ok := strings.CutSuffix(own, ".test"); ok && p.Name == "main" && !isTest {
			subject, isTest = generated, true
		} else if isTest {
			subject = p.ForTest
		}
		errs := p.DepsErrors
		if p.Error != nil {
			errs = append([]*listError{p.Error}, errs...)
		}
		for _, e := range errs {
			found := a.placed(subject, e)
			if isTest {
				testsBroken[subject] = true
				l.testProblems = append(l.testProblems, found)
			} else {
				l.lacking[subject] = true
				l.problems = append(l.problems, found)
			}
		}
	}
	for _, p := range packages {
		if p.ForTest != "" || strings.HasSuffix(p.ImportPath, ".test") {
			continue
		}
		l.total++
		l.imports[p.ImportPath] = p.Imports
		if !l.lacking[p.ImportPath] && len(p.GoFiles)+len(p.CgoFiles) > 0 { // go build takes no package that is all tests
			l.sound = append(l.sound, p.ImportPath)
		}
		if !l.lacking[p.ImportPath] && !testsBroken[p.ImportPath] {
			l.soundWithTests = append(l.soundWithTests, p.ImportPath)
		}
	}
	l.problems = distinct(l.problems)
	l.testProblems = without(distinct(l.testProblems), l.problems)
	return l, nil
}

// placed is a problem of a package where go list says that it is.
func (a *auditor) placed(pkg string, e *listError) problem {
	if e.Pos != "" {
		if found := parseProblems(e.Pos+": "+strings.TrimSpace(e.Err), a.root); len(found) == 1 {
			found[0].Package = pkg
			return found[0]
		}
	}
	return problem{Package: pkg, Message: strings.TrimSpace(e.Err)}
}

// relative makes a path of the module's one that starts at its root. Tools name files
// from elsewhere, too, like ../../audit/store.go.
func relative(root, file string) string {
	if within, err := filepath.Rel(root, file); err == nil && filepath.IsAbs(file) && filepath.IsLocal(within) {
		file = within
	}
	if _, within, ok := strings.Cut(file, "/"+filepath.Base(root)+"/"); ok && strings.HasPrefix(file, "../") {
		file = within
	}
	return filepath.ToSlash(strings.TrimPrefix(file, "./"))
}
