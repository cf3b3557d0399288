package main

import (
	"github.com/invopop/jsonschema"

	"github.com/maestro-hive/maestro/internal/team"
)

var (
	name  = matching(namePattern)
	names = together(each(name), entries(0, 200), once)

	// glob is a pattern of files, as [team.CheckPattern] takes it.
	glob = together(
		matching(filled, `^([^{}]*\{[^{}]*\})*[^{}]*$`, `^([^\[\]]|\[[!^]?([^\]\[{}/!^\-](-[^\]\[{}/!^\-])?)+\])*$`),
		unlike(`^\s`, `\s$`, `[\x00-\x1f\\]`, `^/`, `/$`, `//`, `(^|/)\.\.?(/|$)`, `^\.git(/|$)`, `[^/]\*\*`, `\*\*[^/]`), longest(512))
	globs = together(entries(0, 200), once, each(glob))

	jiraName = together(matching(filled), unlike(`[\x00-\x1f]`), longest(255))

	capped = map[string]rule{"tokens": between(1, 1_000_000_000_000), "usd": money(1_000_000)}
)

// teamRules are what [team.Team.Faults] looks at, as far as a schema can say it.
var teamRules = rules{
	"Team.version":     {always(1)},
	"Team.name":        {name},
	"Team.description": {longest(4096)},
	"Team.personas":    {keys(name, unlike(`^[sS][eE][aA][lL]$`)), entries(1, 256)},
	"Team.phases":      {entries(1, 200)},
	"Team.ignore":      {entries(0, 200), once, each(matching(filled, `^[^#]`), unlike(`^\s`, `\s$`, `[\x00-\x1f]`), longest(512))},

	"Persona":                   {either("instructions", "instructions_file", false)},
	"Persona.role":              {matching(filled), longest(200)},
	"Persona.agent":             {name},
	"Persona.instructions":      {matching(filled), longest(team.MaxInstructions)},
	"Persona.instructions_file": {matching(`^[^/]`)},
	"Persona.attempts":          {between(1, 20)},
	"Persona.max_turns":         {between(1, 1000)},
	"Persona.fallback":          {otherwise(false)},
	"Persona.produces":          {globs},
	"Persona.checks":            {names},

	"Phase.name":       {name, unlike(`^[iI][nN][iI][tT]$`)},
	"Phase.needs":      {names},
	"Phase.personas":   {names, entries(1, 64)},
	"Phase.order":      {one(team.OrderParallel, team.OrderSequence), otherwise(team.OrderParallel)},
	"Phase.produces":   {globs},
	"Phase.checks":     {names},
	"Phase.integrator": {name},
	"Phase.approve":    {otherwise(false)},
	"SendsBack.to":     {name},
	"SendsBack.times":  {between(1, 20), otherwise(team.DefaultSendsBack)},

	"Retry.attempts":      {between(1, 20), otherwise(team.DefaultAttempts)},
	"Retry.rounds":        {between(1, 10), otherwise(team.DefaultRounds)},
	"Retry.initial":       {otherwise(team.DefaultInitial)},
	"Retry.max":           {otherwise(team.DefaultMax)},
	"Retry.round_initial": {otherwise(team.DefaultRoundInitial)},
	"Retry.round_max":     {otherwise(team.DefaultRoundMax)},
	"Retry.patience":      {orZero, otherwise(team.DefaultPatience)},
	"Retry.on_outage":     {one(team.OutageWait, team.OutageFail), otherwise(team.OutageWait)},

	"Cap.tokens":         {capped["tokens"]},
	"Cap.usd":            {capped["usd"]},
	"Budget.tokens":      {capped["tokens"]},
	"Budget.usd":         {capped["usd"]},
	"Budget.warn_at":     {once, each(func(s *jsonschema.Schema) { s.ExclusiveMinimum, s.ExclusiveMaximum = "0", "1" })},
	"Budget.on_exceeded": {one(team.OnExceededStop, team.OnExceededAsk, team.OnExceededDegrade), otherwise(team.OnExceededStop)},

	"Help.mode":           {one(team.HelpAsk, team.HelpFail), otherwise(team.HelpAsk)},
	"Help.give_up_after":  {otherwise(team.DefaultGiveUpAfter)},
	"HelpJira.project":    {matching(`^[A-Z][A-Z0-9_]*$`), longest(255)},
	"HelpJira.type":       {jiraName, otherwise(team.DefaultTicketType)},
	"HelpJira.labels":     {entries(0, 200), once, each(jiraName, unlike(`\s`, `^[mM][aA][eE][sS][tT][rR][oO]-`))},
	"HelpJira.components": {entries(0, 200), once, each(jiraName)},
	"HelpJira.priorities": {keys(referring("Category")), values(jiraName)},
	"HelpJira.fields": {values(referring("Plain")), keys(matching(`^[A-Za-z][A-Za-z0-9_]*$`),
		unlike(`^(project|issuetype|labels|components|priority|summary|description)$`))},
}
