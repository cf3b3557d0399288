package control

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/maestro-hive/maestro/internal/access"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/ops/hook"
	"github.com/maestro-hive/maestro/internal/store/state"
)

// Hooks are the addresses by which other systems start sessions of one team with signed calls.
type Hooks struct{ *Base }

// HooksPath is the beginning of the path of a hook's address; the hook's name follows.
const HooksPath = "/hooks/"

// deliveryPatience limits a start whose caller may have disconnected.
const deliveryPatience = 5 * time.Minute

// HookList is the hooks of teams that the caller is an admin of, by name.
type HookList struct {
	Hooks []access.Hook `json:"hooks"`
}

// NewHook is a hook to add.
type NewHook struct {
	Name      string            `json:"name" minLength:"1" maxLength:"63" doc:"letters, digits, - and _"`
	Kind      access.HookKind   `json:"kind,omitempty" enum:"generic,github,gitlab" doc:"who calls it; left out: generic"`
	Team      string            `json:"team" minLength:"1" maxLength:"200" doc:"the registered team whose sessions it starts: NAME, or NAME@DIGEST for a version"`
	Directory string            `json:"directory,omitempty" maxLength:"63" doc:"the directory of the server's host that sessions start from, by its name"`
	Labels    map[string]string `json:"labels,omitempty" doc:"labels of its sessions"`
	Map       map[string]string `json:"map,omitempty" doc:"kind generic: where the requirement, decision.NAME and label.KEY are, as JSON pointers; left out: the requirement at /requirement"`
	On        []string          `json:"on,omitempty" maxItems:"20" doc:"kinds github and gitlab: issues.labeled:LABEL, issue_comment.created:COMMAND or, of GitHub, issues.opened; left out: the label maestro and the command @maestro"`
	Users     []string          `json:"users,omitempty" maxItems:"50" doc:"kind gitlab: the users whose commands start a session"`
}

// AddedHook is the document of a new hook.
type AddedHook struct {
	access.Hook
	// URL is the address to call: that of the server that was started last. Without a server it is
	// only the path.
	URL string `json:"url"`
	// Secret signs calls. It is in this document only.
	Secret string `json:"secret"`
}

// Add adds a hook of a registered team, for an admin of the team.
func (h Hooks) Add(ctx context.Context, in NewHook) (doc AddedHook, err error) {
	made := hook.Complete(access.Hook{
		Name: in.Name, Kind: cmp.Or(in.Kind, access.HookGeneric), Team: in.Team, Directory: in.Directory,
		Labels: in.Labels, Map: in.Map, On: in.On, Users: in.Users,
	})
	if err := invalid("team", spec.CheckName(made.TeamName())); err != nil {
		return doc, err
	}
	event := access.Event{Action: "hook.add", Team: made.TeamName(), Subject: made.Name}
	if err := h.Audit.Check(ctx, access.Admin, event); err != nil {
		return doc, err
	}
	if wrong, ok := errors.AsType[*hook.FieldError](hook.Check(made)); ok {
		return doc, invalid(wrong.Field, wrong)
	}
	team, digest, versioned := strings.Cut(made.Team, "@")
	_, version, _, err := Teams(h).version(ctx, team, digest)
	if err != nil {
		return doc, err
	}
	if versioned { // another version may have the same prefix later
		made.Team = team + "@" + string(version.Digest)
	}
	doc.Secret, doc.Hook, err = h.hooks().Add(ctx, made)
	doc.URL = access.ServedAt(ctx, h.Store.State) + HooksPath + made.Name
	return doc, nameError(err)
}

// List lists the hooks of teams that the caller is an admin of.
func (h Hooks) List(ctx context.Context) (HookList, error) {
	all, err := h.hooks().List(ctx)
	return HookList{all}, err
}

// Newest are the newest sessions of hooks that the caller may view, by the names of the hooks.
func (h Hooks) Newest(ctx context.Context, of []access.Hook) (map[string]state.Session, error) {
	newest := map[string]state.Session{}
	for _, one := range of {
		if access.Check(ctx, access.View, one.TeamName()) != nil {
			continue
		}
		found, err := h.Store.State.Sessions(ctx, state.Filter{
			Namespace: h.Namespace, Teams: []string{one.TeamName()},
			Labels: map[string]string{hook.LabelHook: one.Name}, Limit: 1,
		})
		if err != nil {
			return nil, err
		}
		if len(found) > 0 {
			newest[one.Name] = found[0]
		}
	}
	return newest, nil
}

// Remove removes a hook with immediate effect. Its sessions continue.
func (h Hooks) Remove(ctx context.Context, name string) (access.Hook, error) {
	removed, err := h.hooks().Remove(ctx, name)
	return removed, nameError(err)
}

func (h Hooks) hooks() *access.Hooks { return access.NewHooks(h.Store.State, h.Audit, h.Now) }

// Receiver verifies the calls of hooks, and starts or wakes their sessions.
type Receiver struct {
	*Base
	hooks *access.Hooks
}

// NewReceiver returns a receiver of calls of a store's hooks.
func NewReceiver(b *Base) *Receiver { return &Receiver{b, Hooks{b}.hooks()} }

// Delivery is a call with a valid signature.
type Delivery struct {
	hook     access.SecretHook
	identity string
	header   http.Header
	body     []byte
}

// Actor is the caller's name for records.
func (d Delivery) Actor() access.Actor { return access.HookActor(d.hook.Hook) }

