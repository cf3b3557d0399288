package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/models/agent"
	"github.com/maestro-hive/maestro/internal/ops/control"
	"github.com/maestro-hive/maestro/internal/platform/temporalutil"
	"github.com/maestro-hive/maestro/internal/sandbox/room"
	"github.com/maestro-hive/maestro/internal/store"
)

// The results of a check.
const (
	OK      = control.ResultOK
	Warning = control.ResultWarning
	Bad     = control.ResultBad
)

// Options select what is checked, and how.
type Options struct {
	// StateDir is the given state directory; empty: the environment
	// or the default is used.
	StateDir string
	// Location is where the store is besides the directory.
	Location store.Location
	// Agents is a worker file; empty: none is given.
	Agents string
	// Team is the team whose needs are checked; without a name: none.
	Team spec.Team
	// Server is the path of the Temporal server's program; empty: there is none beside
	// this program.
	Server string
	// Dial connects to Temporal.
	Dial func(ctx context.Context) (*temporalutil.Connection, error)
	// Again returns a subcommand of this program as a complete command line, for a person to run.
	Again func(command string) string
	// Environ lists the environment, for programs that are run, and Getenv reads it.
	Environ []string
	Getenv  func(name string) string
	// Now returns the current time.
	Now func() time.Time
	// Container: this process is in a container, where no remedy is a command of the host.
	Container bool
}

// host is what is examined: this machine, with the store, the Temporal and the worker file that
// earlier checks have found.
type host struct {
	Options
	// dir is the directory of the store, and why the reason for it.
	dir, why string
	store    *store.Store             // nil: there is none
	conn     *temporalutil.Connection // nil: it cannot be reached, or has no namespace for sessions
	close    func()                   // closes the connection that was made for the examination
	config   *agent.Config            // nil: there is no valid worker file
}

// need is what a check needs. Without it, the check is left out.
type need func(*host) bool

func nothing(*host) bool      { return true }
func aStore(h *host) bool     { return h.store != nil }
func aTemporal(h *host) bool  { return h.conn != nil }
func both(h *host) bool       { return aStore(h) && aTemporal(h) }
func aFile(h *host) bool      { return h.config != nil }
func ourMachine(h *host) bool { return h.Dial != nil } // as opposed to that of a server

// check is one row of the table.
type check struct {
	// name is that of its findings, unless they have another.
	name  string
	needs need
	look  func(ctx context.Context, h *host) []control.Finding
	// inContainer is the remedy in a container for findings whose remedy is a command of the host; empty: the same
	// remedy, in the image or on the host.
	inContainer string
}

// checks are run in this order.
var checks = []check{
	{"program", nothing, program, ""},
	{"server program", ourMachine, serverProgram, ""},
	{"git", ourMachine, git, "add git to the image"},
	{"store owner", ourMachine, stateDir, "run the container as that user, or mount a volume that belongs to this one"},
	{
		"store", nothing, openStore,
		"mount the volume that the workers have, and name its directory with MAESTRO_STATE_DIR in the container's environment",
	},
	{"store writable", aStore, writable, "mount the store's volume writable, for the user of the container"},
	{"store private", aStore, private, ""},
	{"store commits", aStore, commits, ""},
	{"store space", aStore, space, ""},
	{
		"temporal", nothing, connect,
		"set TEMPORAL_ADDRESS in the container's environment to a server on a network of this container, and start that",
	},
	{"temporal", aTemporal, server, ""},
	{"namespace", aTemporal, namespace, ""},
	{"search attributes", aTemporal, searchAttributes, ""},
	{"store writes", both, hindrances, ""},
	{"store pruning", both, pruning, ""},
	{
		"workers", aStore, workers,
		"start a container of a worker with the same volume; if one runs, its log and `maestro-worker health` in it say what is " +
			"missing",
	},
	{"agents", nothing, served, ""},
	{"breakers", aStore, breakers, ""},
	{"worker file", func(h *host) bool { return h.Agents != "" }, workerFile, ""},
	{"jira", aFile, jira, ""},
	{"webhook", aFile, webhook, ""},
	{"programs", aFile, programs, ""},
	{"processes", aFile, processes, "run the command in the worker's container, as its user"},
	{"presets", aFile, presets, ""},
}

