package agent

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/maestro-hive/maestro/internal/failures"
	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/spec"
)

// prompt returns the brief as text for agent programs. goesOn: the program continues a
// conversation that had the brief already.
func prompt(job session.Job, at place, goesOn bool) string {
	var p promptText
	if goesOn {
		p.goOn(job.Brief)
	} else {
		p.begin(job.Brief)
	}
	if job.Brief.Feedback != nil {
		p.feedback(*job.Brief.Feedback)
	}
	p.leftOut(job.Brief.LeftOut)
	p.conflicts(job.Brief.Conflicts)
	p.contract(job.Deliver)
	p.handIn(filepath.Join(resultDir(at.inside.Home), resultName), job.Brief.MaySendBack)
	return p.String()
}

type promptText struct{ strings.Builder }

func (p *promptText) f(format string, args ...any) { fmt.Fprintf(p, format, args...) }

// section begins a section, unless it is the first of the text.
func (p *promptText) section(title string) {
	if p.Len() > 0 {
		p.f("\n")
	}
	p.f("# %s\n\n", title)
}

// text writes a text that ends with a line break.
func (p *promptText) text(s string) { p.f("%s\n", strings.TrimSpace(s)) }

// block writes the output of a program, fenced so that it cannot be mistaken for a part of the
// prompt.
func (p *promptText) block(s string) {
	fence := "```"
	for strings.Contains(s, fence) {
		fence += "`"
	}
	p.f("%s\n%s\n%s\n", fence, strings.TrimRight(s, "\n"), fence)
}

func (p *promptText) begin(b session.Brief) {
	p.f("You are %q, one of a team%s. The team's work is in the phase %q, and your part of it follows. Questions are not answered: decide yourself, and report your decisions.\n",
		b.Persona, role(b.Role), b.Phase)
	if strings.TrimSpace(b.Instructions) != "" {
		p.section("Instructions")
		p.text(b.Instructions)
	}
	p.section("Requirement")
	p.text(b.Requirement)
	if len(b.Decisions) > 0 {
		p.section("Decisions so far")
		for _, name := range slices.Sorted(maps.Keys(b.Decisions)) {
			p.f("- %s: %s\n", name, b.Decisions[name])
		}
	}
	p.section("Files")
	if len(b.Inputs) == 0 {
		p.f("The working directory is empty. Work in it and nowhere else.\n")
		return
	}
	p.f("Work in the working directory and nowhere else. It starts with these files:\n\n")
	for _, name := range b.Inputs {
		p.f("- %s\n", name)
	}
	if n := b.InputCount - len(b.Inputs); n > 0 {
		p.f("- and %d more\n", n)
	}
	if len(b.Protected) > 0 {
		p.f("\nChanges to files that match these patterns are not used: %s\n", strings.Join(b.Protected, ", "))
	}
}

func role(role string) string {
	if role == "" {
		return ""
	}
	return ", in the role of a " + role
}

// goOn describes why the conversation continues.
func (p *promptText) goOn(b session.Brief) {
	switch {
	case b.Feedback == nil || b.Feedback.Category == "":
		p.f("You were interrupted during your work. The working directory is as you left it. Look at the files, continue where you stopped, and finish.\n")
	case b.Feedback.Category == failures.Rejected:
		p.f("Work was sent back, for the reasons below. The working directory is as you left it. Continue from there.\n")
	default:
		p.f("Your work is not finished yet: it failed as described below. The working directory is as you left it. Continue from there.\n")
	}
}

func (p *promptText) feedback(f session.Feedback) {
	if f.Category != "" {
		p.failure(f)
	}
	if f.SentBack != "" {
		p.section("Why the work was sent back before that")
		p.text(f.SentBack)
	}
	if f.Note != "" {
		p.section("Note")
		p.f("A person who reviewed it wrote: %s\n", strings.TrimSpace(f.Note))
	}
}

func (p *promptText) failure(f session.Feedback) {
	title, output := "What went wrong before", "Its output:"
	if f.Category == failures.Rejected {
		title, output = "The work was sent back", "The reasons:"
	}
	p.section(title)
	p.f("%s (%s)\n", f.Message, f.Category)
	if f.Advice != "" {
		p.f("\n%s\n", f.Advice)
	}
	if strings.TrimSpace(f.Output) != "" {
		p.f("\n%s\n\n", output)
		p.block(f.Output)
	}
	if strings.TrimSpace(f.Diff) == "" {
		return
	}
	if f.Kept {
		p.f("\nIts changes, which are still there:\n\n")
	} else {
		p.f("\nIts changes, which are undone now:\n\n")
	}
	p.block(f.Diff)
}

func (p *promptText) leftOut(notes []string) {
	if len(notes) == 0 {
		return
	}
	p.section("Left out of results")
	p.f("These files are not in the results that they were left by:\n\n")
	for _, note := range notes {
		p.f("- %s\n", note)
	}
}

func (p *promptText) conflicts(names []string) {
	if len(names) == 0 {
		return
	}
	p.section("Conflicts to settle")
	p.f("%s\n", session.SettleHelp(names))
}

func (p *promptText) contract(c spec.Contract) {
	if len(c.Produces)+len(c.Checks) == 0 {
		return
	}
	p.section("Required outputs")
	for _, pattern := range c.Produces {
		p.f("- a file that you create or change, named %s\n", pattern)
	}
	for _, check := range c.Checks {
		p.f("- files on which the check %q passes; it runs when you are done\n", check)
	}
}

func (p *promptText) handIn(path string, back *session.MaySendBack) {
	p.section("How to finish")
	p.f(`Leave your work as files in the working directory. When it is finished, write one JSON object to the file %s (also named by $%s), like:

{"summary": "what you did, in a sentence", "decisions": {"name": "value"}}

Decisions are choices that later work needs to know; omit the field if you made none. A name has letters, digits, -, _ and ., a value at most %d bytes. The object has no other fields%s. Never write a password, key or token into a file or a decision.
`, path, resultVariable, session.MaxDecisionValue, otherFields(back))
	if back == nil {
		return
	}
	p.section("How to send work back")
	p.f(`If the work of the phase %q, which your work depends on, is wrong and you cannot fix it within your part, send it back instead. Add to the object:

{"sends_back": {"reasons": ["what is wrong, where, and what would be right"]}}

Its personas then fix it for these reasons, all together at most %d bytes, and you work again after them. %s
`, back.To, session.MaxReasons, back.Remains())
}

// otherFields returns the end of the sentence about the fields of a result.
func otherFields(back *session.MaySendBack) string {
	if back == nil {
		return ""
	}
	return " except the one below"
}
