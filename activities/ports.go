package activities

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/maestro-hive/maestro/internal/core/budget"
	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/core/secrets"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/store/state"
)

// Files stores trees by content. An error that is neither a *failures.Failure nor
// one of package session's sentinel errors means that the store cannot be used now.
type Files interface {
	// PutBlob stores data durably and returns its name.
	PutBlob(ctx context.Context, data []byte) (spec.Digest, error)
	// Blob returns a blob's bytes, verified.
	Blob(ctx context.Context, name spec.Digest) ([]byte, error)
	// Held lists the paths that a manifest has, in their order.
	Held(ctx context.Context, manifest spec.Digest, paths []string) ([]string, error)
	// List lists at most limit paths of a manifest.
	List(ctx context.Context, manifest spec.Digest, most int) (session.Listing, error)
	// Changed lists the paths of a tree that its input does not have, or has with
	// other content, sorted.
	Changed(ctx context.Context, input, tree spec.Digest) ([]string, error)
	// UnifiedDiff describes how one tree differs from another, for people and
	// models, in about limit bytes at most.
	UnifiedDiff(ctx context.Context, from, to spec.Digest, limit int) (string, error)
	// Materialise makes dir hold exactly the manifest's files: whatever else
	// was there is removed. Files are copies, with modes 0644 or 0755.
	Materialise(ctx context.Context, manifest spec.Digest, dir string) error
	// Collect compares dir with the base manifest and stores what changed.
	// What may not be kept is a *failures.Failure of category invalid_output.
	Collect(ctx context.Context, req session.Collect) (session.Collected, error)
	// Fold applies the steps' deltas to the base in order and reports the
	// paths on which unsettled steps disagree.
	Fold(ctx context.Context, base spec.Digest, steps []session.Step) (session.Folded, error)
	// Standings returns how conflicts of steps that were all made on the base stand in a result.
	// given is the tree that the steps make by themselves.
	Standings(ctx context.Context, base, given, result spec.Digest, steps []session.Step,
		conflicts []session.Conflict) ([]session.Standing, error)
	// Sides stores a tree that shows all versions of the conflicts.
	Sides(ctx context.Context, base spec.Digest, steps []session.Step, conflicts []session.Conflict) (spec.Digest, error)
	// Overlay returns the delta that adds the files of one manifest to the tree of
	// another, and the changed paths.
	Overlay(ctx context.Context, base, files spec.Digest) (session.Collected, error)
	// Intact checks whether the store has every file of a manifest, IntactDelta
	// those of a delta. session.ErrNotFound or session.ErrCorrupt name the first
	// missing one.
	Intact(ctx context.Context, manifest spec.Digest) error
	IntactDelta(ctx context.Context, delta spec.Digest) error
	// Touched lists the changed and removed paths of a delta that match one of the
	// patterns, sorted.
	Touched(ctx context.Context, delta spec.Digest, patterns []string) ([]string, error)
	// Artifacts lists the files that the steps left and that are still in the
	// folded tree, sorted by path.
	Artifacts(ctx context.Context, steps []session.Step) ([]session.Artifact, error)
}

// WorkDirs are the directories on this host in which agents work.
type WorkDirs interface {
	// Make makes and returns the assignment's stable directory.
	Make(key session.Key, id spec.AssignmentID) (session.WorkDir, error)
	// HasLayers reports whether processes see trees as layers. A model works in the worker,
	// which does not.
	HasLayers() bool
	// UseLayers makes the assignment's tree show a manifest as layers with nothing above them.
	// An agent's changes above them are kept if they were collected as that manifest. near are
	// manifests that may be similar. WithLayers returns the directory as an earlier execution
	// left it, with its layers if it has some. Layers are held until release is called.
	UseLayers(ctx context.Context, dir session.WorkDir, manifest spec.Digest, near ...spec.Digest) (laid session.WorkDir,
		release func(), err error)
	WithLayers(ctx context.Context, dir session.WorkDir) (laid session.WorkDir, release func(), err error)
	// IsLayered reports whether the tree has layers. ForgetLayers removes the note of that
	// before the tree is filled.
	IsLayered(dir session.WorkDir) bool
	ForgetLayers(dir session.WorkDir) error
	// NoteCollected notes which tree was collected from a directory.
	NoteCollected(dir session.WorkDir, tree spec.Digest)
	// MakeCheckDir makes directories for one check, with a manifest's tree as layers, an empty
	// HOME and an empty TMPDIR; without layers, with the tree of dir. ClearCheckDir removes them. The
	// layers are held until release is called.
	MakeCheckDir(ctx context.Context, dir session.WorkDir, manifest spec.Digest, near ...spec.Digest) (laid session.WorkDir,
		release func(), err error)
	ClearCheckDir(dir session.WorkDir) error
	// FreeDisk removes from a full disk what can be made again, such as unused layers, and reports
	// whether there was any.
	FreeDisk(ctx context.Context) bool
	// RestoreAccess makes the directories above the tree accessible again, after an agent has
	// changed their modes.
	RestoreAccess(dir session.WorkDir) error
	// Disk returns the free space of the directories' disk, and the limits.
	Disk() (session.Disk, error)
	// Written measures the files of an assignment's directories that were changed since a
	// time.
	Written(ctx context.Context, dir session.WorkDir, since time.Time) (session.Written, error)
	// ClearTmp removes everything in an assignment's TMPDIR; Clear first that, then
	// the tree, then the rest. No process may use the directories.
	ClearTmp(dir session.WorkDir) error
	Clear(dir session.WorkDir) error
}

