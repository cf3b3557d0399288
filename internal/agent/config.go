package agent

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"

	"github.com/maestro-hive/maestro/internal/agent/preset"
	"github.com/maestro-hive/maestro/internal/cost"
	"github.com/maestro-hive/maestro/internal/failures"
	"github.com/maestro-hive/maestro/internal/llm"
	"github.com/maestro-hive/maestro/internal/spec"
	"github.com/maestro-hive/maestro/internal/textfmt"
	"github.com/maestro-hive/maestro/internal/wire"
)

// The kinds of agent that a worker can run.
const (
	// KindCommand is a program that reads a brief and leaves files.
	KindCommand = "command"
	// KindModel is a model of a provider,
	// or one that is compatible with it.
	KindModel = "model"
)

// Config is a worker file after parsing: which agents and checks the worker
// offers, and within which limits they run.
type Config struct {
	// Version is that of the worker file's format; 1 is the only one.
	Version int `json:"version" yaml:"version" jsonschema:"enum=1" example:"1"`
	// Agents are what the worker can have work done by, by name.
	Agents map[string]Definition `json:"agents" yaml:"agents" jsonschema:"minProperties=1,maxProperties=1000" example:"{coder: {kind: command, argv: [./coder.sh]}}"`
	// Providers are the servers of models that agents ask, by name.
	Providers map[string]Provider `json:"providers,omitempty" yaml:"providers,omitempty" jsonschema:"maxProperties=100"`
	// Checks are what it can hold work against, by name.
	Checks map[string]CheckDefinition `json:"checks,omitempty" yaml:"checks,omitempty" jsonschema:"maxProperties=1000"`
	// Caches are directories below the store's caches/ that attempts and checks share, by
	// name.
	Caches map[string]Cache `json:"caches,omitempty" yaml:"caches,omitempty" jsonschema:"maxProperties=1000"`
	// Secrets names variables of the worker's environment whose values are masked in
	// everything that is captured, besides those that name themselves (KEY, TOKEN, SECRET,
	// PASSWORD).
	Secrets []string `json:"secrets,omitempty" yaml:"secrets,omitempty" jsonschema:"format=variable,uniqueItems=true"`
	// Isolation says whether agents and checks work in rooms: namespaces of their own, in
	// which they see the system's programs, their workspace, HOME and TMPDIR, and nothing else
	// of the host. auto uses rooms if the host permits them; required refuses to start if it
	// does not; none uses no rooms. Without rooms the kernel's Landlock bounds them.
	Isolation string `json:"isolation,omitempty" yaml:"isolation,omitempty" jsonschema:"enum=auto,enum=required,enum=none"`
	// Mounts are paths of the host that rooms show besides /usr, /etc, /opt and the
	// directories of the agents' and checks' programs. Without rooms, agents and checks may
	// read those in the worker's HOME, and change the writable ones.
	Mounts []Mount `json:"mounts,omitempty" yaml:"mounts,omitempty" jsonschema:"maxItems=100"`
	// RunAs is the user that agents and checks run as. The worker has to be root, and
	// directories and caches are then beside the store, in a directory named like it with
	// .work. Left out, it is the worker's own.
	RunAs string `json:"run_as,omitempty" yaml:"run_as,omitempty"`
	// Credentials are added to requests of rooms whose network is a list of hosts. The room
	// does not see them.
	Credentials []Credential `json:"credentials,omitempty" yaml:"credentials,omitempty" jsonschema:"maxItems=100"`
	// Limits bound what attempts may leave and print.
	Limits Limits `json:"limits" yaml:"limits,omitempty"`

	// Retention says what a scheduled prune of the store keeps.
	Retention Retention `json:"retention,omitzero" yaml:"retention,omitempty"`

	// Jira has the worker make tickets; left out (nil), it makes none.
	Jira *Jira `json:"jira,omitempty" yaml:"jira,omitempty"`
	// Webhook has the worker call an address; left out (nil), it calls none.
	Webhook *Webhook `json:"webhook,omitempty" yaml:"webhook,omitempty"`
	// WebUI is the address of Temporal's Web UI, which links in tickets and webhooks start
	// with; left out, there are no links.
	WebUI string `json:"web_ui,omitempty" yaml:"web_ui,omitempty" jsonschema:"format=address"`

	// Dir is the worker file's directory, which relative paths in it start
	// from. Whoever reads the file sets it; empty: the working directory.
	Dir string `json:"-" yaml:"-"`
}

