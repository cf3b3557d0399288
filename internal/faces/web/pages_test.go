package web

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/access"
	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
	"github.com/maestro-hive/maestro/internal/ops/control"
	"github.com/maestro-hive/maestro/internal/ops/sessionstatus"
)

// allPages are the addresses of one page of each kind.
var allPages = []string{
	"/inbox", "/sessions", "/sessions?team=web&status=failed&since=7d", "/sessions/web-7", "/sessions/web-7/phases/frontend",
	"/sessions/web-7/phases/frontend?file=server.go", "/sessions/web-7/phases/absent", "/sessions/web-7/changes?from=design",
	"/sessions/web-7/phases/backend/developer", "/sessions/web-7/phases/backend/developer/attempts/1.1?q=fail",
	"/sessions/web-7/phases/backend/developer/attempts/1.2", "/sessions/web-7/phases/backend/database-expert/attempts/1.1?line=5",
	"/sessions/web-7/phases/backend/developer/attempts/9.9", "/sessions/absent", "/absent", "/history",
	"/history?by=model&team=web&text=%3Cb%3E", "/sessions/web-7/checkpoints", "/operate", "/audit", "/account", "/start",
	"/start?choose", "/start?team=web&labels=%3Cb%3E", "/register-team", "/register-team?team=web", "/teams",
	"/teams/web?version=12", "/sessions/web-7/resume?force=frontend", "/sessions/web-7/fork",
	"/sessions/web-7/edit?phase=frontend&path=server.go",
}

// Whatever agents and others have written into the documents, pages show it as text.
func TestHostileTextsAreText(t *testing.T) {
	t.Parallel()
	p := samplePlane()
	hostile(&p.inbox)
	hostile(&p.sessions)
	hostile(&p.read)
	hostile(&p.diff)
	hostile(&p.work)
	hostile(&p.transcript)
	hostile(&p.roster)
	hostile(&p.breakers)
	hostile(&p.events)
	hostile(&p.teams)
	hostile(&p.plan)
	hostile(&p.foreseen)
	hostile(&p.days)
	hostile(&p.open)
	hostile(&p.examined)
	server := dashboard(t, p)
	for _, path := range allPages {
		answer, text := visit(t, server.URL+path)
		require.Equal(t, strings.Contains(path, "absent") || strings.Contains(path, "9.9"), answer.StatusCode == http.StatusNotFound,
			path)
		require.Less(t, answer.StatusCode, 500, path)
		inert(t, text)
		require.False(t, strings.ContainsAny(text, "\x1b\u202e"), path)
	}
	_, text := visit(t, server.URL+"/inbox")
	says(t, text, "&lt;script&gt;alert(2)&lt;/script&gt;")
}

