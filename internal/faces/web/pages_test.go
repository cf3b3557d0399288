package web

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/access"
	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/models/config"
	"github.com/maestro-hive/maestro/internal/ops/control"
	"github.com/maestro-hive/maestro/internal/store/state"
	"github.com/maestro-hive/maestro/internal/store/state/statetest"
	"github.com/maestro-hive/maestro/internal/testkit/worktest"
	"github.com/maestro-hive/maestro/workflows"
)

// allPages are the addresses of one page of each kind.
var allPages = []string{
	"/inbox", "/sessions", "/sessions?team=web&status=failed&since=7d", "/sessions/web-7", "/sessions/web-7/phases/frontend",
	"/sessions/web-7/phases/frontend?file=server.go", "/sessions/web-7/phases/absent", "/sessions/web-7/changes?to=frontend",
	"/sessions/web-7/phases/backend/developer", "/sessions/web-7/phases/backend/developer/attempts/1.1?q=fail",
	"/sessions/web-7/phases/backend/developer/attempts/1.2", "/sessions/web-7/phases/backend/database-expert/attempts/1.1?line=5",
	"/sessions/web-7/phases/backend/developer/attempts/9.9", "/sessions/absent", "/absent", "/history",
	"/history?by=model&team=web&text=%3Cb%3E", "/sessions/web-7/checkpoints", "/operate", "/audit", "/account", "/start",
	"/start?choose", "/start?team=web&labels=%3Cb%3E", "/register-team", "/register-team?team=web", "/teams", "/teams/web",
	"/sessions/docs-2/resume?force=frontend", "/sessions/docs-2/fork", "/sessions/done-1", "/inbox/approve?request=web-7/r-1",
	"/sessions/docs-2/edit?phase=design&path=docs/a.md",
}

// Whatever agents and others have written into the documents, pages show it as text.
func TestHostileTextsAreText(t *testing.T) {
	t.Parallel()
	server := dashboard(t, spoiledPlane(t, hostile))
	for _, path := range allPages {
		answer, text := visit(t, server.URL+path)
		require.Equal(t, strings.Contains(path, "absent") || strings.Contains(path, "9.9"), answer.StatusCode == http.StatusNotFound,
			path)
		require.Less(t, answer.StatusCode, 500, path)
		inert(t, text)
		require.False(t, strings.ContainsAny(text, "\x1b\u202e"), path)
	}
	for _, path := range []string{"/inbox", "/sessions/web-7", "/operate", "/sessions/web-7/phases/backend/developer/attempts/1.1"} {
		_, text := visit(t, server.URL+path)
		says(t, text, "&lt;script&gt;alert(2)&lt;/script&gt;")
	}
}

func TestTheInboxSaysWhatIsNeeded(t *testing.T) {
	t.Parallel()
	p := newPlane(t)
	p.temporal.Put("far-1", running, ago(time.Hour), map[string]any{
		workflows.MemoStore: "other", workflows.MemoStatus: workflows.MemoSummary{Reason: "build/dev waits"},
	})
	_, text := visit(t, dashboard(t, p).URL+"/inbox")
	says(t, text,
		"phase frontend needs approval", "backend/developer needs help", "design/developer needs a larger budget", "1d 2h",
		"TestStore", "$11.80",
		`action="/sessions/web-7/requests/r-1/answer"`, `value="approve" title="starts the dependent phases" formnovalidate`,
		`href="https://jira.example/browse/MD-41"`, `action="/sessions/web-5/requests/r-9/supply" enctype="multipart/form-data"`,
		`<span class="count hot">3<`, "Alerts of the last 24 hours", "request r-1 has waited for 30m",
		`<a href="/sessions/web-7">web-7</a>`,
	)
}

// post sends a form and does not follow where it leads.
func post(t *testing.T, address string, form url.Values) *http.Response {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, address, strings.NewReader(form.Encode()))
	require.NoError(t, err)
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	answer, err := http.DefaultTransport.RoundTrip(r)
	require.NoError(t, err)
	text, err := io.ReadAll(answer.Body)
	require.NoError(t, errors.Join(err, answer.Body.Close()))
	answer.Body = io.NopCloser(bytes.NewReader(text))
	return answer
}

