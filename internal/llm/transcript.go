package llm

import (
	"fmt"
	"strings"

	"github.com/maestro-hive/maestro/internal/textfmt"
	"github.com/maestro-hive/maestro/internal/transcript"
	"github.com/maestro-hive/maestro/internal/wire"
)

// writeAnswer writes the parts of an answer that are not written yet: the tool calls, and its text unless said.
func (r *run) writeAnswer(answer Answer, said bool) {
	if !said {
		r.log.Text(answer.Text)
	}
	for _, call := range answer.Calls {
		gist, detail := describe(call)
		r.log.Call(gist, detail)
		r.say(gist)
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

// describe returns a short description of the call, and its other arguments.
func describe(c wire.Call) (gist, detail string) {
	a, err := parse(c)
	if err != nil {
		return oneLine(c.Name), strings.TrimSpace(c.Broken)
	}
	what := ""
	switch c.Name {
	case toolList, toolDelete:
		what = a.Path
	case toolRead:
		what = a.Path
		if a.From > 0 || a.To > 0 {
			what += fmt.Sprintf(", lines %d to %s", max(a.From, 1), lastLine(a.To))
		}
	case toolSearch:
		what = a.Pattern
		if a.Path != "" {
			what += " in " + a.Path
		}
	case toolWrite:
		what, detail = a.Path, value(a.Content)
		if a.Executable != nil && *a.Executable {
			what += " (executable)"
		}
	case toolEdit:
		what = a.Path
		detail = strings.TrimPrefix(transcript.Marked("- ", value(a.Old))+"\n"+transcript.Marked("+ ", value(a.New)), "\n")
	case toolCheck:
		what = a.Name
	case toolDecide:
		what = a.Name + " = " + value(a.Value)
	case toolFinish:
		detail = strings.TrimSpace(a.Summary + "\n" + transcript.Marked("sends back: ", strings.Join(a.SendsBack, "\n")))
	default:
		detail = c.Arguments
	}
	if gist = oneLine(c.Name + " " + what); len(gist) > maxGist || strings.Contains(what, "\n") {
		detail = strings.TrimRight(what+"\n"+detail, "\n")
	}
	return textfmt.Shorten(gist, maxGist), detail
}

// maxGist bounds a short description, in bytes.
const maxGist = 160

func lastLine(line int) string {
	if line <= 0 {
		return "the end"
	}
	return fmt.Sprint(line)
}

func value(text *string) string {
	if text == nil {
		return ""
	}
	return *text
}

// oneLine puts a text on one line.
func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }
