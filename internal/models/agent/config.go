package agent

import (
	"time"

	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
	"github.com/maestro-hive/maestro/internal/models/agent/preset"
	"github.com/maestro-hive/maestro/internal/models/llm"
	"github.com/maestro-hive/maestro/internal/models/wire"
)

// The kinds of agent that a worker can run.
const (
	// KindCommand is a program that reads a brief and leaves files.
	KindCommand = "command"
	// KindModel is a model behind a provider's API, or behind a compatible one.
	KindModel = "model"
	// KindDelivery delivers work to a host of repositories.
	KindDelivery = spec.KindDelivery
)

// Config is a parsed worker file: the agents and checks that the worker offers, and their limits.
type Config struct {
	// Version is the version of the worker file's format. It must be 1.
	Version int `json:"version" yaml:"version" jsonschema:"enum=1" example:"1"`
	// Agents are the agents that the worker can run, by name.
	Agents map[string]Definition `json:"agents" yaml:"agents" jsonschema:"minProperties=1,maxProperties=1000" example:"{coder: {kind: command, argv: [./coder.sh]}}"`
	// Providers are the servers of models that agents call, by name.
	Providers map[string]Provider `json:"providers,omitempty" yaml:"providers,omitempty" jsonschema:"maxProperties=100"`
	// Checks are the programs that can verify work, by name.
	Checks map[string]CheckDefinition `json:"checks,omitempty" yaml:"checks,omitempty" jsonschema:"maxProperties=1000"`
	// Caches are directories for what agents and checks can make again, by
	// name.
	Caches map[string]Cache `json:"caches,omitempty" yaml:"caches,omitempty" jsonschema:"maxProperties=1000"`
	// Secrets names variables of the worker's environment whose values are masked in all captured
	// text. Variables that agents or checks get, with names that end in KEY, TOKEN, SECRET or PASSWORD, are always masked.
	Secrets []string `json:"secrets,omitempty" yaml:"secrets,omitempty" jsonschema:"format=variable,uniqueItems=true"`
	// Isolation says whether agents and checks run in rooms: their own namespaces, in which they
	// see the system's programs, their workspace, HOME and TMPDIR, and nothing else of the host.
	// auto uses rooms if the host permits them. required refuses to start if it does not. none
	// uses no rooms: then the kernel's Landlock restricts agents and checks.
	Isolation string `json:"isolation,omitempty" yaml:"isolation,omitempty" jsonschema:"enum=auto,enum=required,enum=none"`
	// Mounts are paths of the host that rooms show in addition to /usr, /etc, /opt and the
	// directories of the agents' and checks' programs. Without rooms, agents and checks may read
	// those in the worker's HOME, and change the writable ones.
	Mounts []Mount `json:"mounts,omitempty" yaml:"mounts,omitempty" jsonschema:"maxItems=100"`
	// RunAs is the user that agents and checks run as. It requires a worker that runs as root.
	// Working directories and caches are then beside the store, in a directory with its name and
	// .work. The default is the worker's user.
	RunAs string `json:"run_as,omitempty" yaml:"run_as,omitempty"`
	// Credentials are added to the requests of rooms whose network is a list of hosts. Agents
	// and checks do not see them.
	Credentials []Credential `json:"credentials,omitempty" yaml:"credentials,omitempty" jsonschema:"maxItems=100"`
	// Limits are the limits of each attempt.
	Limits Limits `json:"limits" yaml:"limits,omitempty"`

	// Retention is what a scheduled prune of the store keeps.
	Retention Retention `json:"retention,omitzero" yaml:"retention,omitempty"`

	// Backup is where the worker backs up the store, and how often. Left out (nil), it does not.
	Backup *Backup `json:"backup,omitempty" yaml:"backup,omitempty"`

	// Jira is the ticket system in which the worker creates tickets. Left out (nil), it creates none.
	Jira *Jira `json:"jira,omitempty" yaml:"jira,omitempty"`
	// Webhook is the address to which the worker sends notices. Left out (nil), it sends none.
	Webhook *Webhook `json:"webhook,omitempty" yaml:"webhook,omitempty"`
	// WebUI is the address of Temporal's Web UI, for links in tickets and webhooks. Left out, there
	// are no such links.
	WebUI string `json:"web_ui,omitempty" yaml:"web_ui,omitempty" jsonschema:"format=address"`

	// Dir is the directory of the worker file; relative paths in the file start there. The reader
	// of the file sets it. Empty: the working directory.
	Dir string `json:"-" yaml:"-"`
}

