package activities

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/maestro-hive/maestro/internal/budget"
	"github.com/maestro-hive/maestro/internal/cost"
	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/spec"
)

// Files keeps trees by content. An error that is neither a *failures.Failure nor
// one of package session's sentinel errors means that the store cannot be used now.
type Files interface {
	// PutBlob stores data durably and returns its name.
	PutBlob(ctx context.Context, data []byte) (spec.Digest, error)
	// Blob returns a blob's bytes, verified.
	Blob(ctx context.Context, name spec.Digest) ([]byte, error)
	// Held lists those of the paths that a manifest has, in their order.
	Held(ctx context.Context, manifest spec.Digest, paths []string) ([]string, error)
	// List lists paths of a manifest, at most so many.
	List(ctx context.Context, manifest spec.Digest, most int) (session.Listing, error)
	// Changed lists the paths that a tree has and its input does not have, or
	// has with other content, sorted.
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
	// Overlay returns the delta that lays the files of one manifest over the
	// tree of another, and what that changes.
	Overlay(ctx context.Context, base, files spec.Digest) (session.Collected, error)
	// Intact looks whether the store has every file of a manifest, IntactDelta
	// whether it has those of a delta. session.ErrNotFound or session.ErrCorrupt name
	// the first that it has not.
	Intact(ctx context.Context, manifest spec.Digest) error
	IntactDelta(ctx context.Context, delta spec.Digest) error
	// Touched lists the paths that a delta changes or removes and that one of the
	// patterns matches, sorted.
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
	// Lay has the assignment's tree show a manifest as layers with nothing above them. What
	// an agent left above them stays if it was collected as that manifest. near are manifests
	// that it may be similar to. Laid returns the directory as an execution before has left
	// it, with its layers if it has some. Layers are held until ctx ends.
	Lay(ctx context.Context, dir session.WorkDir, manifest spec.Digest, near ...spec.Digest) (session.WorkDir, error)
	Laid(ctx context.Context, dir session.WorkDir) (session.WorkDir, error)
	// Layered reports whether the tree lies over layers; Unlay forgets that, before it is
	// filled.
	Layered(dir session.WorkDir) bool
	Unlay(dir session.WorkDir) error
	// Collected notes which tree was collected from a directory.
	Collected(dir session.WorkDir, tree spec.Digest)
	// Fresh makes directories for one check, with a manifest's tree as layers, an empty HOME
	// and an empty TMPDIR. ClearFresh removes them.
	Fresh(ctx context.Context, dir session.WorkDir, manifest spec.Digest, near ...spec.Digest) (session.WorkDir, error)
	ClearFresh(dir session.WorkDir) error
	// FreeLayers removes layers that nothing uses from a full disk, and reports whether there
	// were any.
	FreeLayers(ctx context.Context) bool
	// RestoreAccess makes the directories above the tree accessible again that an agent
	// has locked.
	RestoreAccess(dir session.WorkDir) error
	// Disk returns what the disk has left that the directories are on.
	Disk() (session.Disk, error)
	// Written measures what was written into an assignment's directories since a time,
	// and is still there.
	Written(ctx context.Context, dir session.WorkDir, since time.Time) (session.Written, error)
	// ClearTmp removes everything in an assignment's TMPDIR; Clear first that, then
	// the tree, then the rest. Nothing may be at work there.
	ClearTmp(dir session.WorkDir) error
	Clear(dir session.WorkDir) error
}

// Sessions is the store: what it has of sessions, its id and its offers.
type Sessions interface {
	// ID is the store's id.
	ID() string
	// Offers lists what the store's workers publish, dead ones included.
	Offers(ctx context.Context) ([]spec.Offer, error)
	// Lock takes the assignment's lock, which dies with the process and those
	// that inherit it, or returns ok false while another holds it.
	Lock(key session.Key, id spec.AssignmentID) (lock session.Lock, ok bool, err error)
	// Record reads an assignment's record; session.ErrNotFound if there is none.
	Record(key session.Key, id spec.AssignmentID) (session.Record, error)
	// PutRecord writes an assignment's record durably. session.ErrFenced if the
	// stored one belongs to a later incarnation.
	PutRecord(key session.Key, r session.Record) error
	// UpdateRecord rewrites an assignment's record for an incarnation, which
	// fences off executors of earlier ones, and returns it. change gets what
	// is stored, a record without rounds if nothing is. session.ErrFenced if the
	// stored one belongs to a later incarnation.
	UpdateRecord(key session.Key, id spec.AssignmentID, incarnation int, change func(*session.Record)) (session.Record, error)
	// Execution reads execution_state.json; session.ErrNotFound if there is none.
	Execution(key session.Key) (session.Execution, error)
	// Incarnation is that of execution_state.json. Errors are those of Execution.
	Incarnation(key session.Key) (int, error)
	// PutCheckpoint stores a checkpoint durably as a blob and as
	// checkpoint_<phase>.json, and returns the blob's name.
	PutCheckpoint(ctx context.Context, key session.Key, c session.Checkpoint) (spec.Digest, error)
	// Checkpoint reads a checkpoint blob, verified. It must not be changed.
	Checkpoint(ctx context.Context, name spec.Digest) (session.Checkpoint, error)
	// Team reads the blob of a team, verified. It must not be changed.
	Team(ctx context.Context, blob spec.Digest) (spec.Team, error)
	// UpdateExecution rewrites execution_state.json under its lock. change
	// gets what is stored, zero if nothing is.
	UpdateExecution(key session.Key, change func(*session.Execution)) error
}