// Examine checks everything that a session needs, and what the team needs, if it
// has a name. Problems are findings; it fails only when ctx ends.
func Examine(ctx context.Context, o Options) ([]control.Finding, error) {
	h := &host{Options: o, close: func() {}}
	defer func() { h.close() }()
	return h.examine(ctx, checks), ctx.Err()
}

// ExamineStore checks what the sessions of an open store need, as a server does; it checks no
// program of this machine. conn is nil if Temporal cannot be reached.
func ExamineStore(ctx context.Context, s *store.Store, conn *temporalutil.Connection, now func() time.Time) ([]control.Finding,
	error,
) {
	h := &host{store: s, conn: conn, dir: s.Dir(), why: "which this server serves", Options: Options{
		Again: func(command string) string { return "maestro " + command }, Now: now, Container: room.InContainer(),
	}}
	return h.examine(ctx, checks), ctx.Err()
}

// patience limits each check, so that a disk or a server that does not answer is a finding and
// the other checks run.
const patience = 6 * time.Second

// examine runs checks.
func (h *host) examine(ctx context.Context, checks []check) (all []control.Finding) {
	for _, c := range checks {
		if !c.needs(h) {
			continue
		}
		for _, f := range h.bounded(ctx, c) {
			if f.Check == "" {
				f.Check = c.name
			}
			if h.Container {
				f = contained(f, c.inContainer)
			}
			all = append(all, f)
		}
	}
	return all
}

// bounded returns the findings of a check or, if it takes too long, one finding about that. What such a check finds
// later is dropped.
func (h *host) bounded(ctx context.Context, c check) []control.Finding {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	apart := *h
	done := make(chan []control.Finding, 1)
	go func() { done <- c.look(ctx, &apart) }()
	select {
	case found := <-done:
		*h = apart
		return found
	case <-ctx.Done():
		return bad("find out what is not responding: a disk, a mount, a program or a network", "no answer within %s", patience)
	}
}

// ofTheHost begin the commands that change nothing in a container, or nothing that lasts.
var ofTheHost = []string{"sudo ", "npm install ", "maestro dev", "maestro worker "}

// contained replaces a finding's command of the host by what to change about the container in which this process is.
func contained(f control.Finding, remedy string) control.Finding {
	switch {
	case !slices.ContainsFunc(ofTheHost, func(begin string) bool { return strings.HasPrefix(f.Command, begin) }):
		return f
	case remedy != "":
		f.Remedy = remedy
	case strings.Contains(f.Command, "install"):
		f.Remedy += ", in the image"
	default:
		f.Remedy += ", on the host of the container"
	}
	f.Command = ""
	return f
}

// ok is a finding that needs no remedy.
func ok(message string, args ...any) []control.Finding { return finding(OK, "", message, args...) }

// warn is a finding that prevents no session.
func warn(remedy, message string, args ...any) []control.Finding {
	return finding(Warning, remedy, message, args...)
}

// bad is a finding that prevents sessions.
func bad(remedy, message string, args ...any) []control.Finding {
	return finding(Bad, remedy, message, args...)
}

func finding(result, remedy, message string, args ...any) []control.Finding {
	return []control.Finding{{Result: result, Message: fmt.Sprintf(message, args...), Remedy: remedy}}
}

// with adds the command that applies the remedy.
func with(found []control.Finding, command string) []control.Finding {
	found[0].Command = command
	return found
}

// about gives a finding the name of what it is about.
func about(name string, found []control.Finding) []control.Finding {
	found[0].Check = name
	return found
}

// remedyOf splits an error's text: Maestro's errors have the remedy after their last
// semicolon.
func remedyOf(err error, otherwise string) (remedy, what string) {
	text := err.Error()
	if i := strings.LastIndex(text, "; "); i >= 0 {
		return text[i+2:], text[:i]
	}
	return otherwise, text
}

// failed is a finding on an error. Its remedy is the error's own, if it has one.
func failed(result string, err error, otherwise string) []control.Finding {
	remedy, what := remedyOf(err, otherwise)
	return finding(result, remedy, "%s", what)
}

// unreadable is a finding on something in Temporal or the store that cannot be read.
func unreadable(remedy, what string, err error) []control.Finding {
	first, _, _ := strings.Cut(err.Error(), "\n")
	return warn(remedy, "%s: %s", what, first)
}