func TestTheInboxSaysWhatIsNeeded(t *testing.T) {
	t.Parallel()
	_, text := visit(t, dashboard(t, samplePlane()).URL+"/inbox")
	says(t, text,
		"phase frontend needs approval</strong>", "backend/developer needs help", "design/architect needs a larger budget", "1d 2h",
		"TestStore", "$12.40",
		`action="/sessions/web-7/requests/r-1/answer"`, `value="approve" title="starts the dependent phases" formnovalidate`,
		`href="https://jira.example/browse/MD-41"`, `action="/sessions/web-5/requests/r-9/supply" enctype="multipart/form-data"`,
		"maestro status far-1",
		`<span class="count hot">4<`,
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
	require.NoError(t, answer.Body.Close())
	return answer
}

func TestAnAnswerLeadsBackToThePage(t *testing.T) {
	t.Parallel()
	p := samplePlane()
	server := dashboard(t, p)
	answer := post(t, server.URL+"/sessions/web-7/requests/r-1/answer", url.Values{
		"action": {"reject"}, "note": {" too slow "},
		"return": {"/sessions/web-7?x=1"},
	})
	require.Equal(t, http.StatusSeeOther, answer.StatusCode)
	require.Equal(t, "/sessions/web-7?of=web-7&said=reject&x=1", answer.Header.Get("Location"))
	require.Equal(t, []session.Answer{{Request: "r-1", Action: session.AnswerReject, Note: "too slow"}}, p.answers)
	_, text := visit(t, server.URL+answer.Header.Get("Location"))
	require.Contains(t, text, "Rejected. Session web-7 does the phase again with your note.")
	_, text = visit(t, server.URL+"/inbox?said=reject&of=%3Cb%3E")
	require.NotContains(t, text, "Rejected.")

	for _, elsewhere := range []string{"https://evil.example/", "//evil.example/", "/\\evil.example", "javascript:alert(1)", ""} {
		answer := post(t, server.URL+"/sessions/web-7/requests/r-1/answer", url.Values{"action": {"approve"}, "return": {elsewhere}})
		require.True(t, strings.HasPrefix(answer.Header.Get("Location"), "/inbox?"), elsewhere)
	}
}

func TestTheSecondAnswerSaysWhoWasFirst(t *testing.T) {
	t.Parallel()
	p := samplePlane()
	p.conflict = conflict("bob answered with retry")
	require.Equal(t, http.StatusConflict, post(t, dashboard(t, p).URL+"/sessions/web-5/requests/r-9/answer",
		url.Values{"action": {"retry"}}).StatusCode)
}

func TestABudgetIsRaised(t *testing.T) {
	t.Parallel()
	p := samplePlane()
	server := dashboard(t, p)
	require.Equal(t, http.StatusSeeOther, post(t, server.URL+"/sessions/web-6/raise",
		url.Values{"usd": {"2.5"}, "tokens": {"500,000"}, "scope": {"phase design"}}).StatusCode)
	require.Equal(t, []control.Raise{{USD: cost.USD(2.5e9), Tokens: 500_000, Phase: "design"}}, p.raises)
	for _, bad := range []url.Values{{}, {"usd": {"-1"}}, {"usd": {"five"}}, {"tokens": {"1e99"}}} {
		require.Equal(t, http.StatusUnprocessableEntity, post(t, server.URL+"/sessions/web-6/raise", bad).StatusCode)
	}
}

func TestABreakerIsOpened(t *testing.T) {
	t.Parallel()
	p := samplePlane()
	server := dashboard(t, p)
	answer := post(t, server.URL+"/operate/breakers/claude", url.Values{
		"action": {"trip"}, "why": {"the provider is down"},
		"for": {"30m"},
	})
	require.Equal(t, "/operate?said=trip", answer.Header.Get("Location"))
	require.Equal(t, []control.Trip{{Why: "the provider is down", For: textfmt.Duration(30 * time.Minute)}}, p.trips)
	require.Equal(t, http.StatusUnprocessableEntity, post(t, server.URL+"/operate/breakers/claude",
		url.Values{"action": {"trip"}, "for": {"soon"}}).StatusCode)
}

func TestADayIsRaisedAndCallsAreSettled(t *testing.T) {
	t.Parallel()
	p := samplePlane()
	server := dashboard(t, p)
	_, text := visit(t, server.URL+"/operate")
	says(t, text, "Sessions cannot run", "no worker serves the store st-1", "42.0 GiB", "/operate/budgets/web-service/raise",
		"2 calls with unknown cost in", "by alice")
	answer := post(t, server.URL+"/operate/budgets/web-service/raise", url.Values{"usd": {"2.5"}, "note": {"release"}})
	require.Equal(t, "/operate?of=web-service&said=day", answer.Header.Get("Location"))
	require.Equal(t, []control.Raise{{USD: 2.5e9, Note: "web-service: release"}}, p.raises)
	require.Equal(t, "/operate?said=examined", post(t, server.URL+"/operate/examine", nil).Header.Get("Location"))

	_, text = visit(t, server.URL+"/sessions/web-7")
	require.Equal(t, 3, strings.Count(text, `value="nothing">Write off<`))
	require.Contains(t, text, "because they look like secrets: &lt;b&gt;.env")
	require.Contains(t, text, "left out by ignore rules: &lt;b&gt;node_modules/")
	_, text = visit(t, server.URL+"/sessions/web-7/phases/frontend")
	require.Contains(t, text, "left out by ignore rules: &lt;b&gt;node_modules/")
	_, text = visit(t, server.URL+"/sessions/web-7")
	require.Contains(t, text, "call call7<", "it is unsettled, although its assignment is at work")
	require.NotContains(t, text, "call call8<", "it is in progress")
	settle := func(form url.Values) int { return post(t, server.URL+"/sessions/web-7/settle", form).StatusCode }
	one := url.Values{"call": {"call3"}, "as": {"cost"}, "usd": {"0.25"}, "input": {"1,200"}}
	require.Equal(t, http.StatusSeeOther, settle(one))
	require.Equal(t, http.StatusSeeOther, settle(url.Values{"call": {"all"}, "as": {"nothing"}}))
	require.Equal(t, []string{"call3 cost 1200 0.25", "all nothing"}, p.settled)
	one.Set("input", "many")
	require.Equal(t, http.StatusUnprocessableEntity, settle(one))
}

func TestHistoryAddsUp(t *testing.T) {
	t.Parallel()
	p := samplePlane()
	server := dashboard(t, p)
	_, text := visit(t, server.URL+"/history?by=agent&team=web")
	require.Regexp(t, `(?s)90% <small>9 of 10.*1\.43 <small>17 failed<.*50m 0s <small>average of 4.*1h 6m <small>average of 10.*By agent.*tester.*95%.*67% of the cost.*\$2\.00.*developer`, text)
	require.Contains(t, text, `href="?by=model&amp;since=30d&amp;team=web"`)
	says(t, text,
		`<a href="?by=agent&amp;day=2026-11-22&amp;since=30d&amp;team=web">2026-11-22</a>`, "<title>2026-11-21: $0</title>",
		"<span>$3.00</span><span>$1.50</span>",
		`href="/history.csv?by=team&amp;since=30d&amp;team=web"`,
	)
	answer, table := visit(t, server.URL+"/history.csv?by=day")
	require.Contains(t, answer.Header.Get("Content-Disposition"), "history-by-day.csv")
	require.Contains(t, table, "\n2026-11-23,12,9,1,1,86000,14,52000,40,57,17,3,900,0,0,0\n")
	_, table = visit(t, server.URL+"/history.csv?by=persona")
	require.Contains(t, table, "\ndeveloper <script>,")
	bad, _ := visit(t, server.URL+"/history?label=area")
	require.Equal(t, http.StatusUnprocessableEntity, bad.StatusCode)
	_, text = visit(t, server.URL+"/history?label=area%3Dweb&by=agent")
	says(t, text, `href="?by=model&amp;label=area%3Dweb&amp;since=30d"`)
}

func TestSessionsAreFilteredByALabel(t *testing.T) {
	t.Parallel()
	server := dashboard(t, samplePlane())
	_, text := visit(t, server.URL+"/sessions?label=for%3Da%2C%20b")
	inert(t, text)
	require.Contains(t, text, `href="/sessions?label=for%3da%2c%20b"`)
	require.Contains(t, text, `&lt;b&gt;\u202eweb`)
}

func TestATeamShowsItsPhasesAndVersions(t *testing.T) {
	t.Parallel()
	server := dashboard(t, samplePlane())
	_, text := visit(t, server.URL+"/teams")
	require.Contains(t, text, `href="/teams/web"`)
	_, text = visit(t, server.URL+"/teams/web")
	inert(t, text)
	says(t, text, `href="#phase-design"`, `id="phase-build"`, "design, 1 persona, needs approval", "2 persons",
		"A &lt;b&gt;web&lt;/b&gt; service", `href="/start?team=web"`, `href="/teams/web?version=12ab"`,
		"delivers to github", "ship, delivers")
}

// TestAlertsAreShown on the inbox, with their sessions, and on the page of a session.
func TestAlertsAreShown(t *testing.T) {
	t.Parallel()
	p := samplePlane()
	server := dashboard(t, p)
	_, text := visit(t, server.URL+"/inbox")
	says(t, text, "Alerts of the last 24 hours", "request r-1 has waited for 30m", `<a href="/sessions/web-7">web-7</a>`)
	_, text = visit(t, server.URL+"/sessions/web-7")
	says(t, text, "the session has cost 10.2 USD; the threshold is 10 USD")

	p.alerts = control.AlertList{}
	_, text = visit(t, server.URL+"/inbox")
	require.NotContains(t, text, "Alerts of the last 24 hours")
	p.noAlerts = errors.New("the index cannot be read")
	resp, text := visit(t, server.URL+"/inbox")
	require.Equal(t, http.StatusOK, resp.StatusCode)
	says(t, text, "Alerts: the index cannot be read")
}

// The discussion says what people and agents have decided and why, the oldest first.
func TestTheDiscussionSaysWhy(t *testing.T) {
	t.Parallel()
	_, text := visit(t, dashboard(t, samplePlane()).URL+"/sessions/web-7")
	says(t, text,
		"<strong>bob</strong> approved, with 1 to go,",
		`<strong>alice</strong> rejected <a href="/sessions/web-7/phases/design">design</a>`,
		"Use &lt;b&gt;SQLite&lt;/b&gt;, not files.", "<strong>frontend/designer</strong> sent back", "the API has no paging",
		`let try again <a href="/sessions/web-7/phases/backend/developer">backend/developer</a>`, "The port is taken; use 9090.",
		`<a href="/sessions/web-7/phases/backend/developer/attempts/1.2">backend/developer</a></strong> finished`,
		"Stored notes in SQLite, with tests.", "<strong>carol</strong> raised the budget by 5 USD", "approved by finance",
	)
}

// An attempt's page has the feedback that it got: the failure before it, and the reasons for which its work was sent back.
func TestAnAttemptShowsItsFeedback(t *testing.T) {
	t.Parallel()
	p := samplePlane()
	server := dashboard(t, p)
	developer := server.URL + "/sessions/web-7/phases/backend/developer/attempts/"
	_, first := visit(t, developer+"1.1")
	require.NotContains(t, first, "Feedback that it got")
	_, second := visit(t, developer+"1.2")
	says(t, second, "Feedback that it got", "<strong>round 1, attempt 1</strong> failed: test_failure", "got 3 notes, want 2")
	require.NotContains(t, second, "the API has no paging")

	work := &p.work
	work.Interventions = append(work.Interventions, sessionstatus.Intervention{
		At: ago(20 * time.Minute), By: "ann", Action: session.AnswerReject, Phase: "backend",
		Text: "server.go:12 `panic(err)`: answer 500 instead",
	})
	again := work.Attempts[1]
	again.Pass, again.StartedAt = 2, ago(10*time.Minute)
	work.Attempts = append(work.Attempts, again)
	for i := range work.Attempts {
		work.Attempts[i].Again = true
	}
	_, third := visit(t, developer+"2.1.2")
	says(t, third, "pass 2, round 1, attempt 2", "<strong>ann</strong> rejected", "answer 500 instead")
	require.NotContains(t, third, "got 3 notes, want 2", "the failure of another pass is no feedback")
}

// The review of work that was sent back shows what has changed since, as soon as the work is done again.
func TestAReviewShowsWhatHasChangedSinceTheWorkWasSentBack(t *testing.T) {
	t.Parallel()
	p := samplePlane()
	server := dashboard(t, p)
	done := []session.CheckpointAssignment{{AssignmentID: spec.AssignmentID{Phase: "frontend", Persona: "designer"}}}
	for _, c := range []struct {
		checkpoint session.Checkpoint
		since      bool
	}{
		{session.Checkpoint{Assignments: done}, false},
		{session.Checkpoint{Reworks: []session.Rework{{To: "frontend", Undone: done}}}, false},
		{session.Checkpoint{Reworks: []session.Rework{{To: "frontend", Undone: done}}, Assignments: done}, true},
	} {
		p.work.Checkpoint = c.checkpoint
		_, text := visit(t, server.URL+"/sessions/web-7/phases/frontend")
		require.Equal(t, c.since, strings.Contains(text, "Since it was sent back"))
	}
}

// Whoever has answered gets on to the next request, the oldest that the person can answer.
func TestAPageWithoutARequestLeadsToTheNext(t *testing.T) {
	t.Parallel()
	p := samplePlane()
	server := dashboard(t, p)
	next := regexp.MustCompile(`href="([^"]*)"><svg[^>]*><path[^>]*/></svg>Next request`)
	leads := func(path string) string {
		_, text := visit(t, server.URL+path)
		return strings.Join(append(next.FindStringSubmatch(text), "", "")[1:2], "")
	}
	require.Empty(t, leads("/sessions/web-7/phases/frontend"), "it has one itself")
	require.Equal(t, "/sessions/web-5/phases/backend/developer", leads("/sessions/web-7/phases/documentation"))
	p.inbox.Waiting = slices.DeleteFunc(p.inbox.Waiting, func(e control.InboxEntry) bool { return !e.Kind.OfPhase() })
	require.Equal(t, "/sessions/web-7/phases/frontend#changes", leads("/sessions/web-7/phases/documentation"))
	p.inbox.Waiting = nil
	require.Empty(t, leads("/sessions/web-7/phases/documentation"))
}

// fiftyApprovals wait for a person, besides a session of which eight assignments wait for one budget.
func fiftyApprovals(p *plane) {
	p.inbox.Waiting = nil
	add := func(id string, r session.Request) {
		e := control.EntryOf(session.Status{
			Session: id, Team: "web", Usage: cost.Usage{CostUSD: 2e9},
			Phases: []session.PhaseStatus{{Name: "build", SentBack: id == "web-2" || r.Kind != session.ForApproval}},
		}, r)
		e.Requirement, e.Summary, e.Files = "Add a --shout flag to "+id, "The flag, its help and two tests.", 4
		p.inbox.Waiting = append(p.inbox.Waiting, e)
	}
	for i := range 49 {
		kind := session.Request{
			ID: fmt.Sprintf("r-%d", i), Kind: session.ForApproval, Phase: "build", Message: "build is done",
			Since: ago(time.Duration(90-i) * time.Minute),
		}
		kind.Actions = []session.Action{session.AnswerApprove, session.AnswerReject}
		add(fmt.Sprintf("web-%d", i), kind)
	}
	for i := range 8 {
		add("web-60", session.Request{
			ID: fmt.Sprintf("b-%d", i), Kind: session.ForBudget, Phase: "build", Persona: fmt.Sprintf("dev-%d", i),
			Message: "the budget of the session is spent",
			Actions: []session.Action{session.AnswerRetry}, Since: ago(time.Minute),
			Raise: &session.BudgetRaise{Scope: session.BudgetOfSession, USD: true},
		})
	}
	p.inbox.Waiting = control.Together(p.inbox.Waiting)
}

// Fifty requests are a list of lines in groups, one for each cause; a filter selects of them, and approvals that were
// chosen are shown once more and then approved, each by itself.
func TestManyRequestsAreAnsweredTogether(t *testing.T) {
	t.Parallel()
	p := samplePlane()
	fiftyApprovals(p)
	server := dashboard(t, p)
	_, text := visit(t, server.URL+"/inbox")
	says(t, text, "50 requests", "8 assignments wait for a larger budget", "build/dev-0, build/dev-1",
		"The flag, its help and two tests.", "· 4 files", "· $2.00", `<span class="chip good">done again</span>`,
		"See what has changed since")
	require.Equal(t, 50, strings.Count(text, `<li class="request-row`))
	require.Equal(t, 1, strings.Count(text, ">done again<"), "not of requests for help")
	require.NotContains(t, text, "<details id=\"details-"+keyOf("web-0", "r-0")+"\" open")
	_, text = visit(t, server.URL+"/inbox?q=web-48&kind=approval")
	require.Equal(t, 1, strings.Count(text, `<li class="request-row`))

	chosen := url.Values{"request": {"web-0/r-0", "web-7/r-7", "web-60/b-0", "absent/r-1"}}
	_, text = visit(t, server.URL+"/inbox/approve?"+chosen.Encode())
	says(t, text, "Approve 2 phases", "Add a --shout flag to web-7")
	require.Empty(t, p.answers)
	answer := post(t, server.URL+"/inbox/approve", chosen)
	require.Equal(t, "/inbox?said=approved", answer.Header.Get("Location"))
	require.Equal(t, []session.Answer{
		{Request: "r-0", Action: session.AnswerApprove},
		{Request: "r-7", Action: session.AnswerApprove},
	}, p.answers)
	p.conflict = conflict("bob rejected it")
	require.Equal(t, http.StatusConflict, post(t, server.URL+"/inbox/approve", url.Values{"request": {"web-3/r-3"}}).StatusCode)
}

// A completed session leads to what it has made.
func TestACompletedSessionLeadsToItsResult(t *testing.T) {
	t.Parallel()
	p := samplePlane()
	p.read.Status.Status, p.read.Help, p.read.Notes = session.Completed, nil, nil
	_, text := visit(t, dashboard(t, p).URL+"/sessions/web-7")
	says(t, text,
		`<a class="btn primary" href="/sessions/web-7/changes">`, `href="/sessions/web-7/changes#`+fileKey("server.go")+`"`,
		"maestro apply web-7",
		`href="/api/v1/sessions/web-7/patch"`, `<a class="btn" href="/sessions/web-7/resume">`,
	)
	require.NotContains(t, text, "Deliver as a pull request", "nothing could deliver it")
}

func TestACompletedSessionIsDeliveredAfterAPreview(t *testing.T) {
	t.Parallel()
	p := samplePlane()
	p.deliver = []string{"github", "gitlab"}
	p.read.Status.Status, p.read.Help, p.read.Notes = session.Completed, nil, nil
	server := dashboard(t, p)
	_, text := visit(t, server.URL+"/sessions/web-7")
	says(t, text, "Deliver as a pull request", `method="get" action="/sessions/web-7/resume"`, "<option>gitlab</option>")
	_, text = visit(t, server.URL+"/sessions/web-7/resume?to=github&repository=&merge=ask")
	says(t, text, "This is not possible", "give the repository")
	_, text = visit(t, server.URL+"/sessions/web-7/resume?to=github&repository=+acme/shop&merge=ask")
	says(t, text, "deliver: github acme/shop ask", `name="only" value="deliver"`, "Resume the session")
	answer := post(t, server.URL+"/sessions/web-7/resume", url.Values{"file": {"name: other"}, "only": {"design", "deliver"}})
	require.Equal(t, http.StatusSeeOther, answer.StatusCode)
	require.Equal(t, []control.Resume{{
		Team: control.TeamInput{File: "name: other"}, PhaseSelection: control.PhaseSelection{Only: []string{"design", "deliver"}},
	}}, p.resumed)

	p.read.Phases[0].Assignments = []session.AssignmentStatus{sampleAssignment(spec.DeliveryPersona, session.Completed, 1, 0)}
	_, text = visit(t, server.URL+"/sessions/web-7")
	require.NotContains(t, text, "Deliver as a pull request", "its team delivers")
}

func TestAPullRequestIsALinkOnlyWhereThatIsSafe(t *testing.T) {
	t.Parallel()
	p := samplePlane()
	server := dashboard(t, p)
	pull := p.read.Phases[4].PullRequest
	_, text := visit(t, server.URL+"/sessions/web-7")
	says(t, text, `href="https://github.com/acme/shop/pull/7" rel="noopener noreferrer"`, "#7</a> of acme/shop: open as a draft, "+
		"2 of 4 checks passed, 1 failed, 1 pending, 1 approval")
	for address, links := range map[string]bool{
		"http://127.0.0.1:8080/a/b/pulls/7": true, "http://localhost/a": true, "http://git.example/a": false,
		"javascript:alert(1)":        false,
		"https://user@git.example/a": false, "//git.example/a": false, "data:text/html,x": false,
	} {
		pull.URL = address
		_, text = visit(t, server.URL+"/sessions/web-7")
		require.Equal(t, links, strings.Contains(text, `href="`+address+`"`), address)
		require.Contains(t, text, "#7</a>")
	}
}

// Whatever page a person opens says that Temporal is away, before a button is pressed.
func TestEveryPageSaysWhatIsAway(t *testing.T) {
	t.Parallel()
	p := samplePlane()
	p.away = []string{"Temporal cannot be reached."}
	server := dashboard(t, p)
	for _, path := range allPages {
		if _, text := visit(t, server.URL+path); !strings.Contains(text, "Temporal cannot be reached.") {
			t.Errorf("%s does not say it", path)
		}
	}
}

func TestHooksAreShown(t *testing.T) {
	t.Parallel()
	p := samplePlane()
	server := dashboard(t, p)
	_, text := visit(t, server.URL+"/operate")
	says(t, text, "github", "by ann@&lt;b&gt;", `<a href="/sessions/tickets-1">tickets-1</a>`, `<span class="faint">none</span>`)
	p.hooks = nil
	_, text = visit(t, server.URL+"/operate")
	says(t, text, "maestro hook add NAME --team TEAM")
	p.noHooks = &access.DeniedError{}
	_, text = visit(t, server.URL+"/operate")
	require.NotContains(t, text, "Hooks")
	p.noHooks = errors.New("the database is damaged")
	_, text = visit(t, server.URL+"/operate")
	says(t, text, "Hooks: the database is damaged")
}
