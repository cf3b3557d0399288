package control

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/maestro-hive/maestro/internal/access"
	"github.com/maestro-hive/maestro/internal/safetext"
	"github.com/maestro-hive/maestro/internal/storage"
)

const (
	// maxViews limits the views of a person, and the others the texts of one, in bytes.
	maxViews     = 20
	maxViewName  = 60
	maxViewQuery = 1000
)

// Views are saved filters. Each person has separate ones.
type Views struct{ *Base }

// SavedView is a filter under a name: the query of a page.
type SavedView struct {
	Name  string `json:"name"`
	Query string `json:"query"`
}

// viewsKey names the document of a person's views.
func viewsKey(ctx context.Context) (string, error) {
	if err := access.Check(ctx, access.View, access.NoTeam); err != nil {
		return "", err
	}
	caller, _ := access.Of(ctx)
	sum := sha256.Sum256([]byte(caller.Person()))
	return "access/views/" + hex.EncodeToString(sum[:]) + ".json", nil
}

// List lists the caller's views, by name.
func (v Views) List(ctx context.Context) ([]SavedView, error) {
	s, err := v.stored()
	if err != nil {
		return nil, err
	}
	key, err := viewsKey(ctx)
	if err != nil {
		return nil, err
	}
	kept, _, err := readViews(s.Storage(), key)
	return kept, err
}

// readViews reads a document of views. A damaged one is treated as empty.
func readViews(docs storage.Documents, key string) (kept []SavedView, version storage.Version, err error) {
	data, version, err := docs.Read(key)
	if errors.Is(err, storage.ErrNotFound) {
		return nil, "", nil
	}
	if err != nil || json.Unmarshal(data, &kept) != nil {
		kept = nil
	}
	return slices.DeleteFunc(kept, func(one SavedView) bool { return one.check() != nil }), version, err
}

// check rejects an invalid view.
func (v SavedView) check() error {
	switch {
	case v.Name == "" || len(v.Name) > maxViewName || safetext.Line(v.Name) != v.Name:
		return invalidf("name", "give a name of at most %d letters", maxViewName)
	case len(v.Query) > maxViewQuery:
		return invalidf("query", "the filter is longer than %d bytes", maxViewQuery)
	}
	return nil
}

// Save stores a view of the caller, and replaces one with the same name.
func (v Views) Save(ctx context.Context, view SavedView) error {
	view.Name = strings.TrimSpace(view.Name)
	if err := view.check(); err != nil {
		return err
	}
	return v.change(ctx, func(kept []SavedView) ([]SavedView, error) {
		kept = append(without(kept, view.Name), view)
		if len(kept) > maxViews {
			return nil, &Error{Kind: Conflict, err: fmt.Errorf("there are %d views already; remove one first", maxViews)}
		}
		slices.SortFunc(kept, func(a, b SavedView) int { return strings.Compare(a.Name, b.Name) })
		return kept, nil
	})
}

// Remove removes a view of the caller.
func (v Views) Remove(ctx context.Context, name string) error {
	return v.change(ctx, func(kept []SavedView) ([]SavedView, error) { return without(kept, name), nil })
}

func without(views []SavedView, name string) []SavedView {
	return slices.DeleteFunc(views, func(one SavedView) bool { return one.Name == name })
}

func (v Views) change(ctx context.Context, f func([]SavedView) ([]SavedView, error)) error {
	s, err := v.stored()
	if err != nil {
		return err
	}
	key, err := viewsKey(ctx)
	if err != nil {
		return err
	}
	if caller, _ := access.Of(ctx); caller.ReadOnly {
		return &access.DeniedError{Actor: caller.Name, Permission: access.View, ReadOnly: true}
	}
	return storage.Update(s.Storage(), key, storage.UntilPowerLoss, func() ([]byte, storage.Version, error) {
		kept, version, err := readViews(s.Storage(), key)
		if err == nil {
			kept, err = f(kept)
		}
		if err != nil {
			return nil, "", err
		}
		data, err := json.Marshal(append([]SavedView{}, kept...))
		return data, version, err
	})
}
