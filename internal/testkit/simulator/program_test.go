package simulator

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/models/agent/preset"
)

// A program keeps its conversation in HOME, as Claude Code does, and works in steps. It notes each
// step in a file of the tree, and then in the conversation.
const (
	programSteps     = 3
	programDirectory = ".claude/projects/-workspace"
)

// program continues a conversation, or begins one, and writes its file at the end.
func (a agents) program(ctx context.Context, id spec.AssignmentID, job session.Job) (session.Outcome, error) {
	w := a.p.world
	c, ok := preset.ReadConversation(job.Home, preset.Claude)
	if !ok || !job.Continues {
		c = session.Conversation{Preset: preset.Claude, ID: fmt.Sprintf("c%d", w.count("conversation"))}
		if err := a.NoteConversation(job.WorkDir, c); err != nil {
			return session.Outcome{}, err
		}
	}
	talk, notes := filepath.Join(job.Home, programDirectory, c.ID+".jsonl"), id.Phase+"-"+id.Persona+".notes"
	said, noted := lines(talk), lines(inTree(job.WorkDir, notes))
	if job.Continues && !follows(noted, said) && !w.sentBack(job.Brief) {
		w.watch.broke("P1", "%s: the program continues a conversation that said %q on files that note %q", id, said, noted)
	}
	for step := len(said); step < programSteps; step++ {
		if err := a.pause(ctx, w.think(id, step)); err != nil {
			return session.Outcome{}, err
		}
		if err := w.outage("provider"); err != nil {
			return session.Outcome{}, failures.Failf(failures.APIError, "%v", err)
		}
		said = append(said, fmt.Sprintf("%s step %d", c.ID, step))
		if err := a.write("Program.work", filepath.Join(job.Tree, notes), said); err != nil {
			return session.Outcome{}, err
		}
		if err := a.write("Program.note", talk, said); err != nil {
			return session.Outcome{}, err
		}
	}
	err := a.write("Program.end", filepath.Join(job.Tree, id.Persona+".txt"), []string{w.content(job.Brief)})
	if err == nil {
		err = a.stays(ctx, id)
	}
	return session.Outcome{Summary: "done"}, err
}

// follows reports whether the files have all that the conversation says was done.
func follows(noted, said []string) bool {
	return len(noted) >= len(said) && slices.Equal(noted[:len(said)], said)
}

// sentBack reports whether the work is done again, on files that others may have changed.
func (w *world) sentBack(b session.Brief) bool {
	return b.Feedback != nil && (b.Feedback.Category == failures.Rejected || b.Feedback.SentBack != "")
}

// pause waits, unless ctx ends.
func (a agents) pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// write writes a program's file, unless its process is dead.
func (a agents) write(op, path string, text []string) error {
	return act(a.p, op, func() error {
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return err
		}
		return os.WriteFile(path, []byte(strings.Join(text, "\n")+"\n"), 0o600)
	})
}

// inTree is where a file of an assignment's tree lies: above the layers, or in one.
func inTree(dir session.WorkDir, name string) string {
	dirs := []string{dir.Tree}
	if dir.Layers != nil {
		dirs = append(dirs, dir.Layers.Dirs...)
	}
	for _, d := range dirs {
		if path := filepath.Join(d, name); exists(path) {
			return path
		}
	}
	return filepath.Join(dir.Tree, name)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return !errors.Is(err, os.ErrNotExist)
}

func lines(path string) []string {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil
	}
	return strings.Split(strings.TrimSpace(string(data)), "\n")
}

func (a agents) Conversation(agent string, dir session.WorkDir) (c session.Conversation, ok bool) {
	if !slices.Contains(a.p.world.plan.Programs, agent) {
		return c, false
	}
	return preset.ReadConversation(dir.Home, preset.Claude)
}

func (a agents) ConversationFiles(agent, ofPreset string) []string {
	if !slices.Contains(a.p.world.plan.Programs, agent) || ofPreset != preset.Claude {
		return nil
	}
	return preset.For(ofPreset).ConversationFiles
}

func (a agents) NoteConversation(dir session.WorkDir, c session.Conversation) error {
	return act(a.p, "Program.conversation", func() error { return preset.WriteConversation(dir.Home, c) })
}

func (a agents) Forget(dir session.WorkDir) error {
	return act(a.p, "Program.forget", func() error { return preset.ForgetConversation(dir.Home) })
}
