// Package project finds out how Maestro can work in a repository that nobody has prepared: which agents this machine
// has, which checks belong to the repository's tools, and which team does the work. What it finds are two files, a team
// file and a worker file, as a person would write them.
package project

import (
	"bytes"
	"embed"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/template"
)

// Host is what a project looks at outside of its directory.
type Host struct {
	// LookPath finds a program, as [exec.LookPath] does.
	LookPath func(program string) (path string, err error)
	// Getenv reads the environment.
	Getenv func(variable string) string
}

func (h Host) has(program string) bool {
	_, err := h.LookPath(program)
	return err == nil
}

// Project is a repository, and what was found for it.
type Project struct {
	// Dir is the directory of the repository, and Name the team's name.
	Dir, Name string
	// Agent does the work: one of Agents, which this machine can run.
	Agent  Agent
	Agents []Agent
	// Checks are those of the repository, and Tools what this machine can check.
	Checks []Check
	Tools  []Tool
	// Unchecked say which tools of the repository this machine lacks.
	Unchecked []string
}

// Find looks at the repository that a directory is in. nameOf makes the team's name of that of a directory.
func Find(dir string, host Host, nameOf func(string) string) (Project, error) {
	root, err := Root(dir)
	if err != nil {
		return Project{}, err
	}
	p := Project{Dir: root, Name: nameOf(filepath.Base(root))}
	if p.Agents, err = findAgents(host); err != nil {
		return p, err
	}
	p.Agent = p.Agents[0]
	for _, t := range tools {
		if host.has(t.Program) {
			p.Tools = append(p.Tools, t)
		}
	}
	p.Checks, p.Unchecked = checksOf(root, host)
	return p, nil
}

// Root is the top directory of the repository that a directory is in.
func Root(dir string) (string, error) {
	for at := dir; ; at = filepath.Dir(at) {
		if _, err := os.Lstat(filepath.Join(at, ".git")); err == nil {
			return at, nil
		}
		if at == filepath.Dir(at) {
			return "", fmt.Errorf("%s is in no Git repository", dir)
		}
	}
}

//go:embed team.yaml.tmpl agents.yaml.tmpl
var templates embed.FS

var parsed = template.Must(template.New("").Funcs(template.FuncMap{"json": asJSON}).ParseFS(templates, "*.tmpl"))

// asJSON writes a value as JSON, which is YAML in one line.
func asJSON(value any) (string, error) {
	data, err := json.Marshal(value)
	return string(data), err
}

// DefaultCap is what a session of a team that nobody has written may cost, in US dollars.
const DefaultCap = 5

// TeamFile is the team of the repository: it plans, makes and reviews a change.
func (p Project) TeamFile() ([]byte, error) {
	return p.fill("team.yaml.tmpl", struct {
		Project
		Cap int
	}{p, DefaultCap})
}

// Env are the variables of the tools, for the agents that use them.
func (p Project) Env() (names []string) {
	for _, t := range p.Tools {
		names = append(names, t.Env...)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// WorkerFile has all agents and checks of this machine, so that one worker serves all of its repositories.
func (p Project) WorkerFile() ([]byte, error) { return p.fill("agents.yaml.tmpl", p) }

func (p Project) fill(name string, data any) ([]byte, error) {
	var b bytes.Buffer
	err := parsed.ExecuteTemplate(&b, name, data)
	return b.Bytes(), err
}

// Describe says in a few lines what was found, and what a session will do and cost.
func (p Project) Describe() string {
	checks := "none: no tool of the repository is known; write them with `maestro init`"
	if len(p.Unchecked) > 0 {
		checks = "none; install the program, or write others with `maestro init`"
	}
	if len(p.Checks) > 0 {
		var lines []string
		for _, c := range p.Checks {
			lines = append(lines, strings.TrimPrefix(strings.Join(c.Argv, " "), "sh -c "))
		}
		checks = strings.Join(lines, ", ")
	}
	lines := []string{
		"repository  " + p.Dir,
		"agent       " + p.Agent.Title,
		"checks      " + checks,
		"team        plan, implement, review; the review may send the work back once",
		fmt.Sprintf("costs       at most %d USD; then it asks", DefaultCap),
	}
	for _, u := range p.Unchecked {
		lines = append(lines, "unchecked   "+u)
	}
	return strings.Join(lines, "\n")
}
