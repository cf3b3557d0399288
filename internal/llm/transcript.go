package llm

import (
	"fmt"
	"strings"

	"github.com/maestro-hive/maestro/internal/textfmt"
	"github.com/maestro-hive/maestro/internal/transcript"
)

// writeAnswer writes the parts of an answer that are not written yet: its text unless said, and the tool
// calls after the first calls.
func (r *run) writeAnswer(answer Answer, said bool, calls int) {
	if !said {
		r.log.Text(answer.Text)
	}
	for _, call := range answer.Calls[min(calls, len(answer.Calls)):] {
		r.writeCall(call)
	}
}

// writeCost writes the end of an answer and its cost.
func (r *run) writeCost(turn int, answer Answer) {
	r.log.Turn("turn %d: %s; %s%s", turn, answer.Stop, answer.Usage.Text(), answer.Said.Mark())
}

// writeCall writes a tool call, and returns a short description of it.
func (r *run) writeCall(c Call) (gist string) {
	gist, detail := c.describe()
	r.log.Call(gist, detail)
	return gist
}

// writeResult writes the result of a tool call.
func (r *run) writeResult(c Call, result Result) {
	gist, _ := c.describe()
	r.log.Result(gist, result.Text, result.Error)
}

// describe returns a short description of the call, and its other arguments.
func (c Call) describe() (gist, detail string) {
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
