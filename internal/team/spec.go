package team

import (
	"slices"
	"time"
)

// Team is a team file after parsing: who works (personas), in which order
// (phases), and within which limits. [Team.Resolved] fills in what the file
// leaves out; everything past admission works on a resolved team only.
type Team struct {
	// Version of the team file's format; 1 is the only one.
	Version int `json:"version" yaml:"version"`
	// Name identifies the team in listings, ids and tickets.
	Name string `json:"name" yaml:"name"`
	// Description says what the team is for.
	Description string `json:"description,omitempty" yaml:"description,omitempty"`
	// Personas by name.
	Personas map[string]Persona `json:"personas" yaml:"personas"`
	// Phases in the order of the file, which is also the order in which
	// deltas are folded where the graph leaves a choice.
	Phases []Phase `json:"phases" yaml:"phases"`
	// Retry holds the limits and waits of both retry levels.
	Retry Retry `json:"retry" yaml:"retry,omitempty"`
	// Budget caps what a session may spend.
	Budget Budget `json:"budget" yaml:"budget,omitempty"`
	// Help says what happens when an assignment's rounds are spent.
	Help Help `json:"help" yaml:"help,omitempty"`
	// Ignore lists gitignore patterns of files that never become artifacts.
	Ignore []string `json:"ignore,omitempty" yaml:"ignore,omitempty"`
}

// Persona is a role in the team and the agent that plays it.
type Persona struct {
	// Role is the persona's title, told to the agent.
	Role string `json:"role" yaml:"role"`
	// Agent names the worker-file agent that does the persona's work.
	Agent string `json:"agent" yaml:"agent"`
	// Instructions are the persona's standing orders.
	Instructions string `json:"instructions,omitempty" yaml:"instructions,omitempty"`
	// InstructionsFile is a file, relative to the team file, that holds the
	// instructions. A resolved team has its content in Instructions instead.
	InstructionsFile string `json:"-" yaml:"instructions_file,omitempty"`
	// Attempts is the persona's give-up threshold inside one round.
	// Left out, it is the team's.
	Attempts int `json:"attempts,omitempty" yaml:"attempts,omitempty"`
	// Timeout bounds one attempt. Left out, it is the agent's.
	Timeout Duration `json:"timeout,omitempty" yaml:"timeout,omitempty"`
	// Budget caps what the persona may spend in one session.
	Budget Cap `json:"budget,omitzero" yaml:"budget,omitempty"`
	// Fallback lets the fallback of the persona's agent work in its place while
	// the agent's breaker is open, or after the agent has refused the work.
	Fallback bool `json:"fallback,omitempty" yaml:"fallback,omitempty"`
	// MaxTurns bounds the turns of an agent that works in turns. Left out, the
	// agent's own bound holds.
	MaxTurns int `json:"max_turns,omitempty" yaml:"max_turns,omitempty"`
	// Produces lists path patterns that every attempt must create or change.
	Produces []string `json:"produces,omitempty" yaml:"produces,omitempty"`
	// Checks names worker-file checks that every attempt must pass.
	Checks []string `json:"checks,omitempty" yaml:"checks,omitempty"`
}

// Order says how the personas of one phase share its input.
type Order string

// The orders of a phase's personas.
const (
	// OrderParallel lets all personas start from the phase's input.
	OrderParallel Order = "parallel"
	// OrderSequence hands each persona's tree on to the next.
	OrderSequence Order = "sequence"
)

