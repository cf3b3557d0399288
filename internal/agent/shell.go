package agent

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/maestro-hive/maestro/internal/procgroup"
	"github.com/maestro-hive/maestro/internal/room"
	"github.com/maestro-hive/maestro/internal/session"
)

// ShellJob is a program that a person runs in an agent's environment.
type ShellJob struct {
	session.WorkDir
	// Agent names the worker-file agent, and Team the session's team, as for [session.Job].
	Agent, Team string
	// Argv is the program; empty: an interactive shell.
	Argv []string
	// Env adds variables, as NAME=VALUE.
	Env []string
	// Keys: the program gets the agent's variables that contain keys, too.
	Keys bool
	// Streams are its standard streams.
	Streams *procgroup.Streams
	// Lock is held until the program and all its descendants have ended.
	Lock session.Lock
}

// The exit statuses of shells: signalStatus is added to the number of the signal that has ended a
// program, and notStarted stands for a program that could not be started.
const signalStatus, notStarted = 128, 127

// Shell runs a person's program in an agent's environment. It returns the exit status when the
// program and all its descendants have ended. If the program cannot be started, the status is 127
// and the error says why. If the context ends, Shell stops the program and returns the context's error.
func (s *Set) Shell(ctx context.Context, job ShellJob) (status int, err error) {
	d, ok := s.config.Agents[job.Agent]
	if !ok {
		return 0, fmt.Errorf("agent %q not found in the worker file", job.Agent)
	}
	if f := s.networkFailure("agent "+job.Agent, d.Network); f != nil {
		return 0, f
	}
	shows := []string{""} // a model has no program to show
	if len(d.Argv) > 0 {
		shows = s.resolve(d.Argv)
	}
	caches, release, err := s.views(job.WorkDir, job.Team, d.Caches, false)
	if err != nil {
		return 0, err
	}
	defer release()
	at := s.place(job.WorkDir, needs{argv: shows, caches: caches, network: d.Network, mounts: d.mounts()})
	names := slices.Clone(d.Env)
	if !job.Keys {
		secret := s.config.secretNames()
		names = slices.DeleteFunc(names, func(name string) bool { return slices.Contains(secret, name) })
	}
	env, err := s.environment(at, names, caches)
	if err == nil {
		err = s.chown(job.WorkDir)
	}
	if err != nil {
		return 0, err
	}
	box, err := newResultBox(job.Home, s.launcher.User)
	if err != nil {
		return 0, err
	}
	defer box.close()
	if d.Git {
		if _, err := s.commit(ctx, at, env, job.Lock); err != nil {
			return 0, err
		}
	}
	if user := s.launcher.User; user != nil && job.Streams.Terminal { // so that its /dev/stdin opens
		if err := job.Streams.In.Chown(int(user.UID), int(user.GID)); err != nil {
			return 0, fmt.Errorf("give the terminal to user %s: %w", user.Name, err)
		}
	}
	env = append(append(env, resultVariable+"="+filepath.Join(resultDir(at.inside.Home), resultName)), job.Env...)
	argv := job.Argv
	if len(argv) == 0 {
		argv = []string{loginShell(env)}
	}
	return s.shellStatus(s.launcher.Run(ctx, procgroup.Process{
		Argv: argv, Dir: at.inside.Tree, Room: at.room, Floor: at.floor, Services: at.services, Env: env, Lock: job.Lock, Streams: job.Streams,
	}))
}

// shellStatus returns the exit status of a person's program, or why it has none.
func (s *Set) shellStatus(e procgroup.Result) (int, error) {
	switch {
	case e.Cancelled != nil:
		return 0, e.Cancelled
	case e.StartError != "":
		return notStarted, s.endedBadly("the shell", e)
	case !e.EndedItself():
		return 0, s.endedBadly("the shell", e)
	case e.Signal != 0:
		return signalStatus + e.Signal, nil
	}
	return e.Exit, nil
}

// loginShell returns the interactive shell.
func loginShell(env []string) string {
	if _, err := room.LookUp("bash", "/", env); err == nil {
		return "bash"
	}
	return "sh"
}
