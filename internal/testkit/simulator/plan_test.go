package simulator

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
)

// Plan is all that a seed decides in advance: what is to be done, and what goes wrong.
// How long each step takes follows from Seed and the step's name, so that a plan with a
// fault less still resembles the one it was made from.
type Plan struct {
	Seed uint64    `json:"seed"`
	Team spec.Team `json:"team"`
	// Bad is, by assignment, how many of the first attempts fail the check.
	Bad map[string]int `json:"bad,omitempty"`
	// Turns is, by assignment, how many answers its model needs.
	Turns map[string]int `json:"turns,omitempty"`
	// Window is how many bytes of results a model can read, of the files that it reads; zero: it reads none.
	Window int `json:"window,omitempty"`
	// Ends is, by assignment, how the first runs of its program end whose process stays.
	Ends map[string][]string `json:"ends,omitempty"`
	// Conflict is that of the first phase; nil: none.
	Conflict *Conflict `json:"conflict,omitempty"`
	// Programs names the agents that are programs, which keep their conversations in HOME;
	// the others are models.
	Programs []string `json:"programs,omitempty"`
	// Hosts is how many hosts the processes are spread over; zero: one.
	Hosts int `json:"hosts,omitempty"`
	// Faults, Windows, Limited and Visits are what goes wrong and what people do.
	Faults  []Fault   `json:"faults,omitempty"`
	Windows []Window  `json:"windows,omitempty"`
	Limited []Limited `json:"limited,omitempty"`
	Visits  []Visit   `json:"visits,omitempty"`
	// Lost is when Temporal loses the session, which is then resumed from the store;
	// zero: never.
	Lost textfmt.Duration `json:"lost,omitempty"`
	// SlowCheck is how long the check of a merged tree takes; zero: no time.
	SlowCheck textfmt.Duration `json:"slow_check,omitempty"`
	// AsForecast: no call costs more than was set aside for it.
	AsForecast bool `json:"as_forecast,omitempty"`
	// Cancel is when the session is cancelled; zero: never.
	Cancel textfmt.Duration `json:"cancel,omitempty"`
	// Continue is how long after a run's beginning Temporal suggests to continue as new,
	// for the first runs; zero: never.
	Continue textfmt.Duration `json:"continue,omitempty"`
}

// Kind is a kind of fault.
type Kind string

// The kinds of fault.
const (
	// KillBefore and KillAfter kill the process before or after the effect of a call.
	KillBefore Kind = "kill-before"
	KillAfter  Kind = "kill-after"
	// Freeze stops the process before a call and lets it continue For later.
	Freeze Kind = "freeze"
	// Stop has the worker stop in an orderly way.
	Stop Kind = "stop"
	// Tear kills the process in the middle of a write.
	Tear Kind = "tear"
	// Break has a call fail, Times times in a row, as a store does that is away.
	Break Kind = "break"
	// Slow has a call take For.
	Slow Kind = "slow"
	// Twice starts a second execution while the first still works, as Temporal does
	// when it has not heard of the first for too long.
	Twice Kind = "twice"
)

// Fault happens at the N-th call of an operation, counted over all processes.
type Fault struct {
	Kind Kind             `json:"kind"`
	Op   string           `json:"op"`
	N    int              `json:"n"`
	For  textfmt.Duration `json:"for,omitempty"`
	// Times is how often more it happens, one call after the other.
	Times int `json:"times,omitempty"`
}

func (f Fault) String() string {
	s := fmt.Sprintf("%s at %s #%d", f.Kind, f.Op, f.N)
	if f.For > 0 {
		s += " for " + f.For.String()
	}
	return s
}

// Window is a time in which something is away: "provider", "temporal", "store" or "workers".
type Window struct {
	What string           `json:"what"`
	From textfmt.Duration `json:"from"`
	For  textfmt.Duration `json:"for"`
	// Status is what a provider answers meanwhile.
	Status int `json:"status,omitempty"`
}

// Limited is a single error, or a stall, at the N-th call of an assignment's model.
type Limited struct {
	Of     string `json:"of"`
	N      int    `json:"n"`
	Status int    `json:"status,omitempty"`
	// Stall is when the answer stalls; empty: it is an error.
	Stall string `json:"stall,omitempty"`
	// RetryAfter is what the provider asks for, in seconds; zero: it does not say.
	RetryAfter int `json:"retry_after,omitempty"`
}

// Visit is when a person looks at the session, and what they do.
type Visit struct {
	At   textfmt.Duration `json:"at"`
	Does string           `json:"does"`
}

