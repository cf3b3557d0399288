package doctor

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"go.temporal.io/api/operatorservice/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/temporal"

	"github.com/maestro-hive/maestro/internal/temporalutil"
	"github.com/maestro-hive/maestro/internal/terminal"
	"github.com/maestro-hive/maestro/internal/textfmt"
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
)

// connect reaches the Temporal that flags, environment and profile name.
func (d *examination) connect(ctx context.Context) {
	conn, err := d.options.Dial(ctx)
	var fault *temporalutil.ConfigError
	var refused *temporalutil.RefusedError
	var unreachable *temporalutil.UnreachableError
	switch {
	case err == nil:
		d.conn = conn
	case errors.As(err, &fault):
		d.add("temporal", Bad, "fix the flag, the TEMPORAL_… variable or the profile", "%s", d.unreached(err))
	case errors.As(err, &refused):
		what, remedy := remedyOf(err, "check the credentials")
		d.add("temporal", Bad, remedy, "%s", what)
	case errors.As(err, &unreachable) && listens(ctx, unreachable.Address):
		d.add("temporal", Bad, "check that this is Temporal's gRPC port, that the server is healthy, and whether it needs TLS (--tls) or not (--tls=false)",
			"a server listens at %s, but does not answer like Temporal", unreachable.Address)
	default:
		d.add("temporal", Bad, "start one on this machine, or give its address with --address, TEMPORAL_ADDRESS or a profile", "%s", d.unreached(err)).
			Command = "maestro dev"
	}
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

// temporal checks the server and the namespace. If the namespace does not exist,
// nothing else is checked.
func (d *examination) temporal(ctx context.Context) {
	d.bounded(ctx, "temporal", (*examination).server)
	d.bounded(ctx, "namespace", (*examination).namespace)
	there := false
	for _, f := range d.findings {
		there = there || f.Check == "namespace" && f.Result != Bad
	}
	if !there {
		d.conn = nil // the owner of the connection closes it
		return
	}
	d.bounded(ctx, "search attributes", (*examination).searchAttributes)
	d.bounded(ctx, "store writes", func(d *examination, ctx context.Context) { d.hindrances(ctx, d.conn) })
	d.bounded(ctx, "store pruning", func(d *examination, ctx context.Context) { d.pruning(ctx, d.conn) })
}

// server checks the server's version and latency.
func (d *examination) server(ctx context.Context) {
	began := d.options.Now()
	info, err := d.conn.WorkflowService().GetSystemInfo(ctx, &workflowservice.GetSystemInfoRequest{})
	took := d.options.Now().Sub(began)
	switch {
	case err != nil:
		d.add("temporal", Warning, "see the server's log", "%s answers, but not with its version: %s", d.conn.Address, textfmt.FirstLine(err.Error()))
	case older(info.GetServerVersion(), oldestServer):
		d.add("temporal", Warning, "upgrade the server to "+oldestServer+" or newer",
			"%s has version %s, which is not tested with Maestro", d.conn.Address, info.GetServerVersion())
	case took > slowAnswer:
		d.add("temporal", Warning, "reduce the latency: a phase takes about ten calls",
			"%s, version %s, takes %s to answer", d.conn.Address, info.GetServerVersion(), terminal.Span(took))
	default:
		d.add("temporal", OK, "", "%s, version %s, answers in %s", d.conn.Address, info.GetServerVersion(), terminal.Span(max(took, time.Millisecond)))
	}
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
// them for long enough.
func (d *examination) namespace(ctx context.Context) {
	name := d.conn.Namespace
	answer, err := d.conn.WorkflowService().DescribeNamespace(ctx, &workflowservice.DescribeNamespaceRequest{Namespace: name})
	switch {
	case temporalutil.NoNamespace(err):
		d.add("namespace", Bad, "create it, or choose another with --namespace", "%s has no namespace %q", d.conn.Address, name).
			Command = fmt.Sprintf("temporal operator namespace create --address %s --namespace %s --retention 7d", d.conn.Address, name)
		return
	case err != nil:
		d.add("namespace", Warning, "allow these credentials to describe the namespace", "%s cannot be described: %s", name, textfmt.FirstLine(err.Error()))
		return
	}
	keeps := answer.GetConfig().GetWorkflowExecutionRetentionTtl().AsDuration()
	can := answer.GetNamespaceInfo().GetCapabilities()
	switch {
	case !can.GetSyncUpdate():
		d.add("namespace", Bad, "enable the server's dynamic setting frontend.enableUpdateWorkflowExecution",
			"%s refuses Updates, which answers to sessions and reports to breakers need", name)
	case keeps > 0 && keeps < leastRetention:
		d.add("namespace", Warning, "set a longer retention, at least over a weekend", "%s removes sessions %s after their end; then only the store has them", name, brief(keeps)).
			Command = fmt.Sprintf("temporal operator namespace update --address %s --namespace %s --retention 7d", d.conn.Address, name)
	default:
		d.add("namespace", OK, "", "%s, retention of ended sessions: %s", name, brief(keeps))
	}
}

// brief is a time in days if it is a whole number of days.
func brief(d time.Duration) string {
	if days := d / (24 * time.Hour); days > 0 && d%(24*time.Hour) == 0 {
		return textfmt.Count(int(days), "day")
	}
	return terminal.Span(d)
}

// searchAttributes checks whether the namespace has those that sessions are found by.
func (d *examination) searchAttributes(ctx context.Context) {
	const check = "search attributes"
	missing, err := temporalutil.NewSearchAttributes(d.conn, d.conn.Namespace, d.options.Now, workflows.SearchAttributes()...).Missing(ctx)
	if err != nil {
		d.add(check, Warning, "allow these credentials to list them", "cannot be listed (%s); sessions run without them", textfmt.FirstLine(err.Error()))
		return
	}
	has, err := d.conn.OperatorService().ListSearchAttributes(ctx, &operatorservice.ListSearchAttributesRequest{Namespace: d.conn.Namespace})
	if err != nil {
		return // it was readable a moment ago
	}
	var absent, wrong []temporal.SearchAttributeKey
	for _, key := range missing {
		if _, there := has.GetCustomAttributes()[key.GetName()]; there {
			wrong = append(wrong, key)
		} else {
			absent = append(absent, key)
		}
	}
	where := " --address " + d.conn.Address
	if len(absent) > 0 {
		d.add(check, Warning, "add them", "%s missing; sessions run without them and cannot be searched by them", attributeNames(absent)).
			Command = temporalutil.AddCommand(d.conn.Namespace, absent) + where
	}
	if len(wrong) > 0 {
		command := "temporal operator search-attribute remove --yes --namespace " + d.conn.Namespace
		for _, key := range wrong {
			command += " --name " + key.GetName()
		}
		d.add(check, Warning, "if nothing else uses them, remove them and add them again",
			"%s of the wrong type; sessions run without them and cannot be searched by them", attributeNames(wrong)).
			Command = command + where + " && " + temporalutil.AddCommand(d.conn.Namespace, wrong) + where
	}
	if len(missing) == 0 {
		d.add(check, OK, "", "all registered")
	}
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
func (d *examination) pruning(ctx context.Context, conn *temporalutil.Connection) {
	if d.store == nil {
		return
	}
	described, err := conn.ScheduleClient().GetHandle(ctx, workflows.PruneID(d.store.ID())).Describe(ctx)
	switch {
	case temporalutil.NotFound(err):
		d.add("store pruning", OK, "", "no schedule; `maestro checkpoints prune --schedule 24h` creates one")
	case err != nil:
		d.add("store pruning", Warning, "allow these credentials to describe schedules", "the schedule cannot be read: %s", textfmt.FirstLine(err.Error()))
	default:
		every := "on a schedule"
		if spec := described.Schedule.Spec; spec != nil && len(spec.Intervals) == 1 {
			every = "every " + spec.Intervals[0].Every.String()
		}
		d.add("store pruning", OK, "", "%s, by schedule %s", every, workflows.PruneID(d.store.ID()))
	}
}