// Definition says what a named agent is.
type Definition struct {
	// Kind is how the agent works: command is a program, model is a model of a provider.
	Kind string `json:"kind" yaml:"kind" jsonschema:"enum=command,enum=model" example:"command"`
	// Argv is the program of a command agent and its arguments. A program without a slash
	// is looked up in PATH; a relative one with a slash starts from the worker file's
	// directory. With a preset it may be left out.
	Argv []string `json:"argv,omitempty" yaml:"argv,omitempty" jsonschema:"format=argument,minItems=1,maxItems=1000" example:"[go, test, ./...]" only:"kind=command" needed:"kind=command" or:"preset"`
	// Env names the variables of the worker's environment that the agent sees.
	Env []string `json:"env,omitempty" yaml:"env,omitempty" jsonschema:"format=passed,uniqueItems=true" only:"kind=command"`
	// Gateway names the providers that the agent reaches through the worker's gateway, at most
	// one of each format. The agent gets an address and a token in the place of a key.
	Gateway []string `json:"gateway,omitempty" yaml:"gateway,omitempty" jsonschema:"format=reference,minItems=1,maxItems=3,uniqueItems=true" example:"[anthropic]" only:"kind=command"`
	// Caches names the shared directories that the agent gets.
	Caches []string `json:"caches,omitempty" yaml:"caches,omitempty" jsonschema:"format=reference,uniqueItems=true" only:"kind=command"`
	// Git makes the directory a repository, with its input committed.
	Git bool `json:"git,omitempty" yaml:"git,omitempty" only:"kind=command"`
	// Timeout bounds an attempt.
	Timeout textfmt.Duration `json:"timeout,omitempty" yaml:"timeout,omitempty" between:"100ms 168h"`
	// IdleTimeout bounds the time in which the agent prints nothing, or in which nothing
	// comes in during a model's call.
	IdleTimeout textfmt.Duration `json:"idle_timeout,omitempty" yaml:"idle_timeout,omitempty" between:"100ms 168h"`
	// Network is what the agent reaches in a room: host is the host's network, none only the
	// room itself. A list permits HTTP and TLS to these hosts, through a proxy.
	Network Network `json:"network,omitempty" yaml:"network,omitempty" only:"kind=command"`
	// Concurrency is how many attempts the worker runs side by side.
	Concurrency int `json:"concurrency,omitempty" yaml:"concurrency,omitempty" jsonschema:"minimum=1,maximum=1000"`

	// Breaker is how the agent's circuit breaker is set. An agent with a provider, or with a
	// gateway to one, has the provider's.
	Breaker spec.Breaker `json:"-" yaml:"breaker,omitempty"`

	// Provider names the provider of a model.
	Provider string `json:"-" yaml:"provider,omitempty" jsonschema:"format=reference" example:"anthropic" only:"kind=model" needed:"kind=model"`
	// Model is the model that the agent asks, as its provider names it. Kind model requires it.
	Model string `json:"model,omitempty" yaml:"model,omitempty" jsonschema:"format=filled" needed:"kind=model"`
	// MaxTurns bounds the turns of an attempt, which are calls of a model; the persona's
	// wins.
	MaxTurns int `json:"max_turns,omitempty" yaml:"max_turns,omitempty" jsonschema:"minimum=1,maximum=10000"`
	// MaxOutputTokens bounds one answer of the model.
	MaxOutputTokens int64 `json:"max_output_tokens,omitempty" yaml:"max_output_tokens,omitempty" jsonschema:"minimum=256,maximum=100000000" only:"kind=model"`
	// ContextTokens bounds prompt and answer of one call together.
	ContextTokens int64 `json:"context_tokens,omitempty" yaml:"context_tokens,omitempty" jsonschema:"minimum=4096,maximum=100000000" only:"kind=model"`
	// Preset says which of the known agent programs a command agent starts, and so how its
	// stream is read and its conversation continues.
	Preset string `json:"preset,omitempty" yaml:"preset,omitempty" jsonschema:"enum=claude,enum=codex,enum=gemini" only:"kind=command"`

	// What follows says nothing about what the agent does.

	// Prices are what the tokens of a command agent cost. Left out (nil), it
	// is not known, and the agent is held to budgets of tokens only.
	Prices *cost.Prices `json:"-" yaml:"prices,omitempty" only:"kind=command"`
	// Reserve is what one attempt of a command agent may cost: it is set aside in the
	// budgets while the attempt runs. Left out, it is what its dearest attempt in the
	// session has cost.
	Reserve spec.Cap `json:"-" yaml:"reserve,omitempty" only:"kind=command"`
	// Fallback names the agent that may work in this one's place, where the team allows
	// it.
	Fallback string `json:"-" yaml:"fallback,omitempty" jsonschema:"format=reference"`
}

