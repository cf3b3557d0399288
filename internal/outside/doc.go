// Package outside is the room of other systems that Maestro tells about sessions: Jira and webhooks.
//
// It imports platform and core. Only the worker and the command line import it; workflows know its inputs only.
// Start reading in jira/tickets.go: one ticket for a failure, also if an answer is lost.
package outside
