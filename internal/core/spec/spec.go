package spec

import (
	"slices"
	"time"

	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
)

// Team is a team file after parsing: who works (personas), in which order
// (phases), and within which limits. [Team.Resolved] fills in what the file
// leaves out; everything past admission works on a resolved team only.
type Team struct {
	// Version is the version of the file's format. The only one is 1.
	Version int `json:"version" yaml:"version" jsonschema:"enum=1" example:"1"`
	// Name identifies the team in listings, ids and tickets.
	Name string `json:"name" yaml:"name" jsonschema:"format=name" example:"web-service"`
	// Description is what the team is for.
	Description string `json:"description,omitempty" yaml:"description,omitempty" jsonschema:"maxLength=4096"`
	// Personas are the roles, by name.
	Personas map[string]Persona `json:"personas" yaml:"personas" jsonschema:"minProperties=1,maxProperties=256" example:"{dev: {role: Developer, agent: coder, instructions: ...}}"`
	// Phases are the steps of the work. Where needs leaves the order open, results are
	// merged in the order of the file.
	Phases []Phase `json:"phases" yaml:"phases" jsonschema:"minItems=1,maxItems=200" example:"[{name: build, personas: [dev]}]"`
	// Retry holds the limits and waits of both retry levels.
	Retry Retry `json:"retry" yaml:"retry,omitempty"`
	// Budget caps what a session may spend.
	Budget Budget `json:"budget" yaml:"budget,omitempty"`
	// Help is what happens when a person is needed.
	Help Help `json:"help" yaml:"help,omitempty"`
	// Alerts are the rules by which alerts are raised: a session costs much, waits long or fails
	// often.
	Alerts []Alert `json:"alerts,omitempty" yaml:"alerts,omitempty" jsonschema:"maxItems=20" example:"[{cost_usd: 20}, {waiting: 30m}, {failure_rate: 0.5, of: 10}]"`
	// Ignore lists patterns, as in a .gitignore, of files that never become artifacts, even if git tracks them.
	Ignore []string `json:"ignore,omitempty" yaml:"ignore,omitempty" jsonschema:"format=ignored,maxItems=200,uniqueItems=true"`
}

// Persona is a role in the team and the agent that plays it.
type Persona struct {
	// Role is the persona's title. It is part of the prompt.
	Role string `json:"role" yaml:"role" jsonschema:"format=filled,maxLength=200" example:"Test engineer"`
	// Agent names the worker-file agent that does the persona's work.
	Agent string `json:"agent" yaml:"agent" jsonschema:"format=name" example:"coder"`
	// Instructions are what the persona does in every phase. Either they or
	// InstructionsFile are required.
	Instructions string `json:"instructions,omitempty" yaml:"instructions,omitempty" jsonschema:"oneof_required=instructions,format=filled,maxLength=262144"`
	// InstructionsFile is a file below the team file's directory that holds the
	// instructions.
	InstructionsFile string `json:"-" yaml:"instructions_file,omitempty" jsonschema:"oneof_required=instructions_file,format=beside"`
	// Attempts is the number of counted attempts in one round of the persona. Default:
	// retry.attempts of the team.
	Attempts int `json:"attempts,omitempty" yaml:"attempts,omitempty" jsonschema:"minimum=1,maximum=20"`
	// Timeout is the time limit of one attempt. The agent's own limit applies if it is
	// shorter. Default: the agent's.
	Timeout textfmt.Duration `json:"timeout,omitempty" yaml:"timeout,omitempty" between:"1s 168h"`
	// Budget caps what the persona may spend in one session.
	Budget Cap `json:"budget,omitzero" yaml:"budget,omitempty"`
	// Fallback lets the fallback of the persona's agent do the work while the agent's
	// breaker is open, and in the round after the agent has refused the work.
	Fallback bool `json:"fallback,omitempty" yaml:"fallback,omitempty"`
	// MaxTurns is the limit of turns in one attempt, for agents that work in turns: models
	// and Claude Code. Default: the agent's.
	MaxTurns int `json:"max_turns,omitempty" yaml:"max_turns,omitempty" jsonschema:"minimum=1,maximum=1000"`
	// Produces lists patterns of files that every attempt must create or change.
	Produces []string `json:"produces,omitempty" yaml:"produces,omitempty" jsonschema:"format=glob,maxItems=200,uniqueItems=true"`
	// Checks names the checks, of the worker file, that every attempt must pass.
	Checks []string `json:"checks,omitempty" yaml:"checks,omitempty" jsonschema:"format=name,maxItems=200,uniqueItems=true"`
}

// Order is how the personas of one phase share its input.
type Order string

// The orders of a phase's personas.
const (
	// OrderParallel lets all personas start from the phase's input.
	OrderParallel Order = "parallel"
	// OrderSequence starts each persona from the tree of the one before.
	OrderSequence Order = "sequence"
)

// Phase is a node of the team's graph.
type Phase struct {
	// Name identifies the phase.
	Name string `json:"name" yaml:"name" jsonschema:"format=name" example:"implementation"`
	// Needs names the phases whose results this phase starts from. An empty list means
	// none. Default: the phase before it in the file.
	Needs []string `json:"needs" yaml:"needs,omitempty" jsonschema:"format=reference,maxItems=200,uniqueItems=true"`
	// Personas are those who work in the phase. Their results are merged in this order.
	Personas []string `json:"personas,omitempty" yaml:"personas,omitempty" jsonschema:"oneof_required=personas,format=reference,minItems=1,maxItems=64,uniqueItems=true" example:"[dev]"`
	// Order is how the personas share the phase's input. With parallel all start from it;
	// with sequence each starts from the result of the one before.
	Order Order `json:"order,omitempty" yaml:"order,omitempty" jsonschema:"enum=parallel,enum=sequence"`
	// Produces lists patterns of files that the phase must create or change.
	Produces []string `json:"produces,omitempty" yaml:"produces,omitempty" jsonschema:"format=glob,maxItems=200,uniqueItems=true"`
	// Checks names the checks, of the worker file, that the phase's merged tree must pass.
	Checks []string `json:"checks,omitempty" yaml:"checks,omitempty" jsonschema:"format=name,maxItems=200,uniqueItems=true"`
	// Protected lists patterns of files that the phase cannot change, like tests/**: they stay
	// as in its input. Changes are reported and not used. Files that match and are new are
	// left out.
	Protected []string `json:"protected,omitempty" yaml:"protected,omitempty" jsonschema:"format=glob,maxItems=200,uniqueItems=true"`
	// Integrator is the persona who fixes the merged tree when results conflict or a
	// check fails. Default: the last one.
	Integrator string `json:"integrator,omitempty" yaml:"integrator,omitempty" jsonschema:"format=reference"`
	// Budget caps what the phase may spend in one session.
	Budget Cap `json:"budget,omitzero" yaml:"budget,omitempty"`
	// Approve makes dependent phases wait until people approve the finished phase. If a
	// person rejects it, it is done again with the reasons. Default: false.
	Approve Approval `json:"approve,omitzero" yaml:"approve,omitempty"`
	// SendsBack lets the phase's personas reject the work of an earlier phase.
	SendsBack *SendsBack `json:"sends_back,omitempty" yaml:"sends_back,omitempty"`
	// Deliver delivers the work so far as a pull request. Such a phase has no personas, checks or outputs of its own.
	Deliver *Deliver `json:"deliver,omitempty" yaml:"deliver,omitempty" jsonschema:"oneof_required=deliver"`
}

// Retry holds the limits and waits of both retry levels.
type Retry struct {
	// Attempts is the number of counted attempts in one round.
	Attempts int `json:"attempts" yaml:"attempts,omitempty" jsonschema:"minimum=1,maximum=20"`
	// Initial is the wait after a round's first failed attempt. It doubles with each
	// further failure.
	Initial textfmt.Duration `json:"initial" yaml:"initial,omitempty" between:"1ms 24h"`
	// Max caps the wait between attempts.
	Max textfmt.Duration `json:"max" yaml:"max,omitempty" between:"1ms 24h"`
	// Rounds is the number of rounds for one assignment.
	Rounds int `json:"rounds" yaml:"rounds,omitempty" jsonschema:"minimum=1,maximum=10"`
	// RoundInitial is the wait after an assignment's first failed round. It doubles with
	// each further failure.
	RoundInitial textfmt.Duration `json:"round_initial" yaml:"round_initial,omitempty" between:"1ms 24h"`
	// RoundMax caps the wait between rounds.
	RoundMax textfmt.Duration `json:"round_max" yaml:"round_max,omitempty" between:"1ms 24h"`
	// Patience is how long an assignment waits for a provider that does not answer before
	// on_outage applies. It starts at the first failure since the last progress, or at the
	// time at which the provider has announced to be available again. With 0s nothing is
	// waited out: a provider's failure uses up an attempt.
	Patience *textfmt.Duration `json:"patience,omitempty" yaml:"patience,omitempty" between:"0s 8760h"`
	// OnOutage is what happens when patience is over. With wait people are notified, and
	// the session waits up to help.give_up_after and continues by itself once the provider
	// answers again. With fail the round fails.
	OnOutage OnOutage `json:"on_outage,omitempty" yaml:"on_outage,omitempty" jsonschema:"enum=wait,enum=fail"`
}

// Cap limits spending. Zero fields do not limit.
type Cap struct {
	// Tokens is the cap of all tokens together, cached or not. Default: no cap.
	Tokens int64 `json:"tokens,omitempty" yaml:"tokens,omitempty" jsonschema:"minimum=1,maximum=1000000000000"`
	// USD is the cap of the cost. Default: no cap.
	USD cost.USD `json:"usd,omitempty" yaml:"usd,omitempty" jsonschema:"exclusiveMinimum=0,maximum=1000000"`
}

// OnExceeded is what happens when a budget is exhausted.
type OnExceeded string

// The reactions to an exhausted budget.
const (
	// OnExceededStop fails the assignment with category token_budget.
	OnExceededStop OnExceeded = "stop"
	// OnExceededAsk parks the session until a person raises the budget.
	OnExceededAsk OnExceeded = "ask"
	// OnExceededDegrade continues with the agent's fallback.
	OnExceededDegrade OnExceeded = "degrade"
)

// Budget caps what a session may spend, and sets when to warn.
type Budget struct {
	// Tokens is the cap of all tokens together, cached or not. Default: no cap.
	Tokens int64 `json:"tokens,omitempty" yaml:"tokens,omitempty" jsonschema:"minimum=1,maximum=1000000000000"`
	// USD is the cap of the cost. Default: no cap.
	USD cost.USD `json:"usd,omitempty" yaml:"usd,omitempty" jsonschema:"exclusiveMinimum=0,maximum=1000000"`
	// Daily caps what all sessions of the team in one store may spend in a day,
	// by UTC.
	Daily Cap `json:"daily,omitzero" yaml:"daily,omitempty"`
	// WarnAt lists fractions of each budget. When one is reached, the worker's log and
	// the session's status show a warning, once each.
	WarnAt []float64 `json:"warn_at,omitempty" yaml:"warn_at,omitempty" jsonschema:"exclusiveMinimum=0,exclusiveMaximum=1,uniqueItems=true"`
	// OnExceeded is what happens when a budget is exhausted. With stop the assignment
	// fails with token_budget. With ask it waits until a person raises the budget. With
	// degrade the agent's fallback continues.
	OnExceeded OnExceeded `json:"on_exceeded,omitempty" yaml:"on_exceeded,omitempty" jsonschema:"enum=stop,enum=ask,enum=degrade"`
}

// Cap is the budget's limit without its reactions.
func (b Budget) Cap() Cap { return Cap{Tokens: b.Tokens, USD: b.USD} }

// Capped reports whether the team has any budget.
func (t Team) Capped() bool {
	return slices.ContainsFunc(t.caps(), func(c Cap) bool { return c != (Cap{}) })
}

