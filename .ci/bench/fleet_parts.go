package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/store/cas"
)

// waitingSessions measures two hosts whose sessions wait for a person.
func waitingSessions(ctx context.Context, f *fleet) error {
	if err := f.addHosts(ctx, 2); err != nil {
		return err
	}
	c, err := f.crew(ctx, anyAgent, "")
	if err != nil {
		return err
	}
	parking := *c
	parking.input.Course.PauseAfter = []string{c.team.Phases[0].Name}
	if _, err := f.stays(ctx, c, "first", 4, nil); err != nil {
		return err
	}
	printHead("sessions that wait for a person",
		"to park one, processor: workers, ms", "Temporal, ms", "PostgreSQL, ms",
		"a worker, MB", "Temporal, MB", "PostgreSQL, MB",
		"Maestro's database, kB each", "Temporal's, kB each", "bucket, kB each",
		"at rest: transactions a second of Maestro", "of Temporal", "workers, % of a processor", "Temporal, %", "PostgreSQL, %",
		"an answer until the session's end, ms", "slowest", "a new session, ms")
	before, err := f.sizes(ctx)
	if err != nil {
		return err
	}
	done := 0
	for _, size := range []int{0, f.settings.waiting / 10, f.settings.waiting} {
		cells, used := []string{fmt.Sprint(size)}, f.cpu()
		if err := parking.park(ctx, done, size); err != nil {
			return f.failed("park sessions", err)
		}
		for i, now := range f.cpu() {
			cells = append(cells, number(milliseconds(now-used[i])/float64(max(size-done, 1))))
		}
		row, err := f.atRest(ctx, before, size)
		if err != nil {
			return err
		}
		cells = append(cells, row...)
		if row, err = f.answered(ctx, c, done, size); err != nil {
			return err
		}
		printRow(append(cells, row...))
		done = size
	}
	fmt.Println()
	return c.store.Close()
}

// sizes are those of Maestro's database, of Temporal's two, and of the bucket, in bytes.
func (f *fleet) sizes(ctx context.Context) (all [3]float64, err error) {
	for i, names := range [][]string{{"maestro"}, {"temporal", "temporal_visibility"}} {
		for _, name := range names {
			size, err := f.postgres.size(ctx, name)
			if err != nil {
				return all, err
			}
			all[i] += size
		}
	}
	u, err := usageOf(ctx, filepath.Join(f.dir, "bucket"))
	all[2] = float64(u.bytes)
	return all, err
}

// atRest returns the cells of what the sessions hold, and of what is done while nothing happens.
func (f *fleet) atRest(ctx context.Context, before [3]float64, sessions int) (cells []string, err error) {
	var workers float64
	for _, w := range f.hosts {
		workers += memoryBelow(w.Process.Pid) / float64(len(f.hosts))
	}
	cells = []string{
		number(workers), number(memoryBelow(f.temporal.Process.Pid)), number(memoryBelow(f.postgres.cmd.Process.Pid)),
	}
	sizes, err := f.sizes(ctx)
	if err != nil {
		return nil, err
	}
	for i, size := range sizes {
		cells = append(cells, number((size-before[i])/1000/float64(max(sessions, 1))))
	}
	look := func() (counts [2]float64, err error) {
		for i, database := range []string{"maestro", "temporal"} {
			if counts[i], err = f.postgres.transactions(ctx, database); err != nil {
				return counts, err
			}
		}
		return counts, nil
	}
	counts, err := look()
	if err != nil {
		return nil, err
	}
	used := f.cpu()
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(f.settings.rest):
	}
	after, err := look()
	for i := range counts {
		cells = append(cells, number((after[i]-counts[i])/f.settings.rest.Seconds()))
	}
	for i, now := range f.cpu() {
		cells = append(cells, number(100*(now-used[i]).Seconds()/f.settings.rest.Seconds()))
	}
	return cells, err
}

// cpu is the processor time that the workers, Temporal and PostgreSQL have used.
func (f *fleet) cpu() (used [3]time.Duration) {
	for _, w := range f.hosts {
		used[0] += cpuBelow(w.Process.Pid)
	}
	used[1], used[2] = cpuBelow(f.temporal.Process.Pid), cpuBelow(f.postgres.cmd.Process.Pid)
	return used
}

// answered approves some of the sessions that have parked last, by the command that a person uses, and returns how long it takes
// until they have ended, and what a new session takes beside the others.
func (f *fleet) answered(ctx context.Context, c *crew, from, to int) ([]string, error) {
	var took []time.Duration
	for i := range min(samples, to-from) {
		id := waitingName(from + i*(to-from)/samples)
		began := time.Now()
		approve := f.command(f.environ("person"), filepath.Join(f.programs, "maestro"), "approve", id)
		if err := approve.Run(); err != nil {
			return nil, f.failed("approve "+id, err)
		}
		if err := f.conn.GetWorkflow(ctx, id, "").Get(ctx, nil); err != nil {
			return nil, err
		}
		took = append(took, time.Since(began))
	}
	cells := []string{"-", "-"}
	if len(took) > 0 {
		slices.Sort(took)
		cells = []string{number(milliseconds(quantile(took, 0.5))), number(milliseconds(quantile(took, 1)))}
	}
	var sessions []time.Duration
	for i := range samples {
		stays, err := f.stays(ctx, c, fmt.Sprintf("beside-%06d-%d", to, i), 1, nil)
		if err != nil {
			return nil, err
		}
		sessions = append(sessions, stays[0].closed.Sub(stays[0].asked))
	}
	slices.Sort(sessions)
	return append(cells, number(milliseconds(quantile(sessions, 0.5)))), nil
}

