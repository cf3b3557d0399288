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

	"github.com/maestro-hive/maestro/internal/core/session"
)

const (
	// conversationFile is the name of the file, beside an assignment's HOME, that identifies
	// the agent program's conversation. Keep it with the HOME to continue the conversation.
	conversationFile = "conversation.json"
	// maxConversation bounds it, in bytes.
	maxConversation = 4 << 10
)

// conversationID matches valid ids: an id becomes an argument.
var conversationID = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$`)

func conversationPath(home string) string { return filepath.Join(filepath.Dir(home), conversationFile) }

// ReadConversation returns the preset's conversation in a HOME. An invalid file counts as none.
func ReadConversation(home, preset string) (c session.Conversation, ok bool) {
	if !readNote(conversationPath(home), &c) || c.Preset != preset ||
		!conversationID.MatchString(c.ID) || c.Booked.Validate() != nil {
		return session.Conversation{}, false
	}
	return c, true
}

// WriteConversation notes the conversation in a HOME atomically.
func WriteConversation(home string, c session.Conversation) error {
	if err := writeNote(conversationPath(home), c); err != nil {
		return fmt.Errorf("note the conversation: %w", err)
	}
	return nil
}

// writeNote writes a small document beside a HOME atomically.
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

// readNote reads such a document. An invalid file counts as none.
func readNote(path string, doc any) bool {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return false
	}
	defer f.Close() //nolint:errcheck // only read
	data, err := io.ReadAll(io.LimitReader(f, maxConversation))
	return err == nil && json.Unmarshal(data, doc) == nil
}

// ForgetConversation removes the record of a HOME's conversation.
func ForgetConversation(home string) error {
	if err := os.Remove(conversationPath(home)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("forget the last conversation: %w", err)
	}
	return nil
}
