package cli

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	enumspb "go.temporal.io/api/enums/v1"

	"github.com/maestro-hive/maestro/internal/config"
	"github.com/maestro-hive/maestro/internal/store"
	"github.com/maestro-hive/maestro/internal/team"
	"github.com/maestro-hive/maestro/internal/temporalio"
	"github.com/maestro-hive/maestro/internal/terminal"
)

// polledWithin is how fresh a poller has to be to count as one. A poll takes up
// to a minute.
const polledWithin = 2 * time.Minute

// nobodyAsks begins what is said of a queue that nobody polls.
const nobodyAsks = "nobody asks Temporal"

// agentsDocument is the document of `agents -o json`.
type agentsDocument struct {
	// Store is the id of the store that the workers serve.
	Store string `json:"store"`
	// Workers are the live ones, sorted by name.
	Workers []offeringWorker `json:"workers"`
	// Temporal tells whether it could be asked who polls.
	Temporal bool          `json:"temporal"`
	Queues   []polledQueue `json:"queues"`
	// Team is the name of the team that was given; empty if none was.
	Team string `json:"team,omitempty"`
	// Missing is what is in the way of sessions: of the team's, if one was given.
	Missing []team.Lack `json:"missing"`
}

// offeringWorker is a live worker and what it offers.
type offeringWorker struct {
	Worker   string `json:"worker"`
	Identity string `json:"identity"`
	Host     string `json:"host"`
	PID      int    `json:"pid"`
	Version  string `json:"version"`
	// Since is when it started, RenewedAt when it was last heard of.
	Since     time.Time      `json:"since"`
	RenewedAt time.Time      `json:"renewed_at"`
	Agents    []offeredAgent `json:"agents"`
	Checks    []string       `json:"checks"`
	// Jira and Webhook: it makes tickets, and calls a webhook.
	Jira    bool `json:"jira"`
	Webhook bool `json:"webhook"`
}

// offeredAgent is one of a worker's agents.
type offeredAgent struct {
	Agent string `json:"agent"`
	Kind  string `json:"kind"`
	Model string `json:"model,omitempty"`
	// Concurrency is how many attempts the worker runs side by side.
	Concurrency int               `json:"concurrency"`
	Breaker     string            `json:"breaker"`
	State       team.BreakerState `json:"breaker_state"`
	Fallback    string            `json:"fallback,omitempty"`
}

// polledQueue is a task queue and who asks it for work.
type polledQueue struct {
	Queue string `json:"queue"`
	// For is what waits in it: sessions, agent NAME, tickets or webhook.
	For string `json:"for"`
	// Pollers are the identities of those who have asked lately.
	Pollers []string `json:"pollers"`
}

func newAgents(a *app) *cobra.Command {
	var teamFile string
	cmd := &cobra.Command{
		Use:   "agents",
		Short: "Show what live workers offer, and with --team what a team lacks",
		Long: "Show what the store's live workers offer: agents with their breakers, checks, tickets; and who asks Temporal for work. With --team, say what " +
			"is missing for a team, and what to do. Where Temporal cannot be reached, what workers have left in the store is shown. " +
			"The exit code is 1 if something is missing.",
		Example: "  maestro agents\n  maestro agents --team team.yaml",
		Args:    arguments(0, 0),
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.agents(cmd.Context(), teamFile) },
	}
	cmd.Flags().StringVar(&teamFile, "team", "", "team file to hold the workers against")
	_ = cmd.MarkFlagFilename("team", "yaml", "yml")
	a.addTemporalFlags(cmd)
	a.addStateDirFlag(cmd)
	a.addOutputFlag(cmd)
	return cmd
}