// CheckDefinition says what a named check executes.
type CheckDefinition struct {
	// Argv is the program and its arguments, executed in the tree. A program
	// without a slash is looked up in PATH; a relative one with a slash
	// belongs to the tree that is checked.
	Argv []string `json:"argv" yaml:"argv" jsonschema:"format=argument,minItems=1,maxItems=1000" example:"[go, test, ./...]"`
	// Timeout bounds a run.
	Timeout textfmt.Duration `json:"timeout,omitempty" yaml:"timeout,omitempty" between:"100ms 168h"`
	// Env names the variables of the worker's environment that the check sees.
	Env []string `json:"env,omitempty" yaml:"env,omitempty" jsonschema:"format=passed,uniqueItems=true"`
	// Caches names the shared directories that the check gets.
	Caches []string `json:"caches,omitempty" yaml:"caches,omitempty" jsonschema:"format=reference,uniqueItems=true"`
	// Network is what the check reaches in a room: host is the host's network, none only the
	// room itself. A list permits HTTP and TLS to these hosts, through a proxy.
	Network Network `json:"network,omitempty" yaml:"network,omitempty"`
	// Keep lists the patterns of files that the check may leave in the tree; all else that
	// it leaves is dropped.
	Keep []string `json:"keep,omitempty" yaml:"keep,omitempty" jsonschema:"format=glob,uniqueItems=true"`
	// Category is what a failing check means: test_failure, or syntax for a
	// check that only builds or parses.
	Category failures.Category `json:"category,omitempty" yaml:"category,omitempty" jsonschema:"enum=test_failure,enum=syntax"`
}

// Mount is a path of the host that rooms show at the same place.
type Mount struct {
	// Path is the absolute path of a file or directory.
	Path string `json:"path" yaml:"path" jsonschema:"format=filled" example:"/srv/toolchain"`
	// Writable lets agents and checks change it. All of them share it.
	Writable bool `json:"writable,omitempty" yaml:"writable,omitempty"`
}

// Cache is a directory that outlives attempts and is shared by them.
type Cache struct {
	// Env is the variable that tells a program where the directory is.
	Env string `json:"env" yaml:"env" jsonschema:"format=passed" example:"GOCACHE"`
}

