package agent

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/maestro-hive/maestro/internal/team"
)

// The bounds of what a worker file may ask for: far above what makes sense, so
// that whoever meets one has made a mistake.
const (
	maxConcurrency = 1000
	maxArgv        = 1000
	minTimeout     = team.Duration(100 * time.Millisecond)
	maxTimeout     = team.Duration(7 * 24 * time.Hour)
	maxFiles       = 10_000_000
	maxFileBytes   = 100 * gigabyte
	maxTreeBytes   = 10_000 * gigabyte
	maxDiskBytes   = 5 * maxTreeBytes
	minOutputBytes = 4 * kilobyte
	maxOutputBytes = gigabyte
	maxLostWorkers = 100
	maxKeep        = 1_000_000
	minOlderThan   = team.Duration(time.Hour)
	maxOlderThan   = team.Duration(10 * 365 * 24 * time.Hour)
)

var variablePattern = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// ours lists the variables that every agent and check gets from Maestro.
var ours = []string{"HOME", "TMPDIR", "GIT_CEILING_DIRECTORIES", resultVariable}

// Faults returns what is wrong with the config as it was parsed, before
// [Config.WithDefaults]: agents first, by name, then checks and the rest. It
// reads no file and no environment; what only they can tell is [New]'s to say.
func (c Config) Faults() []team.Fault {
	v := &validator{config: c}
	switch c.Version {
	case 1:
	case 0:
		v.add("$.version", "is missing; write `version: 1`")
	default:
		v.add("$.version", "is %d, but 1 is the only version of the format; write `version: 1`", c.Version)
	}
	if len(c.Agents) == 0 {
		v.add("$.agents", "is missing; a worker offers at least one agent, like `coder: {kind: command, argv: [./coder.sh]}`")
	}
	for _, name := range v.names("$.agents", slices.Sorted(maps.Keys(c.Agents))) {
		v.agent(team.FieldPath("$.agents", name), c.Agents[name])
	}
	for _, name := range v.names("$.checks", slices.Sorted(maps.Keys(c.Checks))) {
		v.checkDefinition(team.FieldPath("$.checks", name), c.Checks[name])
	}
	v.sharedBreakers()
	v.fallbacks()
	v.caches()
	v.list("$.secrets", c.Secrets, checkVariable)
	if len(c.Sandbox) > 0 {
		v.argv("$.sandbox", c.Sandbox)
	}
	v.limits()
	v.telling()
	v.retention()
	return v.faults
}

type validator struct {
	config Config
	faults []team.Fault
}

func (v *validator) add(path, format string, args ...any) {
	v.faults = append(v.faults, team.Fault{Path: path, Message: fmt.Sprintf(format, args...)})
}

// names checks names that become file and queue names, and returns them all.
func (v *validator) names(parent string, names []string) []string {
	folded := map[string]string{}
	for _, name := range names {
		path := team.FieldPath(parent, name)
		lower := strings.ToLower(name)
		if err := team.CheckName(name); err != nil {
			v.add(path, "%s", err.Error())
		} else if other, ok := folded[lower]; ok {
			v.add(path, "differs from %q only by case, which file names may not tell apart; rename one", other)
		}
		folded[lower] = name
	}
	return names
}

// kinds lists the kinds of agent.
var kinds = []string{KindCommand, KindAnthropic, KindOpenAI}

func (v *validator) agent(path string, d Definition) {
	switch d.Kind {
	case KindCommand:
		if len(d.Argv) > 0 || d.Preset == "" {
			v.argv(path+".argv", d.Argv)
		}
		v.notModel(path, d)
	case KindAnthropic, KindOpenAI:
		v.model(path, d)
	case "":
		v.add(path+".kind", "is missing; write one of %s, like `kind: command`", strings.Join(kinds, ", "))
	default:
		v.add(path+".kind", "is %q; there are %s%s", team.Shorten(d.Kind, 80), strings.Join(kinds, ", "), team.DidYouMean(d.Kind, kinds))
	}
	if err := checkVariable(d.APIKeyEnv); d.APIKeyEnv != "" && err != nil {
		v.add(path+".api_key_env", "%s", err.Error())
	}
	v.prices(path+".prices", d.Prices)
	v.list(path+".env", d.Env, checkEnv)
	v.list(path+".caches", d.Caches, v.knownCache)
	v.duration(path+".timeout", d.Timeout)
	v.duration(path+".idle_timeout", d.IdleTimeout)
	v.number(path+".concurrency", int64(d.Concurrency), 1, maxConcurrency)
	v.breaker(path+".breaker", d.Breaker)
	v.preset(path, d)
	v.paid(path, d)
}

