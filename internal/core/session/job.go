package session

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
)

// MaxInputs is how many of its input's files a brief lists at most. An agent can list the rest itself.
const MaxInputs = 200

// Listing is a part of a tree's files.
type Listing struct {
	// Paths are sorted.
	Paths []string
	// Count is how many files and links the tree has.
	Count int
}

// Brief is the document that describes an agent's task: an agent program reads it as JSON on
// standard input.
type Brief struct {
	Session      string            `json:"session"`
	Phase        string            `json:"phase"`
	Persona      string            `json:"persona"`
	Role         string            `json:"role"`
	Instructions string            `json:"instructions"`
	Requirement  string            `json:"requirement"`
	Decisions    map[string]string `json:"decisions"`
	// Inputs lists files that the directory starts with, sorted: all, or MaxInputs of them.
	Inputs []string `json:"inputs"`
	// InputCount is how many files the directory starts with.
	InputCount int `json:"input_count"`
	// Protected lists patterns of files whose changes are not used.
	Protected []string `json:"protected,omitempty"`
	// Round and Attempt count from 1; Attempt within the round. Lost workers do not change them.
	Round   int `json:"round"`
	Attempt int `json:"attempt"`
	// LeftOut says, in sentences, what was left out of the assignment's own earlier work, and of the work that it builds on.
	LeftOut []string `json:"left_out,omitempty"`
	// Feedback describes the previous failure; nil on the first attempt.
	Feedback *Feedback `json:"feedback"`
	// Conflicts names the paths and decisions that the personas of the phase have in different
	// versions, for the round that merges them. [MergeDir] has the versions.
	Conflicts []string `json:"conflicts,omitempty"`
	// MaySendBack is set where the persona may send an earlier phase's work back.
	MaySendBack *MaySendBack `json:"may_send_back,omitempty"`
}

// MaySendBack permits an agent to send insufficient work back.
type MaySendBack struct {
	// To is the phase of the work; Left is how often it may still be sent back.
	To   string `json:"to"`
	Left int    `json:"left"`
}

// Remains is a sentence on how often work may still be sent back.
func (m MaySendBack) Remains() string {
	switch m.Left {
	case 0:
		return "The limit is reached: if it is sent back once more, a person decides."
	case 1:
		return "This is possible once more; after that a person decides."
	}
	return fmt.Sprintf("This is possible %d more times; after that a person decides.", m.Left)
}

// Feedback describes how the previous attempt failed, and has a person's note.
type Feedback struct {
	Category failures.Category `json:"category"`
	Message  string            `json:"message"`
	Output   string            `json:"output"`
	Advice   string            `json:"advice"`
	// Diff has the changes of the failed attempt, as a unified diff, cut to [MaxDiff].
	Diff string `json:"diff,omitempty"`
	// Kept: the directory has the failed attempt's files, so the diff is already applied; otherwise
	// it starts from the input again.
	Kept bool `json:"kept,omitempty"`
	// Note is a person's note for later attempts. Every attempt from then on gets it, also if there
	// is no failure: Category and Message are empty then.
	Note string `json:"note,omitempty"`
	// SentBack names who has sent the work back earlier, and why, if another failure has occurred
	// since: those reasons still apply.
	SentBack string `json:"sent_back,omitempty"`
}

// FeedbackOn converts a failure to feedback; nil for nil.
func FeedbackOn(f *failures.Failure) *Feedback {
	if f == nil {
		return nil
	}
	return &Feedback{Category: f.Category, Message: f.Message, Output: f.Output, Advice: f.Advice()}
}

// Lock is an assignment's lock, held by its executor.
type Lock interface {
	// Fd is the descriptor of the locked open file. A process that inherits it keeps the lock until
	// it ends or the executor unlocks.
	Fd() uintptr
	// Unlock releases the lock, also for processes that have inherited it.
	Unlock()
	// Lease says until when no other host begins the same work; nil if none can.
	Lease() *Lease
}

// Job is the input of one attempt: the brief, and the directories.
type Job struct {
	Brief Brief
	// Input is the manifest that the work starts from: stored answers are used for the same input only.
	Input spec.Digest
	// Agent is the name of the worker-file agent, and Team that of the session's team, with its namespace.
	Agent, Team string
	// WorkDir is where it works: the agent's changes in its tree are the work.
	WorkDir
	// Begun is the start of an earlier, interrupted execution of the attempt, whose output is
	// in LiveLog and belongs to the transcript. Zero: there was none.
	Begun time.Time
	// Timeout bounds the attempt; zero means the agent's own.
	Timeout textfmt.Duration
	// MaxTurns limits the turns of an agent that works in turns; zero: the agent's own limit.
	MaxTurns int
	// Deliver is what the work has to contain, so that an agent can check it before it finishes.
	Deliver spec.Contract
	// Try runs one of Deliver's checks for the agent on the directory, and leaves the directory
	// unchanged. A *Failure has the check's result.
	Try func(ctx context.Context, check string) (output []byte, err error)
	// Calls records the paid calls of the attempt. Nil: they are not recorded.
	Calls Calls
	// Waits has the time of waits, which is no part of the attempt's time. Nil: there are none.
	Waits *PausedTime
	// Breaker rejects paid calls of the attempt, and counts their failures, if a gateway makes the
	// calls. Nil: there is none.
	Breaker CallBreaker
	// Ended notes durably what the agent has said at its end, before the cost of the whole attempt is booked. Nil: nobody does.
	Ended func(ctx context.Context, o Outcome) error
	// Continues: the directory and HOME are as the attempt's last execution or
	// a failed attempt left them, so that a conversation in them can continue.
	Continues bool
	// Lock is inherited by the process that supervises the agent, so that it stays held for as long
	// as the agent lives, also after a worker was killed. May be nil.
	Lock Lock
	// Progress receives what the agent reports about its progress. It may be called from any
	// goroutine, must not block, and may be nil.
	Progress func(line string)
	// Delivery is set in a phase that delivers.
	Delivery *DeliveryJob
}

