package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/maestro-hive/maestro/internal/cmdline"
	"github.com/maestro-hive/maestro/internal/safetext"
	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/sessionstatus"
	"github.com/maestro-hive/maestro/internal/temporalutil"
	"github.com/maestro-hive/maestro/internal/terminal"
)

// watchEvery is the polling interval of a watched session.
const watchEvery = time.Second

// lostAfter bounds one poll of a watched session: a server that does not answer
// counts as lost.
const lostAfter = 12 * time.Second

// audience receives the states of a watched session.
type audience interface {
	// shows brings a session as it is now.
	shows(ctx context.Context, v sessionstatus.Session)
	// lost says that the connection is lost; the next view ends that.
	lost(why string)
}

func newWatch(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "watch SESSION",
		Short: "Follow a session until it ends, and exit with its outcome",
		Long: "Follow a session until it ends or waits for a person. On a terminal, show a live view of its phases, with keys for details and answers (? lists them), until it ends or you quit; " +
			"otherwise, or with --plain, print a line for each change. The exit code is the session's outcome: " +
			"0 completed, 1 failed or cancelled, 3 waiting for help or approval. Ctrl-C ends this command, not the session.",
		Args: cmdline.Arguments(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			w, done, err := a.watch(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			defer done()
			return a.follow(cmd.Context(), w)
		},
	}
	a.addPlainFlag(cmd.Flags())
	a.addTemporalFlags(cmd)
	a.addStateDirFlag(cmd)
	return cmd
}

// addPlainFlag gives a command that follows a session the flag for plain lines.
func (a *app) addPlainFlag(flags *pflag.FlagSet) {
	flags.BoolVar(&a.plain, "plain", false, "print a line for each change, also on a terminal")
}

// follow shows a session until it ends or parks, and returns its outcome as an
// exit code.
func (a *app) follow(ctx context.Context, w *sessionstatus.Watcher) error {
	v, err := a.show(ctx, w)
	if errors.Is(err, context.Canceled) {
		a.say("session %s continues; watch it again: %s", w.Session, a.again("watch "+w.Session))
		return exit(exitInterrupted)
	}
	if err != nil {
		return a.explainLook(ctx, w, err)
	}
	code := outcomeCode(v.Status.Status)
	if code != exitDone {
		a.reportFailure(v.Status)
	} else if w.Store != nil { // else its files are elsewhere
		a.say("show its changes:  %s\napply them:        %s", a.again("artifacts diff "+w.Session), a.again("apply "+w.Session))
	}
	return exit(code)
}

// show shows a session until it ends or parks: live where there is a terminal that
// can, and by a line for each change otherwise. The error is context.Canceled where
// ctx has ended or the person has left before.
func (a *app) show(ctx context.Context, w *sessionstatus.Watcher) (sessionstatus.Session, error) {
	if terminal, ok := a.canDraw(); ok {
		return a.live(ctx, w, terminal)
	}
	to := a.lines(w)
	defer to.near.forgetAll()
	return a.track(ctx, w, to, settled)
}

// track sends a session's states to an audience until it is in a state that over accepts, or
// ctx ends, and returns the last view. It waits for a lost connection.
func (a *app) track(ctx context.Context, w *sessionstatus.Watcher, to audience, over func(session.State) bool) (sessionstatus.Session, error) {
	ticker := time.NewTicker(watchEvery)
	defer ticker.Stop()
	var last sessionstatus.Session
	lost, known, unexplained := false, false, false
	for {
		v, err := w.LookWithin(ctx, lostAfter)
		switch {
		case ctx.Err() != nil:
			return last, ctx.Err()
		case err == nil:
			lost, known = false, true
			to.shows(ctx, v)
			last = v
			if over(v.Status.Status) {
				// Without a document and a worker, only the next look may say what it waits for.
				if v.Status.Status.Closed() || len(v.Help) > 0 || unexplained {
					return v, nil
				}
				unexplained = true
			}
		case !temporalutil.Lost(err) && (!known || !errors.Is(err, sessionstatus.ErrUnknown)):
			return last, err
		case !lost:
			lost = true
			to.lost(fmt.Sprintf("lost the connection to Temporal at %s; retrying (the session is not affected)", w.Conn.Address))
		}
		select {
		case <-ctx.Done():
			return last, ctx.Err()
		case <-ticker.C:
		}
	}
}

// lines is an audience that prints a line for each change.
type lines struct {
	app    *app
	near   *closeUp
	before session.Status
	// sentBack counts how often the work of phases has been, as of the last look.
	sentBack map[string]int
	said     []string // the notes that have been said
	gone     bool     // the connection is lost
}

func (a *app) lines(w *sessionstatus.Watcher) *lines {
	return &lines{app: a, near: &closeUp{Watcher: w}, sentBack: map[string]int{}}
}

// shows prints what has changed, and notes that have not been said already.
func (l *lines) shows(ctx context.Context, now sessionstatus.Session) {
	a := l.app
	if l.gone {
		a.say("reconnected")
		l.gone = false
	}
	l.near.follow(now)
	passes := l.near.passes(ctx, now)
	l.beginAgain(now.Phases)
	known := history{passes: passes, work: l.near.times(now), now: a.env.Now()}
	first := l.before.Session == ""
	all := changes(a.palette, l.before, now.Status, known)
	inTime(all)
	for _, c := range all {
		a.print("%s  %s", a.palette.Paint(terminal.Dim, stampOf(c.at, known.now, first)), c.text)
	}
	notes := notesOf(now)
	for _, note := range notes {
		if !slices.Contains(l.said, note) {
			a.say("%s", safetext.Line(note))
		}
	}
	l.before, l.said = now.Status, notes
}

// beginAgain resets phases whose work was sent back since the last state: they
// may have come as far again by now as they were.
func (l *lines) beginAgain(phases []session.PhaseStatus) {
	for _, p := range phases {
		times := l.near.known.SentBack(p.Name, time.Time{})
		if i := slices.IndexFunc(l.before.Phases, func(b session.PhaseStatus) bool { return b.Name == p.Name }); i >= 0 && times > l.sentBack[p.Name] {
			l.before.Phases[i] = session.PhaseStatus{Name: p.Name, Status: session.Pending}
		}
		l.sentBack[p.Name] = times
	}
}

func (l *lines) lost(why string) {
	l.gone = true
	l.app.say("%s", why)
}

// stampOf is the time of a change: the recorded one or else, unless it may have been long
// ago, the present.
func stampOf(at, now time.Time, first bool) string {
	switch {
	case at.IsZero() && first:
		return strings.Repeat(" ", len(time.TimeOnly))
	case at.IsZero():
		at = now
	}
	if at, now = at.Local(), now.Local(); at.Format(time.DateOnly) != now.Format(time.DateOnly) {
		return at.Format(time.DateTime)
	}
	return at.Format(time.TimeOnly)
}

// inTime sorts changes by their time. A change without one stays behind the one before it.
func inTime(all []change) {
	order := make(map[string]time.Time, len(all))
	var last time.Time
	for _, c := range all {
		if !c.at.IsZero() {
			last = c.at
		}
		order[c.text] = last
	}
	slices.SortStableFunc(all, func(x, y change) int { return order[x.text].Compare(order[y.text]) })
}