// operations are those at which processes die, with how often they come in a session.
var operations = []struct {
	name string
	most int
}{
	{"Lock", 12},
	{"OpenRound", 12},
	{"PutRound", 20},
	{"IsFenced", 6},
	{"Admit", 2},
	{"Records", 3},
	{"Begin", 20},
	{"End", 20},
	{"Warn", 12},
	{"PutBlob", 20},
	{"Materialise", 6},
	{"Acquire", 6},
	{"Collect", 6},
	{"StoreCheckpoint", 6},
	{"Mirror", 8},
	{"PutBoundary", 16},
	{"Run", 6},
	{"Ask", 12},
	{"Check", 6},
	{"Complete", 12},
	{"Checkpoint", 8},
	{"Calls", 6},
	{"WorkDir", 6},
	{"Breaker.Read", 6},
	{"Breaker.Report", 4},
	{"Beat", 8},
	{"Undo", 2},
	{"Merge", 4},
	{"Fold", 4},
	{"Blob", 12},
}

// profiles say what goes wrong in a session: each looks for something of its own.
var profiles = []string{
	"host", "lost", "late", "provider", "limits", "outage", "money", "people", "store", "seal", "stall",
	"rejected", "stays", "conflict", "mixed",
}

func profileOf(seed uint64) string { return profiles[seed%uint64(len(profiles))] }

// newPlan makes the plan of a seed.
func newPlan(seed uint64) Plan {
	r := rand.New(rand.NewPCG(seed, 0x6d61657374726f))
	p := Plan{Seed: seed, Bad: map[string]int{}, Turns: map[string]int{}}
	p.makeTeam(r)
	p.makeFaults(r, profileOf(seed))
	if h := hash(seed, "approve", 0); h%4 == 0 {
		p.Team.Phases[(h>>8)%uint64(len(p.Team.Phases))].Approve = spec.Approval{By: []string{"leads"}, Count: 2}
	}
	// Where the store is away and Temporal has given an execution up, a worker that stops can tell
	// nobody, and counts as lost.
	if h := hash(seed, "programs", 0); h%3 == 0 && profileOf(seed) != "store" && p.Programs == nil {
		p.addPrograms(r)
	}
	if h := hash(seed, "continue", 0); h%3 == 0 {
		p.Continue = textfmt.Duration(time.Duration(1+(h>>8)%240_000) * time.Millisecond)
	}
	return p
}

// makeTeam makes one to three phases of one or two personas.
func (p *Plan) makeTeam(r *rand.Rand) {
	t := spec.Team{Version: 1, Name: "t", Personas: map[string]spec.Persona{}, Help: spec.Help{Mode: spec.HelpAsk}}
	names := []string{"plan", "build", "test"}
	n := 0
	for i := range 1 + r.IntN(3) {
		phase := spec.Phase{Name: names[i]}
		for range 1 + r.IntN(5)/3 {
			persona := fmt.Sprintf("p%d", n)
			n++
			id := phase.Name + "/" + persona
			phase.Personas = append(phase.Personas, persona)
			t.Personas[persona] = spec.Persona{
				Role: persona, Agent: fmt.Sprintf("a%d", r.IntN(2)), Instructions: "work", Checks: []string{"check"},
			}
			p.Turns[id] = 1 + r.IntN(3)
			if r.IntN(3) == 0 {
				p.Bad[id] = 1 + r.IntN(4)
			}
		}
		if len(phase.Personas) > 1 {
			phase.Checks = []string{"merged"}
			if r.IntN(3) == 0 {
				phase.Order = spec.OrderSequence
			}
		}
		if i == 2 && r.IntN(2) == 0 {
			phase.Needs = []string{names[0]}
		}
		t.Phases = append(t.Phases, phase)
	}
	p.Team = t.Resolved()
}

