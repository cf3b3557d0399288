package config

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// soundWorker is a worker file without problems.
const soundWorker = "version: 1\nagents: {a: {kind: command, argv: [x]}}\n"

func TestWorkerFaults(t *testing.T) {
	t.Parallel()
	good, models := soundWorker, "providers: {p: {format: openai, base_url: 'http://c'}}\n"
	for _, c := range []struct{ name, yaml, path, message string }{
		{"nothing", "{}", "version", "is missing; write it like `version: 1`"},
		{"another version", "version: 2", "version", "is 2"},
		{"no agents", "version: 1", "agents", "is missing; write it like `agents: {coder: "},
		{"a provider without a key", "providers: {p: {format: openai}}", "providers.p.key_env", "is missing; write it like `key_env: "},
		{
			"a provider with two keys", "providers: {p: {format: openai, key_env: K, key_file: k}}", "providers.p.key_file",
			"has one key",
		},
		{
			"a password in an address", "providers: {p: {format: openai, base_url: 'http://a:b@c'}}", "providers.p.base_url",
			"credentials come from the worker's environment",
		},
		{
			"a query in an address", "providers: {p: {format: openai, base_url: 'http://c?d=e'}}", "providers.p.base_url",
			"has a query or a fragment",
		},
		{
			"a whole address", "providers: {p: {format: openai, base_url: 'http://c/v1/chat/completions/'}}", "providers.p.base_url",
			"ends in /chat/completions, which is appended",
		},
		{
			"a * in a name", "providers: {p: {format: openai, key_env: K, models: {'a*b': {}}}}", "providers.p.models.'a*b'",
			"it can only be at the end",
		},
		{"a model of another provider", "providers: {p: {format: openai, key_env: K, models: {'gpt-*': {}}}}\nagents: {a: {kind: " +
			"model, model: gpt, provider: p}}", "agents.a.model", "not among the models of provider p"},
		{
			"a program's model that its provider does not have", "providers: {p: {format: openai, key_env: K, models: {'gpt-4*': " +
				"{}}}}\nagents: {a: {kind: command, preset: codex, model: gpt-5, gateway: [p]}}", "agents.a.model",
			"not among the models of provider p",
		},
		{"turns of a program with a gateway", "providers: {p: {format: openai, key_env: K}}\nagents: {a: {kind: command, preset: " +
			"codex, gateway: [p], max_turns: 3}}", "agents.a.max_turns", "bound it by timeout, and by its persona's budget"},
		{
			"a breaker beside that of the provider", models + "agents: {a: {kind: model, model: m, provider: p, breaker: {probes: 2}}}",
			"agents.a.breaker", "set it at providers.p.breaker",
		},
		{"prices beside those of the provider", models + "agents: {a: {kind: model, model: m, provider: p, prices: {input: 1, " +
			"output: 1}}}", "agents.a.prices", "belongs to kind command"},
		{"other prices for nothing", "providers: {p: {format: openai, key_env: K, models: {m: {input: 1, output: 1, when: [{input: " +
			"1, output: 1}]}}}}", "providers.p.models.m.when[0]", "has neither tier nor above"},
		{"other prices twice", "providers: {p: {format: openai, key_env: K, models: {m: {input: 1, output: 1, when: [{above: 9, " +
			"input: 1, output: 1}, {above: 9, input: 2, output: 2}]}}}}", "providers.p.models.m.when[1]", "the same tier and above"},
		{
			"a tier for long prompts only", "providers: {p: {format: openai, key_env: K, models: {m: {input: 1, output: 1, when: " +
				"[{tier: flex, above: 9, input: 1, output: 1}]}}}}", "providers.p.models.m.when[0]",
			"add an entry with this tier and without above",
		},
		{"other prices without output", "providers: {p: {format: openai, key_env: K, models: {m: {input: 1, output: 1, when: " +
			"[{above: 9, input: 1}]}}}}", "providers.p.models.m.when[0]", "has no input or no output"},
		{
			"a provider's price", "providers: {p: {format: openai, key_env: K, models: {m: {input: 1}}}}", "providers.p.models.m.output",
			"is missing or 0",
		},
		{
			"an agent's breaker named like a provider's", models +
				"agents: {a: {kind: model, model: m, provider: p}, b: {kind: command, argv: [x], breaker: {name: p, probes: 2}}}",
			"agents.b.breaker", "differs from that of agent a",
		},
		{
			"a network that is none", "agents: {a: {kind: command, argv: [x], network: github.com}}", "agents.a.network",
			`"github.com" is neither host nor none; write hosts as a list, like [github.com`,
		},
		{
			"a number as a network", "agents: {a: {kind: command, argv: [x], network: 3}}", "agents.a.network",
			"must be host, none or a list of hosts",
		},
		{
			"no hosts", "agents: {a: {kind: command, argv: [x], network: []}}", "agents.a.network",
			"is empty; it needs an entry, like `github.com`",
		},
		{
			"a word among hosts", "agents: {a: {kind: command, argv: [x], network: [none]}}", "agents.a.network[0]",
			"write it without a list, like `network: none`",
		},
		{
			"an address as a host", "agents: {a: {kind: command, argv: [x], network: [a.com, 'https://b.com']}}", "agents.a.network[1]",
			"write its host, like example.com",
		},
		{
			"a network of addresses", "agents: {a: {kind: command, argv: [x], network: [10.0.0.0/8]}}", "agents.a.network[0]",
			"has a path",
		},
		{
			"letters that DNS does not have", "agents: {a: {kind: command, argv: [x], network: [bücher.de]}}", "agents.a.network[0]",
			"begins with xn--",
		},
		{
			"hosts of any form", "agents: {a: {kind: command, argv: [x], network: ['git*.com']}}", "agents.a.network[0]",
			"*. at the beginning",
		},
		{
			"a port that is none", "agents: {a: {kind: command, argv: [x], network: ['a.com:http']}}\nisolation: auto",
			"agents.a.network[0]", "write a number from 1 to 65535",
		},
		{
			"a network without rooms", good + "isolation: none\nchecks: {c: {argv: [x], network: [a.com]}}", "checks.c.network",
			"needs rooms; write `isolation: required`",
		},
		{
			"a credential for nobody", good + "credentials: [{host: a.com, secret_env: S}]", "credentials[0].host",
			"is a.com, which no network lists",
		},
		{
			"a credential for an address", good + "credentials: [{host: 10.0.0.1, secret_env: S}]", "credentials[0].host",
			"is an address; credentials are for names",
		},
		{"a credential of two forms", "agents: {a: {kind: command, argv: [x], network: ['*.com']}}\nisolation: auto\ncredentials: " +
			"[{host: a.com, secret_env: S, username: u, header: X-Key}]", "credentials[0].header", "conflicts with username"},
		{"a credential that is framing", "agents: {a: {kind: command, argv: [x], network: ['*.com']}}\nisolation: auto\ncredentials: " +
			"[{host: a.com, secret_env: S, header: Host}]", "credentials[0].header", "is no header that a credential can have"},
		{"a credential in the room, too", "agents: {a: {kind: command, argv: [x], network: ['*.com'], env: [PATH, S]}}\nisolation: " +
			"auto\ncredentials: [{host: a.com, secret_env: S}]", "agents.a.env[1]", "is the secret of the credential for a.com"},
		{"a delivery without credentials", "agents: {a: {kind: delivery}}", "agents.a.token_env", "is missing"},
		{
			"a delivery with two accounts", "agents: {a: {kind: delivery, token_env: T, app: {id: 1, key_env: K}}}", "agents.a.app",
			"conflicts with token_env",
		},
		{"an app of GitLab", "agents: {a: {kind: delivery, host: gitlab, app: {id: 1, key_env: K}}}", "agents.a.app", "is for GitHub"},
		{"an app without a key", "agents: {a: {kind: delivery, app: {id: 1}}}", "agents.a.app.key_env", "or give key_file instead"},
		{
			"an app with two keys", "agents: {a: {kind: delivery, app: {id: 1, key_env: K, key_file: k}}}", "agents.a.app.key_file",
			"conflicts with key_env",
		},
		{"another host", "agents: {a: {kind: delivery, host: gitea, token_env: T}}", "agents.a.host", "must be github or gitlab"},
		{
			"the other host's address", "agents: {a: {kind: delivery, url: 'https://GitLab.com', token_env: T}}", "agents.a.url",
			"write `host: gitlab`",
		},
		{
			"an address of an API", "agents: {a: {kind: delivery, url: 'https://ghe.example.com/api/v3', token_env: T}}", "agents.a.url",
			"is the address of an API",
		},
		{"a delivery as a model", "agents: {a: {kind: delivery, token_env: T, model: m}}", "agents.a.model", "command or model"},
		{"a program's token", "agents: {a: {kind: command, argv: [x], token_env: T}}", "agents.a.token_env", "to kind delivery"},
		{"a program's host", "agents: {a: {kind: command, argv: [x], host: github}}", "agents.a.host", "belongs to kind delivery"},
		{
			"a delivery's fallback", "agents: {a: {kind: delivery, token_env: T, fallback: b}, b: {kind: command, argv: [x]}}",
			"agents.a.fallback", "belongs to kind command or model",
		},
		{
			"a delivery as a fallback", "agents: {a: {kind: delivery, token_env: T}, b: {kind: command, argv: [x], fallback: a}}",
			"agents.b.fallback", `is "a", which delivers and does no other work`,
		},
		{
			"a token for a program, too", "agents: {a: {kind: delivery, token_env: T}, b: {kind: command, argv: [x], env: [PATH, T]}}",
			"agents.b.env[1]", `has the credentials of agent "a"`,
		},
		{
			"a key for a check, too", "agents: {a: {kind: delivery, app: {id: 1, key_env: K}}}\nchecks: {c: {argv: [x], env: [K]}}",
			"checks.c.env[0]", `has the credentials of agent "a"`,
		},
		{"too many turns", "agents: {a: {kind: model, model: m, max_turns: 10001}}", "agents.a.max_turns", "between 1 and 10000"},
		{
			"too short answers", "agents: {a: {kind: model, model: m, max_output_tokens: 1}}", "agents.a.max_output_tokens",
			"between 256 and",
		},
		{
			"no room for a prompt", "agents: {a: {kind: model, model: m, context_tokens: 8000}}", "agents.a.max_output_tokens",
			"leaves no room for a prompt in context_tokens: 8000",
		},
		{
			"output for nothing", "agents: {a: {kind: command, argv: [x], prices: {input: 1}}}", "agents.a.prices.output",
			"is missing or 0",
		},
		{
			"input for nothing", "agents: {a: {kind: command, argv: [x], prices: {output: 1}}}", "agents.a.prices.input",
			"is missing or 0",
		},
		{"an empty program", "agents: {a: {kind: command, argv: ['']}}", "agents.a.argv[0]", "first entry is the program"},
		{"a NUL", `agents: {a: {kind: command, argv: [a, "b\0"]}}`, "agents.a.argv[1]", "NUL"},
		{
			"names that differ by case", "agents: {a: {kind: command, argv: [x]}, A: {kind: command, argv: [x]}}", "agents.a",
			"only by case",
		},
		{"a variable of ours", "agents: {a: {kind: command, argv: [x], env: [HOME]}}", "agents.a.env[0]", "set by Maestro"},
		{"one variable for two caches", good + "caches: {c: {env: X}, d: {env: X}}", "caches.d.env", "cache c sets"},
		{
			"a Jira with a password", good + "jira: {url: 'https://a:b@x.org', deployment: datacenter, token_env: T}", "jira.url",
			"credentials come from the worker's environment",
		},
		{
			"a Jira with a query", good + "jira: {url: 'https://x.org/?os_x=1', deployment: datacenter, token_env: T}", "jira.url",
			"a query or a fragment",
		},
		{
			"a Jira of no deployment", good + "jira: {url: 'https://x.org', token_env: T}", "jira.deployment",
			"is missing; write it like `deployment: cloud`; it is the kind of Jira",
		},
		{
			"a server with an email", good + "jira: {url: 'https://x.org', deployment: datacenter, email_env: E, token_env: T}",
			"jira.email_env", "leave it out",
		},
		{
			"a fallback to itself", "agents: {a: {kind: command, argv: [x], fallback: a}}", "agents.a.fallback",
			"leads back to the agent itself (a -> a)",
		},
		{
			"fallbacks in a circle", "agents: {a: {kind: command, argv: [x], fallback: b}, b: {kind: command, argv: [x], fallback: a}}",
			"agents.a.fallback", "(a -> b -> a)",
		},
		{"a breaker set in two ways", "agents: {a: {kind: command, argv: [x], breaker: {name: p}}, b: {kind: command, argv: [x], " +
			"breaker: {name: p, probes: 2}}}", "agents.b.breaker", "differs from that of agent a"},
		{"breakers that only case tells apart", "agents: {a: {kind: command, argv: [x], breaker: {name: p}}, b: {kind: command, " +
			"argv: [x], breaker: {name: P}}}", "agents.b.breaker.name", "only by case"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			require.Contains(t, strings.Join(said(t, c.yaml, false)[c.path], "\n"), c.message)
		})
	}
	for _, file := range []string{
		good,
		"version: 1\nagents: {a: {kind: delivery, token_env: T, concurrency: 3, timeout: 1m, breaker: {probes: 2}}, b: {kind: " +
			"delivery, host: gitlab, url: 'http://localhost:8080/git', token_env: T}, c: {kind: delivery, app: {id: 1, installation: 2, " +
			"key_file: k}}}\n",
		"version: 1\nagents: {a: {kind: model, model: m-5, provider: p, max_turns: 9}}\nproviders: {p: {format: anthropic, key_env: " +
			"KEY, models: {m*: {input: 3, output: 15}}}}\n",
		"version: 1\nagents: {a: {kind: model, model: m, provider: p}}\nproviders: {p: {format: openai, base_url: " +
			"'http://localhost:11434/v1'}}\n",
		"version: 1\nagents: {a: {kind: command, preset: claude, max_turns: 9}, b: {kind: command, preset: codex, model: m}, d: " +
			"{kind: command, preset: claude, model: sonnet, gateway: [p]}, e: {kind: command, preset: claude, model: 'claude-x[1m]', " +
			"gateway: [p]}, c: {kind: command, preset: gemini, argv: [gemini, -o, stream-json]}}\nproviders: {p: {format: anthropic, " +
			"key_env: K, models: {claude-x: {}}}}\n",
		"version: 1\nagents: {a: {kind: command, argv: [x], fallback: c, reserve: {tokens: 5, usd: 0.5}, prices: {input: 1, output: " +
			"2}}, b: {kind: command, argv: [x], fallback: c}, c: {kind: command, argv: [x]}}\n",
	} {
		require.Empty(t, said(t, file, false))
	}
}

// said are the messages on a file's fields.
func said(t *testing.T, text string, isTeam bool) map[string][]string {
	t.Helper()
	src, problem := newSource("f.yaml", []byte(text))
	require.Nil(t, problem)
	var err error
	if isTeam {
		_, err = parseTeam(src, noFiles)
	} else {
		_, err = parseWorker(src, "/")
	}
	found := map[string][]string{}
	if err != nil {
		var problems *Problems
		require.ErrorAs(t, err, &problems)
		for _, f := range problems.List {
			found[f.Field] = append(found[f.Field], f.Message)
		}
	}
	return found
}
