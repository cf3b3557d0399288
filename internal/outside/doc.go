// Package outside is the room of other systems: Jira and webhooks, which Maestro tells about sessions; codehost, pull requests on
// GitHub and GitLab; issues, from which requirements come.
//
// It imports platform and core. Only the worker and the command line import it; workflows know its inputs only.
// Start reading in jira/tickets.go: one ticket for a failure, also if an answer is lost.
package outside