// Ledgers keeps what sessions pay for.
type Ledgers interface {
	// Journal reads an assignment's journal; an empty one if there is none. Of
	// a damaged one it returns what is intact, and quarantines the damage.
	Journal(key session.Key, id spec.AssignmentID) (*budget.Journal, error)
	// AppendEntry adds an entry to an assignment's journal, durably. Only the
	// holder of the assignment's lock may call it.
	AppendEntry(key session.Key, id spec.AssignmentID, e budget.Entry) error
	// Ledger reads the session's ledger; an empty one if there is none.
	Ledger(key session.Key) (budget.Ledger, error)
	// UpdateLedger rewrites the session's ledger under its lock, unless change
	// returns an error, which it then returns. change may be called more than
	// once. A ledger that is missing or damaged is made again from the journals
	// before change gets it. If the session has a daily budget, the team's day is
	// changed with the ledger.
	UpdateLedger(key session.Key, change func(*budget.Ledger) error) error
	// Day returns what a team has spent today; session.ErrNotFound if no session of
	// the team has a daily budget.
	Day(namespace, name string) (budget.Day, error)
}

// Agents does the work of attempts and checks.
type Agents interface {
	// Run does one attempt and returns when the agent and all that it started
	// are gone. A *failures.Failure says how the attempt failed; the outcome then
	// still has its usage and log. A context that ends stops the agent and
	// returns the context's cause.
	Run(ctx context.Context, job session.Job) (session.Outcome, error)
	// Check runs a check, on the same terms.
	Check(ctx context.Context, job session.CheckJob) (session.Outcome, error)
	// Conversation returns the conversation of the agent in an assignment's directory. ok is
	// false if there is none that could continue.
	Conversation(agent string, dir session.WorkDir) (c session.Conversation, ok bool)
	// ConversationFiles lists patterns of the files below HOME with which the agent continues
	// a conversation of a preset; none: it continues no such conversation.
	ConversationFiles(agent, preset string) []string
	// NoteConversation notes a conversation whose files are in a directory's HOME.
	NoteConversation(dir session.WorkDir, c session.Conversation) error
	// Sweep ends the processes of earlier attempts that are still at work in an
	// assignment's directory. A *failures.Failure names those that it cannot end.
	Sweep(dir session.WorkDir) error
	// Removed is how many bytes on disk the files in an assignment's directories take up
	// that are removed, and that a process still has open.
	Removed(dir session.WorkDir) int64
	// EndStopped ends what would watch agents of workers that are gone, and is stopped:
	// it would keep its assignment locked.
	EndStopped()
	// Forget ends the conversation in an assignment's directory, if there is one.
	Forget(dir session.WorkDir) error
	ProgramUsage
	// Offered describes an agent; its zero for one that is not known.
	Offered(agent string) spec.OfferedAgent
	// Keep lists the patterns of files that a check may leave.
	Keep(check string) []string
	// Breaker is how the breaker of an agent is set, defaults filled in.
	Breaker(agent string) spec.Breaker
	// Mask replaces every secret that the worker knows.
	Mask(text string) string
	// Secrets lists the values that no artifact may hold.
	Secrets() []string
}

// ProgramUsage reads what agent programs have noted of their usage by themselves.
type ProgramUsage interface {
	// Reported reads what an agent program has noted in an assignment's directory
	// since the call of this number in the assignment's journal began: what that call has
	// used, and an estimate of what the request that may have been under way costs besides.
	// The program has to be gone. ok is false if nothing is known.
	Reported(agent string, dir session.WorkDir, call int64) (used, estimate cost.Usage, ok bool)
}

// Tickets is a ticket system. Its errors are *session.TicketTrouble.
type Tickets interface {
	// Find looks for the ticket of a project that carries a label, the oldest if
	// there are several. One that was created just now may not be found yet.
	Find(ctx context.Context, project, label string) (ticket session.Ticket, ok bool, err error)
	// Create makes a ticket of a notice, and gives it the label. Only a trouble of
	// kind Unclear leaves open whether there is one.
	Create(ctx context.Context, how spec.HelpJira, label string, n session.Notice) (session.Ticket, error)
	// Comment adds a comment to a ticket, once, however often it is called with it.
	Comment(ctx context.Context, c session.TicketComment) error
	// Address is the page of a ticket for people.
	Address(key string) string
}

// TicketStore keeps the records of tickets.
type TicketStore interface {
	// Ticket returns a ticket's record: session.ErrNotFound if there is none,
	// session.ErrCorrupt if it was damaged.
	Ticket(namespace, name string) (session.TicketRecord, error)
	// PutTicket replaces a ticket's record, durably, unless the stored one has the same
	// revision or a later one.
	PutTicket(namespace string, r session.TicketRecord) error
}

// Heartbeats reports to Temporal that an activity is at work.
type Heartbeats interface {
	// Beat reports for the activity that ctx is of. ErrUnwanted says that nobody waits
	// for its end any more, and ErrReplaced that another execution of it is to wait for
	// the result of this one. Any other error means that Temporal cannot be reached now, or
	// gave no answer: the work is as wanted as before.
	Beat(ctx context.Context, beat Heartbeat) error
}

// ErrUnwanted says that nobody waits for the end of an activity any more: it was
// cancelled, or paused, or its workflow has ended or does without it.
var ErrUnwanted = errors.New("activity no longer wanted")

// ErrReplaced says that Temporal has given up an execution of an activity that is
// still wanted, and has started another in its place, or is about to.
var ErrReplaced = errors.New("another execution has replaced this one")

// Clock tells the time.
type Clock func() time.Time

// Random returns numbers in [0, 1) that spread waits; nil is math/rand.
type Random func() float64

func (r Random) next() float64 {
	if r == nil {
		return rand.Float64() //nolint:gosec // spreads waits; guards nothing
	}
	return r()
}

// between is a time between two others.
func (r Random) between(least, most time.Duration) time.Duration {
	return least + time.Duration(r.next()*float64(most-least))
}