// DeliveryJob is what the agent of a phase that delivers needs besides the brief.
type DeliveryJob struct {
	spec.AssignmentID
	spec.Deliver
	Key Key
	// Run and Holder are the fence of what the agent writes into the database.
	Run    int64
	Holder string
	Pass   int
	// Checkpoint has the work, and Head is its digest.
	Checkpoint Checkpoint
	Head       spec.Digest
	// Checks are the names of the team's checks, which the work has passed.
	Checks []string
	// Source is where the workspace came from; nil: unknown.
	Source *Source
	// Because is why the work was ordered again; empty: it was not.
	Because Because
}

// WorkDir is an assignment's directory on a worker. The path is the same for every attempt, because
// agents find their conversations by it.
type WorkDir struct {
	// Tree holds the files; Home is the agent's HOME and Tmp its TMPDIR.
	Tree, Home, Tmp string
	// New: the directories were created just now, at a new path, so no process can be using them.
	New bool
	// LiveLog is the file with the output of the running, or last, attempt. It grows while the
	// attempt runs. An attempt creates it anew unless Job.Begun is set. Empty: no such file.
	LiveLog string
	// Layers, if not nil, are below Tree. Tree then has only the differences: it is the upper
	// directory of an overlay in a room.
	Layers *Layers
}

const (
	// CachesDir is the directory beside Home with what processes write to caches of their own.
	CachesDir = "caches"
	// CachesWorkDir is the one with the directories that the kernel needs for the overlays of these.
	CachesWorkDir = "caches-work"
)

// Layers are a tree as read-only layers.
type Layers struct {
	// Manifest is the tree, Dirs are its layers, the topmost first.
	Manifest spec.Digest
	Dirs     []string
	// Work is a directory beside the tree that the kernel needs for an overlay.
	Work string
}

// Lower is the manifest of the layers below the tree; empty: there are none.
func (w WorkDir) Lower() spec.Digest {
	if w.Layers == nil {
		return ""
	}
	return w.Layers.Manifest
}

// Outcome is what an attempt reports besides its files. A failed attempt has an Outcome, too: its
// usage is paid for.
type Outcome struct {
	// Summary is a short description of the work.
	Summary string
	// Decisions are the decisions, by name.
	Decisions map[string]string
	// Kept says which versions of conflicts the agent has kept, and why.
	Kept map[string]Kept
	// LeftOut says, in sentences, which files were left out. The collection adds it.
	LeftOut []string
	// SendsBack has the reasons for which the agent sends an earlier phase's work
	// back; empty: it does not.
	SendsBack []string
	// Usage is the cost of the attempt, as far as the agent reports it.
	Usage cost.Usage
	// Log is the transcript: what the agent printed, with masked secrets, cut to the worker's
	// limit.
	Log []byte
}

// CacheDomain names a team among those of all namespaces of a store: whose checks trust what they leave each other.
func CacheDomain(key Key, team string) string { return key.Namespace + "." + team }

// CheckJob is one run of a check over a tree.
type CheckJob struct {
	// Check names the worker-file check, and Team the session's team, with its namespace.
	Check, Team string
	// Input, if not empty, is the tree: a person's files, which no agent has changed. What the check leaves in its caches
	// is then used by later checks of the team.
	Input spec.Digest
	// WorkDir has the tree to check; the check may write there.
	WorkDir
	// Lock is inherited by the process that supervises the check. See Job.
	Lock Lock
	// Progress receives what the check prints. See Job.
	Progress func(line string)
}

// The limits of what an assignment may add to the session's state, which is part of histories.
// Longer texts belong in files.
const (
	MaxSummary        = 500
	MaxDecisionValue  = 1024
	MaxDecisionsTotal = 8 * 1024
	MaxMessage        = 300
	MaxOutput         = 4 * 1024
	MaxDiff           = 16 * 1024
)

// CheckDecisions rejects decisions whose names or sizes exceed a session's limits.
func CheckDecisions(decisions map[string]string) error {
	total := 0
	for _, name := range slices.Sorted(maps.Keys(decisions)) {
		if err := spec.CheckDecision(name); err != nil {
			return err
		}
		value := decisions[name]
		if len(value) > MaxDecisionValue {
			return fmt.Errorf("decision %q has %d bytes; at most %d are allowed: put longer texts into a file", name, len(value),
				MaxDecisionValue)
		}
		total += len(name) + len(value)
	}
	if total > MaxDecisionsTotal {
		return fmt.Errorf("the decisions have %d bytes together; at most %d are allowed: put longer texts into files", total,
			MaxDecisionsTotal)
	}
	return nil
}

// CheckReasons rejects reasons for sending work back that are empty, or that exceed a session's
// limits.
func CheckReasons(reasons []string) error {
	if len(reasons) == 0 {
		return errors.New("missing reasons; list at least one change to make")
	}
	total := 0
	for i, reason := range reasons {
		if strings.TrimSpace(reason) == "" {
			return fmt.Errorf("reason %d is empty; describe what is wrong and what would be right, or omit it", i+1)
		}
		total += len(reason)
	}
	if total > MaxReasons {
		return fmt.Errorf("the reasons have %d bytes together; at most %d are allowed: shorten them, or put longer texts into a file",
			total, MaxReasons)
	}
	return nil
}
