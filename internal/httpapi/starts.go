package httpapi

import (
	"context"
	"io"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/maestro-hive/maestro/internal/control"
)

// workspacesPath takes archives: its bodies may have [control.MaxUpload] bytes.
const workspacesPath = Prefix + "/workspaces"

// startInput is a session that is to start.
type startInput struct{ Body control.NewSession }

// resumeInput says how a session continues. Without a body it continues as it was.
type resumeInput struct {
	Session string `path:"session" maxLength:"200" doc:"the session's id"`
	Body    *control.Resume
}

func (in *resumeInput) resume() control.Resume {
	if in.Body == nil {
		return control.Resume{}
	}
	return *in.Body
}

type forkInput struct {
	Session string `path:"session" maxLength:"200" doc:"the session's id"`
	Body    control.Fork
}

// uploadInput is an archive.
type uploadInput struct {
	Team    string   `query:"team" maxLength:"200" doc:"the team whose sessions start from it, or NAME@DIGEST with a version of it: what a registered team ignores is left out"`
	Session string   `query:"session" maxLength:"200" doc:"the session that it is for, instead of a team"`
	Include []string `query:"include,explode" maxItems:"100" doc:"patterns of files to take although ignored or looking like secrets; repeatable"`
	archive io.Reader
}

// UploadFor is who the files of a request are for; ok is false for one that uploads none.
func UploadFor(r *http.Request) (to control.Recipient, ok bool) {
	q := r.URL.Query()
	return control.Recipient{Team: control.TeamInput{Name: q.Get("team")}, Session: q.Get("session")}, r.Method == http.MethodPost && r.URL.Path == workspacesPath
}

// Resolve implements [huma.Resolver]: the archive is read as it comes.
func (in *uploadInput) Resolve(ctx huma.Context) []error {
	in.archive = ctx.BodyReader()
	return nil
}

func starts(api huma.API, s control.Starts) {
	register(api, operation("POST /sessions", "start-session", "Start a session, and wait until a worker has admitted it, 30 seconds at most"),
		func(ctx context.Context, in *startInput) (control.Started, error) { return s.Start(ctx, in.Body) })
	register(api, operation("POST /plan", "preview-session", "Say what a session would do, without starting it"),
		func(ctx context.Context, in *startInput) (control.Plan, error) { return s.Preview(ctx, in.Body) })
	register(api, operation("POST /sessions/{session}/resume", "resume-session", "Continue a session that is paused, or start one that has ended again from the store"),
		func(ctx context.Context, in *resumeInput) (control.Started, error) {
			return s.Resume(ctx, in.Session, in.resume())
		})
	register(api, operation("POST /sessions/{session}/resume/preview", "preview-resume", "Say what would be reused and run, without resuming the session"),
		func(ctx context.Context, in *resumeInput) (control.Foreseen, error) {
			return s.PreviewResume(ctx, in.Session, in.resume())
		})
	register(api, operation("POST /sessions/{session}/fork", "fork-session", "Start a new session with the work of another"),
		func(ctx context.Context, in *forkInput) (control.Started, error) {
			return s.Fork(ctx, in.Session, in.Body)
		})
	register(api, operation("POST /sessions/{session}/fork/preview", "preview-fork", "Say what a fork would reuse and run, without starting it"),
		func(ctx context.Context, in *forkInput) (control.Foreseen, error) {
			return s.PreviewFork(ctx, in.Session, in.Body)
		})
	register(api, operation("GET /workspaces", "list-workspaces", "List the directories of the server's host that sessions may start from"),
		func(ctx context.Context, _ *none) (control.DirectoryList, error) { return s.ListDirectories(ctx) })
	upload := operation("POST /workspaces", "upload-workspace", "Store the files of an archive (tar, tar.gz or zip) for sessions to start from; they are kept for at least a day")
	binary := map[string]*huma.MediaType{"application/octet-stream": {Schema: &huma.Schema{Type: huma.TypeString, Format: "binary"}}}
	upload.RequestBody = &huma.RequestBody{Required: true, Description: "the archive, 512 MiB at most", Content: binary}
	register(api, upload,
		func(ctx context.Context, in *uploadInput) (control.Workspace, error) {
			return s.Upload(ctx, control.Recipient{Team: control.TeamInput{Name: in.Team}, Session: in.Session, Include: in.Include}, in.archive)
		})
}
