package agent

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"syscall"

	"github.com/maestro-hive/maestro/internal/cost"
	"github.com/maestro-hive/maestro/internal/session"
)

const (
	// ConversationFile is the name of the file, beside an assignment's HOME, in
	// which Maestro notes the conversation that the agent program leads. Who
	// keeps a HOME so that the conversation in it can go on, keeps it, too.
	ConversationFile = "conversation.json"
	// maxConversation bounds it, in bytes.
	maxConversation = 4 << 10
)

// conversation is one that an agent program leads, and keeps in its HOME.
type conversation struct {
	// Preset says whose it is, ID how the program calls it.
	Preset string `json:"preset"`
	ID     string `json:"id"`
	// Booked is what it had cost at the end of earlier runs, for programs that tell a
	// conversation's usage and not a run's.
	Booked cost.Usage `json:"booked"`
}

// conversationID is what an id may look like: it becomes an argument.
var conversationID = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$`)

// Continuable tells whether there is a conversation of the agent in the
// directory that an attempt could continue, see [session.Job.Continues].
func (s *Set) Continuable(agent string, dir session.WorkDir) bool {
	d, ok := s.config.Agents[agent]
	if !ok || d.Preset == "" {
		return false
	}
	_, ok = readConversation(dir.Home, d.Preset)
	return ok
}

// Forget ends the conversation in an assignment's directory, if there is one.
func (s *Set) Forget(dir session.WorkDir) error { return forgetConversation(dir.Home) }

func conversationPath(home string) string { return filepath.Join(filepath.Dir(home), ConversationFile) }

// readConversation returns the preset's conversation in a HOME. A file that is
// not what Maestro writes is none.
func readConversation(home, preset string) (c conversation, ok bool) {
	if !readNote(conversationPath(home), &c) || c.Preset != preset ||
		!conversationID.MatchString(c.ID) || c.Booked.Validate() != nil {
		return conversation{}, false
	}
	return c, true
}

// write notes the conversation, whole or not at all.
func (c conversation) write(home string) error {
	if err := writeNote(conversationPath(home), c); err != nil {
		return fmt.Errorf("note the conversation: %w", err)
	}
	return nil
}

// writeNote writes a small document beside a HOME, whole or not at all.
func writeNote(path string, doc any) error {
	data, err := json.Marshal(doc)
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*") // 0600
	if err != nil {
		return err
	}
	_, err = f.Write(append(data, '\n'))
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}

// readNote reads such a document. A file that is not what Maestro writes is none.
func readNote(path string, doc any) bool {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return false
	}
	defer f.Close() //nolint:errcheck // only read
	data, err := io.ReadAll(io.LimitReader(f, maxConversation))
	return err == nil && json.Unmarshal(data, doc) == nil
}

// forgetConversation removes what is noted of a HOME's conversation.
func forgetConversation(home string) error {
	if err := os.Remove(conversationPath(home)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("forget the last conversation: %w", err)
	}
	return nil
}
