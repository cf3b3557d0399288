//go:build system

package system

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/access"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/testkit/proctest"
)

// tokenOf creates a token that a person of the provider of sign-ins owns, who is an approver and a
// member of groups.
func (d *dashboard) tokenOf(person, name string, groups ...string) string {
	d.t.Helper()
	st := d.open()
	ctx := access.With(d.t.Context(), access.Actor{Name: person, Via: access.ViaOIDC, Roles: access.Roles{access.AllTeams: {access.RoleAdmin}}})
	secret, _, err := access.NewTokens(st.State, nil).Create(ctx, access.NewToken{
		Name: name, Roles: access.Roles{access.AllTeams: {access.RoleApprover}}, Groups: groups,
	})
	require.NoError(d.t, err)
	return secret
}

// TestTwoPersonsApproveAPhase has two persons approve a phase, one before and one after the worker
// was killed. The starter approves nothing alone.
func TestTwoPersonsApproveAPhase(t *testing.T) {
	t.Parallel()
	w := newWorldAlone(t)
	w.write("agents.yaml", "version: 1\nagents:\n  coder: {kind: command, argv: [sh, -c, \"cat > /dev/null; echo work > work.txt\"]}\n")
	worker := w.startWorker()
	d := &dashboard{world: w, at: "127.0.0.1:" + proctest.FreePort(t)}
	d.serve()
	d.must("run", d.write("team.yaml", `version: 1
name: builders
personas: {builder: {role: Builder, agent: coder, instructions: Build it.}}
phases:
  - {name: build, personas: [builder], approve: {by: [leads], count: 2}}
  - {name: ship, personas: [builder], approve: {by: [leads]}}
`), "A web server", "--session", "s")
	d.shows("s", "it waits for approval", func(s session.Status) bool { return len(s.Help) == 1 })
	require.Contains(t, d.must("inbox"), "0 of 2 approvals; needs 2 persons of leads")

	ana, again := d.tokenOf("ana@example.org", "ana", "leads"), d.tokenOf("ana@example.org", "ana-2", "staff", "leads")
	bob, cem := d.tokenOf("bob@example.org", "bob", "staff"), d.tokenOf("cem@example.org", "cem", "leads")
	say := func(token, request, answer string, want int) string {
		t.Helper()
		status, body := d.call(token, http.MethodPost, "/sessions/s/requests/"+request+"/answer", answer)
		require.Equal(t, want, status, body)
		return body
	}
	const approve, forged = `{"action":"approve"}`, `{"action":"approve","person":"eve","group":"leads"}`
	require.Contains(t, say(bob, "build.approval.1", approve, http.StatusForbidden), "a member of leads is needed")
	require.Contains(t, say(bob, "build.approval.1", `{"action":"reject","note":"no"}`, http.StatusForbidden), "a member of leads")
	say(bob, "build.approval.1", forged, http.StatusUnprocessableEntity)
	require.Contains(t, say(ana, "build.approval.1", approve, http.StatusOK), `"left":1`)
	require.Contains(t, say(again, "build.approval.1", approve, http.StatusConflict), "ana@example.org has approved already")
	_, open := d.call(again, http.MethodGet, "/requests", "")
	require.NotContains(t, open, `"action":"approve"`, "the inbox offers what counts")
	require.Contains(t, open, `"action":"reject"`)
	_, open = d.call(cem, http.MethodGet, "/requests", "")
	require.Contains(t, open, `"action":"approve"`)

	worker.kill()
	require.Contains(t, d.must("inbox"), "1 of 2 approvals: ana@example.org ")
	require.Contains(t, say(again, "build.approval.1", approve, http.StatusConflict), "has approved already", "the store knows it, too")
	w.startWorker()
	d.shows("s", "it waits still", func(s session.Status) bool { return len(s.Help) == 1 && len(s.Help[0].Quorum.Approvals) == 1 })
	d.must("approve", "s", "build")
	d.shows("s", "it waits at its end", func(s session.Status) bool { return len(s.Help) == 1 && s.Help[0].Phase == "ship" })

	own := d.maestro("approve", "s", "ship")
	require.Equal(t, 1, own.code, own.stdout)
	require.Contains(t, own.stderr, "started the session; it needs another person")
	say(cem, "ship.approval.1", approve, http.StatusOK)
	d.completes("s")
	kept := d.must("checkpoints", "show", "s")
	require.Regexp(t, `build: approve by ana[^\n]*\n(.*\n)*.*build: approve by [^\n]*\n(.*\n)*.*ship: approve by cem`, kept)
	require.Regexp(t, `bob, a token of bob@example\.org .*request\.approve .* denied`, d.must("audit", "--session", "s"))
	d.must("checkpoints", "verify", "--all")
}
