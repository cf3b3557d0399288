package spec

// OnOutage says what a session does about a provider that stays away.
type OnOutage string

// The reactions to an outage that outlasts the team's patience.
const (
	// OutageWait notifies people and keeps waiting.
	OutageWait OnOutage = "wait"
	// OutageFail fails the round.
	OutageFail OnOutage = "fail"
)