// answers are those that sessions got.
func (p *plane) answers() (all []session.Answer) {
	for _, m := range p.temporal.Sent() {
		all = append(all, m.Content.(session.Answer))
	}
	return all
}

func TestAnAnswerLeadsBackToThePage(t *testing.T) {
	t.Parallel()
	p := newPlane(t)
	server := dashboard(t, p)
	answer := post(t, server.URL+"/sessions/web-7/requests/r-1/answer", url.Values{
		"action": {"reject"}, "note": {" too slow "},
		"return": {"/sessions/web-7?x=1"},
	})
	require.Equal(t, http.StatusSeeOther, answer.StatusCode)
	require.Equal(t, "/sessions/web-7?of=web-7&said=reject&x=1", answer.Header.Get("Location"))
	require.Equal(t, []session.Answer{{Request: "r-1", Action: session.AnswerReject, Note: "too slow", By: "alice"}}, p.answers())
	_, text := visit(t, server.URL+answer.Header.Get("Location"))
	require.Contains(t, text, "Rejected. Session web-7 does the phase again with your note.")
	_, text = visit(t, server.URL+"/inbox?said=reject&of=%3Cb%3E")
	require.NotContains(t, text, "Rejected.")

	for _, elsewhere := range []string{"https://evil.example/", "//evil.example/", "/\\evil.example", "javascript:alert(1)", ""} {
		answer := post(t, server.URL+"/sessions/web-7/requests/r-1/answer", url.Values{"action": {"approve"}, "return": {elsewhere}})
		require.True(t, strings.HasPrefix(answer.Header.Get("Location"), "/inbox?"), elsewhere)
	}
	p.temporal.Takes = func(string) error { return errors.New("bob answered with retry") }
	require.Equal(t, http.StatusConflict, post(t, server.URL+"/sessions/web-5/requests/r-9/answer",
		url.Values{"action": {"retry"}}).StatusCode)
}

func TestABudgetIsRaised(t *testing.T) {
	t.Parallel()
	p := newPlane(t)
	server := dashboard(t, p)
	require.Equal(t, http.StatusSeeOther, post(t, server.URL+"/sessions/web-7/raise",
		url.Values{"usd": {"0.25"}, "tokens": {" 9,223,372,037 "}, "scope": {"phase design"}}).StatusCode)
	raise := p.temporal.Sent()[0].Content.(workflows.Raise)
	require.Equal(t, workflows.Raise{USD: 2.5e8, Tokens: 9_223_372_037, Phase: "design", By: "alice", ID: raise.ID}, raise)
	for _, bad := range []url.Values{{}, {"usd": {"-1"}}, {"usd": {"five"}}, {"tokens": {"0"}}, {"tokens": {"-5"}}} {
		require.Equal(t, http.StatusUnprocessableEntity, post(t, server.URL+"/sessions/web-6/raise", bad).StatusCode)
	}
	for _, tokens := range []string{"1.5", "0.5", "1e3", "5 USD", "99999999999999999999"} {
		answer, text := submit(t, server.URL+"/sessions/web-6/raise", map[string]string{"tokens": tokens}, nil)
		require.Equal(t, http.StatusUnprocessableEntity, answer.StatusCode, tokens)
		says(t, text, "tokens: enter a whole number, like 500000")
	}
}

func TestABreakerIsOpened(t *testing.T) {
	t.Parallel()
	p := newPlane(t)
	server := dashboard(t, p)
	trip := url.Values{"action": {"trip"}, "why": {"the provider is down"}, "for": {"30m"}}
	require.Equal(t, "/operate?said=trip", post(t, server.URL+"/operate/breakers/claude", trip).Header.Get("Location"))
	_, text := visit(t, server.URL+"/operate")
	says(t, text, "the provider is down")
	b, err := control.Pool{Base: p.Base}.Breaker(p.ctx, "claude")
	require.NoError(t, err)
	require.Equal(t, testNow.Add(30*time.Minute), *b.OpenUntil)
	trip.Set("for", "soon")
	require.Equal(t, http.StatusUnprocessableEntity, post(t, server.URL+"/operate/breakers/claude", trip).StatusCode)
}

