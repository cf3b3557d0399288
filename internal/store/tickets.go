package store

import (
	"context"
	"fmt"

	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/spec"
	"github.com/maestro-hive/maestro/internal/storage"
)

// tickets stores the records of tickets.
type tickets struct{ *documents }

// PutTicket replaces the record of a ticket durably, unless the stored one has the same or a
// later revision.
func (s tickets) PutTicket(namespace string, r session.TicketRecord) (err error) {
	doc, err := ticketKey(namespace, r.Name)
	if err != nil {
		return err
	}
	err = storage.Update(s.docs, doc, storage.Durable, func() ([]byte, storage.Version, error) {
		stored, version, err := s.ticket(namespace, r.Name)
		switch {
		case missing(err):
		case err != nil:
			return nil, "", err
		case stored.Revision >= r.Revision:
			return nil, "", nil
		}
		r.Schema = session.TicketRecordSchema
		data, err := seal(r)
		return data, version, err
	})
	if err != nil {
		return fmt.Errorf("write ticket %s: %w", r.Name, err)
	}
	return nil
}

// Ticket reads the record of a ticket. The error is [session.ErrNotFound] if there is none, and
// [session.ErrCorrupt] if it was damaged and moved to the quarantine.
func (s tickets) Ticket(namespace, name string) (session.TicketRecord, error) {
	r, _, err := s.ticket(namespace, name)
	return r, err
}

func (s tickets) ticket(namespace, name string) (r session.TicketRecord, version storage.Version, err error) {
	doc, err := ticketKey(namespace, name)
	if err != nil {
		return r, "", err
	}
	version, err = s.readDocument(doc, "ticket", func(data []byte) error {
		r = session.TicketRecord{}
		if err := unseal(data, &r); err != nil {
			return err
		}
		if r.Schema != session.TicketRecordSchema || r.Name != name {
			return fmt.Errorf("it is not the %s of ticket %s", session.TicketRecordSchema, name)
		}
		return nil
	})
	if err != nil {
		return session.TicketRecord{}, version, err
	}
	return r, version, nil
}

func ticketKey(namespace, name string) (string, error) {
	if err := spec.CheckSession(namespace); err != nil {
		return "", fmt.Errorf("namespace: %w", err)
	}
	if err := spec.CheckName(name); err != nil {
		return "", fmt.Errorf("ticket: %w", err)
	}
	return "tickets/" + namespace + "/" + name + ".json", nil
}

// tickets verifies the records of tickets.
func (v *verification) tickets(ctx context.Context) error {
	namespaces, err := v.store.subdirs(ctx, "tickets")
	if err != nil {
		return err
	}
	for _, namespace := range namespaces {
		records, err := v.store.jsonFiles(ctx, "tickets/"+namespace, "")
		if err != nil {
			return err
		}
		for name := range records {
			_, err := v.store.Ticket(namespace, name)
			if err := v.fault(err, ""); err != nil {
				return err
			}
		}
	}
	return nil
}
