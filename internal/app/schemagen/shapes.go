package main

import (
	"encoding/json"

	"github.com/invopop/jsonschema"

	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/spec"
)

// shape is what a text has to look like: the format in a field's tag.
type shape struct {
	// called is how a page calls such a text.
	called string
	checks []check
}

// check is a pattern that a text has to match, or, with not, that it must not match.
// message says what is wrong with one that does not pass. The patterns keep to what Go,
// JavaScript and Java read alike.
type check struct {
	not     bool
	pattern string
	message string
}

const (
	must = false
	not  = true
)

var (
	filled   = check{must, `[^ \t\r\n]`, "is empty; give it a value"}
	variable = []check{
		{not, `^[A-Za-z_][A-Za-z0-9_]*=`, "has a value here; list the name of the variable alone, and set it in the worker's " +
			"environment"},
		{must, `^[A-Za-z_][A-Za-z0-9_]*$`, "is not the name of an environment variable"},
	}
	// line holds text to one line.
	line = []check{
		filled,
		{not, `^\s|\s$`, "has spaces around it; leave them out"},
		{not, `[\x00-\x1f\x7f]`, "has characters that cannot be printed; a pattern is one line of text"},
		{must, `^[\s\S]{0,512}$`, "is longer than 512 characters; shorten it"},
	}
	jiraName = []check{filled, {not, `[\x00-\x1f\x7f]`, "has a character in it that no name in Jira has"}}
)

// shapes are the formats that tags name.
var shapes = map[string]shape{
	"filled": {"text", []check{filled}},
	"name": {"name", []check{
		{must, spec.NamePattern, "is not a usable name: it must be 1 to 63 letters, digits, - or _, and start with a letter or digit"},
	}},
	"reference": {called: "name"}, // the loader holds it against the names that there are
	"beside":    {"text", []check{{not, `^/`, "is absolute; write it relative to this file, like prompts/developer.md"}}},
	"ignored": {"pattern", append(line[:len(line):len(line)],
		check{not, `^#`, `is a comment to gitignore; write \# for a leading #`})},
	"variable": {"variable", variable},
	// What every attempt gets from Maestro cannot be passed to it.
	"passed": {"variable", append([]check{
		{not, `^(HOME|TMPDIR|GIT_CEILING_DIRECTORIES|MAESTRO_RESULT)$`, "is set by Maestro for every attempt; leave it out"},
	}, variable...)},
	"argument": {"word", []check{{not, `\x00`, "has a NUL character, which no argument can hold"}}},
	"address": {"http or https address", []check{
		{must, `^[hH][tT][tT][pP][sS]?://[^/?#]`, "is no web address; write it in full, like http://localhost:8233"},
		{not, `^[^/]*//[^/?#]*@`, "has a user or password in it; write the address alone: credentials come from the worker's " +
			"environment"},
		{not, `[?#].`, "has a query or a fragment; write the address alone"},
		{not, `[\x00-\x20\x7f]`, "has a space or a control character in it; write the address alone"},
	}},
	"project": {"key", []check{
		{must, `^[A-Z][A-Z0-9_]*$`, "is no project's key; write the capitals before the number of the project's tickets, like MD"},
	}},
	"repository": {"repository", []check{
		{not, `://|^git@`, "is an address; write the name alone, like acme/shop"},
		{not, `\.git$|\.\.|/\.(/|$)`, "ends in .git, or has . or .. in it, which no repository's name does; leave that out"},
		{
			must, `^[A-Za-z0-9_][A-Za-z0-9_.\-]*(/[A-Za-z0-9_.][A-Za-z0-9_.\-]*)+$`,
			"is not the name of a repository; write it like acme/shop, or group/subgroup/shop on GitLab",
		},
	}},
	// The rules of git check-ref-format, and those of git branch.
	"branch": {"branch", []check{
		filled,
		{not, `^refs/`, "is a reference; write the name of the branch alone, like main"},
		{not, `^-|^/|/$|//|\.$|^(@|HEAD)$`, "is not the name of a branch; write it like main or release/2.1"},
		{not, `(^|/)\.|\.\.|\.lock(/|$)`, "has a part that begins with . or ends in .lock, or has .. in it; git permits no such branch"},
		{not, `[\x00-\x20\x7f~^:?*\[\\]|@\{`, "has a space or another character that git permits in no branch's name"},
	}},
	"host": {"host", []check{
		filled,
		{not, `^(host|none)$`, "is a network and not a host; write it without a list, like `network: none`"},
		{not, `^[a-zA-Z][a-zA-Z0-9+.\-]*://`, "is an address; write its host, like example.com or example.com:8443"},
		{not, `/`, "has a path; write the host alone, like example.com or example.com:8443"},
		{not, `[^\x00-\x7f]`, "has characters that no name in DNS has; write it in its ASCII form, which begins with xn--"},
		{must, `^(\*\.)?[^*]*$`, "has a * in it; *. at the beginning stands for all names below a name"},
		{must, `^[A-Za-z0-9_.:*\[\]\-]+$`, "is not the name or address of a host; write it like example.com, *.example.com or " +
			"example.com:8443"},
	}},
	"group":    {"name", []check{filled, {not, `[\x00-\x1f\x7f]`, "has a control character in it, which no group's name has"}}},
	"jiraName": {"name", jiraName},
	"label": {"label", append([]check{
		{not, `\s`, "has a space in it, which no label in Jira can have; write a - instead"},
		{
			not, `^[mM][aA][eE][sS][tT][rR][oO]-`,
			"begins with maestro-, which is how Maestro finds its own tickets; choose another label",
		},
	}, jiraName...)},
	"fieldID": {"id", []check{
		{must, `^[A-Za-z][A-Za-z0-9_]*$`, "is no field's id; write it as Jira's API does, like customfield_10010"},
		{not, `^(summary|description)$`, "is what Maestro writes itself; leave it out"},
		{not, `^(project|issuetype|labels|components|priority)$`, "is set by a field of help.jira; leave it out here"},
	}},
	"glob": {"pattern", append(line[:len(line):len(line)],
		check{not, `\\`, "has a backslash; separate directories with /"},
		check{not, `^/`, "is absolute; patterns are relative to the top of the work, like docs/*.md"},
		check{not, `/$`, "names a directory; write ** at its end for the files in it"},
		check{not, `(^|/)\.\.(/|$)`, "leaves the work's directory; patterns go without dot-dot parts"},
		check{not, `//|(^|/)\.(/|$)`, "has an empty or . part; write the path plainly, like docs/*.md"},
		check{not, `^\.git(/|$)`, "is git's own; it is never part of the work"},
		check{must, `^([^{}]*\{[^{}]*\})*[^{}]*$`, "has braces that do not match, or lie in one another; write alternatives as {a,b}"},
		check{not, `[^/]\*\*|\*\*[^/]`, "has ** beside other text; it stands for whole directories, as in docs/**/*.md"},
		check{
			must, `^([^\[\]]|\[[!^]?([^\]\[{}/!^\-](-[^\]\[{}/!^\-])?)+\])*$`,
			"has brackets that are no choice of characters; write one like [a-z] or [!0-9], and ? for a bracket in a name",
		},
	)},
}