// Sessions is the store's documents of sessions, and its id.
type Sessions interface {
	// ID is the store's id.
	ID() string
	// Lock takes the assignment's lock, which ends with the process and those that
	// inherit it. ok is false while another process holds it.
	Lock(ctx context.Context, key session.Key, id spec.AssignmentID) (lock session.Lock, ok bool, err error)
	// StoreCheckpoint stores the blob of a checkpoint durably, and returns the row that names it.
	StoreCheckpoint(ctx context.Context, key session.Key, c session.Checkpoint) (state.Checkpoint, error)
	// Mirror writes the files of the mirror that a session's last boundaries have changed.
	Mirror(ctx context.Context, key session.Key) error
	// Checkpoint reads a checkpoint blob, verified. It must not be changed.
	Checkpoint(ctx context.Context, name spec.Digest) (session.Checkpoint, error)
	// Team reads the blob of a team, verified. It must not be changed.
	Team(ctx context.Context, blob spec.Digest) (spec.Team, error)
}

// State is the database; package state describes the methods.
type State interface {
	Admit(ctx context.Context, a state.Admission) (run int64, err error)
	Enter(ctx context.Context, s session.Key, temporalRun string) (run int64, err error)
	IsFenced(ctx context.Context, s session.Key, temporalRun string) (bool, error)
	Execution(ctx context.Context, s session.Key) (session.Execution, error)
	PutBoundary(ctx context.Context, b state.Boundary) (opened []session.Request, late bool, err error)
	Records(ctx context.Context, s session.Key) ([]session.Record, error)
	OpenRound(ctx context.Context, o state.RoundOrder) (state.OpenedRound, error)
	PutRound(ctx context.Context, f state.Fence, a state.Assignment, r session.RoundRecord, c *session.Conversation) error
	DropRound(ctx context.Context, f state.Fence, a state.Assignment, pass, round int) error
	EndWork(ctx context.Context, holder string, a state.Assignment, pass, round int) error
	Undo(ctx context.Context, s session.Key, temporalRun string, ids []spec.AssignmentID) error
	Merge(ctx context.Context, s session.Key, phase, temporalRun, activity string, change func(*session.MergeLog)) error
	Begin(ctx context.Context, n state.NewCall) (budget.Verdict, error)
	Report(ctx context.Context, call string, p state.Progress) (held cost.Amount, refused *budget.Budget, err error)
	End(ctx context.Context, call string, end state.CallEnd) error
	KeepTools(ctx context.Context, call, tools string) error
	PaidAnswer(ctx context.Context, attempts []state.AttemptKey, from int64, request string, received map[string]bool) (state.Call,
		error)
	Calls(ctx context.Context, a state.Assignment) ([]state.Call, error)
	UnfinishedCalls(ctx context.Context, a state.Assignment) ([]state.Call, error)
	Costs(ctx context.Context, s session.Key, by ...string) ([]state.Cost, error)
	Budgets(ctx context.Context, a state.Assignment, team string) ([]budget.Budget, error)
	Warn(ctx context.Context, a state.Assignment, team string, at []float64) ([]budget.Warning, []budget.Budget, error)
	UnsettledOf(ctx context.Context, s session.Key, b budget.Budget) (budget.UnsettledCalls, error)
	AddRaise(ctx context.Context, s session.Key, r budget.Raise, via string) (raised *budget.Budget, err error)
	Offers(ctx context.Context) ([]spec.Offer, error)
}