func TestADayIsRaisedAndCallsAreSettled(t *testing.T) {
	t.Parallel()
	p := newPlane(t)
	server := dashboard(t, p)
	require.Equal(t, "/operate?said=examined", post(t, server.URL+"/operate/examine", nil).Header.Get("Location"))
	_, text := visit(t, server.URL+"/operate")
	says(t, text, "Sessions cannot run", "no worker serves the store st-1", "/operate/budgets/web-service/raise",
		"2 calls with unknown cost in", "by alice")
	answer := post(t, server.URL+"/operate/budgets/web-service/raise", url.Values{"usd": {"2.5"}, "note": {"to go on"}})
	require.Equal(t, "/operate?of=web-service&said=day", answer.Header.Get("Location"))
	day, err := control.Money{Base: p.Base}.Day(p.ctx, "web-service")
	require.NoError(t, err)
	require.Equal(t, spec.Cap{USD: 62.5e9, Tokens: 2_000_000}, day.Limit)
	require.Equal(t, "to go on", day.Raises[1].Note)

	_, text = visit(t, server.URL+"/sessions/web-7")
	require.Equal(t, 3, strings.Count(text, `value="nothing">Write off<`))
	says(t, text, "because they look like secrets: &lt;b&gt;.env", "left out by ignore rules: &lt;b&gt;node_modules/",
		"call "+p.calls[2]+"<") // it is unsettled, although its assignment is at work
	require.NotContains(t, text, "call "+p.calls[3]+"<", "it is in progress")
	_, text = visit(t, server.URL+"/sessions/web-7/phases/frontend")
	require.Contains(t, text, "left out by ignore rules: &lt;b&gt;node_modules/")
	settle := func(form url.Values) int { return post(t, server.URL+"/sessions/web-7/settle", form).StatusCode }
	one := url.Values{"call": {p.calls[0]}, "as": {"cost"}, "usd": {"0.25"}, "input": {"many"}}
	require.Equal(t, http.StatusUnprocessableEntity, settle(one))
	one.Set("input", "1,200")
	require.Equal(t, http.StatusSeeOther, settle(one))
	require.Equal(t, http.StatusSeeOther, settle(url.Values{"call": {"all"}, "as": {"nothing"}}))
	account, err := p.Store.State.Account(p.ctx, p.key("web-7"))
	require.NoError(t, err)
	require.Equal(t, cost.USD(11.8e9+.25e9), account.Usage().CostUSD)
	_, text = visit(t, server.URL+"/sessions/web-7")
	require.NotContains(t, text, "Write off<")
}

func TestHistoryAddsUp(t *testing.T) {
	t.Parallel()
	p := newPlane(t)
	for i, is := range []session.State{session.Completed, session.Completed, session.Completed, session.Failed} {
		closed := ago(time.Duration(i) * 24 * time.Hour)
		id := fmt.Sprint("old-", i)
		p.put(session.Status{
			Session: id, Team: "past", Status: is, StartedAt: new(closed.Add(-50 * time.Minute)), ClosedAt: &closed,
			Labels: map[string]string{"area": "web"}, Phases: []session.PhaseStatus{{Name: "build", Status: is}},
		})
		for persona, usd := range map[string]cost.USD{"<script>": 1e9, "tester": 2e9} {
			statetest.Book(t, p.Store.State, statetest.Booking{
				Assignment: state.Assignment{Key: p.key(id), AssignmentID: spec.AssignmentID{Phase: "build", Persona: persona}},
				Team:       "past", Agent: "agent of " + persona, End: state.CallAnswered, Cost: cost.Usage{InputTokens: 10, CostUSD: usd},
			})
		}
	}
	server := dashboard(t, p)
	_, text := visit(t, server.URL+"/history?by=agent&team=past")
	require.Regexp(t, `(?s)75% <small>3 of 4.*50m 0s.*By agent.*agent of tester.*67% of the cost.*\$8\.00.*agent of &lt;script&gt;`, text)
	require.Contains(t, text, `href="?by=model&amp;since=30d&amp;team=past"`)
	says(t, text, `<a href="?by=agent&amp;day=2026-11-22&amp;since=30d&amp;team=past">2026-11-22</a>`,
		"<title>2026-11-22: $0</title>", `href="/history.csv?by=team&amp;since=30d&amp;team=past"`)
	answer, table := visit(t, server.URL+"/history.csv?by=day&team=past")
	require.Contains(t, answer.Header.Get("Content-Disposition"), "history-by-day.csv")
	require.Contains(t, table, "\n2026-11-22,1,1,0,0,3000,")
	_, table = visit(t, server.URL+"/history.csv?by=persona&team=past")
	require.Contains(t, table, "\n<script>,")
	bad, _ := visit(t, server.URL+"/history?label=area")
	require.Equal(t, http.StatusUnprocessableEntity, bad.StatusCode)
	_, text = visit(t, server.URL+"/history?label=area%3Dweb&by=agent")
	says(t, text, `href="?by=model&amp;label=area%3Dweb&amp;since=30d"`)
}

