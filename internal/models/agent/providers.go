package agent

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
	"github.com/maestro-hive/maestro/internal/models/agent/preset"
	"github.com/maestro-hive/maestro/internal/models/wire"
)

// Provider is a server of models: a provider's own, or a compatible one.
type Provider struct {
	// Format is the API of the server: anthropic is Messages, openai is Chat Completions and
	// Responses, gemini is the Gemini API, which can only be used through the gateway.
	Format wire.API `json:"format" yaml:"format" jsonschema:"enum=anthropic,enum=openai,enum=gemini" example:"anthropic"`
	// BaseURL is the address of a server other than the provider's own: for openai the part before
	// /chat/completions, for anthropic the part before /v1/messages, for gemini the part before
	// /v1beta.
	BaseURL string `json:"base_url,omitempty" yaml:"base_url,omitempty" jsonschema:"format=address"`
	// KeyEnv names the variable of the worker's environment that has the key. Its value is masked.
	// It or key_file is required if there is no base_url.
	KeyEnv string `json:"key_env,omitempty" yaml:"key_env,omitempty" jsonschema:"format=variable" example:"ANTHROPIC_API_KEY"`
	// KeyFile is a file that contains the key, relative to the worker file. It is read together with
	// the worker file.
	KeyFile string `json:"key_file,omitempty" yaml:"key_file,omitempty" jsonschema:"format=filled"`
	// Models are the models that may be called, by name, with the price of a million of their
	// tokens. A name that ends in * matches all names with that prefix; the longest match applies.
	// Left out, every model may be called, the cost is not known, and only budgets of tokens apply.
	Models map[string]cost.Prices `json:"models,omitempty" yaml:"models,omitempty" jsonschema:"maxProperties=1000" keys:"filled"`
	// Limits are the limits of the calls of all agents of the worker to the provider together.
	Limits ProviderLimits `json:"limits,omitzero" yaml:"limits,omitempty"`
	// Breaker are the settings of the circuit breaker that all agents of the provider share. The
	// default of its name is the provider's name.
	Breaker spec.Breaker `json:"-" yaml:"breaker,omitempty"`
}

// ProviderLimits are the limits of the calls of a worker to a provider. Zero: no limit. A call that
// exceeds them waits; a call through the gateway is refused with 429 after a minute.
type ProviderLimits struct {
	// RequestsPerMinute is how many calls may start in a minute.
	RequestsPerMinute int64 `json:"requests_per_minute,omitempty" yaml:"requests_per_minute,omitempty" jsonschema:"minimum=1,maximum=1000000000"`
	// TokensPerMinute is how many tokens the calls of a minute may have.
	TokensPerMinute int64 `json:"tokens_per_minute,omitempty" yaml:"tokens_per_minute,omitempty" jsonschema:"minimum=1,maximum=1000000000"`
	// Concurrent is how many calls may be in progress at the same time.
	Concurrent int64 `json:"concurrent,omitempty" yaml:"concurrent,omitempty" jsonschema:"minimum=1,maximum=1000000"`
}

func (p Provider) withDefaults() Provider {
	p.Models = maps.Clone(p.Models)
	for name, prices := range p.Models {
		p.Models[name] = prices.WithDefaults(p.Format.Programs().WebSearch)
	}
	return p
}

// BreakerOf returns the settings of an agent's breaker, with defaults: that of its provider, if it
// has one.
func (c Config) BreakerOf(agent string) spec.Breaker {
	d := c.Agents[agent]
	if names := d.providers(); len(names) == 1 {
		return c.Providers[names[0]].Breaker.For(names[0])
	}
	return d.Breaker.For(agent)
}

// providerKey is a provider's key, or why there is none.
type providerKey struct {
	value string
	err   error
}

// key returns a provider's key; empty: there is none.
func (c Config) key(p Provider, getenv func(string) string) (string, error) {
	return c.secret("the provider's key", p.KeyEnv, p.KeyFile, getenv)
}

// secret returns the text of a file or a variable; empty: neither is named. Texts in files, and variables that are set
// from them, often end with a newline.
func (c Config) secret(what, env, file string, getenv func(string) string) (string, error) {
	switch {
	case file != "":
		data, err := os.ReadFile(c.relative(file))
		if err != nil {
			return "", err
		}
		if key := strings.TrimSpace(string(data)); key != "" {
			return key, nil
		}
		return "", fmt.Errorf("%s is empty", file)
	case env != "":
		if key := strings.TrimSpace(getenv(env)); key != "" {
			return key, nil
		}
		return "", fmt.Errorf("variable %s with %s is not set in the worker's environment", env, what)
	}
	return "", nil
}

