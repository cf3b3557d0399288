package layers

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/maestro-hive/maestro/internal/failpoint"
	"github.com/maestro-hive/maestro/internal/spec"
)

// Usage is what the layers of a root take up.
type Usage struct {
	// Layers is how many there are, and InUse how many of them cannot be removed now.
	Layers int `json:"layers"`
	InUse  int `json:"in_use"`
	// Bytes is at most what they take up on the disk: files that layers share count in each.
	Bytes int64 `json:"bytes"`
}

// entry is a layer as it was found below the root.
type entry struct {
	layer
	name string
	used time.Time
	// sound: it can be used.
	sound bool
	// above counts the layers that are changes of this one.
	above int
}

// list returns all layers, with those that cannot be used.
func (l *Layers) list() (map[string]*entry, error) {
	found, err := os.ReadDir(l.o.Root)
	if err != nil {
		return nil, err
	}
	all := map[string]*entry{}
	for _, f := range found {
		info, err := f.Info()
		if err != nil || strings.Index(f.Name(), "-") != nameDigits || !f.IsDir() {
			continue // it is none, or not any more
		}
		e := &entry{name: f.Name(), used: info.ModTime()}
		e.layer, err = l.read(e.name)
		e.sound = err == nil
		all[e.name] = e
	}
	for _, e := range all {
		if below := all[e.Below]; e.sound && below != nil && below.ID == e.BelowID {
			below.above++
		}
	}
	return all, nil
}

// recent lists the manifests whose layers were used last.
func (l *Layers) recent(n int) ([]spec.Digest, error) {
	all, err := l.list()
	if err != nil {
		return nil, err
	}
	var last []*entry
	for _, e := range all {
		if e.sound && e.name == l.nameOf(e.Manifest) {
			last = append(last, e)
		}
	}
	slices.SortFunc(last, func(a, b *entry) int { return b.used.Compare(a.used) })
	var out []spec.Digest
	for _, e := range last[:min(n, len(last))] {
		out = append(out, e.Manifest)
	}
	return out, nil
}

// Measure measures the layers below a root. It changes nothing, so a full disk is no obstacle.
func Measure(root string) (u Usage, err error) {
	l, err := existing(Options{Root: root})
	if err != nil {
		return u, err
	}
	all, err := l.list()
	if err != nil {
		return u, err
	}
	inUse := map[string]bool{}
	for name, e := range all {
		u.Layers++
		u.Bytes += e.Bytes
		lock, err := l.open(name, tried)
		if lock != nil {
			err = unlock(lock)
		}
		for below := e; errors.Is(err, errInUse) && below != nil && !inUse[below.name]; below = all[below.Below] {
			inUse[below.name] = true
		}
	}
	u.InUse = len(inUse)
	return u, nil
}

// Collect removes what was left of layers that were not finished, layers that can no longer
// be used, and unused ones, those first whose last use is the longest ago, until all together
// take up no more than MaxBytes.
func (l *Layers) Collect(ctx context.Context) error {
	_, err := l.collect(ctx, l.o.MaxBytes)
	return err
}

// Free removes all that Collect may remove, however little it takes up, for a full disk. It
// reports whether there was any.
func (l *Layers) Free(ctx context.Context) (bool, error) { return l.collect(ctx, 0) }

// collect keeps unused layers of so many bytes.
func (l *Layers) collect(ctx context.Context, most int64) (removed bool, err error) {
	var dead []string
	// Names are moved while no layer is added that might need them, and removed later.
	err = l.locked(alone, func() (err error) {
		if dead, err = l.leftovers(); err != nil {
			return err
		}
		evicted, err := l.evict(ctx, most)
		dead = append(dead, evicted...)
		return err
	})
	for _, dir := range dead {
		failpoint.Here("layers: evicted")
		err = errors.Join(err, os.RemoveAll(dir))
	}
	if err != nil {
		err = fmt.Errorf("collect layers: %w", err)
	}
	return len(dead) > 0, err
}

// leftovers lists temporary directories that nobody works in.
func (l *Layers) leftovers() (dead []string, err error) {
	found, err := os.ReadDir(l.path(tempDir))
	if err != nil {
		return nil, err
	}
	for _, f := range found {
		lock, err := l.open(filepath.Join(tempDir, f.Name()), tried)
		if errors.Is(err, errInUse) || err == nil && lock == nil {
			continue
		}
		if err == nil {
			err = unlock(lock)
		}
		if err != nil {
			return dead, err
		}
		dead = append(dead, l.path(filepath.Join(tempDir, f.Name())))
	}
	return dead, nil
}

// evict moves layers out of the way until most bytes are left, and returns where they are.
func (l *Layers) evict(ctx context.Context, most int64) (dead []string, err error) {
	all, err := l.list()
	if err != nil {
		return nil, err
	}
	var total int64
	for _, e := range all {
		total += e.Bytes
	}
	held := map[string]bool{}
	for ctx.Err() == nil {
		var next *entry
		for _, e := range all {
			if held[e.name] || e.above > 0 || e.sound && total <= most {
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
			held[next.name] = true
			continue
		}
		dead = append(dead, to)
		delete(all, next.name)
		total -= next.Bytes
		if below := all[next.Below]; below != nil && next.sound && below.ID == next.BelowID {
			below.above--
		}
	}
	return dead, ctx.Err()
}

// moveAway takes the name from a layer that nobody uses and returns where it is then; empty
// if somebody uses it.
func (l *Layers) moveAway(name string) (to string, err error) {
	lock, err := l.open(name, tried)
	if errors.Is(err, errInUse) || err == nil && lock == nil {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	defer unlock(lock) //nolint:errcheck // only locked
	to = l.path(filepath.Join(tempDir, rand.Text()))
	return to, os.Rename(l.path(name), to)
}

// discard removes a layer that cannot be used.
func (l *Layers) discard(name string) error {
	var dead string
	err := l.locked(alone, func() error {
		top, err := l.read(name)
		if err == nil {
			_, err = l.chain(name, top)
		}
		if err == nil {
			return nil // it was made again meanwhile
		}
		dead, err = l.moveAway(name)
		return err
	})
	if err != nil || dead == "" {
		return err
	}
	return os.RemoveAll(dead)
}
