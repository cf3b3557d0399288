// Package workflows has the team workflow, which is the control state of a session. It decides what runs next and when to
// retry. Activities do everything with files, agents and clocks.
//
// Start reading in session.go: a session from its start to its end. What it uses:
//
//	schedule.go    pure state: which phases may start, and which are repeated
//	assignment.go  what follows a round: another one, a wait, a request
//	rounds.go      one round: its activities, and the waits between them
//	merge.go       the merge of a phase, and the integrator's rounds
//	rework.go      work that a persona or a person sends back
//	boundary.go    status and checkpoint after each step
//	requests.go    answers of people, and how long a request waits; request_type.go has its state. approval.go waits for
//	               approvals, budget.go for raises, outage.go and breaker.go for providers, deliver.go for pull requests
//	details.go     what the Web UI shows; advice.go says what a person can do
//	state.go       what a session hands over when it continues as new
//	notify.go      who hears of what; ticket.go with outbox.go and webhook.go are workflows that deliver it
package workflows
