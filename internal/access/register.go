package access

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/maestro-hive/maestro/internal/storage"
)

// cacheTime is how long a register is cached: an entry that another process removes is invalid
// after this time.
const cacheTime = 300 * time.Millisecond

// register is a document of entries by the hash of a secret, or by an id.
type register[E any] struct {
	docs storage.Storage
	key  string
	now  func() time.Time

	mu      sync.Mutex
	entries map[string]E
	// read is when they were read, and written when they had been written then.
	read, written time.Time
}

func newRegister[E any](docs storage.Storage, key string, now func() time.Time) *register[E] {
	return &register[E]{docs: docs, key: key, now: now}
}

// all returns the entries, which the caller must not change.
func (r *register[E]) all() (map[string]E, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.recent(false)
}

// find returns an entry. One that another process has just added is found: what is looked for
// in vain is looked for again if the document has been written since.
func (r *register[E]) find(name string) (e E, ok bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	all, err := r.recent(false)
	if err != nil {
		return e, false, err
	}
	if e, ok = all[name]; !ok {
		all, err = r.recent(true)
		e, ok = all[name]
	}
	return e, ok, err
}

// recent returns the entries, read not long ago; or, if nothing older will do, as they are.
func (r *register[E]) recent(newest bool) (map[string]E, error) {
	now := r.now()
	age := now.Sub(r.read)
	written, err := r.written, error(nil)
	if newest || r.entries == nil {
		if written, err = r.docs.ModTime(r.key); err != nil && !errors.Is(err, storage.ErrNotFound) {
			return nil, fmt.Errorf("read %s: %w", r.key, err)
		}
	}
	if r.entries != nil && age >= 0 && age < cacheTime && written.Equal(r.written) {
		return r.entries, nil
	}
	entries, _, err := r.load()
	if err != nil {
		return nil, err
	}
	r.entries, r.read, r.written = entries, now, written
	return entries, nil
}

func (r *register[E]) load() (map[string]E, storage.Version, error) {
	entries := map[string]E{}
	data, version, err := r.docs.Read(r.key)
	if errors.Is(err, storage.ErrNotFound) {
		return entries, "", nil
	}
	if err != nil {
		return nil, "", fmt.Errorf("read %s: %w", r.key, err)
	}
	if err := json.Unmarshal(data, &entries); err != nil {
		return nil, "", fmt.Errorf("read %s: it is damaged (%w); restore it from a backup, or remove it: what it has is lost, like tokens, hooks or who is signed in", r.key, err)
	}
	return entries, version, nil
}

// change replaces the entries by what change makes of them, durably. If another process writes
// them meanwhile, change is called again; an error of it ends that.
func (r *register[E]) change(change func(map[string]E) error) error {
	err := storage.Update(r.docs, r.key, storage.Durable, func() ([]byte, storage.Version, error) {
		before, version, err := r.load()
		if err != nil {
			return nil, version, err
		}
		entries := maps.Clone(before)
		if err := change(entries); err != nil {
			return nil, version, err
		}
		data, err := json.MarshalIndent(entries, "", "  ")
		return append(data, '\n'), version, err
	})
	if err == nil {
		r.mu.Lock()
		r.entries = nil
		r.mu.Unlock()
	}
	return err
}
