package session

// TicketRecord is the state of a ticket in the store while no workflow of the ticket runs.
type TicketRecord struct {
	// Name is the fingerprint of the ticket's failure, or the key of a ticket that existed before.
	Name string `json:"name"`
	// Revision counts how often the row was written.
	Revision int64  `json:"revision"`
	Ticket   Ticket `json:"ticket" sql:"*"`
	// Kind is the kind of the ticket's last failed call; empty: there is none.
	Kind TroubleKind `json:"kind,omitempty"`
	// Deleted is the key of an earlier ticket that somebody deleted.
	Deleted string `json:"deleted,omitempty"`
	// Followers are the sessions that wait for a person because of the failure.
	Followers []TicketFollower `json:"followers,omitempty"`
	// Seen has a short hash of each notice that was accepted, the oldest first.
	Seen []string `json:"seen,omitempty"`
}

// TicketFollower is a session that is notified of the ticket of its request.
type TicketFollower struct {
	Session string `json:"session"`
	Request string `json:"request"`
	// Notified is the state of the ticket of which it was last notified.
	Notified string `json:"notified,omitempty"`
}

// TicketComment is a comment that is to be added to a ticket.
type TicketComment struct {
	Key    string `json:"key"`
	Notice Notice `json:"notice"`
	// Occurrences is how often the ticket's failure has occurred so far; zero: it is not counted.
	Occurrences int `json:"occurrences,omitempty"`
	// Omitted is the number of later notices that are left out.
	Omitted int `json:"omitted,omitempty"`
	// Again: an earlier try may have added it.
	Again bool `json:"again,omitempty"`
}
