package procgroup

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/maestro-hive/maestro/internal/sandbox/room"
)

// tryLimit bounds [Launcher.TryRoom].
const tryLimit = 10 * time.Second

// forbiddenError is why the host permits no rooms.
type forbiddenError struct{ error }

func (e forbiddenError) Unwrap() error { return e.error }

// forbidden marks an error of making a room, if there is one, that says that the host permits no rooms.
func forbidden(layout *room.Layout, err error) error {
	if layout != nil && room.Forbids(err) {
		return forbiddenError{err}
	}
	return err
}

// Forbidden reports whether an error of [Launcher.TryRoom] says that the host permits no rooms. Others may not last.
func Forbidden(err error) bool { return errors.As(err, new(forbiddenError)) }

// TryRoom makes a room, with an overlay if one is given, and starts a program in it. The error
// says why there is no room, and what to change.
func (l *Launcher) TryRoom(overlay *room.Overlay) error {
	layout := room.NewLayout(l.User)
	if overlay != nil {
		layout.Overlays = []room.Overlay{*overlay}
	}
	ctx, cancel := context.WithTimeout(context.Background(), tryLimit)
	defer cancel()
	e := l.Run(ctx, Process{Argv: []string{"/bin/true"}, Dir: "/", Env: []string{}, Room: layout})
	switch {
	case e.Err != nil && overlay != nil:
		return room.OverlayRemedy(e.Err, overlay.Upper) // rooms are permitted; the file system of the overlay is the cause
	case e.Err != nil:
		return room.Remedy(e.Err, l.User)
	case e.Cancelled != nil:
		return fmt.Errorf("the first process of a room did not answer within %s", tryLimit)
	}
	return nil // also if the program did not start: the room was made
}
