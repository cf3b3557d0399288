package cli

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"syscall"
	"time"

	"github.com/maestro-hive/maestro/internal/app/project"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/platform/temporalutil"
	"github.com/maestro-hive/maestro/internal/store"
)

const (
	// ownDir is the directory of a repository with a team and a worker file of its own.
	ownDir = ".maestro"
	// devLog is the log of a `maestro dev` in the background, below the state directory.
	devLog = "dev.log"
	// backgroundPatience is how long a server and a worker may take to start.
	backgroundPatience = 90 * time.Second
	backgroundPause    = 100 * time.Millisecond
)

// ticketKey is the key of a ticket where it stands for a requirement.
var ticketKey = regexp.MustCompile(`^[A-Z][A-Z0-9_]+-[1-9][0-9]*$`)

// requirementAlone reports whether arguments name no team: the requirement alone, or nothing beside -f or --from-jira.
func (c *runCommand) requirementAlone(args []string) bool {
	switch {
	case len(args) == 0:
		return c.file != "" || c.fromJira != ""
	case len(args) > 1 || c.file != "" || c.fromJira != "":
		return false
	case isFile(args[0]):
		return filepath.Ext(args[0]) != ".yaml" && filepath.Ext(args[0]) != ".yml"
	}
	return args[0] == "-" || ticketKey.MatchString(args[0]) || spec.CheckName(args[0]) != nil && filepath.Ext(args[0]) != ".yaml"
}

// runHere starts a session of the repository's own team, or of one that is made for it.
func (c *runCommand) runHere(ctx context.Context, requirement []string) error {
	server, err := c.client()
	if err != nil {
		return err
	}
	if server != nil {
		return usagef("missing team; give a team file or the name of a registered team: `maestro team list` has those of the server")
	}
	root, err := project.Root(c.env.Dir)
	if err != nil {
		return usagef("%w; give a team: `maestro run TEAM TEXT`, or run `git init` first", err)
	}
	c.workspace.dir = cmp.Or(c.workspace.dir, root)
	requirement = c.readArgument(root, requirement)
	if err := c.check(requirement, false); err != nil {
		return err
	}
	ticket, text, err := c.work(ctx, requirement)
	if err != nil {
		return err
	}
	s, err := c.createStore(c.workerDir)
	if err != nil {
		return err
	}
	if err := s.Close(); err != nil {
		return failf("%w", err)
	}
	team, agents, err := c.teamHere(root, s.Dir())
	if err != nil {
		return err
	}
	t, err := c.teamNamed(ctx, team)
	if err != nil {
		return err
	}
	stop, err := c.serveHere(ctx, s.Dir(), agents, t)
	if err != nil {
		return err
	}
	defer stop()
	c.watch = true
	return c.start(ctx, t, "", ticket, text)
}

// readArgument takes an argument that names a file, or a ticket of Jira, as the flag for it. It returns the others.
func (c *runCommand) readArgument(root string, args []string) []string {
	switch {
	case len(args) == 0:
	case isFile(args[0]):
		c.file, args = args[0], nil
	case ticketKey.MatchString(args[0]):
		c.fromJira, args = args[0], nil
	}
	if _, own := ownFiles(root); c.fromJira != "" && c.environ.get("MAESTRO_AGENTS") == "" && isFile(own) {
		c.agents = cmp.Or(c.agents, own)
	}
	return args
}

// teamHere finds the team file and the worker file of a repository. Without some of its own, they are written below the state
// directory.
func (c *runCommand) teamHere(root, stateDir string) (team, agents string, err error) {
	team, agents = ownFiles(root)
	if isFile(team) || isFile(agents) {
		return team, agents, nil
	}
	p, err := c.findProject(root)
	if err != nil {
		return "", "", err
	}
	// One worker serves all repositories of this machine, so there is one worker file.
	sum := sha256.Sum256([]byte(root))
	at := filepath.Join(stateDir, "projects")
	team, agents = filepath.Join(at, p.Name+"-"+hex.EncodeToString(sum[:4])+".yaml"), filepath.Join(at, "agents.yaml")
	if err := writeProject(p, team, agents, os.O_TRUNC); err != nil {
		return "", "", err
	}
	c.printErr("%s\n", p.Describe())
	return team, agents, nil
}

