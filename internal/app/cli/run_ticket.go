package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/maestro-hive/maestro/internal/core/safetext"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
	"github.com/maestro-hive/maestro/internal/models/agent"
	"github.com/maestro-hive/maestro/internal/models/config"
	"github.com/maestro-hive/maestro/internal/outside/jira"
	"github.com/maestro-hive/maestro/internal/store"
	"github.com/maestro-hive/maestro/internal/store/cas"
	"github.com/maestro-hive/maestro/worker/service"
)

// attachmentsDir is where a ticket's attachments are in a workspace.
const attachmentsDir = "attachments"

// jiraOf makes a client of the Jira that a worker file names.
func jiraOf(env Env, file string) (*jira.Client, agent.Config, error) {
	if file = cmp.Or(file, environ(env.Environ).get("MAESTRO_AGENTS")); file == "" {
		return nil, agent.Config{}, usagef("no worker file, which has the Jira settings; give it with --agents or MAESTRO_AGENTS")
	}
	cfg, err := config.LoadWorker(file)
	if err != nil {
		return nil, cfg, err
	}
	if cfg.Jira == nil {
		return nil, cfg, usagef("%s has no `jira`; add it, like %s", file, spec.JiraExample)
	}
	client, err := service.Jira(*cfg.Jira, environ(env.Environ).get, env.Now)
	if err != nil {
		return nil, cfg, &codeError{exitUsage, err}
	}
	return client, cfg, nil
}

// origin is the ticket that a requirement comes from.
type origin struct {
	jira.Issue
	client *jira.Client
}

// fetchTicket reads the ticket that a session is to work on.
func fetchTicket(ctx context.Context, out *console, env Env, key, file string) (*origin, error) {
	client, cfg, err := jiraOf(env, file)
	if err != nil {
		return nil, err
	}
	limits := jira.DefaultLimits()
	limits.Bytes = min(limits.Bytes, int64(cfg.Limits.FileBytes))
	issue, err := client.Fetch(ctx, key, limits)
	if err != nil {
		return nil, ticketError(fmt.Errorf("--from-jira %s: %w", key, err))
	}
	for _, left := range issue.Left {
		out.printErr("attachment %s of %s was not taken: %s", safetext.Name(left.Name), issue.Key, left.Why)
	}
	if issue.CommentsLeft > 0 {
		out.printErr("not taken: %s of %s", textfmt.Count(issue.CommentsLeft, "older comment"), issue.Key)
	}
	return &origin{issue, client}, nil
}

// ticketError is an error of the command line where somebody has to correct something before the ticket can be read.
func ticketError(err error) error {
	if trouble, ok := errors.AsType[*session.TicketTrouble](err); ok && trouble.Kind != session.Unreached {
		return usagef("%w", err)
	}
	return err
}

// requirement is the text of the ticket.
func (o *origin) requirement() (string, error) {
	text := o.Summary
	if d := strings.TrimSpace(o.Description); d != "" {
		text += "\n\n" + d
	}
	if len(o.Attachments) > 0 {
		text += "\n\nAttached files:\n"
		for _, f := range o.Attachments {
			text += "\n- " + attachmentsDir + "/" + f.Name
		}
	}
	if o.Comments != "" {
		text += "\n" + o.Comments
	}
	return checkRequirement(text, "ticket "+o.Key)
}

// addAttachments adds the ticket's attachments to a workspace.
func (o *origin) addAttachments(ctx context.Context, out *console, s *store.Store, workspace spec.Digest) (spec.Digest, error) {
	if len(o.Attachments) == 0 {
		return workspace, nil
	}
	tree, err := s.Content.Tree(ctx, workspace)
	if err != nil {
		return "", err
	}
	for _, f := range o.Attachments {
		_, taken, err := tree.Get(ctx, attachmentsDir+"/"+f.Name)
		if err != nil {
			return "", err
		}
		if taken {
			return "", usagef("both the workspace and ticket %s have a file %s/%s; rename one of them", o.Key, attachmentsDir, f.Name)
		}
	}
	dir, err := os.MkdirTemp("", "maestro-attachments-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // a directory of the system's own for such things
	if err := o.download(ctx, filepath.Join(dir, attachmentsDir)); err != nil {
		return "", err
	}
	snap, err := s.Content.Snapshot(ctx, dir, cas.SnapshotOptions{})
	if err != nil {
		return "", err
	}
	for _, note := range snap.LeftOut() {
		out.printErr("not taken, %s", note)
	}
	laid, err := s.Content.Overlay(ctx, workspace, snap.Manifest)
	if err != nil {
		return "", err
	}
	out.printErr("taken: %s (%s) of %s, in %s/", textfmt.Count(snap.Files, "attachment"), textfmt.Size(snap.Bytes), o.Key,
		attachmentsDir)
	return laid.Output, nil
}

// warnNoNotifier warns if no worker can post progress to the ticket.
func (o *origin) warnNoNotifier(ctx context.Context, out *console, s *store.Store, now time.Time) {
	if offers, err := s.State.Offers(ctx); err == nil && !spec.Jira(offers, now) {
		out.printErr("progress is posted to %s only once a worker of the store has `jira` in its worker file; no worker has it now",
			o.Key)
	}
}

// download writes the attachments to a new directory.
func (o *origin) download(ctx context.Context, dir string) (err error) {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close() //nolint:errcheck // the files are closed
	for _, f := range o.Attachments {
		if err := o.save(ctx, root, f); err != nil {
			return fmt.Errorf("attachment %s of %s: %w", f.Name, o.Key, err)
		}
	}
	return nil
}

func (o *origin) save(ctx context.Context, root *os.Root, f jira.Attachment) (err error) {
	content, err := o.client.Open(ctx, f)
	if err != nil {
		return err
	}
	defer content.Close() //nolint:errcheck // it is only read
	file, err := root.OpenFile(f.Name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(file, content)
	return errors.Join(err, file.Close())
}
