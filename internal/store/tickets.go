package store

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/gofrs/flock"

	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/spec"
)

// PutTicket replaces the record of a ticket, durably, unless the stored one has the same
// revision or a later one: a late writer changes nothing.
func (s *Store) PutTicket(namespace string, r session.TicketRecord) (err error) {
	path, err := s.ticketPath(namespace, r.Name)
	if err != nil {
		return err
	}
	lock := s.path("locks", ".tickets", namespace, r.Name) // no namespace begins with a dot
	if err := s.makeDir(filepath.Dir(lock), untilPowerLoss); err != nil {
		return fmt.Errorf("make the directory of a lock: %w", err)
	}
	l := flock.New(lock, flock.SetPermissions(fileMode))
	if err := l.Lock(); err != nil {
		_ = l.Close()
		return fmt.Errorf("lock ticket %s: %w", r.Name, err)
	}
	defer closing(l, &err)
	stored, err := s.Ticket(namespace, r.Name)
	switch {
	case errors.Is(err, session.ErrNotFound), errors.Is(err, session.ErrCorrupt):
	case err != nil:
		return err
	case stored.Revision >= r.Revision:
		return nil
	}
	r.Schema = session.TicketRecordSchema
	data, err := s.seal(r)
	if err != nil {
		return fmt.Errorf("write ticket %s: %w", r.Name, err)
	}
	if err := s.write(path, data, durable); err != nil {
		return fmt.Errorf("write ticket %s: %w", r.Name, err)
	}
	return nil
}

// Ticket reads the record of a ticket: [session.ErrNotFound] if there is none,
// [session.ErrCorrupt] if it was damaged; it is then in the quarantine.
func (s *Store) Ticket(namespace, name string) (r session.TicketRecord, err error) {
	path, err := s.ticketPath(namespace, name)
	if err != nil {
		return r, err
	}
	err = s.readDocument(path, "ticket", func(data []byte) error {
		r = session.TicketRecord{}
		if err := s.unseal(data, &r); err != nil {
			return err
		}
		if r.Schema != session.TicketRecordSchema || r.Name != name {
			return fmt.Errorf("it is not the %s of ticket %s", session.TicketRecordSchema, name)
		}
		return nil
	})
	if err != nil {
		return session.TicketRecord{}, err
	}
	return r, nil
}

func (s *Store) ticketPath(namespace, name string) (string, error) {
	if err := spec.CheckSession(namespace); err != nil {
		return "", fmt.Errorf("namespace: %w", err)
	}
	if err := spec.CheckName(name); err != nil {
		return "", fmt.Errorf("ticket: %w", err)
	}
	return s.path("tickets", namespace, name+".json"), nil
}

// tickets verifies the records of tickets.
func (v *verification) tickets(ctx context.Context) error {
	namespaces, err := v.store.entries(ctx, v.store.path("tickets"))
	if err != nil {
		return err
	}
	for _, namespace := range namespaces {
		if !namespace.IsDir() {
			continue
		}
		records, err := v.store.documents(ctx, v.store.path("tickets", namespace.Name()), "")
		if err != nil {
			return err
		}
		for name := range records {
			_, err := v.store.Ticket(namespace.Name(), name)
			if err := v.fault(err, ""); err != nil {
				return err
			}
		}
	}
	return nil
}