func TestSessionsAreFilteredByALabel(t *testing.T) {
	t.Parallel()
	_, text := visit(t, dashboard(t, newPlane(t)).URL+"/sessions?label=for%3Da%2C%20b")
	inert(t, text)
	require.Contains(t, text, `href="/sessions?label=for%3da%2c%20b"`)
	require.Contains(t, text, `&lt;b&gt;\u202eweb`)
	require.NotContains(t, text, "docs-2")
}

func TestATeamShowsItsPhasesAndVersions(t *testing.T) {
	t.Parallel()
	p := newPlane(t)
	server := dashboard(t, p)
	_, text := visit(t, server.URL+"/teams")
	require.Contains(t, text, `href="/teams/web"`)
	_, text = visit(t, server.URL+"/teams/web")
	inert(t, text)
	says(t, text, `href="#phase-design"`, `id="phase-frontend"`, "design, 1 persona, needs approval", "2 persons",
		"A &lt;b&gt;web&lt;/b&gt; service", `href="/start?team=web"`, `href="/teams/web?version=`, "delivers to github",
		"ship, delivers")
}

// The discussion says what people and agents have decided and why, the oldest first.
func TestTheDiscussionSaysWhy(t *testing.T) {
	t.Parallel()
	_, text := visit(t, dashboard(t, newPlane(t)).URL+"/sessions/web-7")
	says(t, text,
		"<strong>bob</strong> approved, with 1 to go,",
		`<strong>alice</strong> rejected <a href="/sessions/web-7/phases/design">design</a>`,
		"Use &lt;b&gt;SQLite&lt;/b&gt;, not files.", "<strong>frontend/designer</strong> sent back", "the API has no paging",
		`let try again <a href="/sessions/web-7/phases/backend/developer">backend/developer</a>`, "The port is taken; use 9090.",
		`<a href="/sessions/web-7/phases/backend/developer/attempts/2.1">backend/developer</a></strong> finished`,
		"<strong>carol</strong> raised the budget by 5 USD", "approved by finance",
		"the session has cost 10.2 USD; the threshold is 10 USD",
	)
}

// An attempt's page has the feedback that it got: the failure before it, and the reasons for which its work was sent back.
func TestAnAttemptShowsItsFeedback(t *testing.T) {
	t.Parallel()
	p := newPlane(t)
	developer := dashboard(t, p).URL + "/sessions/web-7/phases/backend/developer/attempts/"
	_, first := visit(t, developer+"1.1")
	require.NotContains(t, first, "Feedback that it got")
	_, second := visit(t, developer+"1.2")
	says(t, second, "Feedback that it got", "<strong>round 1, attempt 1</strong> failed: test_failure", "got 3 notes, want 2")
	require.NotContains(t, second, "the API has no paging")

	p.kept("web-7", web7Team(), designer, filesBefore, filesAfter, session.Checkpoint{Answers: []session.Answer{{
		By: "ann", Action: session.AnswerReject, Phase: "backend", Note: "server.go:12 `panic(err)`: answer 500 instead",
		At: ago(20 * time.Minute),
	}}})
	again := session.RoundRecord{Order: session.Order{Pass: 2}, Round: 1}
	again.Attempts = []session.AttemptReport{{
		Attempt: 1, Failure: failures.Failure{Category: failures.Timeout}, StartedAt: ago(10 * time.Minute), EndedAt: testNow,
	}}
	statetest.PutRounds(t, p.Store.State, state.Assignment{
		Key: p.key("web-7"), AssignmentID: spec.AssignmentID{Phase: "backend", Persona: "developer"},
	}, again)
	_, third := visit(t, developer+"2.1.1")
	says(t, third, "pass 2, round 1, attempt 1", "<strong>ann</strong> rejected", "answer 500 instead")
	require.NotContains(t, third, "got 3 notes, want 2", "the failure of another pass is no feedback")
}

