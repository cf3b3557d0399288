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

	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
	"github.com/maestro-hive/maestro/internal/models/agent"
	"github.com/maestro-hive/maestro/internal/models/config"
	"github.com/maestro-hive/maestro/internal/ops/control"
	"github.com/maestro-hive/maestro/internal/platform/bounded"
	"github.com/maestro-hive/maestro/internal/platform/terminal"
	"github.com/maestro-hive/maestro/worker/service"
)

// workerFile reads the worker file.
func workerFile(_ context.Context, h *host) (found []control.Finding) {
	cfg, err := config.LoadWorker(h.Agents)
	if err == nil {
		h.config = &cfg
		return ok("%s has agents %s and checks %s", h.Agents, terminal.Names(cfg.Agents), terminal.Names(cfg.Checks))
	}
	var problems *config.Problems
	_ = errors.As(err, &problems) // it always is one
	for _, p := range problems.List {
		where := p.File
		if p.Line > 0 {
			where = fmt.Sprintf("%s:%d", p.File, p.Line)
		}
		found = append(found, bad("fix it; a worker cannot start with this file", "%s: %s", where, p.Message)...)
	}
	return found
}

// jira checks the credentials for Jira. It asks in one call whether tickets can be created.
func jira(ctx context.Context, h *host) []control.Finding {
	if h.config.Jira == nil {
		return nil
	}
	client, err := service.Jira(*h.config.Jira, h.Getenv, h.Now)
	if err != nil {
		return warn("set it in the worker's environment", "%s", err)
	}
	project, message := "", "the credentials for "+h.config.Jira.URL+" are valid"
	if h.Team.Help.Jira != nil {
		project = h.Team.Help.Jira.Project
		message = "the account may create tickets in project " + project + " and comment on them"
	}
	var trouble *session.TicketTrouble
	switch err := client.Check(ctx, project); {
	case err == nil:
		return ok("%s", message)
	case errors.As(err, &trouble) && trouble.Kind == session.Misconfigured:
		return failed(Bad, err, "do what the message says")
	default:
		return warn("try again later; tickets wait until Jira answers", "%s", err)
	}
}

// webhook checks the credentials for the webhook.
func webhook(_ context.Context, h *host) []control.Finding {
	if h.config.Webhook == nil {
		return nil
	}
	if _, err := service.Webhook(*h.config.Webhook, h.Getenv, "", h.Now); err != nil {
		return warn("set it in the worker's environment", "%s", err)
	}
	return ok("its variables are set")
}

// programs checks the programs and variables that the file needs.
func programs(ctx context.Context, h *host) (found []control.Finding) {
	short := map[string]bool{}
	for _, lack := range h.config.Shortages(h.Getenv) {
		result := Warning
		if lack.Fatal {
			result = Bad
		}
		short[lack.Of] = true
		found = append(found, about(lack.Of+" in file", with(finding(result, lack.Remedy, "%s", lack.Message), lack.Command))...)
	}
	for _, name := range slices.Sorted(maps.Keys(h.config.Agents)) {
		if h.config.Agents[name].Kind != agent.KindDelivery {
			continue
		}
		if version, err := h.versionOf(ctx, "git"); err == nil && isOld(version) {
			short["agent "+name] = true
			found = append(found, about("agent "+name+" in file",
				bad("install a newer one", "%s is older than 2.38, so that nothing can be delivered", version))...)
		}
	}
	fine := slices.DeleteFunc(slices.Sorted(maps.Keys(h.config.Agents)), func(name string) bool { return short["agent "+name] })
	if len(fine) > 0 {
		found = append(found, ok("programs of agents %s are installed, and their variables are set", strings.Join(fine, ", "))...)
	}
	return found
}

// isOld reports whether a git cannot merge without a working tree.
func isOld(version string) bool {
	var major, minor int
	n, _ := fmt.Sscanf(version, "git version %d.%d", &major, &minor)
	return n == 2 && (major < 2 || major == 2 && minor < 38)
}

// presets names the versions of the programs of presets.
func presets(ctx context.Context, h *host) (found []control.Finding) {
	of := h.config.Presets()
	for _, name := range slices.Sorted(maps.Keys(of)) {
		if version, err := h.versionOf(ctx, of[name]); err == nil {
			found = append(found, about(name+" in file", ok("%s, version %s", of[name], version))...)
		}
	}
	return found
}