// caps lists the team's budgets, in no particular order. Zero ones do not limit.
//
//workflowcheck:ignore
func (t Team) caps() []Cap {
	caps := []Cap{t.Budget.Cap(), t.Budget.Daily}
	for _, p := range t.Phases {
		caps = append(caps, p.Budget)
	}
	for _, p := range t.Personas {
		caps = append(caps, p.Budget)
	}
	return caps
}

// HelpMode is what a session does when an assignment's rounds are used up.
type HelpMode string

// The help modes.
const (
	// HelpFail ends the session as failed with HelpNeeded.
	HelpFail HelpMode = "fail"
	// HelpAsk parks the session until a person answers.
	HelpAsk HelpMode = "ask"
)

// Help is what happens when an assignment's rounds are used up.
type Help struct {
	// Mode is what a session does when an assignment's rounds are used up. With ask it
	// waits for a person's answer, while independent work continues. With fail it ends as
	// failed, with a report of every attempt; only a delivery with merge: ask asks nevertheless.
	Mode HelpMode `json:"mode,omitempty" yaml:"mode,omitempty" jsonschema:"enum=ask,enum=fail"`
	// Jira makes a ticket when a person is needed. Default: none. With mode fail no ticket
	// is made when rounds are used up.
	Jira *HelpJira `json:"jira,omitempty" yaml:"jira,omitempty"`
	// GiveUpAfter is how long a session waits for a person's help, for a raised budget, or
	// for a provider after retry.patience. Then it ends as failed. A wait for approval has
	// no limit.
	GiveUpAfter textfmt.Duration `json:"give_up_after,omitempty" yaml:"give_up_after,omitempty" between:"1s 8760h"`
}

// HelpJira is where and how a session's tickets are made.
type HelpJira struct {
	// Project is the Jira project's key.
	Project string `json:"project" yaml:"project" jsonschema:"format=project,maxLength=255" example:"MD"`
	// Type is the issue type's name.
	Type string `json:"type,omitempty" yaml:"type,omitempty" jsonschema:"format=jiraName,maxLength=255"`
	// Labels are set on every ticket. A label has no spaces and does not begin with
	// maestro-.
	Labels []string `json:"labels,omitempty" yaml:"labels,omitempty" jsonschema:"format=label,maxItems=200,uniqueItems=true,maxLength=255"`
	// Components are set on every ticket, by name.
	Components []string `json:"components,omitempty" yaml:"components,omitempty" jsonschema:"format=jiraName,maxItems=200,uniqueItems=true,maxLength=255"`
	// Priorities maps a failure category to the priority of its tickets. Tickets of other
	// categories get the project's default.
	Priorities map[failures.Category]string `json:"priorities,omitempty" yaml:"priorities,omitempty" jsonschema:"format=jiraName,maxLength=255"`
	// Fields are the values of further fields by id, like customfield_10010, as Jira's API
	// takes them.
	Fields map[string]any `json:"fields,omitempty" yaml:"fields,omitempty" keys:"fieldID"`
}

// SendsBack lets a phase reject the work of an earlier one.
type SendsBack struct {
	// To names the phase that does its work again. This phase must depend on it, directly
	// or not.
	To string `json:"to" yaml:"to" jsonschema:"format=reference"`
	// Times is how often this may happen in one session. After that a person decides.
	Times int `json:"times,omitempty" yaml:"times,omitempty" jsonschema:"minimum=1,maximum=20"`
}

// The defaults of a team file.
const (
	DefaultAttempts     = 3
	DefaultInitial      = textfmt.Duration(time.Second)
	DefaultMax          = textfmt.Duration(5 * time.Second)
	DefaultRounds       = 2
	DefaultRoundInitial = textfmt.Duration(5 * time.Second)
	DefaultRoundMax     = textfmt.Duration(20 * time.Second)
	// DefaultPatience is how long a provider may be away before people are notified.
	DefaultPatience = textfmt.Duration(30 * time.Minute)
	// DefaultTicketType is the type of tickets, DefaultSendsBack how often a
	// phase may send work back.
	DefaultTicketType = "Bug"
	DefaultSendsBack  = 1
	// DefaultGiveUpAfter is how long a waiting session waits for a person.
	DefaultGiveUpAfter = textfmt.Duration(7 * 24 * time.Hour)
)

