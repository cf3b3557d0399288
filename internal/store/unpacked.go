package store

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/maestro-hive/maestro/internal/team"
)

// session makes the session out of what the archive held, and requires that it
// is whole.
func (in *unpacking) session(ctx context.Context) (planted, Archived, error) {
	p := planted{key: in.key, copies: map[string][]byte{}, journals: map[team.AssignmentID]*journalFile{}}
	out := Archived{
		Session: in.key.Session, Records: len(in.documents), Blobs: len(in.blobs), Transcripts: in.index.Transcripts, Bytes: in.bytes,
	}
	for _, size := range in.index.Blobs {
		out.Bytes += size
	}
	if err := in.read(&p); err != nil {
		return p, out, err
	}
	out.Records = len(p.records)
	chain, err := in.chain(ctx, p.notes.names())
	if err != nil {
		return p, out, err
	}
	out.Checkpoints = len(chain)
	if err := in.whole(ctx, p, chain); err != nil {
		return p, out, err
	}
	if in.key.Session != in.index.Session {
		if chain, err = in.rename(ctx, chain); err != nil {
			return p, out, err
		}
	}
	for _, c := range slices.Backward(chain) { // the newest comes last
		if c.Session != in.key.Session {
			continue
		}
		if p.copies[c.CurrentPhase], err = in.store.Blob(ctx, c.Name); err != nil {
			return p, out, err
		}
	}
	out.Head = chain[0].Name
	p.state.Head, p.state.Checkpoint, p.state.Tree = chain[0].Name, chain[0].Name, chain[0].Tree
	return p, out, nil
}

// read decodes the documents.
func (in *unpacking) read(p *planted) error {
	own := team.SessionKey{Namespace: in.index.Namespace, Session: in.index.Session}
	for _, name := range slices.Sorted(maps.Keys(in.documents)) {
		data := in.documents[name]
		var err error
		record, isRecord := strings.CutPrefix(name, archiveRecord)
		switch {
		case name == ledgerFile:
			err = unsealLedger(data, &p.ledger)
		case isRecord && strings.HasSuffix(record, journalSuffix):
			err = in.journal(p, record, data)
		case name == archiveState:
			err = unseal(data, &p.state)
			if err == nil && (p.state.Schema != team.ExecutionSchema || p.state.Session != own.Session) {
				err = errors.New("it is not the " + team.ExecutionSchema + " of session " + own.Session)
			}
		case name == prunedFile:
			if err = unseal(data, &p.notes); err == nil {
				err = p.notes.check(own)
			}
		case isRecord:
			err = in.record(p, record, data)
		default:
			err = errors.New("is no document of a session")
		}
		if err != nil {
			return archiveFault(name, "%s", err)
		}
	}
	if p.state.Schema == "" {
		return archiveFault(archiveState, "is missing; export it again")
	}
	return nil
}

func (in *unpacking) record(p *planted, file string, data []byte) error {
	name, ok := strings.CutSuffix(file, ".json")
	phase, persona, _ := strings.Cut(name, ".")
	id := team.AssignmentID{Phase: phase, Persona: persona}
	if err := checkAssignment(id); !ok || err != nil {
		return errors.Join(errors.New("is no record of an assignment"), err)
	}
	var r team.Record
	if err := unseal(data, &r); err != nil {
		return err
	}
	p.records = append(p.records, r)
	return checkRecord(r, id)
}

func (in *unpacking) journal(p *planted, file string, data []byte) error {
	id, ok := journalOf(file)
	if !ok {
		return errors.New("is no journal of an assignment")
	}
	f := parseJournal(data)
	switch {
	case len(f.wrong) > 0:
		return errors.New(f.fault())
	case len(f.sound) != len(data):
		return errors.New("its last line is cut off")
	}
	p.journals[id] = f
	return nil
}

