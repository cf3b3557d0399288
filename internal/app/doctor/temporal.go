package doctor

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"go.temporal.io/api/operatorservice/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/temporal"
	"golang.org/x/sync/errgroup"

	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
	"github.com/maestro-hive/maestro/internal/ops/control"
	"github.com/maestro-hive/maestro/internal/ops/sessionstatus"
	"github.com/maestro-hive/maestro/internal/platform/temporalutil"
	"github.com/maestro-hive/maestro/internal/platform/terminal"
	"github.com/maestro-hive/maestro/workflows"
)

const (
	// slowAnswer is the accepted latency of Temporal: a
	// phase takes about ten calls.
	slowAnswer = 300 * time.Millisecond
	// leastRetention is how long Temporal should keep sessions that have ended: over a weekend, so
	// that Friday's sessions are visible on Monday. It is also how long a sent webhook notice is
	// recognized.
	leastRetention = 3 * 24 * time.Hour
	// oldestServer is the oldest version of the server's that Maestro was tried with.
	oldestServer = "1.29"
	// sessionsPatience is how long running sessions are looked at, sessionsAtOnce of them at a time. It is less than patience.
	sessionsPatience = 4 * time.Second
	sessionsAtOnce   = 16
)

// connect reaches the Temporal that flags, environment and profile name.
func connect(ctx context.Context, h *host) []control.Finding {
	if h.Dial == nil { // a server, which connects by itself
		if h.conn == nil {
			return with(bad("start it; the server connects by itself", "Temporal cannot be reached"), "maestro doctor")
		}
		return nil
	}
	conn, err := h.Dial(ctx)
	var fault *temporalutil.ConfigError
	var refused *temporalutil.RefusedError
	var unreachable *temporalutil.UnreachableError
	switch {
	case err == nil:
		h.conn, h.close = conn, conn.Close
		return nil
	case errors.As(err, &fault):
		return bad("fix the flag, the TEMPORAL_… variable or the profile", "%s", err)
	case errors.As(err, &refused):
		return failed(Bad, err, "check the credentials")
	case errors.As(err, &unreachable) && listens(ctx, unreachable.Address):
		return bad("check that this is Temporal's gRPC port, that the server is healthy, and whether it needs TLS (--tls) or not "+
			"(--tls=false)",
			"a server listens at %s, but does not answer like Temporal", unreachable.Address)
	}
	return with(failed(Bad, err, "start one on this machine, or give its address with --address, TEMPORAL_ADDRESS or a profile"),
		"maestro dev")
}

// listens reports whether a server accepts connections at an address.
func listens(ctx context.Context, address string) bool {
	conn, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "tcp", address)
	if err != nil {
		return false
	}
	_ = conn.Close()
	return true
}

// server checks the server's version and latency.
func server(ctx context.Context, h *host) []control.Finding {
	began := h.Now()
	info, err := h.conn.WorkflowService().GetSystemInfo(ctx, &workflowservice.GetSystemInfoRequest{})
	took := h.Now().Sub(began)
	version := info.GetServerVersion()
	switch {
	case err != nil:
		return unreadable("see the server's log", h.conn.Address+" answers, but not with its version", err)
	case older(version, oldestServer):
		return warn("upgrade the server to "+oldestServer+" or newer", "%s has version %s, which is not tested with Maestro",
			h.conn.Address, version)
	case took > slowAnswer:
		return warn("reduce the latency: a phase takes about ten calls", "%s, version %s, takes %s to answer", h.conn.Address, version,
			terminal.Span(took))
	}
	return ok("%s, version %s, answers in %s", h.conn.Address, version, terminal.Span(max(took, time.Millisecond)))
}

// older reports whether a version, like 1.28.3, comes before another, like 1.29. What
// cannot be read is not older.
func older(version, than string) bool {
	have, want := strings.Split(version, "."), strings.Split(than, ".")
	for i := range min(len(have), len(want)) {
		h, err := strconv.Atoi(have[i])
		w, _ := strconv.Atoi(want[i])
		if err != nil || h != w {
			return err == nil && h < w
		}
	}
	return false
}

// namespace checks whether the namespace exists, supports what sessions need, and keeps
// them for long enough. Without one for sessions, nothing else is checked in Temporal.
func namespace(ctx context.Context, h *host) []control.Finding {
	name, address := h.conn.Namespace, h.conn.Address
	operator := func(do string) string {
		return fmt.Sprintf("temporal operator namespace %s --address %s --namespace %s --retention 7d", do, address, name)
	}
	answer, err := h.conn.WorkflowService().DescribeNamespace(ctx, &workflowservice.DescribeNamespaceRequest{Namespace: name})
	keeps := answer.GetConfig().GetWorkflowExecutionRetentionTtl().AsDuration()
	switch {
	case temporalutil.NoNamespace(err):
		h.conn = nil
		return with(bad("create it, or choose another with --namespace", "%s has no namespace %q", address, name), operator("create"))
	case err != nil:
		return unreadable("allow these credentials to describe the namespace", name+" cannot be described", err)
	case !answer.GetNamespaceInfo().GetCapabilities().GetSyncUpdate():
		h.conn = nil
		return bad("enable the server's dynamic setting frontend.enableUpdateWorkflowExecution",
			"%s refuses Updates, which answers to sessions and reports to breakers need", name)
	case keeps > 0 && keeps < leastRetention:
		return with(warn("set a longer retention, at least over a weekend",
			"%s removes sessions %s after their end; then only the store has them", name, terminal.Days(keeps)),
			operator("update"))
	}
	return ok("%s, retention of ended sessions: %s", name, terminal.Days(keeps))
}

