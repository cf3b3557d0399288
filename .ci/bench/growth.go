package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/store"
	"github.com/maestro-hive/maestro/internal/store/cas"
	"github.com/maestro-hive/maestro/internal/store/state"
)

// series is how a cost grows with one thing.
type series struct {
	name, of string
	sizes    []int
	// step measures at one size and returns the cells beside it.
	step func(ctx context.Context, g *growing, size int) ([]string, error)
	head []string
}

func allSeries() []series {
	sess := []string{"session, ms", "worker, ms of processor", "server, ms of processor"}
	return []series{
		{
			"sessions", "sessions in the store",
			[]int{10, 100, 1000, 10_000},
			besideStored,
			append(sess, "list all, ms", "what a start looks up, ms"),
		},
		{"files", "files in the tree", []int{10, 100, 1000, 10_000, 50_000}, withFiles, append(sess, "store, kB a session")},
		{"phases", "phases", []int{5, 10, 25, 50, 100}, withPhases, append(sess, "ms a phase", "events a phase", "history, kB a phase",
			"store, kB a phase")},
		{"rooms", "files in the tree, in rooms", []int{10, 10_000, 100_000}, inRooms, []string{
			"first session, ms", "later ones, ms",
			"beside the smallest tree", "cp -r, ms", "first beside cp -r", "store, kB a later session",
		}},
		{
			"waiting", "sessions that wait for a person",
			[]int{10, 100, 1000},
			besideWaiting,
			append(sess, "to park one, ms", "worker, MB", "server, MB", "idle: processor, % of one"),
		},
	}
}

// growing is the stand while a series is measured.
type growing struct {
	*stand
	settings settings
	// done is how much of what grows is there already.
	done int
	// smallest is what a session takes at the first size.
	smallest time.Duration
}

// grow measures the series that were asked for.
func grow(ctx context.Context, s settings, dir string) error {
	found := false
	for _, sr := range allSeries() {
		if s.growth != sr.name && s.growth != "all" {
			continue
		}
		found = true
		if err := sr.run(ctx, s, filepath.Join(dir, sr.name)); err != nil {
			return err
		}
	}
	if !found {
		return fmt.Errorf("-growth %s: there are sessions, files, phases, rooms, waiting and all", s.growth)
	}
	return nil
}

func (sr series) run(ctx context.Context, s settings, dir string) (err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	kind := maestroKind
	if sr.name == "rooms" {
		kind = roomKind
	}
	s.kinds = []string{kind}
	st, err := newStand(ctx, s, dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.close()) }()
	if _, err := st.batch(ctx, kind, 2, 1); err != nil {
		return err
	}
	printHead(append([]string{sr.of}, sr.head...)...)
	g := &growing{stand: st, settings: s}
	for _, size := range sr.sizes {
		if size > s.largest {
			continue
		}
		cells, err := sr.step(ctx, g, size)
		if err != nil {
			return err
		}
		printRow(append([]string{fmt.Sprint(size)}, cells...))
		g.done = size
	}
	fmt.Println()
	return nil
}

// measured runs sessions one after the other and returns the first three cells.
func (g *growing) measured(ctx context.Context, sessions int) (batch, []string, error) {
	b, err := g.batch(ctx, maestroKind, sessions, 1)
	if err != nil {
		return b, nil, err
	}
	each := func(d time.Duration) string { return number(milliseconds(d) / float64(sessions)) }
	return b, []string{number(b.percentile(0.5)), each(b.worker), each(b.server)}, nil
}

// samples is how many sessions are measured at each size.
const samples = 5

