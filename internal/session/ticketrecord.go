package session

// TicketRecordSchema names the form of a [TicketRecord].
const TicketRecordSchema = "maestro.ticket/v1"

// TicketRecord is what the store keeps of a ticket while no workflow keeps it.
type TicketRecord struct {
	Schema string `json:"schema"`
	// Name is the fingerprint of the ticket's failure or, of a ticket that existed
	// before, its key.
	Name string `json:"name"`
	// Revision counts how often the record was written.
	Revision int64  `json:"revision"`
	Ticket   Ticket `json:"ticket"`
	// Kind is the kind of the ticket's trouble; empty: there is none.
	Kind TroubleKind `json:"kind,omitempty"`
	// Deleted is the key of an earlier ticket, which somebody has deleted.
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
	// Notified names the state of the ticket that it was last notified of.
	Notified string `json:"notified,omitempty"`
}

// TicketComment is a comment that is to be added to a ticket.
type TicketComment struct {
	Key    string `json:"key"`
	Notice Notice `json:"notice"`
	// Occurrences is how often the ticket's failure has occurred by then; zero: it is
	// not counted.
	Occurrences int `json:"occurrences,omitempty"`
	// Omitted is how many later notices are left out.
	Omitted int `json:"omitted,omitempty"`
	// Again: an earlier try may have added it.
	Again bool `json:"again,omitempty"`
}
