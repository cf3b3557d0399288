package control

import (
	"context"
	"fmt"
	"time"

	"github.com/maestro-hive/maestro/internal/access"
	"github.com/maestro-hive/maestro/internal/platform/diskspace"
	"github.com/maestro-hive/maestro/internal/platform/temporalutil"
	"github.com/maestro-hive/maestro/internal/store"
)

const (
	// examinedFor is the age up to which a shared examination is returned, and askedFor that for
	// callers who request a new one.
	examinedFor = time.Minute
	askedFor    = 3 * time.Second
	// countedFor is the age up to which a size of the store is returned.
	countedFor = 10 * time.Minute
)

// Health is the state of a store, of its Temporal and its workers. Answers are shared between callers.
type Health struct{ *Base }

// Examiner checks what the sessions of a store need. The connection is nil where Temporal cannot be reached.
type Examiner func(context.Context, *store.Store, *temporalutil.Connection, func() time.Time) ([]Finding, error)

// The results of a check.
const (
	ResultOK = "ok"
	// ResultWarning does not prevent a start.
	ResultWarning = "warning"
	// ResultBad prevents sessions from running.
	ResultBad = "bad"
)

// Finding is the result of one check.
type Finding struct {
	Check string `json:"check"`
	// Result is ok, warning or bad.
	Result  string `json:"result"`
	Message string `json:"message"`
	// Remedy is what to do; empty for ok.
	Remedy string `json:"remedy,omitempty"`
	// Command is a shell command that does it, if there is one.
	Command string `json:"command,omitempty"`
}

// Examination is the document of an examination.
type Examination struct {
	// OK: no finding is bad.
	OK       bool      `json:"ok"`
	Findings []Finding `json:"findings"`
	// At is when it was made.
	At time.Time `json:"at"`
}

// Size is the size of a store, by kind.
type Size struct {
	// Sessions is the number of sessions of the namespace.
	Sessions int `json:"sessions"`
	// Blobs is all content, and Documents the other data of sessions. Other is the rest, including
	// the working directories and caches of agents.
	Blobs     diskspace.Used `json:"blobs"`
	Documents diskspace.Used `json:"documents"`
	Other     diskspace.Used `json:"other"`
}

// StoreSize is the size of a store, and the free space of its file system.
type StoreSize struct {
	Store string `json:"store"`
	Size
	// CountedAt is when the files were counted; FreeBytes is current.
	CountedAt time.Time `json:"counted_at"`
	FreeBytes int64     `json:"free_bytes"`
}

// Away says what cannot be reached now and what that means, in sentences; nil: nothing is known to be away. It waits for nothing.
func (h Health) Away() []string {
	if h.conn() == nil {
		return []string{"Temporal cannot be reached. Sessions stand still, and nothing can be started or answered until it is back."}
	}
	return nil
}

// ExamineInput says how new an examination has to be.
type ExamineInput struct {
	Again bool `query:"again" doc:"examine now; left out: the findings may be a minute old"`
}

// Examine checks what sessions need, and returns remedies. It shows data of all teams, and takes
// some seconds: without again, the result may be a minute old.
func (h Health) Examine(ctx context.Context, in ExamineInput) (Examination, error) {
	if err := access.Check(ctx, access.View, access.AllTeams); err != nil {
		return Examination{}, err
	}
	fresh := examinedFor
	if in.Again {
		fresh = askedFor
	}
	found, at, err := h.examined.get(ctx, h.Now, fresh, func(ctx context.Context) ([]Finding, error) {
		findings, err := h.Examiner(ctx, h.Store, h.conn(), h.Now)
		for _, d := range h.Directories {
			dir := d.Source(ctx).Dir
			if why := unreadable(dir); why != nil {
				findings = append(findings, Finding{
					Check: "workspace " + d.Name, Result: ResultWarning,
					Message: fmt.Sprintf("%s cannot be read: %v; nothing can start from it, hooks included", dir, why),
					Remedy:  "bring it back, or start the server with another --workspace " + d.Name + "=DIR",
				})
			}
		}
		return findings, err
	})
	doc := Examination{OK: true, Findings: found, At: at}
	for _, f := range found {
		doc.OK = doc.OK && f.Result != ResultBad
	}
	return doc, err
}

// Size counts the files of the store, at most once in ten minutes.
func (h Health) Size(ctx context.Context) (StoreSize, error) {
	if err := access.Check(ctx, access.View, access.NoTeam); err != nil {
		return StoreSize{}, err
	}
	size, at, err := h.counted.get(ctx, h.Now, countedFor, h.count)
	doc := StoreSize{Store: h.Store.ID(), Size: size, CountedAt: at}
	if left, err := diskspace.Of(h.Store.Dir()); err == nil {
		doc.FreeBytes = left.Bytes
	}
	return doc, err
}

func (h Health) count(ctx context.Context) (size Size, err error) {
	used, err := diskspace.Below(ctx, h.Store.Dir())
	if err != nil {
		return size, err
	}
	for name, u := range used {
		switch name {
		case "blobs":
			size.Blobs = u
		case "sessions":
			size.Documents = u
		default:
			size.Other = size.Other.Add(u)
		}
	}
	sessions, err := h.Store.State.SessionNames(ctx, h.Namespace)
	size.Sessions = len(sessions)
	return size, err
}
