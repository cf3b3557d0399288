package web

import (
	"fmt"
	"math"
	"math/rand"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/html"

	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/ops/control"
)

var allStates = []session.State{
	session.Admitted, session.Running, session.Waiting, session.WaitingForBreaker, session.AwaitingApproval, session.HelpIsNeeded,
	session.Completed,
	session.Restored, session.Supplied, session.Skipped, session.Failed, session.WasCancelled, session.Pending,
}

// inert fails for a page that has anything active besides the two scripts of the layout, or an
// inline style.
func inert(t *testing.T, text string) {
	t.Helper()
	page, err := html.Parse(strings.NewReader(text))
	require.NoError(t, err)
	ids := map[string]bool{}
	for n := range page.Descendants() {
		if n.Type != html.ElementNode {
			continue
		}
		require.NotContains(t, []string{"iframe", "object", "embed", "style", "base", "img", "foreignObject"}, n.Data)
		if n.Data == "script" {
			require.Nil(t, n.FirstChild, "an inline script")
		}
		for _, a := range n.Attr {
			require.False(t, strings.HasPrefix(a.Key, "on") || a.Key == "style" || a.Key == "srcdoc", "%s=%q", a.Key, a.Val)
			switch a.Key {
			case "href", "src", "action", "formaction":
				require.Regexp(t, `^(/|#|\?|https?://)`, a.Val)
				require.False(t, strings.HasPrefix(a.Val, "//"), a.Val)
			case "id":
				require.False(t, ids[a.Val], "two elements have the id %q", a.Val)
				ids[a.Val] = true
			}
		}
	}
}

var token = regexp.MustCompile(`--([a-z0-9-]+): light-dark\((#[0-9a-f]{6}), (#[0-9a-f]{6})\)`)

// TestColoursCanBeRead holds the tokens of text against the backgrounds that they stand on: the
// contrast is at least 4.5 to 1, that of lines which mean something at least 3 to 1.
func TestColoursCanBeRead(t *testing.T) {
	t.Parallel()
	css, err := assetFiles.ReadFile("assets/app.css")
	require.NoError(t, err)
	tokens := map[string][2]string{}
	for _, m := range token.FindAllStringSubmatch(string(css), -1) {
		tokens[m[1]] = [2]string{m[2], m[3]}
	}
	check := func(text, ground string, least float64) {
		for mode, name := range []string{"light", "dark"} {
			ratio := contrast(t, tokens[text][mode], tokens[ground][mode])
			require.GreaterOrEqual(t, ratio, least, "%s on %s, %s", text, ground, name)
		}
	}
	for _, ground := range []string{"bg", "surface", "raised", "sunken", "hover"} {
		for _, text := range []string{"text", "text-2", "text-3", "accent", "good", "active", "slow", "ask", "bad", "quiet"} {
			check(text, ground, 4.5)
		}
		check("line-strong", ground, 3)
		check("focus", ground, 3)
	}
	for _, tone := range []string{"good", "active", "slow", "ask", "bad", "quiet"} {
		check(tone, tone+"-bg", 4.5)
		check("text", tone+"-bg", 4.5)
		check(tone+"-line", "surface", 3)
	}
	check("on-accent", "accent-solid", 4.5)
	check("on-accent", "accent-hover", 4.5)
	check("accent", "accent-bg", 4.5)
	for _, line := range []string{"add-bg", "del-bg"} {
		check("text", line, 4.5)
	}
}

// contrast is that of two colours by WCAG.
func contrast(t *testing.T, a, b string) float64 {
	t.Helper()
	x, y := luminance(t, a), luminance(t, b)
	return (max(x, y) + .05) / (min(x, y) + .05)
}

func luminance(t *testing.T, colour string) float64 {
	t.Helper()
	require.Len(t, colour, 7)
	sum := 0.0
	for i, weight := range []float64{.2126, .7152, .0722} {
		n, err := strconv.ParseUint(colour[1+2*i:3+2*i], 16, 8)
		require.NoError(t, err)
		c := float64(n) / 255
		if c <= .04045 {
			c /= 12.92
		} else {
			c = math.Pow((c+.055)/1.055, 2.4)
		}
		sum += weight * c
	}
	return sum
}

