package spec

// OnOutage is the reaction to a long outage of a provider.
type OnOutage string

// The reactions to an outage that is longer than the team's patience.
const (
	// OutageWait notifies people and keeps waiting.
	OutageWait OnOutage = "wait"
	// OutageFail fails the round.
	OutageFail OnOutage = "fail"
)