func (a *app) agents(ctx context.Context, teamFile string) error {
	var t team.Team
	var err error
	if teamFile != "" {
		if t, err = config.LoadTeam(teamFile); err != nil {
			return err
		}
	}
	s, err := a.openStore()
	if err != nil {
		return err
	}
	conn, err := a.dialToLook(ctx, "this is what workers have left in the store, and nobody knows who asks for work")
	if err != nil {
		return err
	}
	if conn != nil {
		defer conn.Close()
	}
	doc, err := a.offered(ctx, s, conn, t)
	if err != nil {
		return err
	}
	if a.output == outputJSON {
		if err := a.printJSON(doc); err != nil {
			return err
		}
	} else {
		a.writeAgents(doc)
	}
	if len(doc.Missing) > 0 {
		return failf("something is in the way of sessions; what is missing above says what to do")
	}
	return nil
}

// offered gathers what there is and what is missing. A team without a name is none;
// conn is nil where Temporal cannot be reached.
func (a *app) offered(ctx context.Context, s *store.Store, conn *temporalio.Connection, t team.Team) (agentsDocument, error) {
	doc := agentsDocument{
		Store: s.ID(), Team: t.Name, Temporal: conn != nil,
		Workers: []offeringWorker{}, Queues: []polledQueue{}, Missing: []team.Lack{},
	}
	offers, err := s.Offers(ctx)
	if err != nil {
		return doc, err
	}
	known, err := a.knownBreakers(ctx, s, conn)
	if err != nil {
		return doc, err
	}
	states := map[string]team.BreakerState{}
	for _, b := range known {
		states[b.Name] = b.State
	}
	now := a.env.Now()
	for _, o := range offers {
		if o.Live(now) {
			doc.Workers = append(doc.Workers, offering(o, states))
		}
	}
	_, lacks := t.Lacks(offers, now) // of a team that is none: a worker at all
	doc.Missing = append(doc.Missing, lacks...)
	if conn == nil {
		return doc, nil
	}
	for _, q := range queues(s.ID(), doc.Workers) {
		if q.Pollers, err = a.pollers(ctx, conn, q, doc.Workers); err != nil {
			return doc, err
		}
		doc.Queues = append(doc.Queues, q)
		if len(q.Pollers) == 0 && len(doc.Workers) > 0 {
			doc.Missing = append(doc.Missing, team.Lack{
				Message: fmt.Sprintf(nobodyAsks+" at %s, namespace %s, for the work of %s", conn.Address, conn.Namespace, q.For),
				Remedy:  "see that the worker is connected to the same address and namespace, and that it does not just start",
			})
		}
	}
	return doc, nil
}

func offering(o team.Offer, states map[string]team.BreakerState) offeringWorker {
	w := offeringWorker{
		Worker: o.Worker, Identity: o.Identity, Host: o.Host, PID: o.PID, Version: o.Version, Since: o.StartedAt, RenewedAt: o.RenewedAt,
		Agents: []offeredAgent{}, Checks: some(slices.Sorted(maps.Keys(o.Checks))), Jira: o.Jira, Webhook: o.Webhook,
	}
	for _, name := range slices.Sorted(maps.Keys(o.Agents)) {
		offer := o.Agents[name]
		w.Agents = append(w.Agents, offeredAgent{
			Agent: name, Kind: offer.Kind, Model: offer.Model, Concurrency: offer.Concurrency,
			Breaker: offer.Breaker, State: states[offer.Breaker], Fallback: offer.Fallback,
		})
	}
	return w
}

// queues lists the queues that the workers should ask for work.
func queues(store string, workers []offeringWorker) []polledQueue {
	out := []polledQueue{{Queue: team.WorkflowQueue(store), For: "sessions"}}
	add := func(queue, what string) {
		if !slices.ContainsFunc(out, func(q polledQueue) bool { return q.Queue == queue }) {
			out = append(out, polledQueue{Queue: queue, For: what})
		}
	}
	for _, w := range workers {
		for _, offer := range w.Agents {
			add(team.AgentQueue(store, offer.Agent), "agent "+offer.Agent)
		}
		if w.Jira {
			add(team.TicketQueue(store), "tickets")
		}
		if w.Webhook {
			add(team.WebhookQueue(store), "webhook")
		}
	}
	return out
}

