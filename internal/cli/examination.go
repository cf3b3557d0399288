package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"go.temporal.io/api/workflowservice/v1"
	"golang.org/x/sys/unix"

	"github.com/maestro-hive/maestro/internal/config"
	"github.com/maestro-hive/maestro/internal/host"
	"github.com/maestro-hive/maestro/internal/store"
	"github.com/maestro-hive/maestro/internal/team"
	"github.com/maestro-hive/maestro/internal/temporalio"
	"github.com/maestro-hive/maestro/workflows"
)

// lowSpace is the free space, in bytes, below which a store is in danger.
const lowSpace = 1 << 30

// examination collects findings.
type examination struct {
	app      *app
	store    *store.Store // nil: there is none
	findings []finding
}

func (d *examination) add(check, result, remedy, message string, args ...any) {
	d.findings = append(d.findings, finding{check, result, fmt.Sprintf(message, args...), remedy})
}

// program looks at this program and the server beside it.
func (d *examination) program() {
	v := buildVersion()
	d.add("program", good, "", "maestro %s, %s, Temporal SDK %s", v.Version, v.Go, dash(v.SDK))
	if path, err := findServer(d.app.env.Executable); err != nil {
		d.add("server program", odd, "build it with `make build`, if `maestro dev` or `maestro demo` shall run here", "%s is not beside this program", serverProgram)
	} else {
		d.add("server program", good, "", "%s", path)
	}
}

// state looks at the state directory.
func (d *examination) state(ctx context.Context) {
	dir, note, err := config.StateDir(d.app.stateDir, d.app.environ.get, false)
	if err != nil {
		d.add("store", bad, "name a state directory with --state-dir or MAESTRO_STATE_DIR", "%s", err)
		return
	}
	if note != "" {
		d.add("state directory", good, "", "%s", note)
	}
	d.store, err = store.Open(dir, store.Options{Clock: d.app.env.Now})
	switch {
	case errors.Is(err, team.ErrNotFound):
		d.add("store", odd, "`maestro dev`, `maestro worker` and `maestro run` make one", "there is no store in %s yet", dir)
		return
	case err != nil:
		d.add("store", bad, "see that the directory is there and yours, or name another with --state-dir", "%s", err)
		return
	}
	d.add("store", good, "", "%s in %s", d.store.ID(), dir)
	if _, err := d.store.PutBlob(ctx, []byte("maestro doctor\n")); err != nil {
		d.add("store writable", bad, "give this user write permission, or free space on the disk", "%s", err)
	} else {
		d.add("store writable", good, "", "a blob was written and kept")
	}
	d.permissions(dir)
	d.space(dir)
}

func (d *examination) permissions(dir string) {
	info, err := os.Stat(dir)
	if err != nil {
		return // said already: the store could not be opened
	}
	if open := info.Mode().Perm() & 0o077; open != 0 {
		d.add("store private", odd, "chmod 700 "+dir, "others may look into %s (mode %04o): it holds what agents saw and made", dir, info.Mode().Perm())
		return
	}
	d.add("store private", good, "", "only its owner can enter it")
}

func (d *examination) space(dir string) {
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil {
		return
	}
	free := int64(fs.Bavail) * int64(fs.Bsize) //nolint:gosec,unconvert // the types differ by platform, and no disk is that large
	if free < lowSpace {
		d.add("store space", odd, "free space on the disk of "+dir, "only %s are free", size(free))
		return
	}
	d.add("store space", good, "", "%s free", size(free))
}

// temporal looks at the Temporal that flags, environment and profile name.
func (d *examination) temporal(ctx context.Context) {
	conn, err := d.app.dial(ctx)
	if err != nil {
		d.add("temporal", bad, "start it with `maestro dev`, or say where it is with --address, TEMPORAL_ADDRESS or a profile", "%s", d.unreached(err))
		return
	}
	defer conn.Close()
	_, err = conn.WorkflowService().DescribeNamespace(ctx, &workflowservice.DescribeNamespaceRequest{Namespace: conn.Namespace})
	switch {
	case temporalio.NoNamespace(err):
		d.add("temporal", bad, "temporal operator namespace create --namespace "+conn.Namespace, "%s has no namespace %q", conn.Address, conn.Namespace)
		return
	case err != nil:
		d.add("temporal", odd, "", "%s answers, but says nothing about namespace %s: %s", conn.Address, conn.Namespace, firstLine(err.Error()))
	default:
		d.add("temporal", good, "", "%s, namespace %s", conn.Address, conn.Namespace)
	}
	d.mirrors(ctx, conn)
	d.pruning(ctx, conn)
	missing, err := d.app.attributes(conn).Missing(ctx)
	switch {
	case err != nil:
		d.add("search attributes", odd, "", "they cannot be listed (%s); sessions go without them", firstLine(err.Error()))
	case len(missing) > 0:
		var names []string
		for _, key := range missing {
			names = append(names, key.GetName())
		}
		d.add("search attributes", odd, temporalio.AddCommand(conn.Namespace, missing),
			"%s missing; sessions run without them, and cannot be found by them", strings.Join(names, ", "))
	default:
		d.add("search attributes", good, "", "all there")
	}
}