// chain reads the checkpoints from the archive's head on, the newest first.
func (in *unpacking) chain(ctx context.Context, pruned map[team.Digest]bool) ([]StoredCheckpoint, error) {
	var chain []StoredCheckpoint
	for name := in.index.Head; name != "" && !pruned[name]; {
		if !in.blobs[name] {
			return nil, archiveFault(archiveBlobs+string(name), "is a checkpoint of the session and not in the archive; export it again")
		}
		c, err := in.store.checkpoint(ctx, name)
		if err != nil {
			return nil, archiveFault(archiveBlobs+string(name), "%s", err)
		}
		if err := team.CheckName(c.CurrentPhase); err != nil {
			return nil, archiveFault(archiveBlobs+string(name), "current_phase: %s", err)
		}
		chain = append(chain, StoredCheckpoint{Name: name, Checkpoint: c})
		name = c.Previous
	}
	if len(chain) == 0 || chain[0].Session != in.index.Session {
		return nil, archiveFault(archiveList, "head: it names no checkpoint of session %s", in.index.Session)
	}
	return chain, nil
}

// whole requires that all that the session needs is in the archive.
func (in *unpacking) whole(ctx context.Context, p planted, chain []StoredCheckpoint) error {
	v := newVerification(in.store)
	v.untold = !in.index.Transcripts
	for _, c := range chain {
		if err := unnamed(v.checkpoint(ctx, c.Checkpoint, "the checkpoint after "+c.CurrentPhase)); err != nil {
			return err
		}
	}
	for i, r := range p.records {
		if v.untold {
			p.records[i] = r.Untold()
		}
		if err := unnamed(v.record(ctx, in.key, r)); err != nil {
			return err
		}
	}
	if err := in.paid(ctx, p, v); err != nil {
		return err
	}
	for _, path := range slices.Sorted(maps.Keys(v.faults)) {
		f := v.faults[path]
		return archiveFault("", "it lacks something: %s; export it again", f.Error())
	}
	for _, name := range slices.Sorted(maps.Keys(v.needed)) {
		if !in.blobs[name] {
			return archiveFault(archiveBlobs+string(name), "is needed by %s and not in the archive; export it again", v.needed[name])
		}
	}
	return nil
}

// paid looks at what the session has paid for.
func (in *unpacking) paid(ctx context.Context, p planted, v *verification) error {
	v.known = in.blobs
	for name, row := range p.ledger.Rows {
		id, err := team.ParseAssignmentID(name)
		if err != nil {
			return archiveFault(ledgerFile, "rows: %s", err)
		}
		if f := p.journals[id]; row.Entries > 0 && (f == nil || f.journal.Next() <= row.Entries) {
			return archiveFault(archiveRecord+journalName(id), "has not all %d entries that the ledger has booked; export it again", row.Entries)
		}
	}
	for id, f := range p.journals {
		for _, c := range f.journal.Calls() {
			if err := unnamed(v.call(ctx, c, "the journal of "+id.String())); err != nil {
				return err
			}
		}
		if v.untold {
			if err := f.untell(); err != nil {
				return err
			}
		}
	}
	return nil
}

// unnamed blames the archive for a name that no blob can have.
func unnamed(err error) error {
	if errors.Is(err, team.ErrNotFound) {
		return archiveFault("", "one of its documents names what cannot be: %s; export it again", err)
	}
	return err
}

// rename seals the session's checkpoints anew, under its new name. Those of
// sessions that it was forked from stay what they are.
func (in *unpacking) rename(ctx context.Context, chain []StoredCheckpoint) ([]StoredCheckpoint, error) {
	renamed := map[team.Digest]team.Digest{}
	out := slices.Clone(chain)
	for i, c := range slices.Backward(out) {
		if c.Session != in.index.Session {
			continue
		}
		if name, ok := renamed[c.Previous]; ok {
			c.Previous = name
		}
		c.Session = in.key.Session
		data, err := seal(c.Checkpoint)
		if err != nil {
			return nil, err
		}
		name, err := in.store.PutBlob(ctx, data)
		if err != nil {
			return nil, err
		}
		renamed[c.Name] = name
		c.Name = name
		out[i] = c
	}
	return out, nil
}