func TestIconsOfAllLooksExist(t *testing.T) {
	t.Parallel()
	for _, s := range allStates {
		require.Contains(t, icons, lookOf(s).Icon, s)
	}
	for _, k := range session.RequestKinds() {
		require.Contains(t, icons, lookOf(k).Icon, k)
	}
	names := regexp.MustCompile(`(?:icon|"Icon") "([a-z]+)"`)
	files, err := templateFiles.ReadDir("templates")
	require.NoError(t, err)
	for _, f := range files {
		text, err := templateFiles.ReadFile("templates/" + f.Name())
		require.NoError(t, err)
		for _, m := range names.FindAllStringSubmatch(string(text), -1) {
			require.Contains(t, icons, m[1], fmt.Sprint(f.Name()))
		}
	}
}

func TestASentenceSaysWhatASessionDoes(t *testing.T) {
	t.Parallel()
	started, closed := ago(2*time.Hour), ago(30*time.Minute)
	until := testNow.Add(4 * time.Minute)
	base := func(state session.State, change func(*session.Status)) session.Status {
		s := session.Status{Session: "s", Status: state, StartedAt: &started, Phases: []session.PhaseStatus{
			{Name: "design", Status: session.Completed, Assignments: []session.AssignmentStatus{{
				Persona:           "dev",
				AssignmentSummary: session.AssignmentSummary{Status: session.Completed},
			}}},
			{Name: "build", Status: session.Running, Assignments: []session.AssignmentStatus{{
				Persona:           "dev",
				AssignmentSummary: session.AssignmentSummary{Status: session.Running, Attempts: 1},
			}}},
		}}
		change(&s)
		return s
	}
	dev := func(s *session.Status) *session.AssignmentStatus { return &s.Phases[1].Assignments[0] }
	help := session.Request{
		ID: "r", Kind: session.ForHelp, Phase: "build", Persona: "dev", Message: "2 tests\nfail\u202e.",
		Actions: []session.Action{session.AnswerRetry}, Since: ago(time.Hour), Until: testNow.Add(48 * time.Hour),
	}
	for want, s := range map[string]session.Status{
		"Waits for a worker to begin the first phase.":         base(session.Admitted, func(*session.Status) {}),
		"Works: dev on build (attempt 2). 1 of 2 phases done.": base(session.Running, func(*session.Status) {}),
		"Works: the merge of build. 1 of 2 phases done.": base(session.Running,
			func(s *session.Status) { dev(s).Status = session.Completed }),
		"build/dev waits for its next attempt. 1 of 2 phases done.": base(session.Running,
			func(s *session.Status) { dev(s).Status = session.Waiting }),
		"Begins its next phase. 1 of 2 phases done.": base(session.Running,
			func(s *session.Status) { dev(s).Status, s.Phases[1].Status = session.Pending, session.Pending }),
		"build/dev waits for breaker claude since 5m 0s, for another 4m 0s: 5 consecutive failures. It continues by itself.": base(
			session.WaitingForBreaker, func(s *session.Status) {
				dev(s).Awaits = &session.BreakerWait{
					Breaker: "claude", Since: ago(5 * time.Minute), Until: &until,
					Why: "5 consecutive failures",
				}
			}),
		"Waits for a person since 1h 0m: build/dev needs help: 2 tests fail. 1 further request is open. Without an answer the " +
			"session fails in 2d 0h.": base(session.HelpIsNeeded, func(s *session.Status) {
			s.Help = []session.Request{
				{Kind: session.ForBudget, Since: ago(time.Minute)},
				help,
				{Kind: session.ForOutage, Since: ago(9 * time.Hour), Category: failures.RateLimited},
			}
		}),
		"Waits for a person since 10m 0s: phase build needs approval.": base(session.AwaitingApproval, func(s *session.Status) {
			s.Help = []session.Request{{
				Kind: session.ForApproval, Phase: "build", Actions: []session.Action{session.AnswerApprove},
				Since: ago(10 * time.Minute), Message: "read the diff",
			}}
		}),
		"Waits for a person: what for is not known yet": base(session.HelpIsNeeded, func(*session.Status) {}),
		"Completed 2 phases after 1h 30m, for $2.50.": base(session.Completed,
			func(s *session.Status) { s.ClosedAt, s.Usage = &closed, cost.Usage{CostUSD: 2.5e9} }),
		"Failed after 1h 30m: help was not given": base(session.Failed, func(s *session.Status) {
			s.ClosedAt, s.Reason = &closed,
				"help was\x1b[2J not given"
		}),
		"Cancelled after 1h 30m. 1 of 2 phases done.": base(session.WasCancelled, func(s *session.Status) { s.ClosedAt = &closed }),
	} {
		require.Equal(t, want, sentenceOf(s, testNow).Text)
	}
}

