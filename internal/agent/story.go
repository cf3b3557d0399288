package agent

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/maestro-hive/maestro/internal/team"
)

const (
	// maxEvent bounds one event of a stream, in bytes. What is longer is left
	// out: no event that matters comes near it.
	maxEvent = 16 << 20
	// maxShown bounds what the log shows of one tool call or result, in bytes.
	maxShown = 2000
)

// story is what the stream of an agent program has told, in words that all the
// programs share. It is told by one goroutine, and read when that has ended.
type story struct {
	// id is the conversation; empty until the stream reveals it.
	id string
	// used is what the run has cost so far; counted: the stream has told so.
	used    team.Usage
	counted bool
	// total is what the whole conversation has cost, for programs that tell
	// that and not what the run has.
	total team.Usage
	// summary is the last thing that the agent said.
	summary string
	// done: the program has said that its work is over. failure says why it
	// failed, nil if it did not.
	done    bool
	failure *team.Failure
	// hopeless: the program was ended because it waits for what does not come.
	hopeless bool

	// log takes a text for the log, line a line for people, begun the
	// conversation once it is known, spent every change of used; stop ends the
	// program. None is nil.
	log   func(text string)
	line  func(text string)
	begun func(id string)
	spent func(used team.Usage)
	stop  func(f *team.Failure)
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
	s.log(text)
	s.line(firstLine(text))
}

// does tells of a tool at work.
func (s *story) does(tool, what string) {
	what = team.Shorten(strings.TrimSpace(what), maxShown)
	s.log("> " + tool + " " + what)
	s.line(strings.TrimSpace(tool + " " + firstLine(what)))
}

// brought tells what a tool has brought.
func (s *story) brought(text string, failed bool) {
	text = team.Shorten(strings.TrimSpace(text), maxShown)
	switch {
	case failed:
		s.log("< failed: " + text)
	case text != "":
		s.log("< " + text)
	}
}

// warns tells of something that went wrong on the way.
func (s *story) warns(text string) {
	s.log("! " + text)
	s.line(firstLine(text))
}

// uses tells what the run has cost so far. What cannot be is not heard.
func (s *story) uses(used team.Usage) {
	if used.Validate() != nil {
		return
	}
	changed := used != s.used
	s.used, s.counted = used, true
	if changed {
		s.spent(used)
	}
}

// ends tells that the work is over, and how it failed; nil if it did not.
func (s *story) ends(f *team.Failure) {
	s.done, s.failure = true, f
	if f != nil {
		s.log("! " + f.Message)
	}
}

// giveUp ends a program that waits for what does not come.
func (s *story) giveUp(f *team.Failure) {
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

// shown is a JSON value as people read it: the text of a string, the only
// field's text of an object that has one that matters, or the JSON itself.
func shown(value json.RawMessage) string {
	var text string
	if json.Unmarshal(value, &text) == nil {
		return text
	}
	var fields map[string]json.RawMessage
	if json.Unmarshal(value, &fields) == nil {
		for _, name := range []string{"command", "file_path", "path", "absolute_path", "pattern", "query", "url", "prompt"} {
			if json.Unmarshal(fields[name], &text) == nil && text != "" {
				return text
			}
		}
	}
	return string(value)
}

// milliseconds makes a duration of a number that a program printed; zero for
// what is none, or past a day.
func milliseconds(ms float64) team.Duration {
	const day = 24 * time.Hour
	if ms <= 0 || ms > float64(day.Milliseconds()) {
		return 0
	}
	return team.Duration(ms * float64(time.Millisecond))
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
		line = []byte("… an event past all bounds is left out …")
	}
	if len(line) > 0 {
		l.take(line)
	}
	l.line, l.long = l.line[:0], false
}
