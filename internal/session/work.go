package session

import (
	"context"
	"errors"
	"fmt"
	"sort"
	"strings"
	"time"

	"github.com/maestro-hive/maestro/internal/cost"
	"github.com/maestro-hive/maestro/internal/failures"
	"github.com/maestro-hive/maestro/internal/spec"
	"github.com/maestro-hive/maestro/internal/textfmt"
)

// MaxInputs is how many of its input's files a brief lists at most. An agent can list the rest itself.
const MaxInputs = 200

// Listing has some of a tree's files.
type Listing struct {
	// Paths are sorted.
	Paths []string
	// Count is how many files and links the tree has.
	Count int
}

// Brief is the document that tells an agent what to do: a command agent reads
// it as JSON on its standard input.
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
	// Round and Attempt count from 1; Attempt within the round. Lost workers
	// do not move them.
	Round   int `json:"round"`
	Attempt int `json:"attempt"`
	// Feedback says what went wrong before; nil on the first attempt.
	Feedback *Feedback `json:"feedback"`
	// MaySendBack is set where the persona may send an earlier phase's work back.
	MaySendBack *MaySendBack `json:"may_send_back,omitempty"`
}

// MaySendBack tells an agent that it may send work back that it finds wanting.
type MaySendBack struct {
	// To is the phase whose work it is; Left is how often it still may.
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

// Feedback tells an attempt how the one before it failed, and what people say.
type Feedback struct {
	Category failures.Category `json:"category"`
	Message  string            `json:"message"`
	Output   string            `json:"output"`
	Advice   string            `json:"advice"`
	// Diff is what the failed attempt had changed, as a unified diff, cut to
	// [MaxDiff].
	Diff string `json:"diff,omitempty"`
	// Kept: the directory has the failed attempt's files, so that the diff is
	// there already; otherwise it starts from the input again.
	Kept bool `json:"kept,omitempty"`
	// Note is what a person says to whoever tries again. It comes with every
	// attempt from then on, also where there is no failure to tell of: Category
	// and Message are empty then.
	Note string `json:"note,omitempty"`
	// SentBack says who has sent the work back before, and why, where something
	// else has gone wrong since: what was asked for then still holds.
	SentBack string `json:"sent_back,omitempty"`
}

// FeedbackOn turns a failure into feedback; nil for nil.
func FeedbackOn(f *failures.Failure) *Feedback {
	if f == nil {
		return nil
	}
	return &Feedback{Category: f.Category, Message: f.Message, Output: f.Output, Advice: f.Advice()}
}

// Lock is an assignment's lock in the hands of its executor.
type Lock interface {
	// Fd is the descriptor of the open file that is locked. A process that
	// inherits it keeps the lock, until it is gone or the executor unlocks.
	Fd() uintptr
	// Unlock lets go of the lock, also for those that have inherited it.
	Unlock()
}

// Job is one attempt as an agent gets it: the brief, and where to work.
type Job struct {
	Brief Brief
	// Agent names the worker-file agent.
	Agent string
	// WorkDir is where it works: what the agent leaves in its tree is the work.
	WorkDir
	// Begun is the start of an earlier, interrupted execution of the attempt, whose output is
	// in LiveLog and belongs to the transcript. Zero: there was none.
	Begun time.Time
	// Timeout bounds the attempt; zero means the agent's own.
	Timeout textfmt.Duration
	// MaxTurns bounds the turns of an agent that works in turns; zero: the
	// agent's own bound.
	MaxTurns int
	// Deliver is what the work has to contain, so that an agent may look for
	// itself before it hands in.
	Deliver spec.Contract
	// Try runs one of Deliver's checks for the agent on the directory as it is,
	// and leaves the directory as it was. A *Failure says what the check found.
	Try func(ctx context.Context, check string) (output []byte, err error)
	// Calls keeps what the attempt pays for. Nil: nobody does.
	Calls Calls
	// Breaker refuses calls that the attempt pays for, and counts their failures, where a
	// gateway makes them. Nil: nobody does.
	Breaker CallBreaker
	// Continues: the directory and HOME are as the attempt's last execution or
	// a failed attempt left them, so that a conversation in them can continue.
	Continues bool
	// Lock is held by what watches the agent, too, so that it outlives a killed
	// worker for as long as the agent does. May be nil.
	Lock Lock
	// Progress is told what the agent says it is doing. It may be called from
	// any goroutine, must not block, and may be nil.
	Progress func(line string)
}

// WorkDir is an assignment's directory on a worker: the same path for every
// attempt, because agents find their conversations by it.
type WorkDir struct {
	// Tree holds the files; Home is the agent's HOME and Tmp its TMPDIR.
	Tree, Home, Tmp string
	// New: the directories were made just now, at a path that nobody knew, so nothing can
	// be at work there.
	New bool
	// LiveLog is the file with the output of the running, or last, attempt, as it grows. An
	// attempt creates it anew unless Job.Begun is set. Empty: no such file.
	LiveLog string
	// Layers, if not nil, are below Tree, which then has only what differs from them: it is
	// the upper directory of an overlay that a room shows.
	Layers *Layers
}

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

// Outcome is what an attempt reports besides the files it left. An attempt that
// failed has an Outcome too: what it used is paid for all the same.
type Outcome struct {
	// Summary says in short what was done.
	Summary string
	// Decisions are the choices made, by name.
	Decisions map[string]string
	// SendsBack has the reasons for which the agent sends an earlier phase's work
	// back; empty: it does not.
	SendsBack []string
	// Usage is what the attempt cost, as far as the agent knows.
	Usage cost.Usage
	// Log is the transcript: what the agent printed, secrets masked, cut to
	// the worker's limit.
	Log []byte
}

// CheckJob is one run of a check over a tree.
type CheckJob struct {
	// Check names the worker-file check.
	Check string
	// WorkDir has the tree to check; the check may write there.
	WorkDir
	// Lock is held by what watches the check. As in Job.
	Lock Lock
	// Progress is told what the check prints. As in Job.
	Progress func(line string)
}

// The limits of what an assignment may put into the session's state, which
// travels through histories. Longer things belong into files.
const (
	MaxSummary        = 500
	MaxDecisionValue  = 1024
	MaxDecisionsTotal = 8 * 1024
	MaxMessage        = 300
	MaxOutput         = 4 * 1024
	MaxDiff           = 16 * 1024
)

// CheckDecisions refuses decisions whose names or sizes a session cannot carry.
func CheckDecisions(decisions map[string]string) error {
	names := make([]string, 0, len(decisions))
	for name := range decisions {
		names = append(names, name)
	}
	sort.Strings(names)
	total := 0
	for _, name := range names {
		if err := spec.CheckDecision(name); err != nil {
			return err
		}
		value := decisions[name]
		if len(value) > MaxDecisionValue {
			return fmt.Errorf("decision %q has %d bytes; at most %d are allowed: put longer texts into a file", name, len(value), MaxDecisionValue)
		}
		total += len(name) + len(value)
	}
	if total > MaxDecisionsTotal {
		return fmt.Errorf("the decisions have %d bytes together; at most %d are allowed: put longer texts into files", total, MaxDecisionsTotal)
	}
	return nil
}

// CheckReasons refuses reasons for sending work back that say nothing, or that a
// session cannot carry.
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
		return fmt.Errorf("the reasons have %d bytes together; at most %d are allowed: shorten them, or put longer texts into a file", total, MaxReasons)
	}
	return nil
}
