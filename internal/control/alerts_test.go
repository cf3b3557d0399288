package control_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/workflowservice/v1"

	"github.com/maestro-hive/maestro/internal/access"
	"github.com/maestro-hive/maestro/internal/budget"
	"github.com/maestro-hive/maestro/internal/control"
	"github.com/maestro-hive/maestro/internal/cost"
	"github.com/maestro-hive/maestro/internal/index"
	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/spec"
	"github.com/maestro-hive/maestro/internal/temporalutil"
	"github.com/maestro-hive/maestro/internal/temporalutil/temporaltest"
)

// spend has a session of the store cost some dollars more, now.
func (s *shelf) spend(name string, usd int64) {
	s.t.Helper()
	key, id := session.Key{Namespace: s.Namespace, Session: name}, spec.AssignmentID{Phase: "build", Persona: "ann"}
	require.NoError(s.t, s.Store.UpdateExecution(key, func(e *session.Execution) { e.Session, e.Team = name, "web" }))
	j, err := s.Store.Journal(key, id)
	require.NoError(s.t, err)
	for _, e := range []budget.Entry{
		{Kind: budget.Begun, Key: &session.CallKey{Epoch: 1, Round: 1, Attempt: 1, Turn: int(j.Next())}, Estimate: &cost.Usage{}},
		{Kind: budget.Settled, Call: j.Next(), Usage: &cost.Usage{InputTokens: 1, CostUSD: cost.USD(usd * 1_000_000_000)}},
	} {
		e.Seq, e.At = j.Next(), s.Now()
		require.NoError(s.t, s.Store.AppendEntry(key, id, e))
		require.NoError(s.t, j.Apply(e))
	}
	require.NoError(s.t, s.Store.UpdateLedger(key, func(l *budget.Ledger) error {
		l.SetRow(id, j.Row(l.Row(id).Reserved), s.Now())
		return nil
	}))
}

// breaker leaves the copy of a breaker in a state.
func (s *shelf) breaker(name string, revision int64, open bool, generation int64, trips int) {
	s.t.Helper()
	b := session.BreakerStatus{Name: name, State: session.BreakerClosed, Failures: 5, Generation: generation, Trips: trips, Revision: revision, Since: time.Unix(1, 0)}
	if open {
		b.State = session.BreakerIsOpen
	}
	require.NoError(s.t, s.Store.PutBreaker(s.ctx, b))
}

// evaluate has several servers of the store evaluate its rules at once, and returns the rules of the
// alerts, the newest first.
func (s *shelf) evaluate() (rules []string) {
	s.t.Helper()
	var servers sync.WaitGroup
	for range 3 {
		base := &control.Base{Store: s.Store, Namespace: s.Namespace, Now: s.Now, Temporal: s.Temporal}
		servers.Go(func() {
			if err := (control.Alerts{Base: base}).Evaluate(s.ctx); err != nil {
				s.t.Errorf("evaluate: %v", err)
			}
		})
	}
	servers.Wait()
	doc, err := control.Alerts{Base: s.Base}.List(s.ctx)
	require.NoError(s.t, err)
	for _, a := range doc.Alerts {
		rules = append(rules, a.Rule)
	}
	return rules
}

