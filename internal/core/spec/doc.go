// Package spec has what files and workers declare: teams with their personas, phases and budgets, the rules that they keep, the
// graph of their phases, the names of things, and what workers offer.
//
// The package is pure: it reads no clock, no environment and no file.
//
// Start reading in spec.go, at Team:
//
//	spec.go             the keys of a team file and their bounds, the defaults, and what Resolved fills in
//	validate.go         which rules a team file has to keep besides its schema: personas, retries, budgets, help; how many
//	                    assignments a team may have, and how large it may be
//	validate_phases.go  the rules on phases: names, personas, needs and cycles, sending back, deliveries
//	graph.go            the order of phases, what depends on what, what an attempt has to produce and pass (Contract), and on
//	                    whose workers a check runs; course.go: the phases from one on and up to another
//	admission.go        what live workers lack for a team, so that it cannot start: agents, checks, fallbacks, prices, tickets;
//	                    and agents or checks that workers define differently
//	offer.go            what a worker publishes, how often it renews that, and after what time it counts as dead or forgotten
//	names.go            how content is named by its digest, which names of phases, personas, agents, sessions and decisions are
//	                    permitted, and the names of task queues
//	breaker.go          the defaults of a breaker: its threshold, cooldown and probes; and which failures count for it
//	backoff.go          how a wait grows after each failure; outage.go: what a team may choose for the time when a provider is
//	                    away longer than its patience
//	approval.go         who has to approve a phase, and how many persons; alert.go: the rules of alerts
//	deliver.go          the keys and defaults of a phase that delivers, how often its checks and reviews may send work back, and
//	                    the repository that an address of git names
//	terms.go            what differs in the terms of an assignment between two versions of a team, for a resume
//	pattern.go          file patterns that a schema cannot refuse
package spec