// Delivered is the document of a call.
type Delivered struct {
	Hook string `json:"hook"`
	// Team and Session are those of the session that this call, or an earlier delivery of it, has
	// started.
	Team    string `json:"team,omitempty"`
	Session string `json:"session,omitempty"`
	// LeftOut says, in sentences, what was not taken of the workspace of a session that this call has started.
	LeftOut []string `json:"left_out,omitempty"`
	// Woken is the session that looks at its pull request now, because the call is about it.
	Woken string `json:"woken,omitempty"`
	// Ignored is the reason why the call starts and wakes no session.
	Ignored string `json:"ignored,omitempty"`
}

// Verify returns a call of a hook if its signature is valid; otherwise [access.ErrSignature].
func (r *Receiver) Verify(ctx context.Context, name string, header http.Header, body []byte) (Delivery, error) {
	found, err := r.hooks.Find(ctx, name)
	if err != nil {
		return Delivery{}, err
	}
	identity, err := hook.Verify(found.Kind, found.Secret, header, body, r.Now())
	return Delivery{found, identity, header, body}, err
}

// Deliver starts the session of a call, for its hook, or wakes those that wait for a pull request. A session's id is computed
// from the signed content, and Temporal and the store have no two sessions with one id. So a repeated call, to any server,
// finds its session, and no other record is needed. With again the session existed already.
func (r *Receiver) Deliver(ctx context.Context, d Delivery) (doc Delivered, again bool, err error) {
	event := access.Event{Action: "session.start", Team: d.hook.TeamName(), Subject: d.hook.Directory}
	if err := r.Audit.Check(ctx, access.Operate, event); err != nil { // the server is read-only
		return doc, false, err
	}
	call, err := hook.Read(d.hook.Hook, d.header, d.body)
	if err != nil {
		wrong, _ := errors.AsType[*hook.PayloadError](err)
		return doc, false, invalid(wrong.Pointer, err)
	}
	switch {
	case call.News != nil:
		doc, err = r.wakeNews(ctx, d, *call.News, call.Ignored)
		return doc, false, err
	case call.Start == nil:
		return Delivered{Hook: d.hook.Name, Ignored: call.Ignored}, false, nil
	}
	if err := CheckRequirement(call.Start.Requirement); err != nil {
		return doc, false, invalid(d.hook.Map["requirement"], err)
	}
	// The start continues after its caller has disconnected, because some callers do not retry.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), deliveryPatience)
	defer cancel()
	return r.startOnce(ctx, d, *call.Start)
}

// startOnce starts the session of a call, unless this call has started it before, or a session works on the same issue.
func (r *Receiver) startOnce(ctx context.Context, d Delivery, in hook.Start) (doc Delivered, again bool, failed error) {
	doc = Delivered{Hook: d.hook.Name, Team: d.hook.TeamName()}
	for range 2 { // another call may start it meanwhile
		id, again, taken, err := r.place(ctx, d, in)
		switch doc.Session = id; {
		case err != nil, again:
			return doc, again, err
		case taken:
			doc, err = r.wakeSession(ctx, d, id)
			return doc, false, err
		}
		if doc.LeftOut, err = r.start(ctx, d, id, in); ProblemOf(err).Kind != Conflict {
			return doc, false, err
		}
		failed = &CallError{conflictf(id, "session %s of this call exists already, and cannot be read", id), err}
	}
	return doc, false, failed
}

// CallError is the error that the caller of a hook receives. Its cause is only for the server's
// log.
type CallError struct {
	told  error
	Cause error
}

// Error is the text for the caller.
func (e *CallError) Error() string { return e.told.Error() }

// Unwrap returns the error for the caller.
func (e *CallError) Unwrap() error { return e.told }

// start starts the session of a call, and returns what was not taken of its workspace. An error that an admin of
// the hook has to correct is Unavailable for the caller, which may retry.
func (r *Receiver) start(ctx context.Context, d Delivery, sessionID string, in hook.Start) (leftOut []string, err error) {
	crew, err := Teams{r.Base}.Named(ctx, d.hook.Team)
	if ProblemOf(err).Kind == NotFound {
		return nil, &CallError{unavailablef("team %s of hook %s is not registered; register it, or remove the hook", d.hook.Team,
			d.hook.Name), err}
	}
	if err != nil {
		return nil, err
	}
	dir := d.hook.Directory
	if dir != "" && !slices.ContainsFunc(r.Directories, func(known Directory) bool { return known.Name == dir }) {
		return nil, unavailablef("directory %s of hook %s is not one that sessions may start from here; start the server with "+
			"--workspace %[1]s=DIR", dir, d.hook.Name)
	}
	doc, err := Starts{r.Base}.Start(ctx, NewSession{
		Session: sessionID, Team: TeamInput{Loaded: &crew}, Requirement: in.Requirement, Directory: dir,
		Decisions: in.Decisions, Labels: in.Labels, unattended: true,
	})
	if failed, ok := errors.AsType[*Error](err); ok && failed.Kind == Invalid {
		switch failed.Field {
		case "": // no worker has the team's agents
			failed.Kind = Unavailable
		case "directory":
			err = &CallError{unavailablef("the files of directory %s of hook %s cannot be read; the server's log has the reason", dir,
				d.hook.Name), err}
		}
	}
	return doc.LeftOut, err
}