// The review of work that was sent back shows what has changed since, as soon as the work is done again.
func TestAReviewShowsWhatHasChangedSinceTheWorkWasSentBack(t *testing.T) {
	t.Parallel()
	p := newPlane(t)
	server := dashboard(t, p)
	shows := func() bool {
		_, text := visit(t, server.URL+"/sessions/web-7/phases/frontend")
		return strings.Contains(text, "Since it was sent back")
	}
	require.False(t, shows())
	undone := worktest.Change(t, p.Store, designer, filesBefore, filesAfter)
	back := session.Checkpoint{
		Reworks: []session.Rework{{To: "frontend", Undone: undone}}, Assignments: []session.CheckpointAssignment{},
	}
	p.kept("web-7", web7Team(), designer, filesBefore, filesAfter, back)
	require.False(t, shows(), "it is not done again yet")
	back.Assignments = nil
	back.Reworks = append(back.Reworks, session.Rework{To: "frontend", Undone: undone})
	p.kept("web-7", web7Team(), designer, filesBefore, filesAfter, back)
	require.True(t, shows())
}

// Whoever has answered gets on to the next request, the oldest that the person can answer.
func TestAPageWithoutARequestLeadsToTheNext(t *testing.T) {
	t.Parallel()
	p := newPlane(t)
	server := dashboard(t, p)
	next := regexp.MustCompile(`href="([^"]*)"><svg[^>]*><path[^>]*/></svg>Next request`)
	leads := func(path string) string {
		_, text := visit(t, server.URL+path)
		return strings.Join(append(next.FindStringSubmatch(text), "", "")[1:2], "")
	}
	require.Empty(t, leads("/sessions/web-7/phases/frontend"), "it has one itself")
	require.Equal(t, "/sessions/web-5/phases/backend/developer", leads("/sessions/web-7/phases/documentation"))
	for _, id := range []string{"web-5", "web-6"} {
		p.put(session.Status{Session: id, Team: "web-service", Status: session.Running})
	}
	require.Equal(t, "/sessions/web-7/phases/frontend#changes", leads("/sessions/web-7/phases/documentation"))
	p.put(session.Status{Session: "web-7", Team: "web-service", Status: session.Running, Phases: []session.PhaseStatus{{
		Name: "design", Status: session.Running,
	}}})
	require.Empty(t, leads("/sessions/web-7/phases/design"))
}

// fiftyApprovals wait for a person, besides a session of which eight assignments wait for one budget and one
// for its own.
func fiftyApprovals(p *plane) {
	for _, id := range []string{"web-5", "web-6", "web-7", "web-8"} {
		p.put(session.Status{Session: id, Team: "web-service", Status: session.Running})
	}
	add := func(id string, requests ...session.Request) {
		a := session.AssignmentStatus{Persona: "dev", AssignmentSummary: session.AssignmentSummary{
			Status: session.Completed, Summary: "The flag, its help and two tests.", Files: 4, Usage: cost.Usage{CostUSD: 2e9},
		}}
		p.put(session.Status{Session: id, Team: "web", Status: session.AwaitingApproval, Help: requests, Phases: []session.PhaseStatus{{
			Name: "build", Status: session.AwaitingApproval, Assignments: []session.AssignmentStatus{a},
		}}})
	}
	for i := range 48 {
		add(fmt.Sprintf("many-%d", i), session.Request{
			ID: fmt.Sprintf("r-%d", i), Kind: session.ForApproval, Phase: "build", Message: "build is done",
			Since: ago(time.Duration(90-i) * time.Minute), Actions: []session.Action{session.AnswerApprove, session.AnswerReject},
		})
	}
	var budgets []session.Request
	for i := range 9 {
		budgets = append(budgets, session.Request{
			ID: fmt.Sprintf("b-%d", i), Kind: session.ForBudget, Phase: "build", Persona: fmt.Sprintf("dev-%d", i),
			Message: "the budget of the session is spent", Actions: []session.Action{session.AnswerRetry}, Since: ago(time.Minute),
			Raise: &session.BudgetRaise{Scope: session.BudgetOfSession, USD: true},
		})
	}
	budgets[8].Raise = &session.BudgetRaise{Scope: session.BudgetOfPersona, Name: "dev-8", USD: true}
	add("many-60", budgets...)
}