// slowly warns if attempts start slowly. Names begin with prefix.
func slowly(prefix string, i spec.Isolation) (found []control.Finding) {
	if i.WithoutLayers != "" {
		remedy, what := remedyOf(errors.New(i.WithoutLayers),
			"keep the store on a volume with a file system that an overlay can change, like ext4 or xfs")
		found = about(prefix+"layers", warn(remedy, "trees are copied for each attempt, because they cannot be layered: %s", what))
	}
	if i.WithoutShim != "" {
		found = append(found, about(prefix+"shim", warn("install the maestro-shim of this build beside the program",
			"each process takes 20 ms more processor time to start, because the worker's own program supervises it: %s",
			i.WithoutShim))...)
	}
	return found
}

// processes runs a program like an agent: below the shim, in a room, as the user of the worker
// file.
func processes(ctx context.Context, h *host) []control.Finding {
	cfg, root := h.config, os.Geteuid() == 0
	if cfg.RunAs != "" && !root {
		return with(warn("run this as the user of the worker", "only root can run agents as %s; this user is %s", cfg.RunAs,
			userName(os.Geteuid())),
			"sudo maestro doctor --agents "+agent.ShellWord(h.Agents))
	}
	user := cfg.RunAs
	if user == "" {
		user = userName(os.Geteuid())
	}
	set, err := h.tryProgram(ctx)
	if err != nil {
		remedy, what := remedyOf(err, "fix `isolation`, `mounts` or `run_as` in "+h.Agents)
		return bad(remedy, "agents and checks cannot be run as %s: %s", user, what)
	}
	isolation, confined := set.Isolation(), strings.Join(cfg.Restricted(), ", ")
	found := ok("a test program ran as %s", user)
	switch {
	case isolation.Rooms:
		found = ok("a test program ran in a room, on the host as %s", isolation.User)
	case isolation.WithoutRooms != "" && confined != "":
		found = bad("do what the message says, or remove `network` from "+h.Agents,
			"%s cannot be started: their network is restricted, which takes rooms: %s", confined, isolation.WithoutRooms)
	case isolation.WithoutRooms != "":
		found = warn("do what the message says, or write `isolation: none` in "+h.Agents, "agents and checks work without rooms: %s",
			isolation.WithoutRooms)
	}
	if !isolation.Rooms && cfg.RunAs == "" && root {
		found = append(found, about("processes user",
			warn("set `run_as: nobody`, or another unprivileged user, in "+h.Agents+"; or start the worker as another user",
				"agents and checks run as root"))...)
	}
	found = append(found, slowly("", isolation)...)
	if len(isolation.Limits) > 0 {
		var texts []string
		for _, l := range isolation.Limits {
			texts = append(texts, l.String())
		}
		found = append(found, about("limits", ok("of each attempt: %s", strings.Join(texts, "; ")))...)
	}
	if few := set.FewThreads(); few != "" {
		found = append(found, about("threads", warn(agent.RemedyOfFewThreads, "%s", few))...)
	}
	return found
}

// tryProgram runs `true` by the worker file's rules.
func (h *host) tryProgram(ctx context.Context) (*agent.Set, error) {
	const name = "maestro-doctor"
	dir, err := os.MkdirTemp("", "maestro-doctor-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)                      //nolint:errcheck // remaining files do no harm
	if err := os.Chmod(dir, 0o711); err != nil { //nolint:gosec // another user has to get through
		return nil, err
	}
	job := session.CheckJob{Check: name, WorkDir: session.WorkDir{
		Tree: filepath.Join(dir, "tree"), Home: filepath.Join(dir, "home"), Tmp: filepath.Join(dir, "tmp"),
	}}
	for _, sub := range []string{job.Tree, job.Home, job.Tmp} {
		if err := os.Mkdir(sub, 0o700); err != nil {
			return nil, err
		}
	}
	work := h.besideStore()
	defer os.RemoveAll(work) //nolint:errcheck // as above
	cfg := *h.config
	cfg.Checks = map[string]agent.CheckDefinition{name: {Argv: []string{"true"}}}
	set, err := agent.New(cfg, agent.Options{Getenv: h.Getenv, CacheRoot: filepath.Join(dir, "caches"), Now: h.Now, WorkRoot: work})
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

// besideStore makes a directory on the file system of the store; empty: it cannot be made, or this
// user is not the store's.
func (h *host) besideStore() string {
	const prefix = ".doctor-"
	if h.dir == "" {
		return ""
	}
	bounded.RemoveOld(h.dir, prefix, h.Now().Add(-time.Hour)) // of one that was killed
	for dir := h.dir; ; dir = filepath.Dir(dir) {
		made, err := os.MkdirTemp(dir, prefix)
		if !errors.Is(err, fs.ErrNotExist) || dir == filepath.Dir(dir) {
			return made
		}
	}
}