// Definition defines an agent.
type Definition struct {
	// Kind is the kind of the agent: command is a program, model is a model of a provider, delivery delivers the work of
	// others as pull requests.
	Kind string `json:"kind" yaml:"kind" jsonschema:"enum=command,enum=model,enum=delivery" example:"command"`
	// Argv is the program of a command agent and its arguments. A program without a slash
	// is looked up in PATH; a relative one with a slash starts from the worker file's
	// directory. With a preset it may be left out.
	Argv []string `json:"argv,omitempty" yaml:"argv,omitempty" jsonschema:"format=argument,minItems=1,maxItems=1000" example:"[go, test, ./...]" only:"kind=command" needed:"kind=command" or:"preset"`
	// Env names the variables of the worker's environment that the agent sees.
	Env []string `json:"env,omitempty" yaml:"env,omitempty" jsonschema:"format=passed,uniqueItems=true" only:"kind=command"`
	// Gateway names the providers that the agent calls through the worker's gateway, at most one of
	// each format. The agent gets an address and a token instead of a key.
	Gateway []string `json:"gateway,omitempty" yaml:"gateway,omitempty" jsonschema:"format=reference,minItems=1,uniqueItems=true" example:"[anthropic]" only:"kind=command"`
	// Caches names the caches that the agent can use.
	Caches []string `json:"caches,omitempty" yaml:"caches,omitempty" jsonschema:"format=reference,uniqueItems=true" only:"kind=command"`
	// Git makes the agent's directory a Git repository in which its input is committed.
	Git bool `json:"git,omitempty" yaml:"git,omitempty" only:"kind=command"`
	// Timeout is the longest time that an attempt may take, without waits for a budget or for the store.
	Timeout textfmt.Duration `json:"timeout,omitempty" yaml:"timeout,omitempty" between:"100ms 168h"`
	// IdleTimeout is the longest time in which the agent may print nothing or, during a model's
	// call, in which nothing may be received. The supervisor of the process enforces it, or the client of the model.
	IdleTimeout textfmt.Duration `json:"idle_timeout,omitempty" yaml:"idle_timeout,omitempty" between:"100ms 168h" only:"kind=command model"`
	// Network is the network of the agent in a room: host is the host's network, none is only the
	// room's own loopback device. A list permits HTTP and TLS to these hosts, through a proxy.
	Network Network `json:"network,omitempty" yaml:"network,omitempty" only:"kind=command"`
	// WebTools permits what has a provider reach the web for an agent with a gateway whose network is
	// not host: searches, fetches and MCP servers that the provider runs, and content by its address.
	WebTools bool `json:"web_tools,omitempty" yaml:"web_tools,omitempty" only:"kind=command"`
	// Concurrency is how many attempts the worker runs at the same time.
	Concurrency int `json:"concurrency,omitempty" yaml:"concurrency,omitempty" jsonschema:"minimum=1,maximum=1000"`

	// Breaker are the settings of the agent's circuit breaker. An agent with a provider, or with a
	// gateway to one provider, uses the breaker of the provider.
	Breaker spec.Breaker `json:"-" yaml:"breaker,omitempty"`

	// Provider names the provider of a model.
	Provider string `json:"-" yaml:"provider,omitempty" jsonschema:"format=reference" example:"anthropic" only:"kind=model" needed:"kind=model"`
	// Model is the provider's name of the model that the agent calls. Kind model requires it.
	Model string `json:"model,omitempty" yaml:"model,omitempty" jsonschema:"format=filled" only:"kind=command model" needed:"kind=model"`
	// MaxTurns is the maximum number of turns of an attempt; a turn is one call of a model.
	// max_turns of the persona replaces it.
	MaxTurns int `json:"max_turns,omitempty" yaml:"max_turns,omitempty" jsonschema:"minimum=1,maximum=10000" only:"kind=command model"`
	// MaxOutputTokens is the maximum length of one answer of the model.
	MaxOutputTokens int64 `json:"max_output_tokens,omitempty" yaml:"max_output_tokens,omitempty" jsonschema:"minimum=256,maximum=100000000" only:"kind=model"`
	// ContextTokens is the maximum length of the prompt and the answer of one call together.
	ContextTokens int64 `json:"context_tokens,omitempty" yaml:"context_tokens,omitempty" jsonschema:"minimum=4096,maximum=100000000" only:"kind=model"`
	// Preset names the known agent program that a command agent starts. It defines how its output
	// is read and how its conversation continues.
	Preset string `json:"preset,omitempty" yaml:"preset,omitempty" jsonschema:"enum=claude,enum=codex,enum=gemini" only:"kind=command"`

	// The fields below do not change what the agent does.

	// Prices are the prices of a command agent's tokens. Left out (nil), its cost is not known, and
	// only budgets of tokens apply to it.
	Prices *cost.Prices `json:"-" yaml:"prices,omitempty" only:"kind=command"`
	// Reserve is what one attempt of a command agent may cost. It is reserved in the budgets while
	// the attempt runs. Left out, it is the cost of its most expensive attempt in the session.
	Reserve spec.Cap `json:"-" yaml:"reserve,omitempty" only:"kind=command"`
	// Fallback names the agent that may work instead of this one, if the team file permits it.
	Fallback string `json:"-" yaml:"fallback,omitempty" jsonschema:"format=reference" only:"kind=command model"`

	// Host is the program of the host that an agent of kind delivery delivers to.
	Host string `json:"host,omitempty" yaml:"host,omitempty" jsonschema:"enum=github,enum=gitlab" only:"kind=delivery"`
	// URL is the address of the host, as browsers use it: of GitHub Enterprise Server, or of a GitLab of your own. Default:
	// https://github.com or https://gitlab.com.
	URL string `json:"url,omitempty" yaml:"url,omitempty" jsonschema:"format=address" only:"kind=delivery"`
	// TokenEnv names the variable of the worker's environment that has a token of the account that delivers. Either it or
	// app is required for kind delivery.
	TokenEnv string `json:"-" yaml:"token_env,omitempty" jsonschema:"format=variable" example:"GITHUB_TOKEN" only:"kind=delivery" needed:"kind=delivery" or:"app"`
	// App is the GitHub App that delivers, in place of the account of a token.
	App *App `json:"-" yaml:"app,omitempty" only:"kind=delivery"`
}

