package httpapi_test

import (
	"bytes"
	"encoding/csv"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/access"
	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/ops/control"
	"github.com/maestro-hive/maestro/internal/store/state"
	"github.com/maestro-hive/maestro/internal/store/state/statetest"
)

var annDesigns = spec.AssignmentID{Phase: "design", Persona: "ann"}

// unsettled has a session of team web, which has a daily budget, make calls whose cost stays unknown.
func (h *service) unsettled(id string, calls int) (ids []string) {
	h.t.Helper()
	key, db := session.Key{Namespace: "default", Session: id}, h.base.Store.State
	statetest.Admit(h.t, db, key, "web", statetest.Limit(session.BudgetOfDay, "web", spec.Cap{Tokens: 200}))
	for range calls {
		ids = append(ids, statetest.Book(h.t, db, statetest.Booking{
			Assignment: state.Assignment{Key: key, AssignmentID: annDesigns}, Team: "web", Agent: "coder", Model: "=1+1",
			End:  state.CallUnsettled,
			Cost: cost.Usage{InputTokens: 40, CostUSD: 1_000_000_000},
		}))
	}
	return ids
}

// events are the lines of the audit log, as `action subject: outcome`.
func (h *service) events() (lines []string) {
	h.t.Helper()
	page, err := h.base.Audit.Events(h.t.Context(), access.EventFilter{})
	require.NoError(h.t, err)
	for _, e := range page.Events {
		lines = append(lines, e.Actor+" "+e.Action+" "+e.Team+" "+e.Subject+": "+string(e.Outcome))
	}
	return lines
}

func TestADayIsRaisedByWhoOperatesTheTeam(t *testing.T) {
	t.Parallel()
	h := newService(t)
	h.session("one", "web", time.Now(), nil)
	require.Equal(t, http.StatusNotFound, h.call("GET", "/budgets/web", nil).status)
	h.unsettled("one", 1)
	h.actor = access.Actor{Name: "eve", Roles: access.Roles{"api": {access.RoleOperator}}}
	var list struct{ Days []control.Day }
	h.call("GET", "/budgets", nil).read(t, &list)
	require.Empty(t, list.Days, "of another team")
	require.Equal(t, http.StatusForbidden, h.call("POST", "/budgets/web/raise", map[string]any{"tokens": 5}).status)

	h.actor = access.Actor{Name: "bob", Roles: access.Roles{"web": {access.RoleOperator}}}
	require.Equal(t, http.StatusUnprocessableEntity, h.call("POST", "/budgets/web/raise", map[string]any{"usd": 5}).status)
	require.Equal(t, http.StatusUnprocessableEntity, h.call("POST", "/budgets/web/raise", map[string]any{}).status)
	day := read[control.Day](t, h.call("POST", "/budgets/web/raise", map[string]any{"tokens": 50, "note": "release"}))
	require.Equal(t, spec.Cap{Tokens: 250}, day.Limit)
	require.Equal(t, "bob", day.Raises[0].By)
	h.call("GET", "/budgets", nil).read(t, &list)
	require.Len(t, list.Days, 1)
	require.EqualValues(t, 40, list.Days[0].Unsettled.Tokens)
	require.EqualValues(t, 210, *list.Days[0].Left.Tokens)
	require.Nil(t, list.Days[0].Left.USD)
	h.actor = access.Local("ann@host")
	require.Contains(t, h.events(), "bob budget.raise web day: done")
	require.Contains(t, h.events(), "eve budget.raise web day: denied")
	require.Equal(t, http.StatusNotFound, h.call("POST", "/budgets/api/raise", map[string]any{"tokens": 5}).status)
}

func TestARaiseWithAKeyIsMadeOnceAlsoIfItsAnswerWasLost(t *testing.T) {
	t.Parallel()
	h := newService(t)
	h.session("one", "web", time.Now(), nil)
	h.unsettled("one", 1)
	db := statetest.SQLite(t, h.base.Store.Dir())
	raise := func(tokens int) (day control.Day) {
		h.call("POST", "/budgets/web/raise", map[string]any{"tokens": tokens}, "Idempotency-Key", "k").read(t, &day)
		_, err := db.ExecContext(t.Context(), `update idempotency set status = 0`) // as after a server error
		require.NoError(t, err)
		return day
	}
	require.Equal(t, spec.Cap{Tokens: 250}, raise(50).Limit)
	require.Equal(t, spec.Cap{Tokens: 250}, raise(50).Limit)
	require.Equal(t, spec.Cap{Tokens: 257}, raise(7).Limit, "another raise")
	h.actor = access.Local("bob@host")
	require.Equal(t, spec.Cap{Tokens: 307}, raise(50).Limit, "of another person")
}

