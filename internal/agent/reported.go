package agent

import (
	"encoding/json"
	"path/filepath"

	"github.com/maestro-hive/maestro/internal/agent/preset"
	"github.com/maestro-hive/maestro/internal/cost"
	"github.com/maestro-hive/maestro/internal/session"
)

// usageFile is the name of the file, beside an assignment's HOME, in which Maestro
// notes what was known of the usage when the last call of an agent program began.
const usageFile = "usage.json"

// callBegin is what was known when a call of an agent program began.
type callBegin struct {
	Preset string `json:"preset"`
	// Call is its number in the assignment's journal.
	Call int64 `json:"call"`
	// Before is what the files in HOME tell of earlier calls.
	Before cost.Usage `json:"before"`
	// Opening is an estimate of what the first request costs.
	Opening cost.Usage `json:"opening"`
}

// The answer to a first request is estimated at this many tokens, and the request at
// a token for so many bytes.
const (
	openingAnswer = 1000
	bytesPerToken = 4
)

// programCall is one call of an agent program: an attempt, in one run or, where it
// does not know the conversation that it was to continue, two.
type programCall struct {
	log   *preset.UsageLog
	begin callBegin
	// paid is what it is booked as; nil: nobody does.
	paid session.Call
	// spent is what earlier runs of the call have used.
	spent cost.Usage
}

// beginCall reads what is known of the usage before the call begins: what is noted
// later in HOME is the call's.
func (s *Set) beginCall(d Definition, job session.Job) *programCall {
	notes := preset.For(d.Preset).UsageFiles()
	c := &programCall{log: preset.NewUsageLog(job.Home, notes)}
	c.log.Update()
	brief, _ := json.Marshal(job.Brief) // plain data
	c.begin = callBegin{
		Preset: d.Preset, Before: c.log.Sum,
		Opening: cost.Usage{InputTokens: notes.Opening + int64(len(brief)/bytesPerToken), OutputTokens: openingAnswer},
	}
	if next := c.log.Next(); job.Continues && next.Tokens() > 0 {
		next.InputTokens += int64(len(brief) / bytesPerToken)
		c.begin.Opening = next
	}
	return c
}

// begun notes what was known when the call began, under its number.
func (c *programCall) begun(home string, paid session.Call) {
	c.paid, c.begin.Call = paid, paid.ID()
	// Without it, a worker that comes after a crash knows only what was reported.
	_ = preset.WriteNote(filepath.Join(filepath.Dir(home), usageFile), c.begin)
}

// noted is what the files tell of the call so far.
func (c *programCall) noted() cost.Usage {
	return c.log.Sum.Minus(c.begin.Before).Max(cost.Usage{})
}

// estimate is what the request costs that may be under way.
func (c *programCall) estimate() cost.Usage {
	if c.noted() == (cost.Usage{}) {
		return c.begin.Opening
	}
	return c.log.Next()
}

// Reported reads what an agent program has noted in an assignment's directory since
// the call of this number began: what that call has used, and an estimate of what the request
// that may have been under way costs besides. The program has to be gone. ok is
// false if nothing is known: the last call that began here is another one.
func (s *Set) Reported(agent string, dir session.WorkDir, call int64) (used, estimate cost.Usage, ok bool) {
	var c programCall
	if !preset.ReadNote(filepath.Join(filepath.Dir(dir.Home), usageFile), &c.begin) || c.begin.Call != call {
		return used, estimate, false
	}
	dialect := preset.For(c.begin.Preset)
	if dialect == nil || c.begin.Before.Validate() != nil || c.begin.Opening.Validate() != nil {
		return used, estimate, false
	}
	c.log = preset.NewUsageLog(dir.Home, dialect.UsageFiles())
	c.log.Update()
	used, estimate = c.noted(), c.estimate()
	if used.Validate() != nil || estimate.Validate() != nil {
		return cost.Usage{}, cost.Usage{}, false
	}
	d := s.config.Agents[agent]
	return d.priced(used), d.priced(estimate), true
}