// Agents runs agents and checks.
type Agents interface {
	// Run does one attempt and returns when the agent and all processes that it
	// started have ended. A *failures.Failure is the failure of the attempt; the
	// outcome then still has its usage and log. The end of the context stops the
	// agent; the error is the context's cause.
	Run(ctx context.Context, job session.Job) (session.Outcome, error)
	// FillsCaches reports whether a check should run on a team's input, which no agent has changed, to fill its caches.
	FillsCaches(check, team string, input spec.Digest) bool
	// Check runs a check. The same rules apply.
	Check(ctx context.Context, job session.CheckJob) (session.Outcome, error)
	// Conversation returns the conversation of the agent in an assignment's directory. ok is
	// false if there is none that could continue.
	Conversation(agent string, dir session.WorkDir) (c session.Conversation, ok bool)
	// ConversationFiles lists patterns of the files below HOME with which the agent continues
	// a conversation of a preset; none: it continues no such conversation.
	ConversationFiles(agent, preset string) []string
	// NoteConversation notes a conversation whose files are in a directory's HOME.
	NoteConversation(dir session.WorkDir, c session.Conversation) error
	// Sweep ends the processes of earlier attempts that still run in an
	// assignment's directory. A *failures.Failure names those that it cannot end.
	Sweep(dir session.WorkDir) error
	// Removed returns how many bytes on disk the removed files of an assignment's
	// directories still use, because a process has them open. hidden: there may be more
	// such files that cannot be measured.
	Removed(dir session.WorkDir) (bytes int64, hidden bool)
	// EndStopped ends the stopped shims of killed workers, which keep their assignments
	// locked.
	EndStopped()
	// Forget ends the conversation in an assignment's directory, if there is one.
	Forget(dir session.WorkDir) error
	ProgramUsage
	// Offered describes an agent; zero: it is not known.
	Offered(agent string) spec.OfferedAgent
	// Keep lists the patterns of files that a check may leave.
	Keep(check string) []string
	// Breaker returns the settings of an agent's breaker, with defaults.
	Breaker(agent string) spec.Breaker
	// Mask replaces every secret that the worker knows.
	Mask(text string) string
	// Secrets lists the values that no artifact may contain.
	Secrets() *secrets.Set
}

// ProgramUsage reads the usage that agent programs have noted in their own files.
type ProgramUsage interface {
	// Reported reads the usage that an agent program has noted in an assignment's directory
	// since the begin of this call. estimate is the cost of a
	// request that may have been in flight at its end. The program must have ended. ok is
	// false if nothing is known.
	Reported(agent string, dir session.WorkDir, call string) (used, estimate cost.Usage, ok bool)
}

// Tickets is a ticket system. Its errors are *session.TicketTrouble.
type Tickets interface {
	// Find looks for the ticket of a project that carries a label, the oldest if
	// there are several. One that was created just now may not be found yet.
	Find(ctx context.Context, project, label string) (ticket session.Ticket, ok bool, err error)
	// Create creates a ticket for a notice, with the label. After an error of kind
	// Unclear the ticket may exist; after any other it does not.
	Create(ctx context.Context, how spec.HelpJira, label string, n session.Notice) (session.Ticket, error)
	// Comment adds a comment to a ticket. It is idempotent.
	Comment(ctx context.Context, c session.TicketComment) error
	// Address returns the address of a ticket's web page.
	Address(key string) string
}

// TicketStore stores the states of tickets; package state describes the methods.
type TicketStore interface {
	Ticket(ctx context.Context, namespace, name string) (session.TicketRecord, error)
	PutTicket(ctx context.Context, namespace string, r session.TicketRecord) error
}

// Heartbeats sends the heartbeats of activities to Temporal.
type Heartbeats interface {
	// Beat sends a heartbeat of the activity of ctx. ErrUnwanted means that the workflow no
	// longer waits for the activity; ErrReplaced, that another execution of it waits for the
	// result of this one. Any other error means that Temporal did not answer: the activity
	// must continue.
	Beat(ctx context.Context, beat Heartbeat) error
}

// ErrUnwanted means that the workflow no longer waits for an activity: it was
// cancelled or paused, or its workflow has ended or does not need it.
var ErrUnwanted = errors.New("activity no longer wanted")

// ErrReplaced means that Temporal has timed out an execution of an activity that is
// still wanted, and starts another one.
var ErrReplaced = errors.New("another execution has replaced this one")

// Clock returns the time.
type Clock func() time.Time

// Random returns numbers in [0, 1) for the jitter of waits; nil is math/rand.
type Random func() float64

func (r Random) next() float64 {
	if r == nil {
		return rand.Float64() //nolint:gosec // spreads waits; guards nothing
	}
	return r()
}

// between returns a random duration in a range.
func (r Random) between(least, most time.Duration) time.Duration {
	return least + time.Duration(r.next()*float64(most-least))
}