// stayed is when a session of one room was asked for, when its agent began and ended, and when the session was closed.
type stayed struct{ asked, began, ended, closed time.Time }

// start is how long the room took, from the request for the session to the agent's first line.
func (s stayed) start() time.Duration { return s.began.Sub(s.asked) }

// pace lies between the starts of rooms that are to be at work at once: a burst measures how busy the processors are.
const pace = 250 * time.Millisecond

// stays runs so many sessions of one room side by side. With a function it starts them at a pace, and calls it when all rooms
// are at work.
func (f *fleet) stays(ctx context.Context, c *crew, prefix string, sessions int, atWork func() error) (all []stayed, err error) {
	var mu sync.Mutex
	g, ctx := errgroup.WithContext(ctx)
	ended := make(chan struct{})
	if atWork != nil {
		g.Go(func() error {
			err := within(ctx, time.Hour, 100*time.Millisecond, func() bool {
				select {
				case <-ended:
					return true
				default:
				}
				n, err := f.postgres.query(ctx, "maestro",
					"select count(*)::float8 from attempts where state = 'started' and session like '"+prefix+"-%'")
				return err == nil && int(n) == sessions
			})
			if err != nil {
				return err
			}
			return atWork()
		})
	}
	for i := range sessions {
		if atWork != nil && i > 0 {
			select {
			case <-ctx.Done():
			case <-time.After(pace):
			}
		}
		g.Go(func() error {
			s, err := c.stay(ctx, fmt.Sprintf("%s-%04d", prefix, i))
			mu.Lock()
			defer mu.Unlock()
			if all = append(all, s); len(all) == sessions {
				close(ended)
			}
			return err
		})
	}
	return all, g.Wait()
}

// stay runs one session and reads when its agent began and ended.
func (c *crew) stay(ctx context.Context, id string) (s stayed, err error) {
	s.asked = time.Now()
	run, err := c.start(ctx, id)
	if err != nil {
		return s, err
	}
	if err := run.Get(ctx, nil); err != nil {
		return s, fmt.Errorf("%s: %w", id, err)
	}
	s.closed = time.Now()
	e, err := c.store.State.Execution(ctx, session.Key{Namespace: "default", Session: id})
	if err != nil {
		return s, err
	}
	var began, ended int64
	if _, err := fmt.Sscan(e.Status.Phases[0].Assignments[0].Summary, &began, &ended); err != nil {
		return s, fmt.Errorf("%s: what its agent said: %w", id, err)
	}
	s.began, s.ended = time.Unix(0, began), time.Unix(0, ended)
	return s, nil
}

// atOnce is how many rooms were at work at the same time.
func atOnce(all []stayed) (most int) {
	for _, a := range all {
		n := 0
		for _, b := range all {
			if !b.began.After(a.began) && b.ended.After(a.began) {
				n++
			}
		}
		most = max(most, n)
	}
	return most
}

// roomsAtOnce measures how long rooms take to start until all are at work at once, over two and four hosts, and what a host
// leaves behind that dies with its rooms at work.
func roomsAtOnce(ctx context.Context, f *fleet) error {
	printHead("hosts", "rooms", "at work at once", "start, median, s", "start, 99th percentile, s",
		"room alone, median, s", "99th percentile, s", "memory of a room, MB", "sessions completed", "lost",
		"host killed: rooms begun again", "all at work again after, s")
	for _, hosts := range []int{2, 4} {
		if err := f.addHosts(ctx, hosts); err != nil {
			return err
		}
		c, err := f.crew(ctx, anyAgent, "")
		if err != nil {
			return err
		}
		if _, err := f.stays(ctx, c, fmt.Sprintf("warm-%d", hosts), 4*hosts, nil); err != nil {
			return err
		}
		for _, rooms := range []int{f.settings.rooms / 2, f.settings.rooms} {
			if err := f.roomsRow(ctx, hosts, rooms, false); err != nil {
				return err
			}
		}
		if err := f.roomsRow(ctx, hosts, f.settings.rooms, true); err != nil {
			return err
		}
	}
	fmt.Println()
	return nil
}