func TestADayThatCostsMuchRaisesOneAlert(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	now := time.Date(2026, 11, 23, 9, 0, 0, 0, time.UTC)
	s.Now = func() time.Time { return now }
	alerts := control.Alerts{Base: s.Base}
	for _, rule := range []string{"day_cost_usd=10", "day_cost_usd=10.0", "day_cost_usd=30"} {
		_, err := alerts.Add(s.ctx, rule)
		require.NoError(t, err)
	}
	require.Empty(t, s.evaluate())
	s.spend("one", 6)
	require.Empty(t, s.evaluate())
	s.spend("two", 4)
	require.Equal(t, []string{"day_cost_usd=10"}, s.evaluate(), "at the threshold")
	s.spend("two", 19)
	require.Len(t, s.evaluate(), 1, "once in a day")
	now = now.Add(13 * time.Hour)
	s.spend("one", 1)
	require.Equal(t, []string{"day_cost_usd=30", "day_cost_usd=10"}, s.evaluate())
	doc, err := alerts.List(s.ctx)
	require.NoError(t, err)
	require.Equal(t, "the sessions of namespace default have cost 30 USD on 2026-11-23; the threshold is 30 USD", doc.Alerts[0].Message)
	now = now.Add(3 * time.Hour)
	require.Len(t, s.evaluate(), 2, "the next day costs nothing yet")
	s.spend("one", 12)
	require.Equal(t, []string{"day_cost_usd=10", "day_cost_usd=30", "day_cost_usd=10"}, s.evaluate())
	now = now.Add(23 * time.Hour)
	require.Equal(t, []string{"day_cost_usd=10"}, s.evaluate(), "alerts are listed for a day")

	now = time.Date(2026, 11, 25, 20, 0, 0, 0, time.UTC)
	s.spend("one", 30)
	now = now.Add(12 * time.Hour)
	_, err = alerts.Add(s.ctx, "day_cost_usd=20")
	require.NoError(t, err)
	require.Equal(t, []string{"day_cost_usd=10", "day_cost_usd=30"}, s.evaluate(), "no server ran until the next day; one rule is newer than the day")
	doc, err = alerts.List(s.ctx)
	require.NoError(t, err)
	require.Contains(t, doc.Alerts[0].Message, "on 2026-11-25")
	require.Len(t, s.evaluate(), 2, "once")
}

func TestAnOpeningOfABreakerRaisesOneAlert(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	alerts := control.Alerts{Base: s.Base}
	_, err := alerts.Add(s.ctx, "breaker_open=claude")
	require.NoError(t, err)
	s.breaker("codex", 1, true, 1, 1)
	s.breaker("claude", 1, false, 0, 0)
	require.Empty(t, s.evaluate())
	s.breaker("claude", 2, true, 1, 1)
	require.Len(t, s.evaluate(), 1)
	s.breaker("claude", 3, true, 2, 2)
	require.Len(t, s.evaluate(), 1, "a probe has failed")
	s.breaker("claude", 4, false, 3, 0)
	require.Len(t, s.evaluate(), 1)
	s.breaker("claude", 5, true, 4, 1)
	require.Len(t, s.evaluate(), 2)
	_, err = alerts.Add(s.ctx, "breaker_open=any")
	require.NoError(t, err)
	_, err = alerts.Remove(s.ctx, "breaker_open=claude")
	require.NoError(t, err)
	require.Len(t, s.evaluate(), 4)
}

// TestAlertsOfTheStoreReachTheWebhookOnce has servers end between what they do: before an alert is
// sent, and before that is noted.
func TestAlertsOfTheStoreReachTheWebhookOnce(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	_, err := control.Alerts{Base: s.Base}.Add(s.ctx, "breaker_open=any")
	require.NoError(t, err)
	s.breaker("claude", 1, true, 1, 1)
	require.Len(t, s.evaluate(), 1, "Temporal cannot be reached")
	file := filepath.Join(s.Store.Dir(), "alerts", "default", "raised.json")
	recorded, err := os.ReadFile(file)
	require.NoError(t, err)
	require.NotContains(t, string(recorded), `"sent"`)

	conn, err := temporalutil.DialAddress(t.Context(), temporaltest.Start(t), "default", nil)
	require.NoError(t, err)
	t.Cleanup(conn.Close)
	s.Temporal = control.Connected(conn)
	sent := func() int64 {
		n, err := conn.CountWorkflow(t.Context(), &workflowservice.CountWorkflowExecutionsRequest{Namespace: "default", Query: "WorkflowType = 'webhook'"})
		require.NoError(t, err)
		return n.GetCount()
	}
	s.evaluate()
	after, err := os.ReadFile(file)
	require.NoError(t, err)
	require.NotContains(t, string(after), `"sent"`, "no worker has a webhook")
	require.NoError(t, s.Store.PutOffer(t.Context(), spec.Offer{Worker: "w", Webhook: true, RenewedAt: time.Now()}))
	s.evaluate()
	after, err = os.ReadFile(file)
	require.NoError(t, err)
	require.Contains(t, string(after), `"sent": true`)
	require.NoError(t, os.WriteFile(file, recorded, 0o600))
	s.evaluate()
	require.Eventually(t, func() bool { return sent() > 0 }, time.Minute, 50*time.Millisecond)
	require.EqualValues(t, 1, sent())
	var raised []struct{ ID string }
	require.NoError(t, json.Unmarshal(recorded, &raised))
	info, err := conn.DescribeWorkflow(t.Context(), "webhook/"+s.Store.ID()+"/"+raised[0].ID, "")
	require.NoError(t, err)
	summary, err := info.GetStaticSummary()
	require.NoError(t, err)
	require.Equal(t, "alert of the store", summary)
}