// Limits bound what attempts may leave and print.
type Limits struct {
	// Files is how many files a tree may hold.
	Files int `json:"files,omitempty" yaml:"files,omitempty" jsonschema:"minimum=1,maximum=10000000"`
	// FileBytes is how large a file in a tree may be.
	FileBytes textfmt.ByteSize `json:"file_bytes,omitempty" yaml:"file_bytes,omitempty" between:"1B 100GB"`
	// TreeBytes is how large all files of a tree may be together. A tree may always be as
	// large as the one that an attempt starts from.
	TreeBytes textfmt.ByteSize `json:"tree_bytes,omitempty" yaml:"tree_bytes,omitempty" between:"1B 10000GB"`
	// DiskBytes is how much of what an attempt has written may be on disk at once: in its
	// tree, ignored files too, in HOME and in TMPDIR. Past it, it is stopped. The default
	// is five times tree_bytes.
	DiskBytes textfmt.ByteSize `json:"disk_bytes,omitempty" yaml:"disk_bytes,omitempty" between:"1B 50000GB"`
	// DiskFiles is how many files and directories of what an attempt has written may be there
	// at once, counted like disk_bytes. The default is five times files.
	DiskFiles int `json:"disk_files,omitempty" yaml:"disk_files,omitempty" jsonschema:"minimum=1,maximum=100000000"`
	// CacheBytes is how large each cache may be on disk. A cache that is larger, or has more
	// files than disk_files, loses the least recently used ones until at most half of the limit
	// is left.
	CacheBytes textfmt.ByteSize `json:"cache_bytes,omitempty" yaml:"cache_bytes,omitempty" between:"1MB 50000GB"`
	// Memory is how much memory an attempt may use with all that it starts, with files in
	// memory, like those in /dev/shm. Past it, it is stopped. The default is half of the
	// memory of the host, or of the worker's container.
	Memory textfmt.ByteSize `json:"memory,omitempty" yaml:"memory,omitempty" between:"16MB 100000GB"`
	// OutputBytes is how much an attempt may print; past it, it is stopped.
	OutputBytes textfmt.ByteSize `json:"output_bytes,omitempty" yaml:"output_bytes,omitempty" between:"4kB 1GB"`
	// LostWorkers is how many workers in a row an assignment may take down without
	// progress.
	LostWorkers int `json:"lost_workers,omitempty" yaml:"lost_workers,omitempty" jsonschema:"minimum=1,maximum=100"`
}

// Retention says what a scheduled prune keeps. Zero fields mean the store's
// defaults.
type Retention struct {
	// Keep is how many checkpoints of each closed session stay, the newest.
	Keep int `json:"keep,omitempty" yaml:"keep,omitempty" jsonschema:"minimum=1,maximum=1000000"`
	// OlderThan is the age up to which checkpoints stay.
	OlderThan textfmt.Duration `json:"older_than,omitempty" yaml:"older_than,omitempty" between:"1h 87600h"`
}

// The values of [Config.Isolation].
const (
	IsolationAuto     = "auto"
	IsolationRequired = "required"
	IsolationNone     = "none"
)

// The defaults of a worker file.
const (
	DefaultIsolation          = IsolationAuto
	DefaultTimeout            = textfmt.Duration(30 * time.Minute)
	DefaultIdleTimeout        = textfmt.Duration(10 * time.Minute)
	DefaultCheckTimeout       = textfmt.Duration(10 * time.Minute)
	DefaultCommandConcurrency = 4
	DefaultModelConcurrency   = 8
	DefaultFiles              = 200_000
	DefaultFileBytes          = 100 * textfmt.Megabyte
	DefaultTreeBytes          = 2000 * textfmt.Megabyte
	DefaultCacheBytes         = 20 * textfmt.Gigabyte
	DefaultOutputBytes        = 10 * textfmt.Megabyte
	DefaultLostWorkers        = 5
	// diskPerTree is how much more than its tree an attempt may have on disk: builds leave
	// several times of what is kept.
	diskPerTree = 5
	// defaultClaudeTurns is far more than work takes that goes somewhere.
	defaultClaudeTurns = 200
)

