package main

import (
	"github.com/invopop/jsonschema"

	"github.com/maestro-hive/maestro/internal/agent"
	"github.com/maestro-hive/maestro/internal/store"
	"github.com/maestro-hive/maestro/internal/team"
)

var (
	variable = matching(variablePattern)
	// passed are variables that agents and checks may be given: not those that
	// every attempt gets from Maestro.
	passed   = together(variable, unlike(`^(HOME|TMPDIR|GIT_CEILING_DIRECTORIES|MAESTRO_RESULT)$`))
	argv     = together(entries(1, 1000), program)
	address  = together(matching(addressPattern), unlike(`[\x00-\x1f]`))
	cloudURL = `^[hH][tT][tT][pP][sS]?://[^/?#]*\.([aA][tT][lL][aA][sS][sS][iI][aA][nN]\.[nN][eE][tT]|[jJ][iI][rR][aA]\.[cC][oO][mM])(:[0-9]*)?([/?#]|$)`
)

// program holds the first entry of an argv to be one.
func program(s *jsonschema.Schema) {
	s.PrefixItems = []*jsonschema.Schema{{Pattern: filled}}
	// In its own schema, items would hold the entries past the first only.
	s.AllOf = append(s.AllOf, &jsonschema.Schema{Items: s.Items})
	s.Items = nil
}

// ofKind is what goes with each kind of agent.
var ofKind = []rule{
	when("kind", agent.KindCommand, &jsonschema.Schema{
		AnyOf:      []*jsonschema.Schema{requiring("argv"), requiring("preset")},
		Properties: without("base_url", "api_key_env", "max_output_tokens", "context_tokens").Properties,
	}),
	when("kind", agent.KindAnthropic, model, having(field{"base_url", &jsonschema.Schema{Not: &jsonschema.Schema{Type: "string", Pattern: `/v1/messages/*$`}}})),
	when("kind", agent.KindOpenAI, model, having(field{"base_url", &jsonschema.Schema{Not: &jsonschema.Schema{Type: "string", Pattern: `/chat/completions/*$`}}})),
	func(s *jsonschema.Schema) { // only programs of presets have a model, only Claude's a bound of turns
		condition := having(field{"kind", &jsonschema.Schema{Const: agent.KindCommand}})
		condition.Required, condition.Not = []string{"kind"}, requiring("preset")
		s.AllOf = append(s.AllOf,
			&jsonschema.Schema{If: condition, Then: without("model", "max_turns")},
			&jsonschema.Schema{If: &jsonschema.Schema{
				Properties: having(field{"preset", &jsonschema.Schema{Not: &jsonschema.Schema{Const: "claude"}}}).Properties,
				Required:   []string{"preset"},
			}, Then: without("max_turns")})
	},
}

var (
	noRepository = having(field{"git", &jsonschema.Schema{Const: false}})
	model        = &jsonschema.Schema{
		Required:   []string{"model"},
		AnyOf:      []*jsonschema.Schema{requiring("api_key_env"), requiring("base_url")},
		Properties: without("argv", "env", "caches", "preset", "reserve").Properties,
		AllOf:      []*jsonschema.Schema{noRepository},
	}
)

// workerRules are what [agent.Config.Faults] looks at, as far as a schema can say it.
var workerRules = rules{
	"Config.version": {always(1)},
	"Config.agents":  {keys(name), entries(1, 0)},
	"Config.checks":  {keys(name)},
	"Config.caches":  {keys(name)},
	"Config.secrets": {once, each(variable)},
	"Config.sandbox": {argv},
	"Config.web_ui":  {address},

	"Definition":                   ofKind,
	"Definition.kind":              {one(agent.KindCommand, agent.KindAnthropic, agent.KindOpenAI)},
	"Definition.argv":              {argv},
	"Definition.env":               {once, each(passed)},
	"Definition.caches":            {once, each(name)},
	"Definition.git":               {otherwise(false)},
	"Definition.timeout":           {otherwise(agent.DefaultTimeout)},
	"Definition.idle_timeout":      {otherwise(agent.DefaultIdleTimeout)},
	"Definition.concurrency":       {between(1, 1000)},
	"Definition.model":             {matching(filled)},
	"Definition.base_url":          {address},
	"Definition.api_key_env":       {variable},
	"Definition.max_turns":         {between(1, 10_000)},
	"Definition.max_output_tokens": {between(256, 100_000_000)},
	"Definition.context_tokens":    {between(4096, 100_000_000)},
	"Definition.preset":            {one("claude", "codex", "gemini")},
	"Definition.fallback":          {name},

	"Cap.tokens": {func(s *jsonschema.Schema) { s.Minimum = "1" }},
	"Cap.usd":    {money(0)},
	"Prices":     {optional, costly("input", "output"), costly("output", "input")},

	"Breaker.name":         {name},
	"Breaker.threshold":    {between(1, 1000), otherwise(team.DefaultThreshold)},
	"Breaker.cooldown":     {otherwise(team.DefaultCooldown)},
	"Breaker.max_cooldown": {otherwise(team.DefaultMaxCooldown)},
	"Breaker.probes":       {between(1, 10), otherwise(team.DefaultProbes)},
	"Breaker.counts":       {once},

	"CheckDefinition.argv":     {argv},
	"CheckDefinition.timeout":  {otherwise(agent.DefaultCheckTimeout)},
	"CheckDefinition.env":      {once, each(passed)},
	"CheckDefinition.caches":   {once, each(name)},
	"CheckDefinition.keep":     {once, each(glob)},
	"CheckDefinition.category": {one(team.TestFailure, team.Syntax), otherwise(team.TestFailure)},
	"Cache.env":                {passed},

	"Limits.files":         {between(1, 10_000_000), otherwise(agent.DefaultFiles)},
	"Limits.file_bytes":    {between(1, 100_000_000_000), otherwise(agent.DefaultFileBytes)},
	"Limits.tree_bytes":    {between(1, 10_000_000_000_000), otherwise(agent.DefaultTreeBytes)},
	"Limits.disk_bytes":    {between(1, 50_000_000_000_000)},
	"Limits.output_bytes":  {between(4000, 1_000_000_000), otherwise(agent.DefaultOutputBytes)},
	"Limits.lost_workers":  {between(1, 100), otherwise(agent.DefaultLostWorkers)},
	"Retention.keep":       {between(1, 1_000_000), otherwise(store.DefaultKeep)},
	"Retention.older_than": {otherwise(team.Duration(store.DefaultOlderThan))},

	"Jira": {
		when("deployment", agent.JiraCloud, requiring("email_env")),
		when("deployment", agent.JiraDataCenter, without("email_env"), having(field{"url", &jsonschema.Schema{Not: &jsonschema.Schema{Type: "string", Pattern: cloudURL}}})),
	},
	"Jira.url":           {address},
	"Jira.deployment":    {one(agent.JiraCloud, agent.JiraDataCenter)},
	"Jira.email_env":     {variable},
	"Jira.token_env":     {variable},
	"Jira.index_delay":   {otherwise(agent.DefaultIndexDelay)},
	"Jira.timeout":       {otherwise(agent.DefaultJiraTimeout)},
	"Webhook.url_env":    {variable},
	"Webhook.secret_env": {variable},
	"Webhook.timeout":    {otherwise(agent.DefaultWebhookTimeout)},
}

// costly requires a price where another is above 0.
func costly(key, other string) rule {
	above := func() *jsonschema.Schema { return &jsonschema.Schema{ExclusiveMinimum: "0"} }
	then := having(field{other, above()})
	then.Required = []string{other}
	return given(field{key, above()}, then)
}
