package spec

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// JiraExample is the jira section of a worker file, for messages.
const JiraExample = "jira: {url: https://example.atlassian.net, deployment: cloud, email_env: JIRA_EMAIL, token_env: JIRA_TOKEN}"

// Lack is something that a team needs and that its workers do not have.
type Lack struct {
	Message string `json:"message"`
	// Remedy is what to do.
	Remedy string `json:"remedy"`
}

// String is both in one sentence.
func (l Lack) String() string { return l.Message + "; " + l.Remedy }

func lackf(remedy, message string, args ...any) Lack {
	return Lack{Message: fmt.Sprintf(message, args...), Remedy: remedy}
}

// Admissible lists, a sentence each, what of the team the live workers cannot do, and returns the
// agents that they offer for it, nil if no worker is live. The team must be resolved.
func (t Team) Admissible(offers []Offer, now time.Time) (agents map[string]OfferedAgent, faults []string) {
	agents, lacks := t.Lacks(offers, now)
	for _, l := range lacks {
		faults = append(faults, l.String())
	}
	return agents, faults
}

// Lacks is [Team.Admissible] with the remedy as a separate field.
func (t Team) Lacks(offers []Offer, now time.Time) (agents map[string]OfferedAgent, lacks []Lack) {
	live := slices.DeleteFunc(slices.Clone(offers), func(o Offer) bool { return !o.Live(now) })
	if len(live) == 0 {
		return nil, []Lack{lackf("start one with `maestro worker --agents FILE`, or run `maestro dev`", "no worker serves this store")}
	}
	agents = map[string]OfferedAgent{}
	for _, name := range t.AgentNames() {
		for _, o := range live {
			if a, ok := o.Agents[name]; ok {
				agents[name] = a
			}
		}
		if _, ok := agents[name]; !ok {
			lacks = append(lacks, lackf("start a worker whose worker file defines it, or use another agent in the team file",
				"no worker has agent %q of %s; available: %s", name, t.usersOf(name), offered(live)))
		}
	}
	for _, d := range differences(live) {
		_, used := agents[d.Agent]
		if d.Check != "" {
			used = slices.Contains(t.CheckUses(), d.CheckUse)
		}
		if used {
			lacks = append(lacks, d.lack())
		}
	}
	lacks = append(lacks, t.deliveryLacks(agents)...)
	lacks = append(lacks, t.fallbackLacks(live, agents)...)
	lacks = append(lacks, t.Unpriced(agents)...)
	if t.Help.Jira != nil && !Jira(live, now) {
		lacks = append(lacks, lackf("add `"+JiraExample+"` to the worker file, or remove help.jira",
			"the team has help.jira, but no worker can create tickets"))
	}
	for _, use := range append(t.CheckUses(), t.fallbackChecks(agents)...) {
		ok := slices.ContainsFunc(live, func(o Offer) bool {
			_, agent := o.Agents[use.Agent]
			_, check := o.Checks[use.Check]
			return agent && check
		})
		if _, known := agents[use.Agent]; known && !ok {
			lacks = append(lacks, lackf("define it in that worker's file", "no worker with agent %[2]q has check %[1]q", use.Check,
				use.Agent))
		}
	}
	return agents, lacks
}

// Differences lists the agents and checks that live workers define differently: what a session gets would
// depend on which of them works.
func Differences(offers []Offer, now time.Time) (lacks []Lack) {
	for _, d := range differences(slices.DeleteFunc(slices.Clone(offers), func(o Offer) bool { return !o.Live(now) })) {
		if lack := d.lack(); !slices.Contains(lacks, lack) { // a check counts with each agent
			lacks = append(lacks, lack)
		}
	}
	return lacks
}

// difference is an agent, or a check that workers of one agent have, with more than one definition.
type difference struct {
	CheckUse
	// workers are one of each definition.
	workers []string
}

func (d difference) lack() Lack {
	what := fmt.Sprintf("agent %q", d.Agent)
	if d.Check != "" {
		what = fmt.Sprintf("check %q", d.Check)
	}
	return lackf("give them the same worker file", "%s has different definitions in workers %s", what,
		strings.Join(d.workers, " and "))
}

// differences compares the definitions in the offers.
func differences(live []Offer) (found []difference) {
	workers := map[CheckUse]map[Digest]string{}
	add := func(of CheckUse, digest Digest, worker string) {
		if workers[of] == nil {
			workers[of] = map[Digest]string{}
		}
		workers[of][digest] = worker
	}
	for _, o := range live {
		for agent, a := range o.Agents {
			add(CheckUse{Agent: agent}, a.Digest, o.Worker)
			for check, digest := range o.Checks {
				add(CheckUse{Check: check, Agent: agent}, digest, o.Worker)
			}
		}
	}
	for of, digests := range workers {
		if len(digests) > 1 {
			found = append(found, difference{of, slices.Sorted(maps.Values(digests))})
		}
	}
	slices.SortFunc(found, func(a, b difference) int { return strings.Compare(a.Check+"/"+a.Agent, b.Check+"/"+b.Agent) })
	return found
}