// CheckDefinition defines a check.
type CheckDefinition struct {
	// Argv is the program and its arguments. It runs in the tree. A program without a slash is
	// looked up in PATH; a relative one with a slash is in the tree.
	Argv []string `json:"argv" yaml:"argv" jsonschema:"format=argument,minItems=1,maxItems=1000" example:"[go, test, ./...]"`
	// Timeout is the longest time that a run may take.
	Timeout textfmt.Duration `json:"timeout,omitempty" yaml:"timeout,omitempty" between:"100ms 168h"`
	// Env names the variables of the worker's environment that the check sees.
	Env []string `json:"env,omitempty" yaml:"env,omitempty" jsonschema:"format=passed,uniqueItems=true"`
	// Caches names the caches that the check can use.
	Caches []string `json:"caches,omitempty" yaml:"caches,omitempty" jsonschema:"format=reference,uniqueItems=true"`
	// Network is the network of the check in a room: host is the host's network, none is only the
	// room's own loopback device. A list permits HTTP and TLS to these hosts, through a proxy.
	Network Network `json:"network,omitempty" yaml:"network,omitempty"`
	// Keep lists patterns of files that the check may leave in the tree. Its other changes are
	// discarded.
	Keep []string `json:"keep,omitempty" yaml:"keep,omitempty" jsonschema:"format=glob,uniqueItems=true"`
	// Category is the failure category of a failed check: test_failure, or syntax for a check that
	// only builds or parses.
	Category failures.Category `json:"category,omitempty" yaml:"category,omitempty" jsonschema:"enum=test_failure,enum=syntax"`
}

// Mount is a path of the host that rooms show at the same place.
type Mount struct {
	// Path is the absolute path of a file or directory.
	Path string `json:"path" yaml:"path" jsonschema:"format=filled" example:"/srv/toolchain"`
	// Writable lets agents and checks change it. All of them share it, so that rooms can also hand each other
	// open files and sockets.
	Writable bool `json:"writable,omitempty" yaml:"writable,omitempty"`
}

// Cache is a directory for what programs can make again.
type Cache struct {
	// Env is the variable that tells a program where the directory is.
	Env string `json:"env" yaml:"env" jsonschema:"format=passed" example:"GOCACHE"`
	// Shared lets all agents and checks, of all teams, write the directory and use what others wrote. Code of one agent can
	// then decide the checks of others: only for agents and teams that trust each other.
	Shared bool `json:"shared,omitempty" yaml:"shared,omitempty"`
}