func (p *Plan) makeFaults(r *rand.Rand, profile string) {
	some := func(most int) int { return 1 + r.IntN(most) }
	switch profile {
	case "host":
		p.addKills(r, some(6))
	case "lost":
		p.Faults = append(p.Faults, Fault{Kind: Freeze, Op: pick(r, "Run", "Ask", "Collect"), N: some(4), For: minutes(r, 2, 16)})
		n := 0
		for range 3 + r.IntN(8) { // those that wait for the one that is stopped are killed
			n += 1 + r.IntN(20)
			p.Faults = append(p.Faults, Fault{Kind: KillBefore, Op: pick(r, "Lock.wait", "Lock.wait", "Lock.wait", "Lock"), N: n})
		}
	case "late":
		for range some(3) {
			p.Faults = append(p.Faults, Fault{Kind: Freeze, Op: pick(r, "torn checkpoint_", "checkpoint stored, not mirrored",
				"PutCheckpoint", "Collect", "Ask", "Complete", "Fold"), N: some(5), For: minutes(r, 1, 40)})
		}
		if r.IntN(2) == 0 { // the next run is at work when the one of the last continues
			p.Faults = append(p.Faults, Fault{Kind: Freeze, Op: "checkpoint stored, not mirrored", N: some(3), For: minutes(r, 10, 40)})
			p.Lost = minutes(r, 0, 4)
		}
		p.addKills(r, r.IntN(3))
	case "provider":
		p.addLimited(r, some(8))
		p.addKills(r, r.IntN(3))
	case "limits":
		p.addLimited(r, some(16))
		if r.IntN(2) == 0 { // the team does not wait for providers: its attempts and rounds do
			none := textfmt.Duration(0)
			p.Team.Retry.Patience, p.Team.Retry.OnOutage = &none, spec.OutageFail
			p.addKills(r, r.IntN(2))
		}
	case "outage":
		p.addOutage(r)
		p.addKills(r, r.IntN(2))
	case "money":
		p.Team.Budget.Tokens = int64(5_000 + r.IntN(60_000))
		if r.IntN(2) == 0 {
			p.joinFirst()
			p.Team.Budget.Tokens = int64(4_000 + r.IntN(16_000)) // spent while both are at work
		}
		p.Team.Budget.OnExceeded = spec.OnExceededAsk
		p.AsForecast = r.IntN(2) == 0
		if r.IntN(2) == 0 {
			p.Team.Budget.Daily.Tokens = 10_000_000
		}
		p.addKills(r, some(4))
		if r.IntN(2) == 0 {
			p.Team.Phases[0].Budget.Tokens = int64(2_000 + r.IntN(20_000))
		}
		p.Visits = append(p.Visits, Visit{At: minutes(r, 1, 5), Does: "raise"})
	case "people":
		for _, id := range p.assignments() {
			if r.IntN(2) == 0 {
				p.Bad[id] = 99
			}
		}
		for range some(3) {
			p.Visits = append(p.Visits, Visit{At: minutes(r, 1, 90), Does: pick(r, "stale", "retry", "raise", "twice")})
		}
		if r.IntN(3) == 0 {
			p.Cancel = minutes(r, 0, 4)
			p.Team.Budget.Tokens = 10_000_000
			p.Visits = append(p.Visits, Visit{Does: "raise-at-end"})
		}
		if r.IntN(3) == 0 {
			p.Windows = append(p.Windows, Window{What: "store", For: minutes(r, 0, 3)})
			p.Visits = append(p.Visits, Visit{At: textfmt.Duration(time.Duration(1+r.IntN(4000)) * time.Millisecond), Does: "stale"})
		}
		p.addKills(r, some(3))
	case "store":
		for range some(4) {
			p.Faults = append(p.Faults, Fault{
				Kind: pick(r, Break, Slow), Op: operations[r.IntN(len(operations))].name, N: some(12),
				For: minutes(r, 0, 3),
			})
		}
		for range some(3) {
			p.Faults = append(p.Faults, Fault{
				Kind: Tear, Op: pick(r, "torn checkpoint_", "torn execution_state", "torn .json"),
				N: some(6),
			})
		}
		p.Faults = append(p.Faults, Fault{
			Kind: Slow, Op: pick(r, "PutCheckpoint", "Fold", "Checkpoint", "Blob", "PutBlob"), N: some(8),
			For: minutes(r, 0, 1),
		})
		// One that ends as a boundary's time as a local activity does.
		p.Faults = append(p.Faults, Fault{
			Kind: Slow, Op: pick(r, "Fold", "Checkpoint", "Blob"), N: some(8),
			For: textfmt.Duration(4980 * time.Millisecond),
		})
		p.Windows = append(p.Windows, Window{What: "store", From: minutes(r, 0, 3), For: minutes(r, 0, 8)})
	case "seal":
		p.joinFirst()
		if r.IntN(2) == 0 { // the check takes its worker with it
			p.Faults = append(p.Faults, Fault{Kind: KillBefore, Op: "Check.merged", N: 1, Times: 5 + r.IntN(80)})
			return
		}
		p.SlowCheck, p.Lost = minutes(r, 10, 40), minutes(r, 1, 5)
	case "stall":
		p.addStalls(r)
		p.addKills(r, r.IntN(3))
	case "rejected":
		p.addRejected(r)
		p.addLimited(r, r.IntN(3))
		p.addKills(r, r.IntN(3))
	case "stays":
		p.addEnds(r)
	case "conflict":
		p.addConflict(r)
		p.addKills(r, r.IntN(4))
		if r.IntN(4) == 0 {
			p.Lost = minutes(r, 0, 6)
		}
	case "mixed":
		p.addStalls(r)
		p.addRejected(r)
		p.addKills(r, some(4))
		p.addLimited(r, some(3))
		p.addOutage(r)
		if r.IntN(2) == 0 {
			p.Lost = minutes(r, 0, 6)
		}
	}
}

