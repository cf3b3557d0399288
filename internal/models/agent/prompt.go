package agent

import (
	"path/filepath"

	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/models/llm"
)

// prompt returns the brief as text for agent programs. goesOn: the program continues a
// conversation that had the brief already.
func prompt(job session.Job, at place, goesOn bool) string {
	var t llm.Text
	b := job.Brief
	if goesOn {
		t.Add("%s\n", goOn(b.Feedback))
	} else {
		role := ""
		if b.Role != "" {
			role = ", in the role of a " + b.Role
		}
		t.Add("You are %q, one of a team%s. The team's work is in the phase %q, and your part of it follows. Questions are not "+
			"answered: decide yourself, and report your decisions.\n",
			b.Persona, role, b.Phase)
		t.Instructions(b)
		t.Work(b)
	}
	t.Feedback(b.Feedback, b.LeftOut)
	t.Contract(b.Conflicts, job.Deliver)
	handIn(&t, filepath.Join(resultDir(at.inside.Home), resultName), b.MaySendBack)
	return t.String()
}

// goOn describes why the conversation continues.
func goOn(f *session.Feedback) string {
	switch {
	case f == nil || f.Category == "":
		return "You were interrupted during your work. The working directory is as you left it. Look at the files, continue where " +
			"you stopped, and finish."
	case f.Category == failures.Rejected:
		return "Work was sent back, for the reasons below. The working directory is as you left it. Continue from there."
	}
	return "Your work is not finished yet: it failed as described below. The working directory is as you left it. Continue " +
		"from there."
}

func handIn(t *llm.Text, path string, back *session.MaySendBack) {
	others := ""
	if back != nil {
		others = " except the one below"
	}
	t.Section("How to finish")
	t.Add(`Leave your work as files in the working directory. When it is finished, write one JSON object to the file %s (also named by $%s), like:

{"summary": "what you did, in a sentence", "decisions": {"name": "value"}}

Decisions are choices that later work needs to know; omit the field if you made none. A name has letters, digits, -, _ and ., a value at most %d bytes. The object has no other fields%s. Never write a password, key or token into a file or a decision.
`, path, resultVariable, session.MaxDecisionValue, others)
	if back == nil {
		return
	}
	t.Section("How to send work back")
	t.Add(`If the work of the phase %q, which your work depends on, is wrong and you cannot fix it within your part, send it back instead. Add to the object:

{"sends_back": {"reasons": ["what is wrong, where, and what would be right"]}}

Its personas then fix it for these reasons, all together at most %d bytes, and you work again after them. %s
`, back.To, session.MaxReasons, back.Remains())
}