// Fifty requests are a list of lines in groups, one for each cause; a filter selects of them, and approvals that were
// chosen are shown once more and then approved, each by itself.
func TestManyRequestsAreAnsweredTogether(t *testing.T) {
	t.Parallel()
	p := newPlane(t)
	fiftyApprovals(p)
	server := dashboard(t, p)
	_, text := visit(t, server.URL+"/inbox")
	says(t, text, "50 requests", "8 assignments wait for a larger budget", "build/dev-0, build/dev-1",
		"build/dev-8 needs a larger budget",
		"The flag, its help and two tests.", "· 4 files", "Add a --shout flag to many-0")
	require.Equal(t, 50, strings.Count(text, `<li class="request-row`))
	require.NotContains(t, text, "<details id=\"details-"+keyOf("many-0", "r-0")+"\" open")
	_, text = visit(t, server.URL+"/inbox?q=many-47&kind=approval")
	require.Equal(t, 1, strings.Count(text, `<li class="request-row`))

	chosen := url.Values{"request": {"many-0/r-0", "many-7/r-7", "many-60/b-0", "absent/r-1"}}
	_, text = visit(t, server.URL+"/inbox/approve?"+chosen.Encode())
	says(t, text, "Approve 2 phases", "Add a --shout flag to many-7")
	require.Empty(t, p.answers())
	answer := post(t, server.URL+"/inbox/approve", url.Values{"request": {"many-0/r-0"}})
	require.Equal(t, "/inbox?said=approved", answer.Header.Get("Location"))
	answer = post(t, server.URL+"/inbox/approve", url.Values{"request": {"many-7/r-7", "absent/r-1"}})
	require.Equal(t, http.StatusConflict, answer.StatusCode)
	failed, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	says(t, string(failed), "1 request could not be approved; the others are.", "absent/r-1 waits for no approval now")
	require.Equal(t, []session.Answer{
		{Request: "r-0", Action: session.AnswerApprove, By: "alice"},
		{Request: "r-7", Action: session.AnswerApprove, By: "alice"},
	}, p.answers())
	p.temporal.Takes = func(string) error { return errors.New("bob rejected it") }
	require.Equal(t, http.StatusConflict, post(t, server.URL+"/inbox/approve", url.Values{"request": {"many-3/r-3"}}).StatusCode)
}

// solo has a completed session that nothing has delivered.
func (p *plane) solo() {
	p.t.Helper()
	solo, err := config.ParseTeam("team", []byte(webTeam[:strings.Index(webTeam, "  - {name: ship")]))
	require.NoError(p.t, err)
	status := session.NewStatus("solo-1", solo)
	status.Status, status.ClosedAt = session.Completed, new(testNow)
	p.put(status)
	p.kept("solo-1", solo, spec.AssignmentID{Phase: "design", Persona: "architect"}, filesBefore, filesAfter, session.Checkpoint{})
}