// joinFirst has two personas work side by side in the first phase, so that it is merged.
func (p *Plan) joinFirst() {
	first := &p.Team.Phases[0]
	if len(first.Personas) == 1 {
		name := "other"
		p.Team.Personas[name] = p.Team.Personas[first.Personas[0]]
		first.Personas = append(first.Personas, name)
		p.Turns[first.Name+"/"+name] = 1
	}
	first.Order, first.Checks, first.Integrator = spec.OrderParallel, []string{"merged"}, first.Personas[1]
}

func (p *Plan) addKills(r *rand.Rand, n int) {
	for range n {
		op := operations[r.IntN(len(operations))]
		f := Fault{Kind: pick(r, KillBefore, KillAfter, KillAfter, Freeze, Stop, Twice), Op: op.name, N: 1 + r.IntN(op.most)}
		if f.Kind == Freeze {
			f.For = minutes(r, 0, 20)
		}
		p.Faults = append(p.Faults, f)
	}
}

// addPrograms makes an agent a program, on workers of some hosts that die or stop where its
// conversation is written, stored or restored.
func (p *Plan) addPrograms(r *rand.Rand) {
	p.Programs, p.Hosts = []string{"a0"}, 1+r.IntN(3)
	for range 1 + r.IntN(4) {
		p.Faults = append(p.Faults, Fault{
			Kind: pick(r, KillBefore, KillAfter, Stop, Stop), N: 1 + r.IntN(8),
			Op: pick(r, "Program.work", "Program.note", "Program.end", "Program.conversation", "Materialise", "Collect", "PutRound"),
		})
	}
}

func (p *Plan) addLimited(r *rand.Rand, n int) {
	ids := p.assignments()
	for range n {
		l := Limited{Of: ids[r.IntN(len(ids))], N: 1 + r.IntN(10), Status: pick(r, 429, 529, 500)}
		if r.IntN(2) == 0 {
			l.RetryAfter = 1 + r.IntN(200)
		}
		p.Limited = append(p.Limited, l)
	}
}

func (p *Plan) addOutage(r *rand.Rand) {
	p.Windows = append(p.Windows, Window{
		What: pick(r, "provider", "temporal"), From: minutes(r, 0, 2),
		For: minutes(r, 0, 25), Status: pick(r, 500, 503, 529),
	})
}

// failsFast reports whether the team has providers' failures count as the agent's own.
func (p *Plan) failsFast() bool { return p.Team.Retry.OnOutage == spec.OutageFail }

// stopped is for how long workers are stopped in all.
func (p *Plan) stopped() (all time.Duration) {
	for _, f := range p.Faults {
		if f.Kind == Freeze {
			all += f.For.Std()
		}
	}
	return all
}

// tears reports whether a fault is in the middle of a write.
func (p *Plan) tears() bool {
	return slices.ContainsFunc(p.Faults, func(f Fault) bool {
		return f.Kind == Tear || f.Kind == Freeze &&
			strings.Contains(f.Op, " ")
	})
}

// assignments lists the team's assignments by name.
func (p *Plan) assignments() (ids []string) {
	for _, id := range p.Team.Assignments() {
		ids = append(ids, id.String())
	}
	return ids
}

// minutes is a time between so many minutes, to the millisecond.
func minutes(r *rand.Rand, from, to int) textfmt.Duration {
	return textfmt.Duration(time.Duration(from)*time.Minute + time.Duration(1+r.IntN((to-from)*60_000))*time.Millisecond)
}

func pick[T any](r *rand.Rand, of ...T) T { return of[r.IntN(len(of))] }

// hash is a number that depends on nothing but its arguments.
func hash(seed uint64, label string, n int) uint64 {
	h := fnv.New64a()
	_, _ = fmt.Fprintf(h, "%d/%s/%d", seed, label, n)
	x := h.Sum64()
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	return x
}