// roomsRow has rooms started, each of which stays until all are at work, and a host killed then.
func (f *fleet) roomsRow(ctx context.Context, hosts, rooms int, kill bool) error {
	c, err := f.crew(ctx, anyAgent, fmt.Sprintf("Stay %.0f seconds.", 10+(time.Duration(rooms)*pace).Seconds()))
	if err != nil {
		return err
	}
	defer c.store.Close() //nolint:errcheck // all is measured
	used := func() (megabytes float64) {
		for _, w := range f.hosts {
			megabytes += memoryBelow(w.Process.Pid)
		}
		return megabytes
	}
	prefix, before := fmt.Sprintf("rooms-%d-%d-%t", hosts, rooms, kill), used()
	var each float64
	var killed time.Time
	all, err := f.stays(ctx, c, prefix, rooms, func() error {
		if each = (used() - before) / float64(rooms); kill {
			f.killBusiest()
			killed = time.Now()
		}
		return nil
	})
	if err != nil {
		return f.failed(prefix, err)
	}
	var starts []time.Duration
	again, last := 0, killed
	for _, s := range all {
		if kill && s.began.After(killed) {
			again++
			if s.began.After(last) {
				last = s.began
			}
		}
		starts = append(starts, s.start())
	}
	slices.Sort(starts)
	cells := []string{fmt.Sprint(hosts), fmt.Sprint(rooms), fmt.Sprint(atOnce(all)), "-", "-"}
	if !kill { // else how long some took at first is not known
		cells[3], cells[4] = number(quantile(starts, 0.5).Seconds()), number(quantile(starts, 0.99).Seconds())
	}
	alone, err := f.roomAlone(ctx, prefix, kill)
	if err != nil {
		return err
	}
	cells = append(cells, alone...)
	completed, err := f.postgres.query(ctx, "maestro",
		"select count(*)::float8 from sessions where status = 'completed' and session like '"+prefix+"-%'")
	if err != nil {
		return err
	}
	cells = append(cells, number(each), fmt.Sprint(completed), fmt.Sprint(rooms-int(completed)), "-", "-")
	if kill {
		cells = append(cells[:len(cells)-2], fmt.Sprint(again), number(last.Sub(killed).Seconds()))
	}
	printRow(cells)
	return nil
}

// roomAlone returns the median and the 99th percentile of the time from the start of an attempt, which makes the room, to the
// agent's first line, in seconds. After a kill it is not known: an attempt that begins again keeps its first start.
func (f *fleet) roomAlone(ctx context.Context, prefix string, killed bool) (cells []string, err error) {
	if killed {
		return []string{"-", "-"}, nil
	}
	for _, q := range []float64{0.5, 0.99} {
		seconds, err := f.postgres.query(ctx, "maestro", fmt.Sprintf(`select percentile_cont(%g) within group
				(order by split_part(r.summary, ' ', 1)::float8 / 1e9 - a.started_at / 1e6)
			from rounds r join attempts a using (namespace, session, phase, persona, pass, round)
			where a.state = 'recorded' and session like '%s-%%'`, q, prefix))
		if err != nil {
			return nil, err
		}
		cells = append(cells, number(seconds))
	}
	return cells, nil
}

// roomsOverFiles measures rooms over a tree that a third host has put into the bucket, on two hosts that do not have it.
func roomsOverFiles(ctx context.Context, f *fleet) error {
	const hosts = 2
	if err := f.addHosts(ctx, hosts); err != nil {
		return err
	}
	dir, err := workspace(f.settings.files)
	defer os.RemoveAll(dir) //nolint:errcheck // a leftover does no harm
	if err != nil {
		return err
	}
	crews := make([]*crew, hosts)
	for i := range crews {
		if crews[i], err = f.crew(ctx, agentOf(i), ""); err != nil {
			return err
		}
	}
	start := time.Now()
	snap, err := crews[0].store.Content.Snapshot(ctx, dir, cas.SnapshotOptions{})
	if err != nil {
		return err
	}
	put := time.Since(start)
	copied := exec.CommandContext(ctx, "cp", "-r", dir, filepath.Join(f.dir, "copy"))
	start = time.Now()
	if err := copied.Run(); err != nil {
		return err
	}
	fmt.Printf("%d files: taken and put into the bucket in %.2f s; cp -r takes %.2f s. Each figure is the time from the request "+
		"for the session to its agent's first line.\n\n", f.settings.files, put.Seconds(), time.Since(start).Seconds())
	printHead("host", "without files, ms", "first session over the files, ms", "later ones, ms")
	rows := [hosts][]string{}
	for round, sessions := range []int{samples, 1, 2 * samples} {
		took := [hosts][]time.Duration{}
		for n := range sessions { // in turn, so that what else the machine does slows all hosts
			for i, c := range crews {
				if round == 1 {
					c.input.Workspace = snap.Manifest
				}
				all, err := f.stays(ctx, c, fmt.Sprintf("tree-%d-%d-%d", i, round, n), 1, nil)
				if err != nil {
					return f.failed("a room over files", err)
				}
				took[i] = append(took[i], all[0].start())
			}
		}
		for i := range crews {
			slices.Sort(took[i])
			rows[i] = append(rows[i], number(milliseconds(quantile(took[i], 0.5))))
		}
	}
	for i, cells := range rows {
		printRow(append([]string{fmt.Sprint(i + 1)}, cells...))
	}
	fmt.Println()
	return nil
}