// Phase is a node of the team's graph.
type Phase struct {
	// Name identifies the phase.
	Name string `json:"name" yaml:"name"`
	// Needs names the phases whose work this one builds on. Left out (nil), as
	// opposed to empty, it means the phase before it in the file.
	Needs []string `json:"needs" yaml:"needs,omitempty"`
	// Personas who work in the phase, in folding order.
	Personas []string `json:"personas" yaml:"personas"`
	// Order of the personas; parallel unless said otherwise.
	Order Order `json:"order,omitempty" yaml:"order,omitempty"`
	// Produces lists path patterns that the phase must create or change.
	Produces []string `json:"produces,omitempty" yaml:"produces,omitempty"`
	// Checks names worker-file checks that the phase's merged tree must pass.
	Checks []string `json:"checks,omitempty" yaml:"checks,omitempty"`
	// Integrator is the persona who mends the merged tree when personas
	// conflict or the seal fails; the last persona unless said otherwise.
	Integrator string `json:"integrator,omitempty" yaml:"integrator,omitempty"`
	// Budget caps what the phase may spend in one session.
	Budget Cap `json:"budget,omitzero" yaml:"budget,omitempty"`
	// Approve asks for a person's approval of the sealed phase.
	Approve bool `json:"approve,omitempty" yaml:"approve,omitempty"`
	// SendsBack lets the phase's personas send an earlier phase's work back.
	SendsBack *SendsBack `json:"sends_back,omitempty" yaml:"sends_back,omitempty"`
}

// Retry holds the limits and waits of both retry levels.
type Retry struct {
	// Attempts is the number of counted attempts in one round.
	Attempts int `json:"attempts" yaml:"attempts,omitempty"`
	// Initial is the wait after a round's first failed attempt; it doubles.
	Initial Duration `json:"initial" yaml:"initial,omitempty"`
	// Max caps the wait between attempts.
	Max Duration `json:"max" yaml:"max,omitempty"`
	// Rounds is the number of rounds for one assignment.
	Rounds int `json:"rounds" yaml:"rounds,omitempty"`
	// RoundInitial is the wait after an assignment's first failed round; it doubles.
	RoundInitial Duration `json:"round_initial" yaml:"round_initial,omitempty"`
	// RoundMax caps the wait between rounds.
	RoundMax Duration `json:"round_max" yaml:"round_max,omitempty"`
}

// Cap limits spending. Zero fields do not limit.
type Cap struct {
	// Tokens caps all tokens together, as [Usage.Tokens] counts them.
	Tokens int64 `json:"tokens,omitempty" yaml:"tokens,omitempty"`
	// USD caps the cost.
	USD USD `json:"usd,omitempty" yaml:"usd,omitempty"`
}

// OnExceeded says what happens when a budget is spent.
type OnExceeded string

// The reactions to a spent budget.
const (
	// OnExceededStop fails the assignment with category token_budget.
	OnExceededStop OnExceeded = "stop"
	// OnExceededAsk parks the session until a person raises the budget.
	OnExceededAsk OnExceeded = "ask"
	// OnExceededDegrade goes on with the agent's fallback.
	OnExceededDegrade OnExceeded = "degrade"
)

// Budget caps what a session may spend and says when to warn.
type Budget struct {
	// Tokens caps all tokens together; zero: no cap.
	Tokens int64 `json:"tokens,omitempty" yaml:"tokens,omitempty"`
	// USD caps the cost; zero: no cap.
	USD USD `json:"usd,omitempty" yaml:"usd,omitempty"`
	// Daily caps what all sessions of the team in one store may spend in a day,
	// by UTC.
	Daily Cap `json:"daily,omitzero" yaml:"daily,omitempty"`
	// WarnAt lists fractions of a cap at which the session says so, once each.
	WarnAt []float64 `json:"warn_at,omitempty" yaml:"warn_at,omitempty"`
	// OnExceeded is what happens when the cap is reached.
	OnExceeded OnExceeded `json:"on_exceeded,omitempty" yaml:"on_exceeded,omitempty"`
}

// Cap is the budget's limit without its reactions.
func (b Budget) Cap() Cap { return Cap{Tokens: b.Tokens, USD: b.USD} }

// Capped tells whether the team has any budget to be held to.
func (t Team) Capped() bool {
	if t.Budget.Cap() != (Cap{}) || t.Budget.Daily != (Cap{}) {
		return true
	}
	for _, p := range t.Personas {
		if p.Budget != (Cap{}) {
			return true
		}
	}
	return slices.ContainsFunc(t.Phases, func(p Phase) bool { return p.Budget != (Cap{}) })
}

