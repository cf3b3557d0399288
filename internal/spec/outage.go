package spec

// OnOutage is what a session does when a provider's outage lasts.
type OnOutage string

// The reactions to an outage that outlasts the team's patience.
const (
	// OutageWait notifies people and keeps waiting.
	OutageWait OnOutage = "wait"
	// OutageFail fails the round.
	OutageFail OnOutage = "fail"
)