// besideStored measures beside sessions of which the store has a checkpoint and the status, and Temporal nothing.
func besideStored(ctx context.Context, g *growing, size int) ([]string, error) {
	c := g.kinds[maestroKind].crew
	for i := g.done; i < size; i++ {
		if err := c.keepOld(ctx, fmt.Sprintf("old-%06d", i)); err != nil {
			return nil, err
		}
	}
	_, cells, err := g.measured(ctx, samples)
	if err != nil {
		return nil, err
	}
	start := time.Now()
	if _, err := c.store.State.Sessions(ctx, state.Filter{Namespace: "default"}); err != nil {
		return nil, err
	}
	list := time.Since(start)
	start = time.Now()
	if _, err := c.store.State.HasSession(ctx, session.Key{Namespace: "default", Session: "new"}); err != nil {
		return nil, err
	}
	if _, err := c.store.State.Offers(ctx); err != nil {
		return nil, err
	}
	return append(cells, number(milliseconds(list)), number(milliseconds(time.Since(start)))), nil
}

// keepOld leaves a session in the store that ended some time ago.
func (c *crew) keepOld(ctx context.Context, name string) error {
	key := session.Key{Namespace: "default", Session: name}
	now := time.Now().UTC()
	run := state.NewCallID()
	if _, err := c.store.State.Admit(ctx, state.Admission{
		Key: key, TemporalRun: run, OriginalRun: run,
		Team: c.team.Name,
	}); err != nil {
		return err
	}
	head, err := c.store.StoreCheckpoint(ctx, key, session.Checkpoint{
		CurrentPhase: spec.ReservedPhase, Run: 1, Team: session.Ref{Name: c.team.Name, Blob: c.input.Team},
		Workspace: c.input.Workspace, Tree: c.input.Workspace, CreatedAt: now,
	})
	if err != nil {
		return err
	}
	status := session.NewStatus(name, c.team)
	status.Status, status.StartedAt, status.ClosedAt = session.Completed, &now, &now
	if _, _, err := c.store.State.PutBoundary(ctx, state.Boundary{
		Key: key, TemporalRun: run, FirstRun: run, At: now, Status: status,
		Checkpoint: &head,
	}); err != nil {
		return err
	}
	return c.store.Mirror(ctx, key)
}

// workspace makes a directory of so many files of 1 kB.
func workspace(size int) (dir string, err error) {
	if dir, err = os.MkdirTemp("", "maestro-bench-tree-"); err != nil {
		return "", err
	}
	content := make([]byte, 1000)
	for i := range size {
		sub := filepath.Join(dir, fmt.Sprintf("d%03d", i/100))
		if i%100 == 0 {
			if err := os.MkdirAll(sub, 0o700); err != nil {
				return dir, err
			}
		}
		copy(content, fmt.Sprintf("%012d", i))
		if err := os.WriteFile(filepath.Join(sub, fmt.Sprintf("f%05d", i)), content, 0o600); err != nil {
			return dir, err
		}
	}
	return dir, nil
}

// withFiles measures with a workspace of so many files.
func withFiles(ctx context.Context, g *growing, size int) ([]string, error) {
	c := g.kinds[maestroKind].crew
	dir, err := workspace(size)
	defer os.RemoveAll(dir) //nolint:errcheck // a leftover does no harm
	if err != nil {
		return nil, err
	}
	snap, err := c.store.Content.Snapshot(ctx, dir, cas.SnapshotOptions{})
	if err != nil {
		return nil, err
	}
	c.input.Workspace = snap.Manifest
	sessions := samples
	if size >= 10_000 {
		sessions = 1
	}
	b, cells, err := g.measured(ctx, sessions)
	return append(cells, number(float64(b.left.bytes)/1000/float64(sessions))), err
}