// TestAlertsOfSessionsAreForThoseWhoSeeThem lists the alerts of sessions of two teams.
func TestAlertsOfSessionsAreForThoseWhoSeeThem(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	alerts := control.Alerts{Base: s.Base}
	for i, team := range []string{"web", "docs", "web"} {
		key := session.Key{Namespace: "default", Session: fmt.Sprintf("s%d", i)}
		require.NoError(t, s.Store.UpdateExecution(key, func(e *session.Execution) {
			e.Session, e.Team = key.Session, team
			if i < 2 {
				e.Alerts = []session.Alert{{Rule: "tokens: 5", At: time.Now().Add(-25 * time.Hour)}, {Rule: "tokens: 9", At: time.Now().Add(-time.Duration(i+1) * time.Hour)}}
			}
		}))
	}
	names := func(roles access.Roles) (all []string) {
		doc, err := alerts.List(access.With(t.Context(), access.Actor{Name: "bob", Roles: roles}))
		require.NoError(t, err)
		for _, a := range doc.Alerts {
			all = append(all, a.Session+" "+a.Team+" "+a.Rule)
		}
		return all
	}
	require.Equal(t, []string{"s0 web tokens: 9", "s1 docs tokens: 9"}, names(access.Roles{access.AllTeams: {access.RoleViewer}}))
	require.Equal(t, []string{"s1 docs tokens: 9"}, names(access.Roles{"docs": {access.RoleViewer}}))
}

// TestAlertsOfSessionsAreShared between callers who see the same, until something changes.
func TestAlertsOfSessionsAreShared(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	x, err := index.Open(t.Context(), s.Store, index.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, x.Close()) })
	s.Index = x
	raise := func(team string) {
		key := session.Key{Namespace: "default", Session: "of-" + team}
		require.NoError(t, s.Store.UpdateExecution(key, func(e *session.Execution) {
			e.Session, e.Team = key.Session, team
			e.Alerts = append(e.Alerts, session.Alert{Rule: "tokens: 9", At: time.Now()})
		}))
	}
	listed := func(team string) int {
		doc, err := control.Alerts{Base: s.Base}.List(access.With(t.Context(), access.Actor{Name: "bob", Roles: access.Roles{team: {access.RoleViewer}}}))
		require.NoError(t, err)
		return len(doc.Alerts)
	}
	raise("web")
	require.Equal(t, 1, listed("web"))
	require.Equal(t, 0, listed("docs"))
	raise("web")
	raise("docs")
	require.Equal(t, 2, listed("web"))
	require.Equal(t, 1, listed("docs"))
	require.Equal(t, 3, listed(access.AllTeams))
	now := time.Now().Add(24*time.Hour + time.Second)
	s.Now = func() time.Time { return now }
	require.Equal(t, 0, listed("web"))
}

