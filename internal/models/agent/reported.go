package agent

import (
	"encoding/json"
	"path/filepath"

	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/models/agent/preset"
)

// usageFile is the name of the file, beside an assignment's HOME, with the usage that was known
// when the last call of an agent program began.
const usageFile = "usage.json"

// callBegin is what was known when a call of an agent program began.
type callBegin struct {
	Preset string `json:"preset"`
	// Call is its id.
	Call string `json:"call"`
	// Before is the usage of earlier calls, from the files in HOME.
	Before cost.Usage `json:"before"`
	// Opening is the estimated cost of the first request.
	Opening cost.Usage `json:"opening"`
}

// The estimated tokens of the answer to a first request, and the assumed number of bytes in a
// token of the request.
const (
	openingAnswer = 1000
	bytesPerToken = 4
)

// programCall is one call of an agent program: an attempt with one run, or with two if the
// program did not find the conversation to continue.
type programCall struct {
	log   *preset.UsageLog
	begin callBegin
	// paid is the booked call; nil: calls are not booked.
	paid session.Call
	// spent is the usage of earlier runs of the call.
	spent cost.Usage
}

// beginCall reads the usage that is recorded in HOME before the call begins. Usage that is
// recorded later belongs to the call.
func (s *Set) beginCall(d Definition, job session.Job) *programCall {
	notes := preset.For(d.Preset).Usage
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

// begun records what was known when the call began, under its id.
func (c *programCall) begun(home string, paid session.Call) {
	c.paid, c.begin.Call = paid, paid.ID()
	// If this fails, a worker that takes over after a crash knows only the reported usage.
	_ = preset.WriteNote(filepath.Join(filepath.Dir(home), usageFile), c.begin)
}

// noted returns the usage of the call so far, from the files.
func (c *programCall) noted() cost.Usage {
	return c.log.Sum.Minus(c.begin.Before).Max(cost.Usage{})
}

// estimate returns the cost of a request that may be in progress.
func (c *programCall) estimate() cost.Usage {
	if c.noted() == (cost.Usage{}) {
		return c.begin.Opening
	}
	return c.log.Next()
}

// Reported returns the usage that an agent program has recorded in an assignment's directory
// since this call began, and an estimate of the cost of a request that may have
// been in progress. The program must have ended. ok is false if nothing is known, because the
// last call that began here is another one.
func (s *Set) Reported(agent string, dir session.WorkDir, call string) (used, estimate cost.Usage, ok bool) {
	var c programCall
	if !preset.ReadNote(filepath.Join(filepath.Dir(dir.Home), usageFile), &c.begin) || c.begin.Call != call {
		return used, estimate, false
	}
	dialect := preset.For(c.begin.Preset)
	if dialect == nil || c.begin.Before.Validate() != nil || c.begin.Opening.Validate() != nil {
		return used, estimate, false
	}
	c.log = preset.NewUsageLog(dir.Home, dialect.Usage)
	c.log.Update()
	used, estimate = c.noted(), c.estimate()
	if used.Validate() != nil || estimate.Validate() != nil {
		return cost.Usage{}, cost.Usage{}, false
	}
	d := s.config.Agents[agent]
	return d.priced(used), d.priced(estimate), true
}
