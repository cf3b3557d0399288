package httpapi

import (
	"context"
	"io"
	"iter"
	"net/http"

	"github.com/maestro-hive/maestro/internal/ops/control"
)

// The sessions of a namespace.
var (
	ListSessions = document("GET /sessions", "list-sessions", "List sessions, newest first", control.Sessions.List, forAgents(""))
	ReadSession  = document("GET /sessions/{session}", "read-session",
		"Read a session's status", ofSession(control.Sessions.Status), forAgents(""))
	CancelSession = document("POST /sessions/{session}/cancel", "cancel-session",
		"Cancel a session: its agents are stopped, finished work stays", ofSession(control.Sessions.Cancel), forAgents(""))
	ReadStatistics = document("GET /statistics", "read-statistics",
		"Read what came of sessions, in groups by team, persona, agent, model or day", control.Sessions.Statistics)
)

// What starts sessions.
var (
	StartSession = document("POST /sessions", "start-session",
		"Start a session, and wait until a worker has admitted it, 30 seconds at most", body(control.Starts.Start), forAgents(""))
	PreviewSession = document("POST /plan", "preview-session",
		"Say what a session would do, without starting it", body(control.Starts.Preview), forAgents(""))
	// A resume without a body continues as it was.
	ResumeSession = document("POST /sessions/{session}/resume", "resume-session",
		"Continue a session that is paused, or start one that has ended again from the store",
		sessionOption(control.Starts.Resume), forAgents(""))
	PreviewResume = document("POST /sessions/{session}/resume/preview", "preview-resume",
		"Say what would be reused and run, without resuming the session", sessionOption(control.Starts.PreviewResume),
		forAgents(""))
	DeliverSession = document("POST /sessions/{session}/deliver", "deliver-session",
		"Deliver the work of a completed session as a pull request: it continues with a last phase that waits for the merge",
		sessionOption(control.Starts.Deliver), forAgents(""))
	ForkSession = document("POST /sessions/{session}/fork", "fork-session",
		"Start a new session with the work of another", sessionBody(control.Starts.Fork), forAgents(""))
	PreviewFork = document("POST /sessions/{session}/fork/preview", "preview-fork",
		"Say what a fork would reuse and run, without starting it", sessionBody(control.Starts.PreviewFork), forAgents(""))
	StoreTexts = document("POST "+workspacesPath+"/texts", "store-texts",
		"Store texts as files for sessions to start from: 200 files and 512 KiB at most; they are kept for at least a day",
		func(s control.Starts, ctx context.Context, in Body[Texts]) (control.Workspace, error) {
			return s.Keep(ctx, control.Recipient{Team: in.Body.Team}, in.Body.Files)
		}, forAgents(""))
	ListWorkspaces = document("GET /workspaces", "list-workspaces",
		"List the directories of the server's host that sessions may start from", none(control.Starts.ListDirectories))

	UploadWorkspace = add(Upload[UploadInput, control.Workspace]{
		Route: route("POST "+workspacesPath, "upload-workspace",
			"Store the files of an archive (tar, tar.gz or zip) for sessions to start from; they are kept for at least a day"),
		Do: func(ctx context.Context, b *control.Base, in UploadInput, archive io.Reader) (control.Workspace, error) {
			return control.Starts{Base: b}.Upload(ctx, in.recipient(), archive)
		},
	})
)

// The requests of sessions to people.
var (
	ListRequests = document("GET /requests", "list-requests",
		"List the open requests of all sessions, those that wait longest first", control.Requests.Inbox,
		forAgents("brief=true&limit=25"))
	ListSessionRequests = document("GET /sessions/{session}/requests", "list-session-requests",
		"List the open requests of a session", ofSession(control.Requests.Open))
	AnswerRequest = document("POST /sessions/{session}/requests/{request}/answer", "answer-request",
		"Answer an open request; the second of two answers is a conflict", control.Requests.Answer, forAgents(""))
	ListAlerts = document("GET /alerts", "list-alerts",
		"List the alerts of the last 24 hours that the rules of teams have raised, newest first", none(control.Alerts.List))
)

// Texts are files that are given as texts.
type Texts struct {
	// Team is the team whose sessions start from them.
	Team  control.TeamInput `json:"team"`
	Files map[string]string `json:"files" doc:"the texts, by path"`
}

// UploadInput says whom an archive is for.
type UploadInput struct {
	Team    string   `query:"team" maxLength:"200" doc:"the team whose sessions start from it, or NAME@DIGEST with a version of it: what a registered team ignores is left out"`
	Session string   `query:"session" maxLength:"200" doc:"the session that it is for, instead of a team"`
	Include []string `query:"include,explode" maxItems:"100" doc:"patterns of files to take although ignored or looking like secrets; repeatable"`
}

func (in UploadInput) recipient() control.Recipient {
	return control.Recipient{Team: control.TeamInput{Name: in.Team}, Session: in.Session, Include: in.Include}
}

// UploadFor is who the files of a request are for; ok is false for one that uploads none.
func UploadFor(r *http.Request) (to control.Recipient, ok bool) {
	q := r.URL.Query()
	ok = r.Method == http.MethodPost && r.URL.Path == Prefix+workspacesPath
	return UploadInput{Team: q.Get("team"), Session: q.Get("session")}.recipient(), ok
}

// What sessions have made.
var (
	DiffSession = document("GET /sessions/{session}/diff", "diff-session",
		"Compare a session's files with its start, another phase or another session", control.Reviews.Diff,
		forAgents("max_bytes=204800"))
	ListArtifacts = document("GET /sessions/{session}/artifacts", "list-artifacts",
		"List the files that a session's assignments created or changed", ofSession(control.Reviews.Artifacts), forAgents(""))
	ReadFile = download("GET /sessions/{session}/file", "read-file",
		"Read a file of a session's newest tree", "application/octet-stream", control.Reviews.File)
	ArchiveSession = download("GET /sessions/{session}/archive", "archive-session",
		"Get a session's files as a tar.gz archive", "application/octet-stream", control.Reviews.Archive)
	BundleSession = download("GET /sessions/{session}/bundle", "bundle-session",
		"Get a session's result for another host: a tar.gz archive with result.json, "+
			"and the manifests and files as objects named by their SHA-256",
		"application/octet-stream", control.Reviews.Bundle)
	PatchSession = download("GET /sessions/{session}/patch", "patch-session",
		"Get a session's changes as a patch for `git apply`", "text/x-diff", control.Reviews.Patch)

	ListCheckpoints = document("GET /sessions/{session}/checkpoints", "list-checkpoints",
		"List a session's checkpoints, newest first", ofSession(control.Checkpoints.List))
	ReadCheckpoint = document("GET /sessions/{session}/checkpoints/{checkpoint}", "read-checkpoint",
		"Read a checkpoint", control.Checkpoints.Read)
	VerifyCheckpoints = document("POST /sessions/{session}/checkpoints/verify", "verify-checkpoints",
		"Compare a session's data with their digests, and repair what can be repaired", ofSession(control.Checkpoints.Verify))
)

const attemptPath = "GET /sessions/{session}/attempts/{phase}/{persona}/{round}/{attempt}"

// The attempts of assignments.
var (
	ListAttempts = document("GET /sessions/{session}/attempts", "list-attempts",
		"List the attempts of a session, those in progress included", control.Attempts.List, forAgents(""))
	ReadTranscript = document(attemptPath+"/transcript", "read-transcript",
		"Read a part of an attempt's transcript, from either end, or of its output so far", control.Attempts.Range,
		forAgents("limit=65536"))
	ReadAttemptLog = document(attemptPath+"/log", "read-attempt-log",
		"Read an attempt's whole transcript, and the changes before a failure", control.Attempts.Log)

	FollowEvents = add(Stream{
		Route: route("GET /events", "follow-events", "Follow which sessions change, as server-sent events"),
		Description: "Each event `change` names a session to read again; one without a session means all. " +
			"Reconnect with Last-Event-ID to miss none: ids remain valid when the server restarts.",
		Do: func(ctx context.Context, b *control.Base, in control.ChangesInput) iter.Seq2[control.Change, error] {
			return control.Sessions{Base: b}.Changes(ctx, in)
		},
	})
)

// Budgets and costs.
var (
	ListDayBudgets = document("GET /budgets", "list-day-budgets",
		"List the daily budgets of teams, today", none(control.Money.Days))
	ReadDayBudget = document("GET /budgets/{name}", "read-day-budget",
		"Read a team's daily budget, today", ofName(control.Money.Day))
	RaiseDayBudget = document("POST /budgets/{name}/raise", "raise-day-budget",
		"Raise a team's daily budget, for today: sessions that wait for the next day continue", nameBody(control.Money.RaiseDay))
	ListBudgets = document("GET /sessions/{session}/budgets", "list-budgets",
		"List the budgets of a session, and its calls with unknown cost", ofSession(control.Money.Budgets))
	RaiseBudget = document("POST /sessions/{session}/budget/raise", "raise-budget",
		"Raise a budget of a running session: without a name, the one that it waits for", sessionBody(control.Money.Raise))
	SettleCall = document("POST /sessions/{session}/calls/{call}/settle", "settle-call",
		"Record what a call has cost whose cost was not known", control.Money.Settle)
	SettleCalls = document("POST /sessions/{session}/calls/settle", "settle-calls",
		"Settle all calls of a session whose cost is not known", sessionBody(control.Money.SettleAll))
	ReadUsage = document("GET /usage", "read-usage",
		"Add up what sessions have cost, in groups by team, session, phase, persona, agent, model or day", control.Money.Usage)

	ReadSessionUsage = document("GET /sessions/{session}/usage", "read-session-usage",
		"Add up what a session has cost, in groups by phase, persona, agent, model or day", control.Money.SessionUsage)
)