func (v *validator) checkDefinition(path string, d CheckDefinition) {
	v.argv(path+".argv", d.Argv)
	v.list(path+".env", d.Env, checkEnv)
	v.list(path+".caches", d.Caches, v.knownCache)
	v.list(path+".keep", d.Keep, team.CheckPattern)
	v.duration(path+".timeout", d.Timeout)
	switch d.Category {
	case "", team.TestFailure, team.Syntax:
	default:
		v.add(path+".category", "is %q; a failing check is test_failure or syntax", team.Shorten(string(d.Category), 80))
	}
}

func (v *validator) argv(path string, argv []string) {
	switch {
	case len(argv) == 0:
		v.add(path, "is missing; list the program and its arguments, like [go, test, ./...]")
		return
	case len(argv) > maxArgv:
		v.add(path, "has %d entries; at most %d are allowed", len(argv), maxArgv)
		return
	case strings.TrimSpace(argv[0]) == "":
		v.add(team.ItemPath(path, 0), "is empty; the first entry is the program")
	}
	for i, arg := range argv {
		if strings.ContainsRune(arg, 0) {
			v.add(team.ItemPath(path, i), "has a NUL character, which no argument can hold")
		}
	}
}

func (v *validator) caches() {
	set := map[string]string{}
	for _, name := range v.names("$.caches", slices.Sorted(maps.Keys(v.config.Caches))) {
		path := team.FieldPath("$.caches", name) + ".env"
		variable := v.config.Caches[name].Env
		if variable == "" {
			v.add(path, "is missing; name the variable that tells programs where the cache is, like GOCACHE")
			continue
		}
		if err := checkEnv(variable); err != nil {
			v.add(path, "%s", err.Error())
		} else if other, ok := set[variable]; ok {
			v.add(path, "is %s, which cache %s sets, too", variable, other)
		}
		set[variable] = name
	}
}

func (v *validator) knownCache(name string) error {
	if _, ok := v.config.Caches[name]; ok {
		return nil
	}
	known := slices.Sorted(maps.Keys(v.config.Caches))
	return fmt.Errorf("%q is not among the caches%s; define it, like `caches: {%s: {env: GOCACHE}}`",
		team.Shorten(name, 80), team.DidYouMean(name, known), team.Shorten(name, 80))
}

func (v *validator) limits() {
	l := v.config.Limits
	v.number("$.limits.files", int64(l.Files), 1, maxFiles)
	v.number("$.limits.lost_workers", int64(l.LostWorkers), 1, maxLostWorkers)
	v.size("$.limits.file_bytes", l.FileBytes, 1, maxFileBytes)
	v.size("$.limits.tree_bytes", l.TreeBytes, 1, maxTreeBytes)
	v.size("$.limits.disk_bytes", l.DiskBytes, 1, maxDiskBytes)
	v.size("$.limits.output_bytes", l.OutputBytes, minOutputBytes, maxOutputBytes)
}

func (v *validator) retention() {
	r := v.config.Retention
	v.number("$.retention.keep", int64(r.Keep), 1, maxKeep)
	v.between("$.retention.older_than", r.OlderThan, minOlderThan, maxOlderThan)
}

// number faults a number that is given and not between least and most.
func (v *validator) number(path string, n, least, most int64) {
	if n != 0 && (n < least || n > most) {
		v.add(path, "is %d; it must be between %d and %d", n, least, most)
	}
}

func (v *validator) size(path string, b, least, most ByteSize) {
	if b != 0 && (b < least || b > most) {
		v.add(path, "is %s; it must be between %s and %s", b, least, most)
	}
}

func (v *validator) duration(path string, d team.Duration) {
	v.between(path, d, minTimeout, maxTimeout)
}

// between faults a duration that is given and not between least and most.
func (v *validator) between(path string, d, least, most team.Duration) {
	if d != 0 && (d < least || d > most) {
		v.add(path, "is %s; it must be between %s and %s", d, least, most)
	}
}

// list checks every entry of a list and faults what is listed twice.
func (v *validator) list(path string, entries []string, check func(string) error) {
	for i, entry := range entries {
		if err := check(entry); err != nil {
			v.add(team.ItemPath(path, i), "%s", err.Error())
		} else if slices.Contains(entries[:i], entry) {
			v.add(team.ItemPath(path, i), "lists %q a second time; leave it out", entry)
		}
	}
}

func checkVariable(name string) error {
	if before, _, ok := strings.Cut(name, "="); ok && variablePattern.MatchString(before) {
		return fmt.Errorf("%s has a value here; list the name alone and set %s in the worker's environment", before, before)
	}
	if !variablePattern.MatchString(name) {
		return fmt.Errorf("%q is not the name of an environment variable", team.Shorten(name, 80))
	}
	return nil
}

func checkEnv(name string) error {
	if slices.Contains(ours, name) {
		return fmt.Errorf("%s is set by Maestro for every attempt; leave it out", name)
	}
	return checkVariable(name)
}