// Resolved returns the team with every default filled in: needs made explicit,
// integrators named, retry limits set on the team and each persona. It does not
// validate; see [Team.Problems].
func (t Team) Resolved() Team {
	t.Retry = t.Retry.resolved()
	if t.Budget.OnExceeded == "" {
		t.Budget.OnExceeded = OnExceededStop
	}
	if t.Help.Mode == "" {
		t.Help.Mode = HelpAsk
	}
	t.Alerts = slices.Clone(t.Alerts)
	for i, a := range t.Alerts {
		t.Alerts[i] = a.resolved()
	}
	if t.asks() {
		setDefault(&t.Help.GiveUpAfter, DefaultGiveUpAfter)
	}
	if t.Help.Jira != nil {
		tickets := *t.Help.Jira
		setDefault(&tickets.Type, DefaultTicketType)
		t.Help.Jira = &tickets
	}
	personas := make(map[string]Persona, len(t.Personas))
	for name, p := range t.Personas {
		if p.Attempts == 0 {
			p.Attempts = t.Retry.Attempts
		}
		personas[name] = p
	}
	t.Personas = personas
	phases := make([]Phase, len(t.Phases))
	for i, p := range t.Phases {
		if p.Needs == nil {
			p.Needs = []string{}
			if i > 0 {
				p.Needs = []string{t.Phases[i-1].Name}
			}
		}
		if p.Deliver != nil {
			p = p.delivering()
			personas[DeliveryPersona] = deliveryPersona(p.Deliver.To, t.Retry.Attempts)
		} else if p.Order == "" {
			p.Order = OrderParallel
		}
		if p.Integrator == "" && len(p.Personas) > 0 {
			p.Integrator = p.Personas[len(p.Personas)-1]
		}
		if p.SendsBack != nil && p.SendsBack.Times == 0 {
			p.SendsBack = &SendsBack{To: p.SendsBack.To, Times: DefaultSendsBack}
		}
		p.Approve = p.Approve.resolved()
		phases[i] = p
	}
	t.Phases = phases
	return t
}

func (r Retry) resolved() Retry {
	setDefault(&r.Attempts, DefaultAttempts)
	setDefault(&r.Rounds, DefaultRounds)
	r.Initial, r.Max = waits(r.Initial, r.Max, DefaultInitial, DefaultMax)
	r.RoundInitial, r.RoundMax = waits(r.RoundInitial, r.RoundMax, DefaultRoundInitial, DefaultRoundMax)
	if r.Patience == nil {
		patience := DefaultPatience
		r.Patience = &patience
	}
	if *r.Patience > 0 {
		setDefault(&r.OnOutage, OutageWait)
	}
	return r
}

// PatienceOrDefault is how long a provider's outage is waited out before OnOutage applies;
// zero: it is not waited out.
func (r Retry) PatienceOrDefault() textfmt.Duration {
	if r.Patience == nil {
		return DefaultPatience
	}
	return *r.Patience
}

// waits fills in a first and a longest wait. If only one is given, the other's default is adjusted:
// by default the first never exceeds the longest.
func waits(first, longest, defaultFirst, defaultLongest textfmt.Duration) (textfmt.Duration, textfmt.Duration) {
	if longest == 0 {
		longest = max(defaultLongest, first)
	}
	if first == 0 {
		first = min(defaultFirst, longest)
	}
	return first, longest
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// Outline returns the team without its prose (instructions, descriptions): the part that a workflow
// needs, small enough for a history.
func (t Team) Outline() Team {
	t.Description = ""
	personas := make(map[string]Persona, len(t.Personas))
	for name, p := range t.Personas {
		p.Instructions = ""
		personas[name] = p
	}
	t.Personas = personas
	return t
}