// pruning looks for the schedule that prunes the store.
func (d *examination) pruning(ctx context.Context, conn *temporalio.Connection) {
	if d.store == nil {
		return
	}
	described, err := conn.ScheduleClient().GetHandle(ctx, workflows.PruneID(d.store.ID())).Describe(ctx)
	switch {
	case temporalio.NotFound(err):
		d.add("store pruning", good, "", "no schedule; `maestro checkpoints prune --schedule 24h` makes one")
	case err != nil:
		d.add("store pruning", odd, "", "its schedule cannot be read: %s", firstLine(err.Error()))
	default:
		every := "on a schedule"
		if spec := described.Schedule.Spec; spec != nil && len(spec.Intervals) == 1 {
			every = "every " + spec.Intervals[0].Every.String()
		}
		d.add("store pruning", good, "", "%s, by schedule %s", every, workflows.PruneID(d.store.ID()))
	}
}

// unreached says why there is no connection, without the remedy.
func (d *examination) unreached(err error) string {
	var unreachable *temporalio.UnreachableError
	if errors.As(err, &unreachable) {
		return "nothing answers at " + unreachable.Address
	}
	return d.app.sentence(err)
}

// workers looks at what the store's workers publish.
func (d *examination) workers(ctx context.Context) {
	if d.store == nil {
		return
	}
	offers, err := d.store.Offers(ctx)
	if err != nil {
		d.add("workers", bad, "see that the store's directory can be read", "%s", err)
		return
	}
	live := 0
	for _, o := range offers {
		age := d.app.env.Now().Sub(o.RenewedAt).Truncate(time.Second)
		if !o.Live(d.app.env.Now()) {
			continue
		}
		live++
		d.add("worker "+o.Worker, good, "", "alive %s ago, with agents %s and checks %s%s", age, names(o.Agents), names(o.Checks), tells(o))
	}
	if live == 0 {
		d.add("workers", bad, "start one with `maestro worker --agents FILE`, or `maestro dev`", "no worker serves the store %s", d.store.ID())
	}
}

// tells says whom a worker tells of sessions.
func tells(o team.Offer) string {
	text := ""
	if o.Jira {
		text += "; it makes tickets"
	}
	if o.Webhook {
		text += "; it calls a webhook"
	}
	return text
}

// workerFile looks at a worker file and at what it needs of this machine.
func (d *examination) workerFile(path string) {
	if path == "" {
		path = d.app.environ.get("MAESTRO_AGENTS")
	}
	if path == "" {
		return
	}
	cfg, err := config.LoadWorker(path)
	if err != nil {
		d.add("worker file", bad, "mend the file", "%s", err)
		return
	}
	d.add("worker file", good, "", "%s has agents %s and checks %s", path, names(cfg.Agents), names(cfg.Checks))
	if cfg.Jira != nil {
		if _, err := host.Jira(*cfg.Jira, d.app.environ.get, d.app.env.Now); err != nil {
			d.add("jira", odd, "set it in the worker's environment", "%s", err)
		} else {
			d.add("jira", good, "", "%s; `maestro doctor --jira` asks it whether tickets can be made", cfg.Jira.URL)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(cfg.Agents)) {
		needed := slices.Clone(cfg.Agents[name].Env)
		if key := cfg.Agents[name].APIKeyEnv; key != "" {
			needed = append(needed, key)
		}
		for _, variable := range needed {
			if _, ok := d.app.environ.LookupEnv(variable); !ok {
				d.add("agent "+name, odd, "set "+variable+" in the worker's environment", "%s is not set", variable)
			}
		}
	}
}