// HelpMode says what a session does when an assignment's rounds are spent.
type HelpMode string

// The help modes.
const (
	// HelpFail ends the session as failed with HelpNeeded.
	HelpFail HelpMode = "fail"
	// HelpAsk parks the session until a person answers.
	HelpAsk HelpMode = "ask"
)

// Help says what happens when an assignment's rounds are spent.
type Help struct {
	// Mode is ask unless said otherwise.
	Mode HelpMode `json:"mode,omitempty" yaml:"mode,omitempty"`
	// Jira says where a ticket is made.
	Jira *HelpJira `json:"jira,omitempty" yaml:"jira,omitempty"`
	// GiveUpAfter bounds how long a parked session waits.
	GiveUpAfter Duration `json:"give_up_after,omitempty" yaml:"give_up_after,omitempty"`
}

// HelpJira says where and how a session's tickets are made.
type HelpJira struct {
	// Project is the Jira project's key.
	Project string `json:"project" yaml:"project"`
	// Type is the issue type's name; Bug unless said otherwise.
	Type string `json:"type,omitempty" yaml:"type,omitempty"`
	// Labels and Components are those of every ticket, by name.
	Labels     []string `json:"labels,omitempty" yaml:"labels,omitempty"`
	Components []string `json:"components,omitempty" yaml:"components,omitempty"`
	// Priorities names the priority of tickets by the failure's category; a
	// ticket of another category has the project's own default.
	Priorities map[Category]string `json:"priorities,omitempty" yaml:"priorities,omitempty"`
	// Fields are values of further fields, by id (customfield_10010), as Jira's
	// API takes them.
	Fields map[string]any `json:"fields,omitempty" yaml:"fields,omitempty"`
}

// SendsBack lets a phase send work back that it finds wanting.
type SendsBack struct {
	// To names the phase that is to do its work again, one that this phase
	// builds on.
	To string `json:"to" yaml:"to"`
	// Times bounds how often; 1 unless said otherwise. Then a person is asked.
	Times int `json:"times,omitempty" yaml:"times,omitempty"`
}

// The defaults of a team file.
const (
	DefaultAttempts     = 3
	DefaultInitial      = Duration(time.Second)
	DefaultMax          = Duration(5 * time.Second)
	DefaultRounds       = 2
	DefaultRoundInitial = Duration(5 * time.Second)
	DefaultRoundMax     = Duration(20 * time.Second)
	// DefaultTicketType is the type of tickets, DefaultSendsBack how often a
	// phase may send work back.
	DefaultTicketType = "Bug"
	DefaultSendsBack  = 1
	// DefaultGiveUpAfter is how long a parked session waits for a person.
	DefaultGiveUpAfter = Duration(7 * 24 * time.Hour)
)

// Resolved returns the team with every default filled in: needs made explicit,
// integrators named, retry limits set on the team and each persona. It does not
// validate; see [Team.Faults].
func (t Team) Resolved() Team {
	t.Retry = t.Retry.resolved()
	if t.Budget.OnExceeded == "" {
		t.Budget.OnExceeded = OnExceededStop
	}
	if t.Help.Mode == "" {
		t.Help.Mode = HelpAsk
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
		if p.Order == "" {
			p.Order = OrderParallel
		}
		if p.Integrator == "" && len(p.Personas) > 0 {
			p.Integrator = p.Personas[len(p.Personas)-1]
		}
		if p.SendsBack != nil && p.SendsBack.Times == 0 {
			p.SendsBack = &SendsBack{To: p.SendsBack.To, Times: DefaultSendsBack}
		}
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
	return r
}

// waits fills in a first and a longest wait so that the one that is given moves
// the other's default along: the first never exceeds the longest by default.
func waits(first, longest, defaultFirst, defaultLongest Duration) (Duration, Duration) {
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

// Outline returns the team without its prose (instructions, descriptions): what
// a workflow needs to know, small enough for a history.
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
