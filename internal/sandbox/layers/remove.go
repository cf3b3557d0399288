package layers

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// entry is a layer as it was found below the root.
type entry struct {
	layer
	name string
	used time.Time
	// usable: its note is valid for this boot of the host.
	usable bool
	// dependents counts the layers above this one.
	dependents int
}

// list returns all layers by name, also those that cannot be used.
func (l *Layers) list() (map[string]*entry, error) {
	found, err := os.ReadDir(l.o.Root)
	if err != nil {
		return nil, err
	}
	all := map[string]*entry{}
	for _, f := range found {
		info, err := f.Info()
		if err != nil || strings.Index(f.Name(), "-") != nameDigits || !f.IsDir() {
			continue // it is not a layer, or was removed
		}
		e := &entry{name: f.Name(), used: info.ModTime()}
		e.layer, err = l.readNote(e.name)
		e.usable = err == nil
		all[e.name] = e
	}
	for _, e := range all {
		if below := all[e.Below]; e.usable && below != nil && below.ID == e.BelowID {
			below.dependents++
		}
	}
	return all, nil
}

// Collect removes unfinished layers of killed processes, layers that can no longer be used,
// and then unused layers, least recently used first, until all layers together have no more
// than MaxBytes.
func (l *Layers) Collect(ctx context.Context) error {
	_, err := l.collect(ctx, l.o.MaxBytes)
	return err
}

// Free removes all unused layers, whatever their size, for a full disk. It reports whether there
// were any.
func (l *Layers) Free(ctx context.Context) (bool, error) { return l.collect(ctx, 0) }

// collect removes unused layers until all layers have no more than most bytes.
func (l *Layers) collect(ctx context.Context, most int64) (removed bool, err error) {
	var dead []string
	// Layers are moved away under the exclusive lock, so that no new layer can need them, and removed later.
	err = l.withRootLock(exclusive, func() (err error) {
		if dead, err = l.leftovers(); err != nil {
			return err
		}
		evicted, err := l.evict(ctx, most)
		dead = append(dead, evicted...)
		return err
	})
	for _, dir := range dead {
		err = errors.Join(err, os.RemoveAll(dir))
	}
	if err != nil {
		err = fmt.Errorf("collect layers: %w", err)
	}
	return len(dead) > 0, err
}

// leftovers lists temporary directories that no process has locked.
func (l *Layers) leftovers() (dead []string, err error) {
	found, err := os.ReadDir(l.path(tempDir))
	if err != nil {
		return nil, err
	}
	for _, f := range found {
		name := filepath.Join(tempDir, f.Name())
		lock, err := l.openUnused(name)
		if err != nil {
			return dead, err
		}
		if lock != nil {
			_ = unlock(lock) // no other process uses its name
			dead = append(dead, l.path(name))
		}
	}
	return dead, nil
}

// evict moves layers away until the others have at most most bytes, and returns their new paths.
func (l *Layers) evict(ctx context.Context, most int64) (dead []string, err error) {
	all, err := l.list()
	if err != nil {
		return nil, err
	}
	var total int64
	for _, e := range all {
		total += e.Bytes
	}
	inUse := map[string]bool{}
	for ctx.Err() == nil {
		var next *entry
		for _, e := range all {
			if inUse[e.name] || e.dependents > 0 || e.usable && total <= most {
				continue
			}
			if next == nil || e.used.Before(next.used) {
				next = e
			}
		}
		if next == nil {
			return dead, nil
		}
		to, err := l.moveAway(next.name)
		if err != nil {
			return dead, err
		}
		if to == "" {
			inUse[next.name] = true
			continue
		}
		dead = append(dead, to)
		delete(all, next.name)
		total -= next.Bytes
		if below := all[next.Below]; below != nil && next.usable && below.ID == next.BelowID {
			below.dependents--
		}
	}
	return dead, ctx.Err()
}

// moveAway moves an unused layer to the temporary directory and returns its path there; empty
// if the layer is in use.
func (l *Layers) moveAway(name string) (to string, err error) {
	lock, err := l.openUnused(name)
	if lock == nil || err != nil {
		return "", err
	}
	defer unlock(lock) //nolint:errcheck // only locked
	to = l.path(filepath.Join(tempDir, rand.Text()))
	return to, os.Rename(l.path(name), to)
}

// discard moves a layer that cannot be used to the temporary directory, from where [Layers.Collect] removes it.
func (l *Layers) discard(name string) error {
	err := l.withRootLock(exclusive, func() error {
		if top, err := l.readNote(name); err == nil {
			if _, _, err = l.stack(name, top); err == nil { // it was replaced by a usable one meanwhile
				return nil
			}
		}
		return os.Rename(l.path(name), l.path(filepath.Join(tempDir, rand.Text())))
	})
	if errors.Is(err, os.ErrNotExist) { // others have removed it
		return nil
	}
	return err
}
