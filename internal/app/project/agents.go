package project

import (
	"errors"
	"fmt"
	"strings"
)

// Agent can do the work.
type Agent struct {
	// Name is that in the worker file, and Title that for people.
	Name, Title string
	// Preset is that of an agent program; empty for a model.
	Preset string
	// Env is the variable with the program's own credential, and Price that of its tokens; empty if Provider has the key.
	Env   string
	Price Price
	// Provider has the model; its name is empty for a program with a credential of its own.
	Provider Provider
	// Model is the name of a model, for an agent that is one.
	Model string
}

// Provider is a server of models.
type Provider struct {
	// Name is that in the worker file, and Format its API.
	Name, Format string
	// KeyEnv is the variable with its key, and BaseURL its address, if that is not the provider's own.
	KeyEnv, BaseURL string
	// Prices are those of its models.
	Prices []Price
}

// Price is what a million tokens cost in US dollars. Model is the name of a model, or its beginning and a *.
type Price struct {
	Model                    string
	Input, Output, CacheRead float64
}

// candidate is an agent that may be there.
type candidate struct {
	title, program, preset string
	// own are variables with credentials that only the program can use, and keys those with a provider's key.
	own, keys []string
	provider  Provider
	// baseURL is the variable with the address of another server.
	baseURL string
	// model works without a program; empty if none can.
	model string
	// install says how to get the program.
	install string
}

// candidates are the agents that are looked for, the first is preferred. Prices are those of the providers' pages in
// November 2026; those of * are for models that a later version of a program chooses, and are high, so that a budget ends early
// rather than late.
var candidates = []candidate{
	{
		title: "Claude Code", program: "claude", preset: "claude", install: "npm install -g @anthropic-ai/claude-code",
		own: []string{"CLAUDE_CODE_OAUTH_TOKEN"}, keys: []string{"ANTHROPIC_API_KEY"}, baseURL: "ANTHROPIC_BASE_URL",
		model: "claude-sonnet-4-5",
		provider: Provider{Name: "anthropic", Format: "anthropic", Prices: []Price{
			{"claude-opus-4-5*", 5, 25, 0.5}, {"claude-sonnet-*", 3, 15, 0.3}, {"claude-haiku-*", 1, 5, 0.1}, {"*", 15, 75, 1.5},
		}},
	},
	{
		title: "Codex", program: "codex", preset: "codex", install: "npm install -g @openai/codex",
		keys: []string{"OPENAI_API_KEY", "CODEX_API_KEY"}, baseURL: "OPENAI_BASE_URL", model: "gpt-5",
		provider: Provider{Name: "openai", Format: "openai", Prices: []Price{
			{"gpt-5-mini*", 0.25, 2, 0.025},
			{"gpt-5-nano*", 0.05, 0.4, 0.005},
			{"gpt-5-pro*", 15, 120, 15},
			{"gpt-5*", 1.25, 10, 0.125},
			{"gpt-6.1-sol*", 2, 10, 0.2},
			{"*", 5, 30, 0.5},
		}},
	},
	{
		title: "Gemini CLI", program: "gemini", preset: "gemini", install: "npm install -g @google/gemini-cli",
		keys: []string{"GEMINI_API_KEY"}, baseURL: "GOOGLE_GEMINI_BASE_URL",
		provider: Provider{Name: "gemini", Format: "gemini", Prices: []Price{
			{"gemini-2.5-flash*", 0.3, 2.5, 0.075}, {"gemini-2.5-pro*", 2.5, 15, 0.625}, {"*", 4, 18, 0.4},
		}},
	},
}

// ownPrice is that of a program with a credential of its own: of the model that Claude Code uses.
var ownPrice = Price{Input: 3, Output: 15, CacheRead: 0.3}

// findAgents are the agents that this machine can run: programs with a credential, then models with a key.
func findAgents(host Host) (all []Agent, err error) {
	var missing []string
	var models []Agent
	for _, c := range candidates {
		p := c.provider
		p.KeyEnv, p.BaseURL = host.firstSet(c.keys), host.Getenv(c.baseURL)
		own := host.firstSet(c.own)
		switch program := host.has(c.program); {
		case program && p.KeyEnv != "":
			all = append(all, Agent{
				Name: c.preset, Title: fmt.Sprintf("%s, with the key in %s", c.title, p.KeyEnv), Preset: c.preset,
				Provider: p,
			})
		case program && own != "":
			all = append(all, Agent{
				Name: c.preset, Title: fmt.Sprintf("%s, with %s", c.title, own), Preset: c.preset, Env: own,
				Price: ownPrice,
			})
		case program:
			missing = append(missing, fmt.Sprintf("%s is installed: set %s", c.title,
				strings.Join(append(c.keys, c.own...), " or ")))
		case p.KeyEnv == "":
			missing = append(missing, fmt.Sprintf("%s: %s, and set %s", c.title, c.install,
				strings.Join(append(c.keys, c.own...), " or ")))
		case c.model == "":
			missing = append(missing, fmt.Sprintf("%s is set: %s", p.KeyEnv, c.install))
		}
		if p.KeyEnv != "" && c.model != "" {
			models = append(models, Agent{
				Name: p.Name, Title: fmt.Sprintf("the model %s, with the key in %s", c.model, p.KeyEnv), Provider: p, Model: c.model,
			})
		}
	}
	if all = append(all, models...); len(all) == 0 {
		return nil, errors.New("no agent can work here. One of these is enough:\n  " + strings.Join(missing, "\n  "))
	}
	return all, nil
}

// firstSet is the first of the variables that has a value; empty if none has.
func (h Host) firstSet(variables []string) string {
	for _, v := range variables {
		if h.Getenv(v) != "" {
			return v
		}
	}
	return ""
}

// Providers are those of the agents, each once.
func (p Project) Providers() (all []Provider) {
	seen := map[string]bool{"": true}
	for _, a := range p.Agents {
		if !seen[a.Provider.Name] {
			seen[a.Provider.Name] = true
			all = append(all, a.Provider)
		}
	}
	return all
}

// Caches are those of the tools, each once.
func (p Project) Caches() (all []Cache) {
	seen := map[string]bool{}
	for _, t := range p.Tools {
		for _, c := range t.Caches {
			if !seen[c.Name] {
				seen[c.Name] = true
				all = append(all, c)
			}
		}
	}
	return all
}
