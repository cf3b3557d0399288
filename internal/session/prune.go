package session

import (
	"time"

	"github.com/maestro-hive/maestro/internal/spec"
)

// PruneOptions says what a prune keeps. Zero fields mean the
// store's defaults.
type PruneOptions struct {
	// Keep is how many checkpoints of each session stay, the newest; at least one.
	Keep int
	// OlderThan is the age up to which checkpoints stay.
	OlderThan time.Duration
	// DryRun only says what would go.
	DryRun bool
	// Namespace is the one that Running speaks of. Sessions of others keep their
	// checkpoints; empty, no session does on this account. A session of it that is not
	// among Running has ended, whatever the store says of it.
	Namespace string
	// Running are the sessions that Temporal runs, and since when: they keep
	// everything, whatever the store says of them.
	Running map[Key]time.Time
	// Young is the age below which a blob is never removed; a day at zero.
	Young time.Duration
	// WorkDirs are the directories in which agents work; nil: none is removed.
	WorkDirs PrunableDirs
}

// PrunableDirs are the directories on this host in which agents work.
type PrunableDirs interface {
	// Assignments lists the assignments that have directories of a session. It returns
	// fs.ErrNotExist if the session has none.
	Assignments(key Key) ([]spec.AssignmentID, error)
	// Remove removes the directories of a session. Its assignments' locks are held.
	Remove(key Key) error
	// RemoveAbandoned removes directories of commands that were killed.
	RemoveAbandoned() error
}

// PruneReport is what a prune removed or, in a dry run, would remove.
type PruneReport struct {
	DryRun bool `json:"dry_run"`
	// Sessions counts the sessions that were looked at, Kept their checkpoints
	// that stay.
	Sessions int `json:"sessions"`
	Kept     int `json:"kept"`
	// Checkpoints and Blobs were removed, and freed so many Bytes.
	Checkpoints int   `json:"checkpoints"`
	Blobs       int   `json:"blobs"`
	Bytes       int64 `json:"bytes"`
	// WorkDirs counts sessions whose working directories were removed.
	WorkDirs int `json:"work_dirs"`
	// Days counts the days of teams, in which they have spent, that were removed.
	Days int `json:"days"`
	// Pruned lists the sessions that lose checkpoints, Spared those that keep
	// everything because they are not closed.
	Pruned []PrunedSession `json:"pruned"`
	Spared []SparedSession `json:"spared"`
}

// PrunedSession is a session that loses checkpoints.
type PrunedSession struct {
	Key
	Checkpoints []spec.Digest `json:"checkpoints"`
}

// SparedSession is a session that keeps everything, and why.
type SparedSession struct {
	Key
	Reason string `json:"reason"`
}
