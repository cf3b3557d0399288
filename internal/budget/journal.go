package budget

import (
	"fmt"
	"slices"
	"time"

	"github.com/maestro-hive/maestro/internal/cost"
	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/spec"
)

// Kind is what a journal entry records of a call.
type Kind string

// The kinds of entry. A call begins once and ends once; only Tools and Closed can follow its end.
const (
	// Begun: the call is about to be made. From here on it may cost money.
	Begun Kind = "begun"
	// Reported: the call is in progress, and its agent program has reported its usage so far. Usage
	// is all of that, Estimate the cost of the request that may be in progress.
	Reported Kind = "reported"
	// Settled: the answer is stored, and its cost is known. A call that is a whole attempt may have
	// this entry alone.
	Settled Kind = "settled"
	// Abandoned: there is no answer, and the cost of the call is known.
	Abandoned Kind = "abandoned"
	// Unsettled: there is no answer, and the cost is not known, or only in part: the worker was
	// lost or the connection broke. Usage is the known part, Estimate the rest. If they are zero,
	// they are those of the last report.
	Unsettled Kind = "unsettled"
	// Tools: what the tools did after the answer is stored.
	Tools Kind = "tools"
	// Closed: a person has stated what an unsettled call cost beyond the known part; zero, if it
	// was written off.
	Closed Kind = "closed"
)

// Entry is one line of an assignment's journal.
type Entry struct {
	// Seq counts the entries from 1.
	Seq  int64     `json:"seq"`
	Kind Kind      `json:"kind"`
	At   time.Time `json:"at"`
	// Call is the Seq of the entry with which the call began.
	Call int64 `json:"call,omitempty"`

	// The fields below are set in the entry that begins a call.

	Key *session.CallKey `json:"key,omitempty"`
	// Run is the workflow run that pays.
	Run     string      `json:"run,omitempty"`
	Agent   string      `json:"agent,omitempty"`
	Model   string      `json:"model,omitempty"`
	Request spec.Digest `json:"request,omitempty"`
	// Estimate is booked in addition to the known cost if the rest stays unknown.
	Estimate *cost.Usage `json:"estimate,omitempty"`
	// Granted is what the session's budgets have reserved for the call.
	Granted cost.Amount `json:"granted,omitzero"`

	// Usage is the cost, as far as it is known.
	Usage *cost.Usage `json:"usage,omitempty"`
	// Answer and Tools are the blobs of a turn.
	Answer spec.Digest `json:"answer,omitempty"`
	Tools  spec.Digest `json:"tools,omitempty"`
	// By and Note are those of the person who closed the call.
	By   string `json:"by,omitempty"`
	Note string `json:"note,omitempty"`
}

// Call is a paid call, computed from its entries.
type Call struct {
	// ID is the Seq of its first entry.
	ID int64 `json:"id"`
	// State is the kind of the last entry about its cost; Begun: it is in progress.
	State   Kind            `json:"state"`
	Key     session.CallKey `json:"key"`
	Run     string          `json:"run,omitempty"`
	Agent   string          `json:"agent"`
	Model   string          `json:"model,omitempty"`
	Request spec.Digest     `json:"request,omitempty"`
	// Estimate is its possible cost beyond the known part.
	Estimate cost.Usage `json:"estimate"`
	// Granted is what was reserved for it.
	Granted cost.Amount `json:"granted,omitzero"`
	// Reported is the usage that its agent program has reported while it was in progress.
	Reported cost.Usage `json:"reported,omitzero"`
	// Usage is its known cost; zero while it is in progress.
	Usage  cost.Usage  `json:"usage"`
	Answer spec.Digest `json:"answer,omitempty"`
	Tools  spec.Digest `json:"tools,omitempty"`
	// BeganAt and EndedAt are its limits in time; EndedAt is zero while it is in progress. The cost
	// counts for the day of EndedAt.
	BeganAt time.Time `json:"began_at"`
	EndedAt time.Time `json:"ended_at,omitzero"`
	// ClosedAt is when a person stated its cost, By who did, Note the reason.
	ClosedAt time.Time `json:"closed_at,omitzero"`
	By       string    `json:"by,omitempty"`
	Note     string    `json:"note,omitempty"`
}