// Limits are the limits of each attempt.
type Limits struct {
	// Files is how many files a tree may have.
	Files int `json:"files,omitempty" yaml:"files,omitempty" jsonschema:"minimum=1,maximum=10000000"`
	// FileBytes is how large a file in a tree may be.
	FileBytes textfmt.ByteSize `json:"file_bytes,omitempty" yaml:"file_bytes,omitempty" between:"1B 100GB"`
	// TreeBytes is how large all files of a tree may be together. A tree may always be as
	// large as the one that an attempt starts from.
	TreeBytes textfmt.ByteSize `json:"tree_bytes,omitempty" yaml:"tree_bytes,omitempty" between:"1B 10000GB"`
	// DiskBytes is how much disk space the files that an attempt has written may use: in its tree,
	// including ignored files, in HOME, in TMPDIR and in caches that are not shared. An attempt that uses more is stopped. The
	// default is five times tree_bytes.
	DiskBytes textfmt.ByteSize `json:"disk_bytes,omitempty" yaml:"disk_bytes,omitempty" between:"1B 50000GB"`
	// DiskFiles is how many files and directories an attempt may have written, counted like
	// disk_bytes. The default is five times files.
	DiskFiles int `json:"disk_files,omitempty" yaml:"disk_files,omitempty" jsonschema:"minimum=1,maximum=100000000"`
	// CacheBytes is how large each cache may be on disk. A cache that is larger, or has more
	// files than disk_files, loses the least recently used ones until at most half of the limit
	// is left.
	CacheBytes textfmt.ByteSize `json:"cache_bytes,omitempty" yaml:"cache_bytes,omitempty" between:"1MB 50000GB"`
	// Memory is how much memory all processes of an attempt may use together. An attempt that uses
	// more is stopped. The default is half of the memory of the host, or of the worker's container.
	Memory textfmt.ByteSize `json:"memory,omitempty" yaml:"memory,omitempty" between:"16MB 100000GB"`
	// OutputBytes is how much an attempt may print. An attempt that prints more is stopped. The stream
	// of events of a preset's program may be 16 times as large.
	OutputBytes textfmt.ByteSize `json:"output_bytes,omitempty" yaml:"output_bytes,omitempty" between:"4kB 1GB"`
	// LostWorkers is how many workers in a row may be lost during an assignment without progress.
	LostWorkers int `json:"lost_workers,omitempty" yaml:"lost_workers,omitempty" jsonschema:"minimum=1,maximum=100"`
}

// Retention is what a scheduled prune keeps. Zero fields mean the store's defaults.
type Retention struct {
	// Keep is how many of the newest checkpoints of each closed session are kept.
	Keep int `json:"keep,omitempty" yaml:"keep,omitempty" jsonschema:"minimum=1,maximum=1000000"`
	// OlderThan is the age up to which checkpoints are kept.
	OlderThan textfmt.Duration `json:"older_than,omitempty" yaml:"older_than,omitempty" between:"1h 87600h"`
}

// Backup is the schedule of backups. Of several workers of a store, one at a time backs it up.
type Backup struct {
	// To is the absolute path of the directory that gets the backups: on another disk than the store's.
	To string `json:"to" yaml:"to" jsonschema:"format=filled" example:"/backup/maestro"`
	// Every is the time between two backups.
	Every textfmt.Duration `json:"every,omitempty" yaml:"every,omitempty" between:"1m 8760h"`
	// Keep is how many copies of the database stay.
	Keep int `json:"keep,omitempty" yaml:"keep,omitempty" jsonschema:"minimum=1,maximum=10000"`
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
	DefaultDeliveries         = 10
	DefaultDeliveryTimeout    = textfmt.Duration(10 * time.Minute)
	DefaultFiles              = 200_000
	DefaultFileBytes          = 100 * textfmt.Megabyte
	DefaultTreeBytes          = 2000 * textfmt.Megabyte
	DefaultCacheBytes         = 20 * textfmt.Gigabyte
	DefaultOutputBytes        = 10 * textfmt.Megabyte
	DefaultLostWorkers        = 5
	// diskPerTree is how much more than its tree an attempt may have on disk: builds leave
	// several times of what is kept.
	diskPerTree = 5
	// defaultProgramTurns is far more than work takes that goes somewhere.
	defaultProgramTurns = 200
)

// WithDefaults returns the config with every default filled in. It does not
// validate; see [Config.Problems].
func (c Config) WithDefaults() Config {
	c.Agents = changed(c.Agents, Definition.withDefaults)
	c.Providers = changed(c.Providers, Provider.withDefaults)
	c.Checks = changed(c.Checks, CheckDefinition.withDefaults)
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
	if d.Kind == KindDelivery {
		return d.deliveryDefaults()
	}
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
		full := d.Prices.WithDefaults(wire.DefaultWebSearch)
		d.Prices = &full
	}
	if program := preset.For(d.Preset); program != nil && program.BoundsTurns {
		setDefault(&d.MaxTurns, defaultProgramTurns)
	}
	return d
}

func (d CheckDefinition) withDefaults() CheckDefinition {
	setDefault(&d.Timeout, DefaultCheckTimeout)
	setDefault(&d.Category, failures.TestFailure)
	return d
}

// changed returns a map with the changed values of another one.
func changed[T any](values map[string]T, change func(T) T) map[string]T {
	out := make(map[string]T, len(values))
	for name, value := range values {
		out[name] = change(value)
	}
	return out
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
	return spec.DigestOfJSON(struct {
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
func (d CheckDefinition) Digest() spec.Digest { return spec.DigestOfJSON(d.withDefaults()) }