func TestATimelineNamesTheCausesOfWaits(t *testing.T) {
	t.Parallel()
	line := timelineOf(sampleCourse(), testNow)
	said := map[string][]string{}
	for _, lane := range line.Lanes {
		for _, b := range lane.Bars {
			said[lane.Name] = append(said[lane.Name], b.Label)
			require.GreaterOrEqual(t, b.From, 0.0)
			require.LessOrEqual(t, b.From+b.Width, 100.01)
		}
	}
	require.Equal(t, map[string][]string{
		"design/architect": {"round 1, attempt 1 succeeded, from 12:20:00, 12m0s"},
		"backend/developer": {
			"round 1, attempt 1 failed: test_failure, from 12:34:00, 12m0s", "waited for the next attempt, from 12:46:00, 1m0s",
			"round 1, attempt 2 failed: timeout, from 12:47:00, 7m0s",
			"waited for a person: alice answered retry, from 12:54:00, 35m0s", "waited for the next attempt, from 13:29:00, 1m0s",
			"round 2, attempt 1 succeeded, from 13:30:00, 12m0s",
		},
		"backend/database-expert": {
			"round 1, attempt 1 failed: contract_violation, from 13:50:00, 19m0s",
			"waited for the next attempt, from 14:09:00, 1m0s", "round 1, attempt 2 runs, from 14:10:00, 20m0s",
		},
		"frontend/designer": {
			"round 1, attempt 1 succeeded, a part of it, from 12:34:00, 1m0s", "waited for a larger budget, from 12:35:00, 20m0s",
			"round 1, attempt 1 succeeded, from 12:55:00, 5m0s",
		},
		"frontend/developer":   {"round 1, attempt 1 succeeded, from 12:34:00, 1h22m0s"},
		"frontend, approval":   {"waits for approval, from 13:56:00, 34m0s"},
		"documentation/writer": {"waits for breaker claude, from 14:24:00, 6m0s"},
	}, said)
	require.InDelta(t, 100, line.Now, .1)
	waiting := sampleCourse()
	waiting.Status.Assignment(spec.AssignmentID{Phase: "backend", Persona: "database-expert"}).Status = session.Waiting
	for _, lane := range timelineOf(waiting, testNow).Lanes {
		if lane.Name == "backend/database-expert" {
			require.Equal(t, "round 1, attempt 2 has begun, and waits, from 14:10:00, 20m0s", lane.Bars[len(lane.Bars)-1].Label)
		}
	}
	require.Empty(t, timelineOf(Course{}, testNow).Lanes)
}