// pollers are the identities of those who have asked a queue for work lately. Builds
// that one of the live workers has replaced are left out.
func (a *app) pollers(ctx context.Context, conn *temporalio.Connection, q polledQueue, live []offeringWorker) ([]string, error) {
	kind := enumspb.TASK_QUEUE_TYPE_ACTIVITY
	if q.For == "sessions" {
		kind = enumspb.TASK_QUEUE_TYPE_WORKFLOW
	}
	answer, err := conn.DescribeTaskQueue(ctx, q.Queue, kind)
	if err != nil {
		return nil, err
	}
	found := []string{}
	for _, p := range answer.GetPollers() {
		asked := p.GetLastAccessTime().AsTime()
		replaced := slices.ContainsFunc(live, func(w offeringWorker) bool { return w.replaced(p.GetIdentity(), asked) })
		if a.env.Now().Sub(asked) < polledWithin && !replaced {
			found = append(found, p.GetIdentity())
		}
	}
	slices.Sort(found)
	return slices.Compact(found), nil
}

// replaced tells whether an identity is that of another build which had this
// worker's seat before it: a seat has one holder at a time, and that one last asked
// for work before this worker started.
func (w offeringWorker) replaced(identity string, asked time.Time) bool {
	own, _, _ := strings.Cut(w.Identity, " ")
	seat, _, _ := strings.Cut(identity, " ")
	return seat == own && identity != w.Identity && asked.Before(w.Since)
}

func (a *app) writeAgents(doc agentsDocument) {
	if len(doc.Workers) > 0 {
		a.writeOffers(doc)
		a.print("")
	}
	if len(doc.Queues) > 0 && len(doc.Workers) > 0 {
		t := terminal.NewTable(a.palette)
		t.Head("QUEUE", "FOR", "ASKED BY")
		for _, q := range doc.Queues {
			by := terminal.Painted(strings.Join(q.Pollers, ", "), "")
			if len(q.Pollers) == 0 {
				by = terminal.Painted("nobody", terminal.Red)
			}
			t.Add(terminal.Plain(q.Queue), terminal.Plain(q.For), by)
		}
		t.Write(a.env.Stdout)
		a.print("")
	}
	for _, l := range doc.Missing {
		a.print("%s %s\n  -> %s", a.palette.Paint(terminal.Red, "missing:"), l.Message, l.Remedy)
	}
	if len(doc.Missing) == 0 && doc.Team != "" {
		a.print("team %s has all that it needs", doc.Team)
	}
}

// writeOffers prints the workers and their agents.
func (a *app) writeOffers(doc agentsDocument) {
	workers, agents := terminal.NewTable(a.palette), terminal.NewTable(a.palette)
	workers.Head("WORKER", "HOST", "PID", "VERSION", "SINCE", "CHECKS", "TELLS")
	agents.Head("AGENT", "WORKER", "KIND", "MODEL", "AT ONCE", "BREAKER", "STATE", "FALLBACK")
	for _, w := range doc.Workers {
		var tells []string
		if w.Jira {
			tells = append(tells, "Jira")
		}
		if w.Webhook {
			tells = append(tells, "a webhook")
		}
		workers.Add(terminal.Plain(w.Worker), terminal.Plain(w.Host), terminal.Plain(strconv.Itoa(w.PID)), terminal.Plain(terminal.Dash(w.Version)), terminal.Plain(terminal.Moment(&w.Since)),
			terminal.Plain(terminal.Dash(strings.Join(w.Checks, ", "))), terminal.Plain(terminal.Dash(strings.Join(tells, ", "))))
		for _, o := range w.Agents {
			agents.Add(terminal.Plain(o.Agent), terminal.Plain(w.Worker), terminal.Plain(o.Kind), terminal.Plain(terminal.Dash(o.Model)), terminal.Plain(strconv.Itoa(o.Concurrency)),
				terminal.Plain(terminal.Dash(o.Breaker)), terminal.Painted(terminal.Dash(string(o.State)), breakerColour(o.State)), terminal.Plain(terminal.Dash(o.Fallback)))
		}
	}
	workers.Write(a.env.Stdout)
	a.print("")
	agents.Write(a.env.Stdout)
}
