package index

import "strings"

// schemaVersion is the version of the tables below and of their content. It is part of the file's
// name, so that programs of two versions do not replace each other's file.
const schemaVersion = 5

// schema makes the tables. Times are nanoseconds since 1970.
//
// The state of a session's documents is in a separate, small table, because each refresh reads all
// of it. A fact is what a session has spent on a day with one agent and model in an assignment, or
// the result of an assignment.
//
//nolint:gosec // the columns are named below
var schema = `
CREATE TABLE state (epoch TEXT NOT NULL, store TEXT NOT NULL, sequence INTEGER NOT NULL);
CREATE TABLE seen (
  namespace TEXT NOT NULL, session TEXT NOT NULL,
  modified INTEGER NOT NULL, records INTEGER NOT NULL, change INTEGER NOT NULL, again INTEGER NOT NULL, digest TEXT NOT NULL,
  PRIMARY KEY (namespace, session)) WITHOUT ROWID;
CREATE TABLE sessions (
  id INTEGER PRIMARY KEY,
  namespace TEXT NOT NULL, session TEXT NOT NULL, sequence INTEGER NOT NULL,
  listed INTEGER NOT NULL, store TEXT NOT NULL, team TEXT NOT NULL, status TEXT NOT NULL, phases TEXT NOT NULL,
  started INTEGER NOT NULL, closed INTEGER NOT NULL, day TEXT NOT NULL, updated INTEGER NOT NULL,
  incarnation INTEGER NOT NULL, run TEXT NOT NULL, first_run TEXT NOT NULL, origin TEXT NOT NULL,
  requests INTEGER NOT NULL, waiting INTEGER NOT NULL, answers INTEGER NOT NULL, waited INTEGER NOT NULL,
  approvals INTEGER NOT NULL, approving INTEGER NOT NULL, alerted INTEGER NOT NULL,
  tokens INTEGER NOT NULL, cost INTEGER NOT NULL,
  labels TEXT NOT NULL, reason TEXT NOT NULL, requirement TEXT NOT NULL, search TEXT NOT NULL,
  UNIQUE (namespace, session));
CREATE INDEX newest ON sessions (namespace, started DESC, session);
CREATE INDEX changed ON sessions (namespace, sequence);
CREATE INDEX alerted ON sessions (namespace, alerted);
CREATE TABLE removed (
  namespace TEXT NOT NULL, session TEXT NOT NULL, sequence INTEGER NOT NULL,
  PRIMARY KEY (namespace, session)) WITHOUT ROWID;
CREATE TABLE facts (
  kind INTEGER NOT NULL, session INTEGER NOT NULL, position INTEGER NOT NULL,
  phase TEXT NOT NULL, persona TEXT NOT NULL, agent TEXT NOT NULL, model TEXT NOT NULL, day TEXT NOT NULL, ` + columns(figures, "", " INTEGER NOT NULL") + `,
  PRIMARY KEY (kind, session, position)) WITHOUT ROWID;
`

// The kinds of facts. Those of one kind are stored together, in the order of sessions.
const (
	spent int64 = iota
	unsettled
	reserved
	// worked is the result of an assignment.
	worked
)

// costs and outcomes are the columns of facts: those of costs, and those of work.
var (
	costs    = []string{"calls", "input", "output", "cache_read", "cache_write", "reasoning", "cost"}
	outcomes = []string{"assignments", "finished", "failed", "attempts", "failures", "lost"}
	figures  = append(append([]string{}, costs...), outcomes...)
)

// numbers are the values of all figures, in their order.
type numbers [13]int64

// columns lists names, each with a prefix and a suffix.
func columns(names []string, before, after string) string {
	return before + strings.Join(names, after+", "+before) + after
}
