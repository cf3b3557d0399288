package agent

import (
	"net/url"
	"strings"

	"github.com/maestro-hive/maestro/internal/team"
)

// The bounds of what models may be asked for.
const (
	maxModelTurns   = 10_000
	minOutputTokens = 256
	minContext      = 4096
	maxTokens       = 100_000_000
)

// model checks an agent of kind anthropic or openai.
func (v *validator) model(path string, d Definition) {
	if strings.TrimSpace(d.Model) == "" {
		v.add(path+".model", "is missing; name the model as its provider does")
	}
	v.baseURL(path+".base_url", d)
	if d.APIKeyEnv == "" && d.BaseURL == "" {
		v.add(path+".api_key_env", "is missing; name the variable of the worker's environment that holds the provider's key, like %s_API_KEY", strings.ToUpper(d.Kind))
	}
	for _, f := range []struct {
		field   string
		present bool
	}{
		{"argv", len(d.Argv) > 0},
		{"env", len(d.Env) > 0},
		{"caches", len(d.Caches) > 0},
		{"git", d.Git},
	} {
		if f.present {
			v.add(path+"."+f.field, "belongs to agents that are programs; a model works through tools of Maestro's, so leave it out")
		}
	}
	v.number(path+".max_turns", int64(d.MaxTurns), 1, maxModelTurns)
	v.number(path+".max_output_tokens", d.MaxOutputTokens, minOutputTokens, maxTokens)
	v.number(path+".context_tokens", d.ContextTokens, minContext, maxTokens)
	if full := d.withDefaults(); full.MaxOutputTokens >= full.ContextTokens {
		v.add(path+".max_output_tokens", "is %d, which leaves no room for a prompt in context_tokens: %d", full.MaxOutputTokens, full.ContextTokens)
	}
}

// notModel checks that an agent that is a program has nothing of a model's.
func (v *validator) notModel(path string, d Definition) {
	for _, f := range []struct {
		field   string
		present bool
	}{
		{"base_url", d.BaseURL != ""},
		{"api_key_env", d.APIKeyEnv != ""},
		{"max_output_tokens", d.MaxOutputTokens != 0},
		{"context_tokens", d.ContextTokens != 0},
		{"model", d.Model != "" && d.Preset == ""},
		{"max_turns", d.MaxTurns != 0 && d.Preset == ""},
	} {
		if f.present {
			v.add(path+"."+f.field, "belongs to the kinds anthropic and openai; leave it out, or write one of these as kind")
		}
	}
}

// ownPaths are what is appended to a base_url: whoever ends it in one of them would
// ask for a path that there is not.
var ownPaths = map[string]string{KindAnthropic: "/v1/messages", KindOpenAI: "/chat/completions"}

func (v *validator) baseURL(path string, d Definition) {
	base := d.BaseURL
	if base == "" {
		return
	}
	u, err := url.Parse(base)
	switch {
	case err != nil, u.Scheme != "http" && u.Scheme != "https", u.Host == "":
		v.add(path, "is %q; write an http or https URL, like http://localhost:11434/v1", team.Shorten(base, 80))
	case u.User != nil:
		v.add(path, "has a user or password in it; keep secrets in the worker's environment (api_key_env)")
	case u.RawQuery != "" || u.Fragment != "":
		v.add(path, "has a query or a fragment; paths of the API are appended to it, so leave them out")
	case ownPaths[d.Kind] != "" && strings.HasSuffix(strings.TrimRight(base, "/"), ownPaths[d.Kind]):
		v.add(path, "ends in %s, which is appended to it; leave that out", ownPaths[d.Kind])
	}
}

// prices checks what tokens cost.
func (v *validator) prices(path string, p *team.Prices) {
	if p == nil {
		return
	}
	for _, f := range []struct {
		field string
		price team.USD
	}{
		{"input", p.Input},
		{"output", p.Output},
		{"cache_read", p.CacheRead},
		{"cache_write", p.CacheWrite},
	} {
		if f.price < 0 {
			v.add(path+"."+f.field, "is %s; a price is in USD per million tokens, and not negative", f.price)
		}
	}
	switch {
	case p.Input > 0 && p.Output == 0:
		v.add(path+".output", "is missing or 0, where input costs money; write what a million tokens of output cost")
	case p.Output > 0 && p.Input == 0:
		v.add(path+".input", "is missing or 0, where output costs money; write what a million tokens of input cost")
	}
}
