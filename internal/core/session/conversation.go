package session

import (
	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/core/spec"
)

// Conversation identifies a conversation that an agent program keeps in its HOME, and the blobs in
// the store with which it continues on another host.
type Conversation struct {
	// Preset names the program, and ID is the program's id of the conversation.
	Preset string `json:"preset"`
	ID     string `json:"id" sql:"conversation"`
	// Booked is the usage at the end of earlier runs, for programs that report the
	// conversation's total.
	Booked cost.Usage `json:"booked"`
	// Home is the manifest of the conversation's files below HOME, as they were last stored,
	// and Files that of the assignment's tree at that time; empty: they are not stored. The
	// note beside a HOME has no Files.
	Home  spec.Digest `json:"home,omitempty"`
	Files spec.Digest `json:"files,omitempty"`
}

// HomeOf is the Home of a conversation; empty for nil.
func HomeOf(c *Conversation) spec.Digest {
	if c == nil {
		return ""
	}
	return c.Home
}
