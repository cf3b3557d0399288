package llm

import (
	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/models/wire"
)

// Answer is a model's answer.
type Answer struct {
	Thinking []wire.Thinking `json:"thinking,omitempty"`
	Text     string          `json:"text,omitempty"`
	Calls    []wire.Call     `json:"calls,omitempty"`
	Stop     wire.Ending     `json:"stop"`
	// Counted: the provider has reported the usage of the call; otherwise Usage is an estimate.
	Counted bool `json:"counted,omitempty"`
	// Usage is the usage that the provider reports, without money; zero if it reports none. It
	// is stored separately.
	Usage cost.Usage `json:"-"`
	// Said has the other facts that the provider reports about the answer.
	Said session.CallAnswer `json:"-"`
}