// Unpriced lists those of the agents without prices for which the team's budgets need prices.
func (t Team) Unpriced(agents map[string]OfferedAgent) (lacks []Lack) {
	capsMoney := slices.ContainsFunc(t.caps(), func(c Cap) bool { return c.USD > 0 })
	for _, name := range slices.Sorted(maps.Keys(agents)) {
		if agents[name].Unpriced && capsMoney {
			lacks = append(lacks, lackf("set its `prices` in the worker file, or `models` with prices if it has a provider; {input: 0, "+
				"output: 0} if it is free",
				"the team has a budget in USD, but the prices of agent %q are not known", name))
		}
	}
	return lacks
}

// fallbackLacks adds the fallbacks that the team may use to the agents, and returns those that no
// worker offers.
func (t Team) fallbackLacks(live []Offer, agents map[string]OfferedAgent) (lacks []Lack) {
	for _, name := range slices.Sorted(maps.Keys(t.Personas)) {
		p := t.Personas[name]
		if a, known := agents[p.Agent]; known && a.Fallback == "" && p.Fallback {
			lacks = append(lacks, lackf("set one in the worker file, or remove `fallback: true`",
				"persona %s has `fallback: true`, but agent %q has no fallback", name, p.Agent))
		}
	}
	used := t.Fallbacks(agents)
	for _, name := range slices.Sorted(maps.Keys(used)) {
		fallback := used[name]
		i := slices.IndexFunc(live, func(o Offer) bool { _, ok := o.Agents[fallback]; return ok })
		if i < 0 {
			lacks = append(lacks, lackf("define it in a worker file, or set another fallback of the agent",
				"no worker has agent %q, the fallback of %q; available: %s", fallback, name, offered(live)))
			continue
		}
		agents[fallback] = live[i].Agents[fallback]
	}
	return lacks
}

// fallbackChecks lists the checks that workers of fallbacks need although workers of the team's own
// agents do not: the checks of an attempt run on its own worker.
func (t Team) fallbackChecks(agents map[string]OfferedAgent) (uses []CheckUse) {
	own := t.CheckUses()
	for _, id := range t.Assignments() {
		p := t.Personas[id.Persona]
		fallback := agents[p.Agent].Fallback
		if fallback == "" || !p.Fallback && t.Budget.OnExceeded != OnExceededDegrade {
			continue
		}
		for _, check := range t.Contract(id).Checks {
			if use := (CheckUse{check, fallback}); !slices.Contains(own, use) && !slices.Contains(uses, use) {
				uses = append(uses, use)
			}
		}
	}
	return uses
}

// usesFallback reports whether the fallback of an agent may ever be used.
func (t Team) usesFallback(agent string) bool {
	for _, p := range t.Personas {
		if p.Agent == agent && (p.Fallback || t.Budget.OnExceeded == OnExceededDegrade) {
			return true
		}
	}
	return false
}

// Fallbacks lists, by agent, the fallbacks that may replace the team's agents.
func (t Team) Fallbacks(agents map[string]OfferedAgent) map[string]string {
	out := map[string]string{}
	for _, name := range t.AgentNames() {
		if fallback := agents[name].Fallback; fallback != "" && t.usesFallback(name) {
			out[name] = fallback
		}
	}
	return out
}

// deliveryLacks lists the agents that are to deliver and cannot, and those that can only deliver and are to do other work.
func (t Team) deliveryLacks(agents map[string]OfferedAgent) (lacks []Lack) {
	for _, id := range t.Assignments() {
		p, _ := t.Phase(id.Phase)
		name := t.Personas[id.Persona].Agent
		switch a, known := agents[name]; {
		case !known || (p.Deliver != nil) == (a.Kind == KindDelivery):
		case p.Deliver != nil:
			lacks = append(lacks, lackf("name an agent of kind delivery in `to`", "phase %s delivers to agent %q, which is of kind %s",
				p.Name, name, a.Kind))
		default:
			lacks = append(lacks, lackf("give the persona another agent",
				"agent %q of persona %s in phase %s delivers pull requests and does no other work", name, id.Persona, p.Name))
		}
	}
	return lacks
}

// usersOf names the personas, and the phases that deliver, that use an agent.
func (t Team) usersOf(agent string) string {
	var users []string
	for _, id := range t.Assignments() {
		user := "persona " + id.Persona
		if p, _ := t.Phase(id.Phase); p.Deliver != nil {
			user = "phase " + p.Name
		}
		if t.Personas[id.Persona].Agent == agent {
			users = append(users, user)
		}
	}
	slices.Sort(users)
	return strings.Join(slices.Compact(users), ", ")
}

func offered(live []Offer) string {
	var names []string
	for _, o := range live {
		names = append(names, slices.Collect(maps.Keys(o.Agents))...)
	}
	slices.Sort(names)
	return strings.Join(slices.Compact(names), ", ")
}

// Jira reports whether any live worker makes tickets, and Webhook whether one calls a webhook.
func Jira(offers []Offer, now time.Time) bool {
	return slices.ContainsFunc(offers, func(o Offer) bool { return o.Jira && o.Live(now) })
}

// Webhook is described with [Jira].
func Webhook(offers []Offer, now time.Time) bool {
	return slices.ContainsFunc(offers, func(o Offer) bool { return o.Webhook && o.Live(now) })
}
