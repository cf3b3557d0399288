package preset

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
	"github.com/maestro-hive/maestro/internal/models/transcript"
	"github.com/maestro-hive/maestro/internal/models/wire"
)

// maxEvent bounds one line of a conversation's file, in bytes. Longer lines are ignored.
const maxEvent = 16 << 20

// The bounds of what a program's events may make the worker keep: an id and a text in bytes, and the
// number of conversations at the same time.
const (
	maxID            = 256
	maxText          = 1 << 20
	maxConversations = 10_000
)

// Run is what a program's event stream has reported, in a form that all programs share.
// One goroutine writes it; others read it when that has ended.
type Run struct {
	// ConversationID is empty until the stream names the conversation.
	ConversationID string
	// Used is the usage so far, and Next an estimate of one more request. UsageKnown: the
	// stream has reported the usage.
	Used, Next cost.Usage
	UsageKnown bool
	// Before is the usage of earlier runs of the same call. Used includes it.
	Before cost.Usage
	// Pending says for each conversation whether a request may be in progress. The name of
	// the main conversation is empty; it begins with a request.
	Pending map[string]bool
	// Tasks are the subagents that the program runs in the background, by their ids. resumed: a request or a call of a
	// tool has begun since the last report of an end.
	Tasks   map[string]bool
	resumed bool
	// Total is the usage of the whole conversation, for programs that report it instead
	// of the run's.
	Total cost.Usage
	// Summary is the agent's last text.
	Summary string
	// Done: the program has reported its end. Failure is nil if it succeeded.
	Done    bool
	Failure *failures.Failure
	// said is the summary of the last reported success; partial: subagents worked then.
	said    string
	partial bool
	// ResetsAt is when the provider resets a limit; zero: unknown.
	ResetsAt time.Time
	// GivenUp: the program was stopped because it waited without end.
	GivenUp bool

	// Log gets the transcript and Warnings what is wrong, OnLine a progress line, OnConversation the
	// id when it is known, OnUsage each change of Used; Stop ends the program. All are required.
	Log, Warnings  *transcript.Writer
	OnLine         func(text string)
	OnConversation func(id string)
	OnUsage        func(used, next cost.Usage)
	Stop           func(f *failures.Failure)
}

// begin reports the id of the conversation.
func (s *Run) begin(id string) {
	if id == "" || s.ConversationID == id {
		return
	}
	s.ConversationID = id
	s.OnConversation(id)
}

// text reports a text of the agent.
func (s *Run) text(text string) {
	text = strings.TrimSpace(text)
	if text == "" {
		return
	}
	s.Summary = text
	s.Log.Text(text)
	s.OnLine(firstLine(text))
}

// toolStarted reports that a tool runs.
func (s *Run) toolStarted(tool, what string) {
	s.resumed = true
	s.Log.Call(tool+" "+what, "")
	s.OnLine(strings.TrimSpace(tool + " " + firstLine(what)))
}

// toolCall reports a call of a tool; the arguments are a JSON object.
func (s *Run) toolCall(tool string, arguments json.RawMessage) {
	s.resumed = true
	gist, detail := transcript.Gist(tool, arguments)
	s.Log.Call(gist, detail)
	s.OnLine(firstLine(gist))
}

// toolResult reports what a tool returned.
func (s *Run) toolResult(text string, failed bool) {
	s.Log.Result("", text, failed)
}

// Warn reports a problem that did not end the run.
func (s *Run) Warn(text string) {
	s.Warnings.Warn(text)
	s.OnLine(firstLine(text))
}

// usage reports the run's usage so far, and an estimate of the next request; a zero next
// keeps the last estimate. Invalid usage is ignored.
func (s *Run) usage(used, next cost.Usage) {
	if used.Validate() != nil {
		return
	}
	s.UsageKnown = true
	s.SetUsage(s.Before.Add(used), next)
}

// SetUsage reports the call's usage so far. Sources differ; the highest number counts.
func (s *Run) SetUsage(used, next cost.Usage) {
	if next != (cost.Usage{}) {
		s.Next = next
	}
	if used = used.Max(s.Used); used != s.Used {
		s.Used = used
		s.OnUsage(used, s.Next)
	}
}

// requestStarted reports that a conversation's next request may be in progress.
func (s *Run) requestStarted(conversation string) {
	s.resumed = true
	if len(conversation) <= maxID && len(s.Pending) < maxConversations {
		s.Pending[conversation] = true
	}
}

// requestAnswered reports that a conversation's last request was answered.
func (s *Run) requestAnswered(conversation string) { delete(s.Pending, conversation) }

// RequestPending says whether a request may be in progress.
func (s *Run) RequestPending() bool { return len(s.Pending) > 0 }

// Working says whether the program works although it has reported an end: a request or a call of a tool has begun since,
// or a subagent works in the background. Such work ends with another report.
func (s *Run) Working() bool { return s.resumed || len(s.Tasks) > 0 }

// task reports whether a task of the program works in the background.
func (s *Run) task(id string, works bool) {
	if !works {
		delete(s.Tasks, id)
	} else if len(id) <= maxID && len(s.Tasks) < maxConversations {
		s.Tasks[id] = true
	}
}

// finish reports the end of the work; f is nil if it succeeded. All requests so far have been answered then. A reported
// success stands. If subagents still worked then, a later failure counts, unless it would throw the work away.
func (s *Run) finish(f *failures.Failure) {
	stands := s.Done && s.Failure == nil && f != nil && (!s.partial || failures.RuleFor(f.Category).Start == failures.FromInput)
	s.Done, s.resumed = true, false
	clear(s.Pending)
	switch {
	case stands:
		s.Summary = s.said
	case f == nil:
		s.Failure, s.said, s.partial = nil, s.Summary, len(s.Tasks) > 0
	default:
		s.Failure = f
	}
	if f != nil {
		s.Warnings.Warn(f.Message)
	}
}

// giveUp stops a program that would wait without end.
func (s *Run) giveUp(f *failures.Failure) {
	if !s.GivenUp {
		s.GivenUp = true
		s.Stop(f)
	}
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return line
}

// decodeEvent decodes the fields of an event that have the types of v, because programs
// change their streams. It returns false if data is not a JSON object.
func decodeEvent(data []byte, v any) bool {
	return len(data) > 0 && data[0] == '{' && wire.Decode(data, v)
}

// milliseconds converts a number that a program printed; zero if it is negative or more
// than a day.
func milliseconds(ms float64) textfmt.Duration {
	const day = 24 * time.Hour
	if ms <= 0 || ms > float64(day.Milliseconds()) {
		return 0
	}
	return textfmt.Duration(ms * float64(time.Millisecond))
}
