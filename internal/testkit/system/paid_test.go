package system

import (
	"github.com/maestro-hive/maestro/internal/core/cost"
)

// paidTurns is how many calls the conversations of these tests take.
const paidTurns = 6

// callCost is what the provider says that each call costs.
var callCost = cost.Usage{InputTokens: 100, OutputTokens: 10}