// The installation.
var (
	ListWorkers  = document("GET /workers", "list-workers", "List workers, their agents and queues", none(control.Pool.Workers))
	ListBreakers = document("GET /breakers", "list-breakers", "List the breakers of agents", none(control.Pool.Breakers))
	ReadBreaker  = document("GET /breakers/{name}", "read-breaker", "Read a breaker", ofName(control.Pool.Breaker))
	TripBreaker  = document("POST /breakers/{name}/trip", "trip-breaker",
		"Open a breaker: rounds of its agents wait", nameBody(control.Pool.Trip))
	ResetBreaker = document("POST /breakers/{name}/reset", "reset-breaker",
		"Close a breaker: rounds of its agents continue", nameBody(control.Pool.Reset))
	Examine = document("GET /doctor", "examine",
		"Check what sessions need, with a remedy for each finding", control.Health.Examine)
	ReadStore = document("GET /store", "read-store",
		"Read how large the store is, and how much room is left", none(control.Health.Size))
)

// The registered teams.
var (
	ListTeams = document("GET /teams", "list-teams",
		"List the teams that are registered with the store", none(control.Teams.List))
	ReadTeam = document("GET /teams/{name}", "read-team", "Read a version of a registered team, and which others there are",
		func(t control.Teams, ctx context.Context, in TeamVersion) (control.RegisteredTeam, error) {
			return t.Read(ctx, in.Name, in.Version)
		})
	RegisterTeam = document("PUT /teams/{name}", "register-team",
		"Register a version of a team; the same content again changes nothing",
		func(t control.Teams, ctx context.Context, in registration) (control.TeamChange, error) {
			return t.Register(ctx, control.Registration{Name: in.Name, Text: string(in.RawBody)})
		})
	RemoveTeam = document("DELETE /teams/{name}", "remove-team",
		"Remove a registered team with its versions; its sessions keep what they use", ofName(control.Teams.Remove))
)

// TeamVersion names a version of a registered team.
type TeamVersion struct {
	Name    string `path:"name" maxLength:"100" doc:"the team's name"`
	Version string `query:"version" maxLength:"64" doc:"the beginning of the version's digest; left out: the newest version"`
}

// registration is a team to register.
type registration struct {
	Name    string `path:"name" maxLength:"100" doc:"the name of the team, as the file has it"`
	RawBody []byte `contentType:"application/yaml" doc:"the text of the team file, as YAML or JSON, which names no other files"`
}

// Who calls, tokens, people, hooks, and the audit log.
var (
	ReadMe     = document("GET /me", "read-me", "Read who calls, and the roles", none(control.Access.Me))
	ListAudit  = document("GET /audit", "list-audit", "List who changed what, newest first; for admins", control.Access.Events)
	ListTokens = document("GET /tokens", "list-tokens",
		"List tokens, without their secrets; for admins", none(control.Access.Tokens))
	CreateToken = document("POST /tokens", "create-token",
		"Create a token; its secret is in this answer only", body(control.Access.CreateToken), withSecret)
	RevokeToken = document("DELETE /tokens/{name}", "revoke-token",
		"Revoke a token, at once", ofName(control.Access.RevokeToken))
	ListPeople = document("GET /people", "list-people",
		"List the people who have accounts; for admins", none(control.Access.People))
	ReadPerson = document("GET /people/{name}", "read-person",
		"Read a person's account, and where the person is signed in; for admins", ofName(control.Access.Person))
	InvitePerson = document("POST /people", "invite-person",
		"Make an account for a person; the link with which the person begins is in this answer only",
		body(control.Access.InvitePerson), withSecret)
	SetPersonRoles = document("PUT /people/{name}/roles", "set-person-roles",
		"Give a person roles in place of those before, at once", nameBody(control.Access.SetPersonRoles), withSecret)
	ResetPerson = document("POST /people/{name}/reset", "reset-person",
		"Make a link with which a person recovers the account; using it ends the password, passkeys and sign-ins before. "+
			"It is in this answer only",
		ofName(control.Access.ResetPerson), withSecret)
	RevokePerson = document("DELETE /people/{name}", "revoke-person",
		"End a person's sign-ins, password and passkeys, at once", ofName(control.Access.RevokePerson))
	ListHooks = document("GET /hooks", "list-hooks",
		"List hooks, without their secrets; for admins", none(control.Hooks.List))
	AddHook = document("POST /hooks", "add-hook",
		"Add an address by which another system starts sessions of a team; its secret is in this answer only",
		body(control.Hooks.Add), withSecret)
	RemoveHook = document("DELETE /hooks/{name}", "remove-hook",
		"Remove a hook at once; its sessions continue", ofName(control.Hooks.Remove))
)

// workspacesPath is the path of archives, whose bodies may have [control.MaxUpload] bytes.
const workspacesPath = "/workspaces"