// TestATimelineNamesTheOthersThatAreWaitedFor, also while they are.
func TestATimelineNamesTheOthersThatAreWaitedFor(t *testing.T) {
	t.Parallel()
	round := session.RoundRecord{Round: 1}
	round.AttemptAt = ago(time.Hour)
	round.Outage = &session.Outage{Since: ago(50 * time.Minute), Failure: *failures.Failf(failures.Pending, "waits for a review")}
	round.Pauses = []session.Pause{
		{From: ago(50 * time.Minute), To: ago(30 * time.Minute), For: failures.Pending, Text: "waits for CI"},
		{From: ago(30 * time.Minute), For: failures.Pending, Text: "waits for a review"},
	}
	id, record := sampleRecord("ship", spec.DeliveryPersona, round)
	c := Course{Work: control.Work{Records: map[spec.AssignmentID]session.Record{id: record}}, Status: session.Status{
		Status: session.Running, Phases: []session.PhaseStatus{{
			Name: "ship", Status: session.Running,
			Assignments: []session.AssignmentStatus{{
				Persona: spec.DeliveryPersona, AssignmentSummary: session.AssignmentSummary{Status: session.Waiting},
				Progress: "waits for a review; the next look is at 2026-11-23 14:31:00 UTC",
			}},
		}},
	}}
	labels := func() (all []string) {
		for _, b := range timelineOf(c, testNow).Lanes[0].Bars {
			all = append(all, b.Label)
		}
		return all
	}
	require.Equal(t, []string{
		"waited for others: waits for CI, from 13:40:00, 20m0s", "waited for others: waits for a review, from 14:00:00, 30m0s",
	}, labels())
	require.Equal(t, "ship/delivery: waits for a review. 0 of 1 phase done.", sentenceOf(c.Status, testNow).Text)
}

// Nodes of any graph lie apart, inside of the picture, and right of what they need.
func TestNodesDoNotOverlap(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewSource(1))
	for range 200 {
		var phases []spec.Phase
		var s session.Status
		for i := range random.Intn(24) {
			p := spec.Phase{Name: fmt.Sprint(i)}
			for j := range i {
				if random.Intn(3) == 0 {
					p.Needs = append(p.Needs, fmt.Sprint(j))
				}
			}
			phases, s.Phases = append(phases, p), append(s.Phases, session.PhaseStatus{Name: p.Name})
		}
		g := graphOf(s, phases)
		edges := 0
		for i, a := range g.Nodes {
			for _, need := range phases[i].Needs {
				edges++
				before, err := strconv.Atoi(need)
				require.NoError(t, err)
				require.Less(t, g.Nodes[before].X, a.X)
			}
			require.GreaterOrEqual(t, a.X, 0)
			require.LessOrEqual(t, a.X+nodeWidth, g.Width)
			require.GreaterOrEqual(t, a.Y, 0)
			require.LessOrEqual(t, a.Y+nodeHeight, g.Height)
			for _, b := range g.Nodes[:i] {
				require.True(t, a.X != b.X || a.Y >= b.Y+nodeHeight || b.Y >= a.Y+nodeHeight, "%v %v", a, b)
			}
		}
		require.Len(t, g.Nodes, len(phases))
		require.Len(t, g.Edges, edges)
	}
}

var noon = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)

func after(d time.Duration) time.Time { return noon.Add(d) }

// Two minutes of work beside two days of waiting can both be seen.
func TestLongWaitsAreShortened(t *testing.T) {
	t.Parallel()
	a := newAxis(noon, after(48*time.Hour+2*time.Minute), []Bar{
		{from: noon, to: after(time.Minute)},
		{from: after(time.Minute), to: after(48*time.Hour + time.Minute), Wait: true},
		{from: after(48*time.Hour + time.Minute), to: after(48*time.Hour + 2*time.Minute)},
	})
	require.InDelta(t, 47, a.x(after(time.Minute)), 1)
	require.InDelta(t, 53, a.x(after(48*time.Hour+time.Minute)), 1)
	gaps := 0
	for _, tick := range a.ticks() {
		if tick.Gap {
			gaps++
			require.Equal(t, "⋯ 2d 0h", tick.Text)
		}
	}
	require.Equal(t, 1, gaps)
}
