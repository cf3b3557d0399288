package llm

import (
	"github.com/maestro-hive/maestro/internal/cost"
	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/wire"
)

// Stop is the reason why an answer ends.
type Stop string

// The reasons why an answer ends.
const (
	// Done: the model has finished its answer, or calls tools.
	Done Stop = "done"
	// Truncated: the answer has reached its maximum length.
	Truncated Stop = "truncated"
	// Refused: the model declined to answer.
	Refused Stop = "refused"
	// Overflow: the conversation is longer than the model's context window.
	Overflow Stop = "overflow"
	// AboveLimit: the conversation alone is above a limit of the provider's rate.
	AboveLimit Stop = "above_limit"
)

// stopOf returns the reason that a provider's word stands for.
func stopOf(word string) Stop {
	switch wire.EndingOf(word) {
	case wire.Filtered:
		return Refused
	case wire.CutOff:
		return Truncated
	case wire.Overflowed:
		return Overflow
	case wire.Complete, wire.Failed: // a failed answer has a fault
	}
	return Done
}

// Answer is a model's answer.
type Answer struct {
	Thinking []wire.Thinking `json:"thinking,omitempty"`
	Text     string          `json:"text,omitempty"`
	Calls    []wire.Call     `json:"calls,omitempty"`
	Stop     Stop            `json:"stop"`
	// Counted: the provider has reported the usage of the call; otherwise Usage is an estimate.
	Counted bool `json:"counted,omitempty"`
	// Usage is the usage that the provider reports, without money; zero if it reports none. It
	// is stored separately.
	Usage cost.Usage `json:"-"`
	// Said has the other facts that the provider reports about the answer.
	Said session.CallAnswer `json:"-"`
}