// TestAlertRulesThatWereWrittenByHand are not evaluated if they are none. The others are.
func TestAlertRulesThatWereWrittenByHand(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	alerts := control.Alerts{Base: s.Base}
	_, err := alerts.Add(s.ctx, "breaker_open=any")
	require.NoError(t, err)
	file := filepath.Join(s.Store.Dir(), "alerts", "default", "rules.json")
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(file, []byte(strings.Replace(string(data), "[", `[{"rule": "day_cost_usd=much"}, {"rule": "day_cost_usd=10.0"},`, 1)), 0o600))
	s.breaker("claude", 1, true, 1, 1)
	err = alerts.Evaluate(s.ctx)
	require.ErrorContains(t, err, `alerts/default/rules.json: rule "day_cost_usd=much" is not evaluated: "much" is not an amount in USD above 0; write it like day_cost_usd=100`)
	doc, err := alerts.List(s.ctx)
	require.NoError(t, err)
	require.Len(t, doc.Alerts, 1)
	require.Contains(t, doc.Rules[0].Fault, "is not an amount")
	require.Empty(t, doc.Rules[1].Fault)
	for _, rule := range []string{"day_cost_usd=much", "day_cost_usd=10.0"} {
		_, err = alerts.Remove(s.ctx, rule)
		require.NoError(t, err)
	}
	require.NoError(t, alerts.Evaluate(s.ctx))
}

func TestAlertRulesAreChecked(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	s.Audit = access.NewAudit(s.Store.Storage(), time.Now)
	alerts := control.Alerts{Base: s.Base}
	var wrong *control.Error
	for _, text := range []string{"", "day_cost_usd", "day_cost_usd=0", "day_cost_usd=-1", "day_cost_usd=a", "breaker_open=", "breaker_open=<b>", "breaker_open=../x", "cost=1"} {
		_, err := alerts.Add(s.ctx, text)
		require.ErrorAs(t, err, &wrong, text)
		require.Equal(t, control.Invalid, wrong.Kind, text)
	}
	_, err := alerts.Remove(s.ctx, "day_cost_usd=1")
	require.ErrorAs(t, err, &wrong)
	require.Equal(t, control.NotFound, wrong.Kind)
	var denied *access.DeniedError
	operator := access.With(t.Context(), access.Actor{Name: "bob", Roles: access.Roles{access.AllTeams: {access.RoleOperator}}})
	for _, text := range []string{"day_cost_usd=1", "nonsense"} {
		_, err = alerts.Add(operator, text)
		require.ErrorAs(t, err, &denied, text)
	}
	for i := range 50 {
		_, err = alerts.Add(s.ctx, fmt.Sprintf("day_cost_usd=%d", i+1))
		require.NoError(t, err)
	}
	_, err = alerts.Add(s.ctx, "day_cost_usd=51")
	require.ErrorAs(t, err, &wrong)
	require.Equal(t, control.Conflict, wrong.Kind)
	events, err := s.Audit.Events(s.ctx, access.EventFilter{Action: "alert", Limit: 100}, "")
	require.NoError(t, err)
	require.Equal(t, "alert.add", events.Events[0].Action)
	require.Equal(t, "day_cost_usd=51", events.Events[0].Subject)
}

// TestADamagedDocumentOfAlertsIsReportedOnce and moved, so that rules are evaluated again.
func TestADamagedDocumentOfAlertsIsReportedOnce(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	alerts := control.Alerts{Base: s.Base}
	for _, name := range []string{"rules.json", "raised.json"} {
		file := filepath.Join(s.Store.Dir(), "alerts", "default", name)
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o700))
		require.NoError(t, os.WriteFile(file, []byte("{"), 0o600))
		err := alerts.Evaluate(s.ctx)
		require.ErrorIs(t, err, session.ErrCorrupt)
		require.ErrorContains(t, err, "moved to quarantine/")
		require.NoError(t, alerts.Evaluate(s.ctx))
	}
	_, err := alerts.Add(s.ctx, "breaker_open=any")
	require.NoError(t, err)
	s.breaker("claude", 1, true, 1, 1)
	require.Len(t, s.evaluate(), 1)
}
