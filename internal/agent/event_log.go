package agent

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/maestro-hive/maestro/internal/cost"
	"github.com/maestro-hive/maestro/internal/failures"
	"github.com/maestro-hive/maestro/internal/textfmt"
	"github.com/maestro-hive/maestro/internal/transcript"
)

// maxEvent bounds one event of a stream, in bytes. What is longer is left out: no
// event that matters comes near it.
const maxEvent = 16 << 20

// story is what the stream of an agent program has told, in words that all the
// programs share. It is told by one goroutine, and read when that has ended.
type story struct {
	// id is the conversation; empty until the stream reveals it.
	id string
	// used is what the run has cost so far, and next an estimate of what one more
	// request costs; counted: the stream has told what the run has cost.
	used, next cost.Usage
	counted    bool
	// before is what earlier runs of the same call have cost; used has it.
	before cost.Usage
	// waits tells of each conversation, the main one's name is empty, whether a
	// request of it may be under way. The main one begins with one.
	waits map[string]bool
	// total is what the whole conversation has cost, for programs that tell
	// that and not what the run has.
	total cost.Usage
	// summary is the last thing that the agent said.
	summary string
	// done: the program has said that its work is over. failure says why it
	// failed, nil if it did not.
	done    bool
	failure *failures.Failure
	// resets is when a limit of the provider is reset; zero: the stream has not said.
	resets time.Time
	// hopeless: the program was ended because it waits for what does not come.
	hopeless bool

	// log takes the transcript, line a line for people, begun the conversation
	// once it is known, spent every change of used; stop ends the program. None is
	// nil.
	log   *transcript.Writer
	line  func(text string)
	begun func(id string)
	spent func(used, next cost.Usage)
	stop  func(f *failures.Failure)
}

// begin tells which conversation the run leads.
func (s *story) begin(id string) {
	if id == "" || s.id == id {
		return
	}
	s.id = id
	s.begun(id)
}

// says tells what the agent says to people.
func (s *story) says(text string) {
	text = strings.TrimSpace(text)
	if text == "" {
		return
	}
	s.summary = text
	s.log.Text(text)
	s.line(firstLine(text))
}

// does tells of a tool at work.
func (s *story) does(tool, what string) {
	s.log.Call(tool+" "+what, "")
	s.line(strings.TrimSpace(tool + " " + firstLine(what)))
}

// calls tells of a tool that is called with arguments, a JSON object.
func (s *story) calls(tool string, arguments json.RawMessage) {
	gist, detail := transcript.Gist(tool, arguments)
	s.log.Call(gist, detail)
	s.line(firstLine(gist))
}

// brought tells what a tool has brought.
func (s *story) brought(text string, failed bool) {
	s.log.Result("", text, failed)
}

// warns tells of something that went wrong on the way.
func (s *story) warns(text string) {
	s.log.Warn(text)
	s.line(firstLine(text))
}

// uses tells what the run has cost so far, and what one more request will; a zero next
// leaves that as it is. What cannot be is not heard.
func (s *story) uses(used, next cost.Usage) {
	if used.Validate() != nil {
		return
	}
	s.counted = true
	s.costs(s.before.Add(used), next)
}

// costs takes what the call has cost so far, whoever says so: the most counts.
func (s *story) costs(used, next cost.Usage) {
	if next != (cost.Usage{}) {
		s.next = next
	}
	if used = used.Max(s.used); used != s.used {
		s.used = used
		s.spent(used, s.next)
	}
}

// asks tells that a conversation's next request may be under way.
func (s *story) asks(conversation string) { s.waits[conversation] = true }

// answered tells that a conversation's last request was answered.
func (s *story) answered(conversation string) { s.waits[conversation] = false }

// asking tells whether a request may be under way.
func (s *story) asking() bool {
	return !s.done && slices.Contains(slices.Collect(maps.Values(s.waits)), true)
}

// ends tells that the work is over, and how it failed; nil if it did not.
func (s *story) ends(f *failures.Failure) {
	s.done, s.failure = true, f
	if f != nil {
		s.log.Warn(f.Message)
	}
}

// giveUp ends a program that waits for what does not come.
func (s *story) giveUp(f *failures.Failure) {
	if !s.hopeless {
		s.hopeless = true
		s.stop(f)
	}
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return line
}

// decodeEvent reads an event as far as its fields have the types of v: programs
// change their streams. It returns false for what is no JSON object.
func decodeEvent(data []byte, v any) bool {
	if len(data) == 0 || data[0] != '{' {
		return false
	}
	var wrong *json.UnmarshalTypeError
	err := json.Unmarshal(data, v)
	return err == nil || errors.As(err, &wrong)
}

// shown is what a tool brought, as people read it: a text, the texts of a list of
// blocks, or else the JSON itself.
func shown(value json.RawMessage) string {
	var text string
	if json.Unmarshal(value, &text) == nil {
		return text
	}
	var blocks []struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	if json.Unmarshal(value, &blocks) != nil {
		return string(value)
	}
	var parts []string
	for _, b := range blocks {
		parts = append(parts, or(b.Text, "("+b.Type+")"))
	}
	return strings.Join(parts, "\n")
}

// milliseconds makes a duration of a number that a program printed; zero for
// what is none, or past a day.
func milliseconds(ms float64) textfmt.Duration {
	const day = 24 * time.Hour
	if ms <= 0 || ms > float64(day.Milliseconds()) {
		return 0
	}
	return textfmt.Duration(ms * float64(time.Millisecond))
}

// eventLines cuts a masked stream into the lines of its events.
type eventLines struct {
	// take gets every line that is not blank, without its end.
	take func(line []byte)
	line []byte
	// long: the line has passed maxEvent, and the rest of it is dropped.
	long bool
}

func (l *eventLines) add(data []byte) {
	for len(data) > 0 {
		piece, rest, ended := bytes.Cut(data, []byte{'\n'})
		data = rest
		l.long = l.long || len(l.line)+len(piece) > maxEvent
		if !l.long {
			l.line = append(l.line, piece...)
		}
		if ended {
			l.end()
		}
	}
}

// end takes the end of a line, or of the stream.
func (l *eventLines) end() {
	line := bytes.TrimSpace(l.line)
	if l.long {
		line = []byte("… an oversized event is omitted …")
	}
	if len(line) > 0 {
		l.take(line)
	}
	l.line, l.long = l.line[:0], false
}
