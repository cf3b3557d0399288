package session

import (
	"time"

	"github.com/maestro-hive/maestro/internal/core/spec"
)

// PruneOptions define what a prune keeps. Zero fields mean the store's defaults.
type PruneOptions struct {
	// Keep is how many of the newest checkpoints of each session are kept; at least one.
	Keep int
	// OlderThan is the age up to which checkpoints are kept.
	OlderThan time.Duration
	// DryRun only reports what would be removed.
	DryRun bool
	// Namespace is the one of the sessions in Running. Sessions of other namespaces keep their
	// checkpoints; empty: sessions of every namespace are pruned. A session of it that is not in
	// Running has ended, whatever its status in the store is.
	Namespace string
	// Running are the sessions that run in Temporal, and their start times. They keep everything,
	// whatever their status in the store is.
	Running map[Key]time.Time
	// Young is the age below which a blob is never removed; zero: a day.
	Young time.Duration
	// WorkDirs are the directories in which agents work: as the worker's user, or as another one.
	WorkDirs []PrunableDirs
}

// PrunableDirs are the directories on this host in which agents work.
type PrunableDirs interface {
	// Assignments lists the assignments that have directories of a session. It returns
	// fs.ErrNotExist if the session has none.
	Assignments(key Key) ([]spec.AssignmentID, error)
	// Remove removes the directories of a session. Its assignments' locks are held.
	Remove(key Key) error
}

// PruneReport is what a prune removed or, in a dry run, would remove.
type PruneReport struct {
	DryRun bool `json:"dry_run"`
	// Sessions counts the sessions that were examined, Kept their checkpoints that are kept.
	Sessions int `json:"sessions"`
	Kept     int `json:"kept"`
	// Checkpoints and Blobs are the numbers of what was removed, Bytes the space that it used.
	Checkpoints int   `json:"checkpoints"`
	Blobs       int   `json:"blobs"`
	Bytes       int64 `json:"bytes"`
	// WorkDirs counts sessions whose working directories were removed.
	WorkDirs int `json:"work_dirs"`
	// Pruned lists the sessions that lose checkpoints, Spared those that keep everything because
	// they are not closed.
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
