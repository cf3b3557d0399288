// Package workflows has the team workflow, which is the control state of a session. It decides what runs next and when to
// retry. Activities do everything with files, agents and clocks.
//
// Start reading in session.go: a session from its start to its end. What it uses:
//
//	schedule.go    pure state: the phases, which of them may start, and which are repeated
//	assignment.go  the state of one persona's work, and its next step
//	rounds.go      retry level 2: rounds, their activities, the waits between them, and what follows when one has failed
//	merge.go       the merge of a phase, and the integrator's rounds
//	rework.go      work that a persona or a person sends back
//	activity.go    the activities, and how a step between phases is executed: localFirst
//	requests.go    questions to people: their state, the answers, and approvals
//	help.go        what follows when an assignment has failed for good: the wait for an answer, and what the answer does
//	budget.go      what follows when a budget is used up; breaker.go: the wait for an open breaker; outage.go: the request about a
//	               provider that is away for longer than the team's patience; pull_request.go: when a pull request that a
//	               phase waits for has news
//	visibility.go  search attributes and memo
//	details.go     the session's page in the Web UI; advice.go has the page of each request on it, and what a person can do
//	ending.go      why the session ends, or continues as new
//	state.go       what a session hands over when it continues as new; large.go stores what is too large for a payload
//	notify.go      who hears of what; ticket.go with outbox.go and webhook.go are workflows that deliver it
package workflows