// Journal has all paid calls of an assignment, over all its rounds and incarnations. Its zero value
// is empty.
type Journal struct {
	calls []Call
	byID  map[int64]int
	last  int64
}

// Calls lists the calls in the order in which they began. They must not be changed.
func (j *Journal) Calls() []Call { return j.calls }

// Call returns a call by its id; its zero if there is none.
func (j *Journal) Call(id int64) Call {
	if i, ok := j.byID[id]; ok {
		return j.calls[i]
	}
	return Call{}
}

// Next is the Seq of the next entry.
func (j *Journal) Next() int64 { return j.last + 1 }

// Apply adds the next entry. A skipped number means that an entry was lost: if it began a call,
// costs of that call that are recorded later still count. An error describes why the entry cannot
// follow the journal's last state; the journal is then unchanged.
func (j *Journal) Apply(e Entry) error {
	if e.Seq <= j.last {
		return fmt.Errorf("entry %d follows entry %d; entry numbers must increase", e.Seq, j.last)
	}
	if e.Key != nil {
		if e.Kind != Begun && e.Kind != Settled {
			return fmt.Errorf("entry %d begins a call as %q; a call begins as %q, or as %q if it is reported at its end", e.Seq, e.Kind, Begun, Settled)
		}
		j.begin(e)
		j.last = e.Seq
		return nil
	}
	i, ok := j.byID[e.Call]
	if !ok && e.endsLost() {
		i, ok = len(j.calls), true
		j.add(Call{ID: e.Call, State: Begun, BeganAt: e.At})
	}
	if !ok {
		return fmt.Errorf("entry %d is about call %d, which never began", e.Seq, e.Call)
	}
	call := j.calls[i]
	if err := call.take(e); err != nil {
		return fmt.Errorf("entry %d: %w", e.Seq, err)
	}
	j.calls[i], j.last = call, e.Seq
	return nil
}

// endsLost reports whether the entry ends a call, in case the call's first entry is lost.
func (e Entry) endsLost() bool {
	ends := e.Kind == Settled || e.Kind == Abandoned || e.Kind == Unsettled
	return ends && (e.Usage != nil || e.Estimate != nil) && 0 < e.Call && e.Call < e.Seq
}

func (j *Journal) add(c Call) {
	if j.byID == nil {
		j.byID = map[int64]int{}
	}
	j.byID[c.ID] = len(j.calls)
	j.calls = append(j.calls, c)
}

func (j *Journal) begin(e Entry) {
	c := Call{
		ID: e.Seq, State: e.Kind, Key: *e.Key, Run: e.Run, Agent: e.Agent, Model: e.Model,
		Request: e.Request, Estimate: orZero(e.Estimate), Granted: e.Granted, BeganAt: e.At,
	}
	if e.Kind == Settled {
		c.Usage, c.Answer, c.EndedAt = orZero(e.Usage), e.Answer, e.At
	}
	j.add(c)
}

func (c *Call) take(e Entry) error {
	allowed := map[Kind]Kind{Reported: Begun, Settled: Begun, Abandoned: Begun, Unsettled: Begun, Tools: Settled, Closed: Unsettled}
	from, ok := allowed[e.Kind]
	if !ok || c.State != from {
		return fmt.Errorf("call %d is %s and cannot become %s", c.ID, c.State, e.Kind)
	}
	switch e.Kind {
	case Tools:
		c.Tools = e.Tools
		return nil
	case Reported:
		c.Reported = c.Reported.Max(orZero(e.Usage))
		if e.Estimate != nil {
			c.Estimate = *e.Estimate
		}
		return nil
	case Settled:
		c.Usage, c.Answer = orZero(e.Usage), e.Answer
	case Abandoned:
		c.Usage = orZero(e.Usage)
	case Unsettled:
		c.Usage = c.Reported.Max(orZero(e.Usage))
		if e.Estimate != nil {
			c.Estimate = *e.Estimate
		}
	case Closed:
		// The money counts for the day on which the call ended.
		c.State, c.Usage, c.By, c.Note, c.ClosedAt = e.Kind, c.Usage.Add(orZero(e.Usage)), e.By, e.Note, e.At
		return nil
	case Begun:
	}
	c.State, c.EndedAt = e.Kind, e.At
	return nil
}