// ownFiles are the team file and the worker file of a repository.
func ownFiles(root string) (team, agents string) {
	return filepath.Join(root, ownDir, "team.yaml"), filepath.Join(root, ownDir, "agents.yaml")
}

// writeProject writes both files of a project. flag says what is done if there are such files.
func writeProject(p project.Project, team, agents string, flag int) error {
	for file, content := range map[string]func() ([]byte, error){team: p.TeamFile, agents: p.WorkerFile} {
		data, err := content()
		if err == nil {
			err = writeFile(file, data, flag)
		}
		if err != nil {
			return failf("%w", err)
		}
	}
	return nil
}

// findProject looks at a repository and at the programs of this machine.
func (c *connector) findProject(root string) (project.Project, error) {
	p, err := project.Find(root, project.Host{LookPath: c.lookPath, Getenv: c.environ.get}, teamName)
	if err != nil {
		return p, usagef("%w", err)
	}
	return p, nil
}

// lookPath finds a program in the PATH of the command's environment.
func (c *connector) lookPath(program string) (path string, err error) {
	for _, dir := range filepath.SplitList(c.environ.get("PATH")) {
		if path, err = exec.LookPath(filepath.Join(dir, program)); err == nil && filepath.IsAbs(path) {
			return path, nil
		}
	}
	return "", exec.ErrNotFound
}

// serveHere sees to a Temporal with a worker: the one that is configured, the one that runs for the state directory, or a new
// one. That runs in the background, or, without a terminal, in this process until stop is called.
func (c *runCommand) serveHere(ctx context.Context, stateDir, agents string, t spec.Team) (stop func(), err error) {
	stop = func() {}
	named, err := c.temporal.Named(c.environ)
	if err != nil {
		return stop, usagef("%w", err)
	}
	if named {
		return stop, nil
	}
	if local, runs := temporalutil.FindLocal(stateDir, c.env.Host); runs {
		c.printErr("it runs on the Maestro of process %d, with the agents of %s: `maestro dev status`", local.PID, local.WorkerFile)
		return stop, c.useRunning(ctx, local, stateDir, agents, t)
	}
	if !c.foreground && c.onTerminal {
		return stop, c.startBackground(ctx, stateDir, agents)
	}
	stack := devStack{app: c.app}
	stack.Headless, stack.log.Level = true, "error"
	if err := c.env.harden(); err != nil {
		return stop, err
	}
	k, err := stack.start(ctx, func(*store.Store) (string, error) { return agents, nil })
	if err != nil {
		return stop, err
	}
	return k.Stop, nil
}

// startBackground starts `maestro dev` as a process of its own, and returns when its worker serves.
func (c *runCommand) startBackground(ctx context.Context, stateDir, agents string) error {
	logFile := filepath.Join(stateDir, devLog)
	log, err := os.OpenFile(logFile, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return failf("%w", err)
	}
	defer log.Close() //nolint:errcheck // the other process writes it
	cmd := exec.Command(c.env.Executable, "dev", "--port", "0", "--ui-port", "0", "--agents", agents, "--state-dir", stateDir)
	o, err := c.storeOptions()
	if err != nil {
		return err
	}
	environ := slices.Concat(c.env.Environ, o.Environ())
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = stateDir, environ, log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return failf("start Maestro in the background: %w", err)
	}
	c.printErr("starting Maestro in the background (process %d): a Temporal server, a worker, the dashboard", cmd.Process.Pid)
	c.printErr("`maestro dev status` shows it, `maestro dev stop` ends it\n")
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	err = waitUntil(ctx, backgroundPatience, func() (bool, error) {
		select {
		case err := <-ended:
			said, _ := os.ReadFile(logFile)
			return false, fmt.Errorf("it has ended (%w):\n%s", cmp.Or(err, errors.New("exit status 0")), said)
		default:
			return c.servesIn(ctx, stateDir), nil
		}
	})
	if err != nil {
		return failf("Maestro in the background does not serve: %w; its messages are in %s", err, logFile)
	}
	return nil
}

// servesIn reports whether a worker serves on the Temporal of a state directory.
func (c *runCommand) servesIn(ctx context.Context, stateDir string) bool {
	if _, runs := temporalutil.FindLocal(stateDir, c.env.Host); !runs {
		return false
	}
	offers, err := c.offersIn(ctx, stateDir)
	return err == nil && len(offers) > 0
}