func TestCallsAreSettled(t *testing.T) {
	t.Parallel()
	h := newService(t)
	h.session("one", "web", time.Now(), nil)
	calls := h.unsettled("one", 3)
	first, all := "/sessions/one/calls/"+calls[0]+"/settle", "/sessions/one/calls/settle"
	key := session.Key{Namespace: "default", Session: "one"}
	used := map[string]any{"input_tokens": 30, "output_tokens": 0, "cache_read_tokens": 0, "cache_write_tokens": 0, "cost_usd": 0.5}
	for _, wrong := range []map[string]any{{}, {"as": "cost"}, {"as": "nothing", "usage": used}, {"as": "much"}} {
		require.Equal(t, http.StatusUnprocessableEntity, h.call("POST", first, wrong).status, wrong)
	}
	begun := statetest.Book(t, h.base.Store.State, statetest.Booking{
		Assignment: state.Assignment{Key: key, AssignmentID: annDesigns}, Team: "web", Agent: "coder", Model: "=1+1",
		End: state.CallBegun,
	})
	lock, ok, err := h.base.Store.Lock(t.Context(), key, annDesigns)
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, http.StatusConflict, h.call("POST", "/sessions/one/calls/"+begun+"/settle",
		map[string]any{"as": "nothing"}).status, "it is in progress")
	settled := read[control.Settled](t, h.call("POST", first, map[string]any{"as": "cost", "usage": used, "note": "by the bill"}))
	require.Equal(t, 2, settled.Unsettled)
	require.Equal(t, cost.USD(500_000_000), settled.Usage.CostUSD)
	require.Equal(t, http.StatusConflict, h.call("POST", first, map[string]any{"as": "nothing"}).status, "twice")
	require.Equal(t, http.StatusNotFound, h.call("POST", "/sessions/one/calls/99/settle", map[string]any{"as": "nothing"}).status)
	rest := read[control.SettledCalls](t, h.call("POST", all, map[string]any{"as": "estimated"}))
	require.Len(t, rest.Calls, 2, "not that in progress")
	lock.Unlock()
	require.Equal(t, http.StatusOK, h.call("POST", "/sessions/one/calls/"+begun+"/settle", map[string]any{"as": "nothing"}).status,
		"its worker was lost")
	h.call("POST", all, map[string]any{"as": "estimated"}).read(t, &rest)
	require.Empty(t, rest.Calls, "none is left")
	require.Contains(t, h.events(), "ann@host budget.settle web call "+calls[0]+": done")
	require.Contains(t, h.events(), "ann@host budget.settle web all calls: done")

	sums := read[control.Usage](t, h.call("GET", "/sessions/one/usage?by=model", nil))
	require.Equal(t, cost.USD(2_500_000_000), sums.Total.Usage.CostUSD)
	h.call("GET", "/usage?by=model", nil).read(t, &sums)
	sums.By = []string{"model"}
	var table bytes.Buffer
	require.NoError(t, sums.WriteCSV(&table))
	rows, err := csv.NewReader(&table).ReadAll()
	require.NoError(t, err)
	require.Len(t, rows, 2)
	require.Equal(t, []string{"model", "calls"}, rows[0][:2])
	require.Equal(t, []string{"'=1+1", "3"}, rows[1][:2], "no formula")
	require.Equal(t, http.StatusUnprocessableEntity, h.call("GET", "/sessions/one/usage?by=colour", nil).status)

	for label, status := range map[string]int{"area=web": http.StatusOK, "area": http.StatusUnprocessableEntity} {
		require.Equal(t, status, h.call("GET", "/usage?by=team&label="+label, nil).status)
		require.Equal(t, status, h.call("GET", "/statistics?label="+label, nil).status)
	}
	h.call("GET", "/usage?by=team&label=area=web", nil).read(t, &sums)
	require.Empty(t, sums.Rows, "no session has the label")

	h.session("two", "api", time.Now(), nil)
	h.actor = access.Actor{Name: "eve", Roles: access.Roles{"api": {access.RoleViewer}}}
	h.call("GET", "/usage?by=team", nil).read(t, &sums)
	require.Empty(t, sums.Rows, "of another team")
	require.Equal(t, http.StatusForbidden, h.call("GET", "/usage?team=web", nil).status)
	var came struct{ Groups []state.Statistic }
	h.call("GET", "/statistics", nil).read(t, &came)
	require.Len(t, came.Groups, 1)
	require.Equal(t, "api", came.Groups[0].Team)
	require.Equal(t, http.StatusForbidden, h.call("GET", "/statistics?team=web&team=api", nil).status)
}