func orZero(u *cost.Usage) cost.Usage {
	if u == nil {
		return cost.Usage{}
	}
	return *u
}

// Find returns the newest settled call of a key and a request with a stored answer; nil if there is
// none.
func (j *Journal) Find(key session.CallKey, request spec.Digest) *Call {
	for i := len(j.calls) - 1; i >= 0; i-- {
		if c := &j.calls[i]; c.State == Settled && c.Key == key && c.Request == request && c.Answer != "" {
			return c
		}
	}
	return nil
}

// FindAny returns the oldest settled call of a request, in one of the attempts and of any turn,
// with a stored answer that was not delivered; nil if there is none.
func (j *Journal) FindAny(attempts []session.CallKey, request spec.Digest, given func(call int64) bool) *Call {
	for i := range j.calls {
		c := &j.calls[i]
		of := func(attempt session.CallKey) bool { return c.Key.SameAttempt(attempt) }
		if c.State == Settled && c.Request == request && c.Answer != "" && slices.ContainsFunc(attempts, of) && !given(c.ID) {
			return c
		}
	}
	return nil
}

// NextTurn is the turn after the last one of an attempt.
func (j *Journal) NextTurn(attempt session.CallKey) int {
	last := 0
	for _, c := range j.calls {
		if c.Key.SameAttempt(attempt) {
			last = max(last, c.Key.Turn)
		}
	}
	return last + 1
}

// Open lists the calls that have begun and not ended.
func (j *Journal) Open() []Call { return j.in(Begun) }

// Unsettled lists the calls whose cost is not known, or only in part.
func (j *Journal) Unsettled() []Call { return j.in(Unsettled) }

func (j *Journal) in(state Kind) []Call {
	var calls []Call
	for _, c := range j.calls {
		if c.State == state {
			calls = append(calls, c)
		}
	}
	return calls
}

// Spent is the sum of all known costs.
func (j *Journal) Spent() cost.Usage {
	var sum cost.Usage
	for _, c := range j.calls {
		sum = sum.Add(c.Usage)
	}
	return sum
}

// SpentOn is what one run has spent on one attempt.
func (j *Journal) SpentOn(run string, attempt session.CallKey) cost.Usage {
	var sum cost.Usage
	for _, c := range j.calls {
		if c.Run == run && c.Key.SameAttempt(attempt) {
			sum = sum.Add(c.Usage)
		}
	}
	return sum
}

// Row is the journal's row in the session's ledger. Calls in progress keep the amounts in reserved.
// Those that are not in it keep what was granted, or their reported usage with its estimate, if
// that is more.
func (j *Journal) Row(reserved map[int64]cost.Amount) Row {
	row := Row{Entries: j.last}
	for _, c := range j.calls {
		switch c.State {
		case Begun:
			if row.Reserved == nil {
				row.Reserved = map[int64]cost.Amount{}
			}
			amount, ok := reserved[c.ID]
			if !ok {
				amount = most(c.Granted, c.Reported.Add(c.Estimate).Amount())
			}
			row.Reserved[c.ID] = amount
		case Unsettled:
			row.Unsettled = append(row.Unsettled, UnsettledCall{Call: c.ID, Date: Date(c.EndedAt), Estimate: c.Estimate})
			if c.Usage != (cost.Usage{}) {
				row.book(c)
			}
		default:
			row.book(c)
		}
	}
	return row
}
