package config

import (
	"slices"
	"strings"
)

// foreignFormats are the files of other systems with which people come. Each says what it is, and what to write instead.
var foreignFormats = []struct {
	is   func(top map[string]any) bool
	text string
}{
	{
		func(top map[string]any) bool { _, ok := top["nodes"].([]any); return ok },
		"is a workflow of Archon; in a team file its nodes are phases (depends_on is needs), and the prompt of each is the " +
			"instructions of a persona",
	},
	{
		func(top map[string]any) bool { return anyEntry(top["agents"], "instruction", "toolsets", "sub_agents") },
		"is an agent file of docker-agent; in a team file its agents are personas (instruction is instructions), in an order " +
			"of phases; " +
			"their models are agents of the worker file",
	},
	{
		func(top map[string]any) bool { return anyEntry(top, "goal", "backstory") },
		"has agents of CrewAI; in a team file they are personas: goal and backstory are part of the instructions",
	},
	{
		func(top map[string]any) bool { return anyEntry(top, "expected_output") },
		"has tasks of CrewAI; in a team file they are phases: description is part of the instructions, expected_output is what a " +
			"phase produces or checks",
	},
	{
		func(top map[string]any) bool {
			return top["tracker"] != nil && (top["workspace"] != nil || top["codex"] != nil)
		},
		"is a workflow of Symphony; its text is the instructions of a persona, its agent belongs in the worker file, and a hook " +
			"starts sessions from a tracker",
	},
}

// foreign says of which other system a file is; empty: of none that is known.
func foreign(top map[string]any) string {
	for _, f := range foreignFormats {
		if f.is(top) {
			return f.text + ". `maestro init` writes a team to begin with"
		}
	}
	return ""
}

// ForeignDocument says of which other system a Markdown document with front matter is; empty if it is of none that is known.
func ForeignDocument(text string) string {
	lines := strings.Split(strings.TrimPrefix(text, "\uFEFF"), "\n")
	isFence := func(line string) bool { return strings.TrimRight(line, " \r") == "---" }
	if !isFence(lines[0]) {
		return ""
	}
	end := slices.IndexFunc(lines[1:], isFence)
	if end < 0 {
		return ""
	}
	src, problem := newSource("", []byte(strings.Join(lines[1:end+1], "\n")))
	if problem != nil {
		return ""
	}
	top, _ := read(src).root.(map[string]any)
	return foreign(top)
}

// anyEntry reports whether a mapping has an entry that is a mapping with one of the keys.
func anyEntry(in any, keys ...string) bool {
	entries, _ := in.(map[string]any)
	for _, entry := range entries {
		fields, _ := entry.(map[string]any)
		if slices.ContainsFunc(keys, func(key string) bool { _, ok := fields[key]; return ok }) {
			return true
		}
	}
	return false
}
