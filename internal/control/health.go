package control

import (
	"context"
	"time"

	"github.com/maestro-hive/maestro/internal/access"
	"github.com/maestro-hive/maestro/internal/diskspace"
	"github.com/maestro-hive/maestro/internal/store"
	"github.com/maestro-hive/maestro/internal/temporalutil"
)

const (
	// examinedFor is how long an examination is shown that nobody asked for, and askedFor one that
	// somebody did.
	examinedFor = time.Minute
	askedFor    = 3 * time.Second
	// countedFor is how long the size of the store is.
	countedFor = 10 * time.Minute
)

// Health is the state of a store, of its Temporal and its workers. Answers are shared between callers.
type Health struct {
	*Base
	examiner Examiner
	examined shared[[]Finding]
	counted  shared[Size]
}

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
	// Remedy says what to do; empty for ok.
	Remedy string `json:"remedy,omitempty"`
	// Command does it, for a shell, where one command can.
	Command string `json:"command,omitempty"`
}

// NewHealth returns the state of what operations work on.
func NewHealth(b *Base, examiner Examiner) *Health {
	return &Health{Base: b, examiner: examiner}
}

// Examination is the document of an examination.
type Examination struct {
	// OK: no finding is bad.
	OK       bool      `json:"ok"`
	Findings []Finding `json:"findings"`
	// At is when it was made.
	At time.Time `json:"at"`
}

// Size is how much a store holds, by kind.
type Size struct {
	// Sessions counts those of the namespace.
	Sessions int `json:"sessions"`
	// Blobs is everything by content, and Documents what there is of sessions besides. Other is the
	// rest, with the working directories and caches of agents.
	Blobs     diskspace.Used `json:"blobs"`
	Documents diskspace.Used `json:"documents"`
	Other     diskspace.Used `json:"other"`
}

// StoreSize is how large a store is, and the room that its file system has.
type StoreSize struct {
	Store string `json:"store"`
	Size
	// CountedAt is when the files were counted; FreeBytes is of now.
	CountedAt time.Time `json:"counted_at"`
	FreeBytes int64     `json:"free_bytes"`
}

// Examine checks what sessions need, and says what to mend. It shows what belongs to all teams, and
// takes some seconds: without again, it may be as old as a minute.
func (h *Health) Examine(ctx context.Context, again bool) (Examination, error) {
	s, err := h.stored()
	if err == nil {
		err = access.Check(ctx, access.View, access.AllTeams)
	}
	if err != nil {
		return Examination{}, err
	}
	fresh := examinedFor
	if again {
		fresh = askedFor
	}
	found, at, err := h.examined.get(ctx, h.Now, fresh, func(ctx context.Context) ([]Finding, error) {
		return h.examiner(ctx, s, h.conn(), h.Now)
	})
	doc := Examination{OK: true, Findings: found, At: at}
	for _, f := range found {
		doc.OK = doc.OK && f.Result != ResultBad
	}
	return doc, err
}

// Size counts the files of the store, from time to time.
func (h *Health) Size(ctx context.Context) (StoreSize, error) {
	s, err := h.stored()
	if err == nil {
		err = access.Check(ctx, access.View, access.NoTeam)
	}
	if err != nil {
		return StoreSize{}, err
	}
	size, at, err := h.counted.get(ctx, h.Now, countedFor, h.count)
	doc := StoreSize{Store: s.ID(), Size: size, CountedAt: at}
	if left, err := diskspace.Of(s.Dir()); err == nil {
		doc.FreeBytes = left.Bytes
	}
	return doc, err
}

func (h *Health) count(ctx context.Context) (size Size, err error) {
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
	sessions, err := h.Store.Sessions(ctx, h.Namespace)
	size.Sessions = len(sessions)
	return size, err
}
