package llm

import (
	"encoding/json"
	"strings"

	"github.com/maestro-hive/maestro/internal/core/textfmt"
	"github.com/maestro-hive/maestro/internal/models/transcript"
	"github.com/maestro-hive/maestro/internal/models/wire"
)

// writeAnswer writes the parts of an answer that are not written yet: the tool calls, and its text unless said.
func (r *run) writeAnswer(answer Answer, said bool) {
	if !said {
		r.log.Text(answer.Text)
	}
	for _, call := range answer.Calls {
		gist, detail := describe(call)
		r.log.Call(gist, detail)
		r.say(textfmt.Shorten(oneLine(gist), maxGist))
	}
}

// writeCost writes the end of an answer and its cost.
func (r *run) writeCost(turn int, answer Answer) {
	r.log.Turn("turn %d: %s; %s%s", turn, answer.Stop, answer.Usage.Text(), answer.Said.Mark())
}

// writeResult writes the result of a tool call.
func (r *run) writeResult(c wire.Call, result wire.Result) {
	gist, _ := describe(c)
	r.log.Result(gist, result.Text, result.Error)
}

// describe returns a short description of a call, and its other arguments.
func describe(c wire.Call) (gist, detail string) {
	switch a, err := parse(c); {
	case err != nil:
		return oneLine(c.Name), strings.TrimSpace(c.Broken)
	case c.Name == toolDecide:
		return oneLine(c.Name + " " + a.Name + " = " + value(a.Value)), ""
	}
	return transcript.Gist(c.Name, json.RawMessage(c.Arguments))
}

func value(text *string) string {
	if text == nil {
		return ""
	}
	return *text
}

// maxGist bounds a line of progress, in bytes.
const maxGist = 160

// oneLine puts a text on one line.
func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }
