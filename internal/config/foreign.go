package config

import (
	"path/filepath"
	"slices"
	"strings"
)

// extensionPrefix begins the names of fields at the top of a file that are ignored. Anchors can stand
// in them, as in files of Compose and OpenAPI.
const extensionPrefix = "x-"

// foreign is a format of another program, which a person may try to use as one of ours.
type foreign struct {
	name string
	// top are fields at the top that every such file has. below are fields that each value at the
	// top has, where the names at the top are the person's own.
	top, below []string
}

// foreigners are recognised before the problems of a file are listed one by one.
var foreigners = []foreign{
	{name: "a workflow of Archon", top: []string{"nodes"}},
	{name: "a file of docker agent (cagent)", top: []string{"agents", "models"}},
	{name: "a file of agents of CrewAI", below: []string{"role", "goal", "backstory"}},
	{name: "a file of tasks of CrewAI", below: []string{"description", "expected_output"}},
	{name: "a workflow of GitHub Actions", top: []string{"jobs", "on"}},
	{name: "a Compose file", top: []string{"services"}},
	{name: "a manifest of Kubernetes", top: []string{"apiVersion", "kind"}},
}

// matches reports whether a file's content has the fields of the format.
func (f foreign) matches(top map[string]any) bool {
	if len(top) == 0 {
		return false
	}
	lacks := func(m map[string]any, names []string) bool {
		return slices.ContainsFunc(names, func(name string) bool { _, ok := m[name]; return !ok })
	}
	if lacks(top, f.top) {
		return false
	}
	if len(f.below) == 0 {
		return true
	}
	for _, v := range top {
		if entry, ok := v.(map[string]any); !ok || lacks(entry, f.below) {
			return false
		}
	}
	return true
}

// foreignName says of which other program a file is; empty if no other program is known for it.
func foreignName(file string, top map[string]any) string {
	if ext := strings.ToLower(filepath.Ext(file)); ext == ".md" || ext == ".markdown" {
		return "a Markdown file, as Symphony's WORKFLOW.md or an agent of Claude Code"
	}
	for _, f := range foreigners {
		if f.matches(top) {
			return f.name
		}
	}
	return ""
}