func (v *validator) providers() {
	for _, name := range v.names("$.providers", slices.Sorted(maps.Keys(v.config.Providers))) {
		path, p := spec.FieldPath("$.providers", name), v.config.Providers[name]
		v.breaker(path, p.Breaker)
		if own := p.Format.Programs().OwnPath; own != "" && strings.HasSuffix(strings.TrimRight(p.BaseURL, "/"), own) {
			v.add(path+".base_url", "ends in %s, which is appended to it; leave that out", own)
		}
		switch {
		case p.KeyEnv != "" && p.KeyFile != "":
			v.add(path+".key_file", "is set, and key_env, too; a provider has one key")
		case p.KeyEnv == "" && p.KeyFile == "" && p.BaseURL == "":
			v.add(path+".key_env", "is missing; write it like `key_env: ANTHROPIC_API_KEY`, or give key_file or base_url instead")
		}
		for _, model := range slices.Sorted(maps.Keys(p.Models)) {
			v.prices(spec.FieldPath(path+".models", model), p.Models[model])
			if i := strings.Index(model, "*"); i >= 0 && i < len(model)-1 {
				v.add(spec.FieldPath(path+".models", model), "has a * within the name; it can only be at the end")
			}
		}
	}
}

func (v *validator) prices(path string, p cost.Prices) {
	if p.Input > 0 && p.Output == 0 {
		v.add(path+".output", "is missing or 0, where input costs money; write what a million tokens of output cost")
	} else if p.Output > 0 && p.Input == 0 {
		v.add(path+".input", "is missing or 0, where output costs money; write what a million tokens of input cost")
	}
	for i, w := range p.When {
		at := spec.ItemPath(path+".when", i)
		same := func(tier string, above int64) int {
			return slices.IndexFunc(p.When, func(other cost.When) bool { return other.Tier == tier && other.Above == above })
		}
		switch {
		case w.Tier == "" && w.Above == 0:
			v.add(at, "has neither tier nor above; say when the prices are others")
		case same(w.Tier, w.Above) < i:
			v.add(at, "has the same tier and above as an entry before it; leave one out")
		case w.Tier != "" && same(w.Tier, 0) < 0:
			v.add(at, "has prices of tier %s for long prompts only; add an entry with this tier and without above",
				textfmt.Shorten(w.Tier, 80))
		case p.Input > 0 && (w.Input == 0 || w.Output == 0):
			v.add(at, "has no input or no output; write what a million tokens of each cost")
		}
	}
}

// reached checks what an agent says of its providers.
func (v *validator) reached(path string, d Definition) {
	names := d.providers()
	if len(names) == 1 && (d.Breaker.Name != "" || !same(d.Breaker.For("x"), spec.Breaker{}.For("x"))) {
		v.add(path+".breaker", "is set, but the agent has the breaker of its provider; set it at providers.%s.breaker", names[0])
	}
	if len(d.Gateway) > 0 {
		v.gateway(path, d)
	}
	for _, name := range names {
		p := v.config.Providers[name]
		if program := preset.For(d.Preset); program != nil && program.API != p.Format {
			continue // the program has another provider
		}
		model, _, _ := strings.Cut(d.Model, "[") // claude-sonnet-4-5[1m]
		if d.Preset != "" && !strings.Contains(model, "-") {
			continue // a short name like sonnet, which the program knows
		}
		if _, offered := cost.PriceList(p.Models).For(model); d.Model != "" && !offered {
			v.add(path+".model", "is %s, which is not among the models of provider %s; add it there with its prices",
				textfmt.Shorten(d.Model, 80), textfmt.Shorten(name, 80))
		}
	}
	if d.Provider == "" {
		return
	}
	v.knownProvider(path+".provider", d.Provider)
	p := v.config.Providers[d.Provider]
	if its := p.Format.Programs(); its.Instead != "" {
		v.add(path+".provider", "has format %s, which kind model does not speak; %s", p.Format,
			fmt.Sprintf(its.Instead, textfmt.Shorten(d.Provider, 80)))
	}
}

func (v *validator) knownProvider(path, name string) {
	known := slices.Sorted(maps.Keys(v.config.Providers))
	if !slices.Contains(known, name) {
		shown := textfmt.Shorten(name, 80)
		v.add(path, "%q is not among the providers%s; define it, like `providers: {%s: {format: anthropic, key_env: "+
			"ANTHROPIC_API_KEY}}`",
			shown, textfmt.DidYouMean(name, known), shown)
	}
}