// A completed session leads to what it has made, and is delivered after a preview.
func TestACompletedSessionIsDeliveredAfterAPreview(t *testing.T) {
	t.Parallel()
	p := newPlane(t)
	p.solo()
	server := dashboard(t, p)
	_, text := visit(t, server.URL+"/sessions/solo-1")
	says(t, text,
		`<a class="btn primary" href="/sessions/solo-1/changes">`, `href="/sessions/solo-1/changes#`+fileKey("server.go")+`"`,
		"maestro apply solo-1", `href="/api/v1/sessions/solo-1/patch"`, `<a class="btn" href="/sessions/solo-1/resume">`,
		"Deliver as a pull request", `method="get" action="/sessions/solo-1/resume"`, "<option>gitlab</option>",
	)
	_, text = visit(t, server.URL+"/sessions/solo-1/resume?to=github&repository=&merge=ask")
	says(t, text, "This is not possible", "give the repository")
	_, text = visit(t, server.URL+"/sessions/solo-1/resume?to=github&repository=+acme/shop&merge=ask")
	says(t, text, "repository: acme/shop", "Resume the session")
	file := regexp.MustCompile(`(?s)<textarea[^>]*name="file"[^>]*>(.*?)</textarea>`).FindStringSubmatch(text)
	require.NotNil(t, file)
	answer := post(t, server.URL+"/sessions/solo-1/resume", url.Values{"file": {file[1]}})
	require.Equal(t, "/sessions/solo-1?of=solo-1&said=resumed", answer.Header.Get("Location"))
	require.Equal(t, "solo-1", p.temporal.Started()[0].Session)

	_, text = visit(t, server.URL+"/sessions/done-1")
	require.NotContains(t, text, "Deliver as a pull request", "its team delivers")
	require.NoError(t, p.Store.State.RemoveOffer(p.ctx, "builder-1"))
	_, text = visit(t, server.URL+"/sessions/solo-1")
	require.NotContains(t, text, "Deliver as a pull request", "nothing could deliver it")
}

func TestAPullRequestIsALinkOnlyWhereThatIsSafe(t *testing.T) {
	t.Parallel()
	p := newPlane(t)
	server := dashboard(t, p)
	_, text := visit(t, server.URL+"/sessions/web-7")
	says(t, text, `href="https://github.com/acme/shop/pull/7" rel="noopener noreferrer"`, "#7</a> of acme/shop: open as a draft, "+
		"2 of 4 checks passed, 1 failed, 1 pending, 1 approval")
	for address, links := range map[string]bool{
		"http://127.0.0.1:8080/a/b/pulls/7": true, "http://localhost/a": true, "http://git.example/a": false,
		"javascript:alert(1)":        false,
		"https://user@git.example/a": false, "//git.example/a": false, "data:text/html,x": false,
	} {
		require.NoError(t, p.delivers(address))
		_, text = visit(t, server.URL+"/sessions/web-7")
		require.Equal(t, links, strings.Contains(text, `href="`+address+`"`), address)
		require.Contains(t, text, "#7</a>")
	}
}

// Whatever page a person opens says that Temporal is away, before a button is pressed.
func TestEveryPageSaysWhatIsAway(t *testing.T) {
	t.Parallel()
	p := newPlane(t)
	p.Temporal = nil
	server := dashboard(t, p)
	for _, path := range allPages {
		if _, text := visit(t, server.URL+path); !strings.Contains(text, "Temporal cannot be reached.") {
			t.Errorf("%s does not say it", path)
		}
	}
}

func TestHooksAreShownToAdminsOfTheirTeams(t *testing.T) {
	t.Parallel()
	p := newPlane(t)
	operate := func(role access.Role) string {
		pages := New(testOptions(), p.Base)
		actor := access.Actor{Name: "eve", Roles: access.Roles{"web": {role}}}
		r, err := http.NewRequestWithContext(access.With(t.Context(), actor), http.MethodGet, "/operate", nil)
		require.NoError(t, err)
		w := httptest.NewRecorder()
		pages.ServeHTTP(w, r)
		return w.Body.String()
	}
	says(t, operate(access.RoleAdmin), "github", "by ann@&lt;b&gt;", `<a href="/sessions/tickets-1">tickets-1</a>`,
		`<span class="faint">none</span>`)
	require.NotContains(t, operate(access.RoleViewer), "Hooks")
	for _, name := range []string{"gh", "tickets"} {
		_, err := control.Hooks{Base: p.Base}.Remove(p.ctx, name)
		require.NoError(t, err)
	}
	says(t, operate(access.RoleAdmin), "maestro hook add NAME --team TEAM")
}