// inRooms measures sessions in rooms, each with the taking of a workspace of so many files:
// the first one of the workspace, and the median of later ones.
func inRooms(ctx context.Context, g *growing, size int) ([]string, error) {
	c := g.kinds[roomKind].crew
	dir, err := workspace(size)
	defer os.RemoveAll(dir) //nolint:errcheck // a leftover does no harm
	if err != nil {
		return nil, err
	}
	start := time.Now()
	copied := exec.CommandContext(ctx, "cp", "-r", dir, dir+"-copy")
	defer os.RemoveAll(dir + "-copy") //nolint:errcheck // a leftover does no harm
	if err := copied.Run(); err != nil {
		return nil, err
	}
	cp := time.Since(start)
	var took []time.Duration
	var left int64
	for i := range 1 + samples {
		runtime.GC() // what measuring leaves is no part of the snapshot
		start := time.Now()
		snap, err := c.store.Content.Snapshot(ctx, dir, cas.SnapshotOptions{})
		if err != nil {
			return nil, err
		}
		taken := time.Since(start)
		c.input.Workspace = snap.Manifest
		b, err := g.batch(ctx, roomKind, 1, 1)
		if err != nil {
			return nil, err
		}
		took = append(took, taken+time.Duration(b.percentile(0.5)*float64(time.Millisecond)))
		if i > 0 {
			left += b.left.bytes
		}
	}
	first, later := took[0], slices.Sorted(slices.Values(took[1:]))[samples/2]
	if g.smallest == 0 {
		g.smallest = later
	}
	return []string{
		number(milliseconds(first)), number(milliseconds(later)), number(later.Seconds() / g.smallest.Seconds()),
		number(milliseconds(cp)), number(first.Seconds() / cp.Seconds()), number(float64(left) / 1000 / samples),
	}, nil
}

// withPhases measures with a team of so many phases, one after the other.
func withPhases(ctx context.Context, g *growing, size int) ([]string, error) {
	k := g.kinds[maestroKind]
	c, err := newCrew(ctx, g.conn, filepath.Join(k.dir, "state"), store.Location{}, lineOf(size))
	if err != nil {
		return nil, err
	}
	k.start = c.start
	g.kinds[maestroKind] = k
	const sessions = 2
	b, cells, err := g.measured(ctx, sessions)
	n := float64(size)
	return append(cells, number(b.percentile(0.5)/n), number(float64(b.events)/n),
		number(float64(b.history)/1000/n), number(float64(b.left.bytes)/1000/sessions/n)), err
}

// besideWaiting measures beside sessions that have parked after their first phase.
func besideWaiting(ctx context.Context, g *growing, size int) ([]string, error) {
	c := *g.kinds[maestroKind].crew
	c.input.Course.PauseAfter = []string{c.team.Phases[0].Name}
	began := time.Now()
	if err := c.park(ctx, g.done, size); err != nil {
		return nil, err
	}
	each := milliseconds(time.Since(began)) / float64(size-g.done)
	_, cells, err := g.measured(ctx, samples)
	if err != nil {
		return nil, err
	}
	const look = 3 * time.Second
	cpu := ownCPU() + cpuBelow(g.server.cmd.Process.Pid)
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(look):
	}
	idle := 100 * (ownCPU() + cpuBelow(g.server.cmd.Process.Pid) - cpu).Seconds() / look.Seconds()
	megabytes := func(pid int) string { return number(float64(memory(pid)) / 1e6) }
	return append(cells, number(each), megabytes(os.Getpid()), megabytes(g.server.cmd.Process.Pid), number(idle)), nil
}

// waitingName is the name of a session that park starts.
func waitingName(i int) string { return fmt.Sprintf("waiting-%06d", i) }

// park starts sessions, 16 at a time, and waits until all have parked.
func (c *crew) park(ctx context.Context, from, to int) error {
	parked := func(i int) bool {
		e, err := c.store.State.Execution(ctx, session.Key{Namespace: "default", Session: waitingName(i)})
		return err == nil && e.Status.Status == session.AwaitingApproval
	}
	const at = 16
	for i := from; i < to+at; i++ {
		if i < to {
			if _, err := c.start(ctx, waitingName(i)); err != nil {
				return err
			}
		}
		if i-at < from {
			continue
		}
		if err := within(ctx, time.Minute, 50*time.Millisecond, func() bool { return parked(i - at) }); err != nil {
			return fmt.Errorf("%s does not park: %w", waitingName(i-at), err)
		}
	}
	return nil
}