// schema is the definition of a shape.
func (s shape) schema() *jsonschema.Schema {
	out := &jsonschema.Schema{Description: "What a " + s.called + " looks like."}
	for _, c := range s.checks {
		one := &jsonschema.Schema{Pattern: c.pattern}
		if c.not {
			one = &jsonschema.Schema{Not: &jsonschema.Schema{Type: "string", Pattern: c.pattern}}
		}
		one.Extras = map[string]any{"errorMessage": c.message}
		out.AllOf = append(out.AllOf, one)
	}
	return out
}

// scalars are the definitions of what is written as one word or number and is none of
// Go's own types.
func scalars() jsonschema.Definitions {
	var categories []any
	for _, c := range failures.Categories() {
		categories = append(categories, c)
	}
	return jsonschema.Definitions{
		"Duration": {
			Type: "string", Description: "A time with its unit, like 90s, 30m or 1h30m.",
			Pattern:  `^\+?(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+$`,
			Examples: []any{"90s", "30m", "1h30m"},
		},
		"ByteSize": {
			Description: "A number of bytes, like 500kB, 100MB or 2GiB.",
			AnyOf: []*jsonschema.Schema{
				{Type: "integer", Minimum: "1"},
				{Type: "string", Pattern: `^ *\+?[0-9]+ *([kKmMgG][iI]?)?[bB]? *$`, AllOf: []*jsonschema.Schema{{Pattern: `[1-9]`}}},
			},
			Examples: []any{"500kB", "100MB", "2GiB"},
		},
		"USD": {Type: "number", Description: "US dollars, like 20 or 0.5."},
		// Pattern and Items hold for texts and lists only.
		"Network": {
			Description: "Host, none or a list of hosts.", Pattern: `^(host|none)$`,
			Items: &jsonschema.Schema{Ref: "#/$defs/host"}, MinItems: new(uint64(1)), MaxItems: new(uint64(200)), UniqueItems: true,
			Extras: map[string]any{
				"type": []string{"string", "array"}, "x-example": "github.com",
				"errorMessage": "is neither host nor none; write hosts as a list, like [github.com, \"*.npmjs.org\"]",
			},
		},
		"Category": {Type: "string", Description: "A category of failures.", Enum: categories},
		"Plain": {
			Description: "Plain data.",
			AnyOf: []*jsonschema.Schema{
				{Extras: map[string]any{"type": []string{"string", "boolean"}}},
				{Type: "number", Minimum: exact("-"), Maximum: exact("")},
				{Type: "array", Items: &jsonschema.Schema{Ref: "#/$defs/Plain"}},
				{Type: "object", AdditionalProperties: &jsonschema.Schema{Ref: "#/$defs/Plain"}},
			},
		},
	}
}

// exact is the largest number that every reader takes for the same.
func exact(sign string) json.Number { return json.Number(sign + "9007199254740992") }
