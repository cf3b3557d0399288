package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/maestro-hive/maestro/internal/agent"
	"github.com/maestro-hive/maestro/internal/bounded"
	"github.com/maestro-hive/maestro/internal/config"
	"github.com/maestro-hive/maestro/internal/failures"
	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/spec"
	"github.com/maestro-hive/maestro/internal/terminal"
	"github.com/maestro-hive/maestro/internal/textfmt"
	"github.com/maestro-hive/maestro/worker/service"
)

// workerFile checks a worker file and what it needs on this machine.
func (d *examination) workerFile(ctx context.Context, t spec.Team) {
	path := d.options.Agents
	if path == "" {
		return
	}
	cfg, err := config.LoadWorker(path)
	if err != nil {
		d.faulty(path, err)
		return
	}
	d.add("worker file", OK, "", "%s has agents %s and checks %s", path, terminal.Names(cfg.Agents), terminal.Names(cfg.Checks))
	d.bounded(ctx, "jira", func(d *examination, ctx context.Context) { d.outside(ctx, cfg, t) })
	d.shortages(cfg)
	d.bounded(ctx, "processes", func(d *examination, ctx context.Context) { d.processes(ctx, cfg, path) })
	presets := cfg.Presets()
	for _, name := range slices.Sorted(maps.Keys(presets)) {
		d.bounded(ctx, name+" in file", func(d *examination, ctx context.Context) {
			if version, err := d.versionOf(ctx, presets[name]); err == nil {
				d.add(name+" in file", OK, "", "%s, version %s", presets[name], version)
			}
		})
	}
}

// faulty adds a finding for each fault of a worker file.
func (d *examination) faulty(path string, err error) {
	var faults *config.Problems
	if !errors.As(err, &faults) {
		d.add("worker file", Bad, "fix it", "%s", err)
		return
	}
	for _, f := range faults.List {
		where := path
		if f.Line > 0 {
			where = fmt.Sprintf("%s:%d", path, f.Line)
		}
		d.add("worker file", Bad, "fix it; a worker cannot start with this file", "%s: %s", where, f.Message)
	}
}

// outside checks the credentials for Jira and webhooks. It asks Jira in one call whether tickets can be created.
func (d *examination) outside(ctx context.Context, cfg agent.Config, t spec.Team) {
	getenv := d.options.Getenv
	if cfg.Jira != nil {
		d.jira(ctx, *cfg.Jira, t)
	}
	if cfg.Webhook == nil {
		return
	}
	if _, err := service.Webhook(*cfg.Webhook, getenv, "", d.options.Now); err != nil {
		d.add("webhook", Warning, "set it in the worker's environment", "%s", err)
	} else {
		d.add("webhook", OK, "", "its variables are set")
	}
}

func (d *examination) jira(ctx context.Context, cfg agent.Jira, t spec.Team) {
	client, err := service.Jira(cfg, d.options.Getenv, d.options.Now)
	if err != nil {
		d.add("jira", Warning, "set it in the worker's environment", "%s", err)
		return
	}
	project, message := "", "the credentials for "+cfg.URL+" are valid"
	if t.Help.Jira != nil {
		project = t.Help.Jira.Project
		message = "the account may create tickets in project " + project + " and comment on them"
	}
	var trouble *session.TicketTrouble
	switch err := client.Check(ctx, project); {
	case err == nil:
		d.add("jira", OK, "", "%s", message)
	case errors.As(err, &trouble) && trouble.Kind == session.Misconfigured:
		what, remedy := remedyOf(err, "do what the message says")
		d.add("jira", Bad, remedy, "%s", what)
	default:
		d.add("jira", Warning, "try again later; tickets wait until Jira answers", "%s", err)
	}
}

// shortages adds findings on programs and variables that the file needs and that are
// missing.
func (d *examination) shortages(cfg agent.Config) {
	short := map[string]bool{}
	for _, lack := range cfg.Shortages(d.options.Getenv) {
		result := Warning
		if lack.Fatal {
			result = Bad
		}
		short[lack.Of] = true
		d.add(lack.Of+" in file", result, lack.Remedy, "%s", lack.Message).Command = lack.Command
	}
	var fine []string
	for _, name := range slices.Sorted(maps.Keys(cfg.Agents)) {
		if !short["agent "+name] {
			fine = append(fine, name)
		}
	}
	if len(fine) > 0 {
		d.add("programs", OK, "", "programs of agents %s are installed, and their variables are set", strings.Join(fine, ", "))
	}
}

// tried is the name of the check that is run as a test.
const tried = "maestro-doctor"

// layersRemedy is for reasons without a remedy.
const layersRemedy = "keep the store on a volume with a file system that an overlay can change, like ext4 or xfs"

// unlayered adds a finding on trees that are copied. who copies them.
func (d *examination) unlayered(check, who, why string) {
	what, remedy := remedyOf(errors.New(why), layersRemedy)
	d.add(check, Warning, remedy, "%s for each attempt, because they cannot be layered: %s", who, what)
}

// processes runs a program like an agent: below the shim, in a room, as the user of the worker
// file.
func (d *examination) processes(ctx context.Context, cfg agent.Config, path string) {
	how := "as " + userName(os.Geteuid())
	if cfg.RunAs != "" {
		how = "as " + cfg.RunAs
		if os.Geteuid() != 0 {
			d.add("processes", Warning, "run this as the user of the worker", "only root can run agents as %s; this user is %s", cfg.RunAs, userName(os.Geteuid())).
				Command = "sudo maestro doctor --agents " + agent.ShellWord(path)
			return
		}
	}
	set, err := d.run(ctx, cfg)
	var isolation spec.Isolation
	if err == nil {
		isolation = set.Isolation()
	}
	switch {
	case err != nil:
		what, remedy := remedyOf(err, "fix `isolation`, `mounts` or `run_as` in "+path)
		d.add("processes", Bad, remedy, "agents and checks cannot be run %s: %s", how, what)
	case isolation.Rooms:
		d.add("processes", OK, "", "a test program ran in a room, on the host as %s", isolation.User)
		if isolation.WithoutLayers != "" {
			d.unlayered("layers", "trees are copied", isolation.WithoutLayers)
		}
	case isolation.WithoutRooms != "" && len(cfg.Restricted()) > 0:
		d.add("processes", Bad, "do what the message says, or remove `network` from "+path, "%s cannot be started: their network is restricted, which takes rooms: %s", strings.Join(cfg.Restricted(), ", "), isolation.WithoutRooms)
	case isolation.WithoutRooms != "":
		d.add("processes", Warning, "do what the message says, or write `isolation: none` in "+path, "agents and checks work without rooms: %s", isolation.WithoutRooms)
	default:
		d.add("processes", OK, "", "a test program ran %s", how)
	}
	if err == nil && !isolation.Rooms && cfg.RunAs == "" && os.Geteuid() == 0 {
		d.add("processes user", Warning, "set `run_as: nobody`, or another unprivileged user, in "+path+"; or start the worker as another user", "agents and checks run as root")
	}
	d.shim("shim", isolation)
	if len(isolation.Limits) > 0 {
		texts := make([]string, len(isolation.Limits))
		for i, l := range isolation.Limits {
			texts[i] = l.String()
		}
		d.add("limits", OK, "", "of each attempt: %s", strings.Join(texts, "; "))
		if few := set.FewThreads(); few != "" {
			d.add("threads", Warning, agent.RemedyOfFewThreads, "%s", few)
		}
	}
}

// shim warns if processes start slowly.
func (d *examination) shim(check string, i spec.Isolation) {
	if i.WithoutShim != "" {
		d.add(check, Warning, "install the maestro-shim of this build beside the program", "each process takes 20 ms more processor time to start, because the worker's own program supervises it: %s", i.WithoutShim)
	}
}

// run runs `true` by the worker file's rules.
func (d *examination) run(ctx context.Context, cfg agent.Config) (*agent.Set, error) {
	dir, err := os.MkdirTemp("", "maestro-doctor-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)                      //nolint:errcheck // remaining files do no harm
	if err := os.Chmod(dir, 0o711); err != nil { //nolint:gosec // another user has to get through
		return nil, err
	}
	job := session.CheckJob{Check: tried, WorkDir: session.WorkDir{Tree: filepath.Join(dir, "tree"), Home: filepath.Join(dir, "home"), Tmp: filepath.Join(dir, "tmp")}}
	for _, sub := range []string{job.Tree, job.Home, job.Tmp} {
		if err := os.Mkdir(sub, 0o700); err != nil {
			return nil, err
		}
	}
	work := d.besideStore()
	defer os.RemoveAll(work) //nolint:errcheck // as above
	cfg.Checks = map[string]agent.CheckDefinition{tried: {Argv: []string{"true"}}}
	set, err := agent.New(cfg, agent.Options{Getenv: d.options.Getenv, CacheRoot: filepath.Join(dir, "caches"), Now: d.options.Now, WorkRoot: work})
	if err != nil {
		return nil, err
	}
	_, err = set.Check(ctx, job)
	var failure *failures.Failure
	if errors.As(err, &failure) && strings.TrimSpace(failure.Output) != "" {
		err = fmt.Errorf("%s: %s", failure.Message, textfmt.FirstLine(strings.TrimSpace(failure.Output)))
	}
	return set, err
}

// workPrefix begins the names of the directories of besideStore.
const workPrefix = ".doctor-"

// besideStore makes a directory on the file system of the store; empty: it cannot be made, or this
// user is not the store's.
func (d *examination) besideStore() string {
	store, _, err := config.StateDir(d.options.StateDir, d.options.Getenv, false)
	if err != nil {
		return ""
	}
	if config.CheckOwner(store) != nil {
		return ""
	}
	bounded.RemoveOld(store, workPrefix, d.options.Now().Add(-time.Hour)) // of one that was killed
	for {
		dir, err := os.MkdirTemp(store, workPrefix)
		if err == nil {
			return dir
		}
		if up := filepath.Dir(store); up != store && errors.Is(err, fs.ErrNotExist) {
			store = up
			continue
		}
		return ""
	}
}