// searchAttributes checks whether the namespace has those that sessions are found by.
func searchAttributes(ctx context.Context, h *host) (found []control.Finding) {
	missing, err := temporalutil.NewSearchAttributes(h.conn, h.conn.Namespace, h.Now, workflows.SearchAttributes()...).Missing(ctx)
	var has *operatorservice.ListSearchAttributesResponse
	if err == nil {
		has, err = h.conn.OperatorService().ListSearchAttributes(ctx,
			&operatorservice.ListSearchAttributesRequest{Namespace: h.conn.Namespace})
	}
	if err != nil {
		return unreadable("allow these credentials to list them", "sessions run without them, because they cannot be listed", err)
	}
	var absent, wrong []temporal.SearchAttributeKey
	for _, key := range missing {
		if _, there := has.GetCustomAttributes()[key.GetName()]; there {
			wrong = append(wrong, key)
		} else {
			absent = append(absent, key)
		}
	}
	where := " --address " + h.conn.Address
	if len(absent) > 0 {
		found = with(warn("add them", "%s missing; sessions run without them and cannot be searched by them", attributeNames(absent)),
			temporalutil.AddCommand(h.conn.Namespace, absent)+where)
	}
	if len(wrong) > 0 {
		command := "temporal operator search-attribute remove --yes --namespace " + h.conn.Namespace
		for _, key := range wrong {
			command += " --name " + key.GetName()
		}
		found = append(found, with(warn("if nothing else uses them, remove them and add them again",
			"%s of the wrong type; sessions run without them and cannot be searched by them", attributeNames(wrong)),
			command+where+" && "+temporalutil.AddCommand(h.conn.Namespace, wrong)+where)...)
	}
	if len(missing) == 0 {
		return ok("all registered")
	}
	return found
}

func attributeNames(keys []temporal.SearchAttributeKey) string {
	var names []string
	for _, key := range keys {
		names = append(names, key.GetName())
	}
	verb := " are"
	if len(names) == 1 {
		verb = " is"
	}
	return terminal.Enumeration(names, "and") + verb
}

// pruning looks for the schedule that prunes the store.
func pruning(ctx context.Context, h *host) []control.Finding {
	id := workflows.PruneID(h.store.ID())
	described, err := h.conn.ScheduleClient().GetHandle(ctx, id).Describe(ctx)
	switch {
	case temporalutil.NotFound(err):
		return ok("no schedule; `maestro checkpoints prune --schedule 24h` creates one")
	case err != nil:
		return unreadable("allow these credentials to describe schedules", "the schedule cannot be read", err)
	}
	every := "on a schedule"
	if spec := described.Schedule.Spec; spec != nil && len(spec.Intervals) == 1 {
		every = "every " + spec.Intervals[0].Every.String()
	}
	return ok("%s, by schedule %s", every, id)
}

// hindrances checks whether running sessions wait for the store or make no progress. Of very many, it looks at some.
func hindrances(ctx context.Context, h *host) (found []control.Finding) {
	ctx, cancel := context.WithTimeout(ctx, sessionsPatience)
	defer cancel()
	open, err := temporalutil.OpenSessions(ctx, h.conn, h.conn.Namespace, workflows.TeamSessionName,
		spec.WorkflowQueue(h.store.ID()))
	if err != nil {
		return unreadable("see the server's log", "running sessions cannot be listed", err)
	}
	waits, stuck, looked := map[string]string{}, map[string]string{}, 0
	var mu sync.Mutex
	var looks errgroup.Group
	looks.SetLimit(sessionsAtOnce)
	for key := range open {
		looks.Go(func() error {
			w := &sessionstatus.Reader{Conn: h.conn, Store: h.store, Session: key.Session, Now: h.Now}
			wait, why, err := w.Hindrances(ctx)
			mu.Lock()
			defer mu.Unlock()
			if ctx.Err() == nil {
				looked++
			}
			if err == nil && wait != "" { // otherwise it may have ended since
				waits[key.Session] = wait
			}
			if why != "" {
				stuck[key.Session] = why
			}
			return nil
		})
	}
	_ = looks.Wait() // never fails
	for _, id := range slices.Sorted(maps.Keys(waits)) {
		found = append(found, warn("see that "+h.dir+" is writable and has free space", "session %s: %s", id, waits[id])...)
	}
	for _, id := range slices.Sorted(maps.Keys(stuck)) {
		found = append(found, about("session progress", bad("see the workers' logs", "session %s: %s", id, stuck[id]))...)
	}
	all := textfmt.Count(len(open), "running session")
	switch {
	case looked < len(open):
		found = append(found, warn("see the server's log", "only %d of %s answered within %s", looked, all, sessionsPatience)...)
	case len(waits) == 0:
		found = append(found, ok("none of %s waits for the store", all)...)
	}
	return found
}