// WithDefaults returns the config with every default filled in. It does not
// validate; see [Config.Problems].
func (c Config) WithDefaults() Config {
	agents := make(map[string]Definition, len(c.Agents))
	for name, d := range c.Agents {
		agents[name] = d.withDefaults()
	}
	c.Agents = agents
	providers := make(map[string]Provider, len(c.Providers))
	for name, p := range c.Providers {
		providers[name] = p.withDefaults()
	}
	c.Providers = providers
	checks := make(map[string]CheckDefinition, len(c.Checks))
	for name, d := range c.Checks {
		checks[name] = d.withDefaults()
	}
	c.Checks = checks
	setDefault(&c.Isolation, DefaultIsolation)
	setDefault(&c.Limits.Files, DefaultFiles)
	setDefault(&c.Limits.FileBytes, DefaultFileBytes)
	setDefault(&c.Limits.TreeBytes, DefaultTreeBytes)
	setDefault(&c.Limits.DiskBytes, diskPerTree*c.Limits.TreeBytes)
	setDefault(&c.Limits.DiskFiles, diskPerTree*c.Limits.Files)
	setDefault(&c.Limits.CacheBytes, DefaultCacheBytes)
	setDefault(&c.Limits.OutputBytes, DefaultOutputBytes)
	setDefault(&c.Limits.LostWorkers, DefaultLostWorkers)
	c.Jira, c.Webhook = c.Jira.withDefaults(), c.Webhook.withDefaults()
	return c
}

func (d Definition) withDefaults() Definition {
	d = d.withPreset()
	setDefault(&d.Timeout, DefaultTimeout)
	setDefault(&d.IdleTimeout, DefaultIdleTimeout)
	if d.Kind == KindModel {
		setDefault(&d.Concurrency, DefaultModelConcurrency)
		setDefault(&d.MaxTurns, llm.DefaultMaxTurns)
		setDefault(&d.MaxOutputTokens, llm.DefaultMaxOutputTokens)
		setDefault(&d.ContextTokens, llm.DefaultContextTokens)
	}
	setDefault(&d.Concurrency, DefaultCommandConcurrency)
	if d.Prices != nil {
		full := d.Prices.WithDefaults(webSearch(""))
		d.Prices = &full
	}
	if d.Preset == preset.Claude {
		setDefault(&d.MaxTurns, defaultClaudeTurns)
	}
	return d
}

func (d CheckDefinition) withDefaults() CheckDefinition {
	setDefault(&d.Timeout, DefaultCheckTimeout)
	setDefault(&d.Category, failures.TestFailure)
	return d
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// Digest names what an agent does: workers whose digests agree do the same
// work. How many attempts run side by side is not part of it, and of its providers only
// which servers they are.
func (c Config) Digest(agent string) spec.Digest {
	type server struct {
		Format  wire.API `json:"format"`
		BaseURL string   `json:"base_url,omitempty"`
	}
	d := c.Agents[agent].withDefaults()
	d.Concurrency = 0
	var servers []server
	for _, name := range d.providers() {
		servers = append(servers, server{c.Providers[name].Format, c.Providers[name].BaseURL})
	}
	return digest(struct {
		Definition
		Servers []server `json:"servers,omitempty"`
	}{d, servers})
}

// providers are the names of the providers that the agent's models are at.
func (d Definition) providers() []string {
	if d.Provider != "" {
		return []string{d.Provider}
	}
	return d.Gateway
}

// Digest names what the check does.
func (d CheckDefinition) Digest() spec.Digest { return digest(d.withDefaults()) }

// digest hashes v's JSON, which is canonical as far as its type is: fields come
// in their order and map keys sorted.
func digest(v any) spec.Digest {
	data, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("agent: a definition is not plain data: %v", err))
	}
	sum := sha256.Sum256(data)
	return spec.Digest(hex.EncodeToString(sum[:]))
}
