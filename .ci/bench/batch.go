package main

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// batch is what a number of sessions of one kind took and left.
type batch struct {
	sessions  int
	wall      time.Duration
	latencies []time.Duration
	// worker, server and postgres are processor time.
	worker, server, postgres time.Duration
	// events and history, in bytes, are one session's.
	events, history int64
	// temporal is what the server's database has grown by, in bytes; left what
	// the store has.
	temporal int64
	left     usage
}

// batch runs sessions, some at a time, from the first start to the last end.
func (st *stand) batch(ctx context.Context, name string, sessions, at int) (b batch, err error) {
	k := st.kinds[name]
	before, err := st.usageOf(ctx, k)
	if err != nil {
		return b, err
	}
	runtime.GC() // what measuring leaves is no part of the sessions
	size, worker, server, postgres := st.server.size(), ownCPU(), cpuBelow(st.server.cmd.Process.Pid), st.postgresCPU()
	b.sessions = sessions
	start := time.Now()
	ids, err := st.together(ctx, name, sessions, at, &b)
	if err != nil {
		return b, err
	}
	b.wall = time.Since(start)
	b.worker, b.server, b.postgres = ownCPU()-worker, cpuBelow(st.server.cmd.Process.Pid)-server, st.postgresCPU()-postgres
	b.temporal = st.server.size() - size
	after, err := st.usageOf(ctx, k)
	if err != nil {
		return b, err
	}
	b.left = usage{after.bytes - before.bytes, after.files - before.files}
	info, err := st.conn.DescribeWorkflowExecution(ctx, ids[len(ids)/2], "")
	if err != nil {
		return b, err
	}
	b.events = info.GetWorkflowExecutionInfo().GetHistoryLength()
	b.history = info.GetWorkflowExecutionInfo().GetHistorySizeBytes()
	return b, nil
}

// together runs the sessions of a batch and notes how long each took.
func (st *stand) together(ctx context.Context, name string, sessions, at int, b *batch) (ids []string, err error) {
	for range sessions {
		st.serial++
		ids = append(ids, fmt.Sprintf("%s-%06d", name, st.serial))
	}
	var mu sync.Mutex
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(at)
	for _, id := range ids {
		g.Go(func() error {
			began := time.Now()
			run, err := st.kinds[name].start(ctx, id)
			if err == nil {
				err = run.Get(ctx, nil)
			}
			if err != nil {
				return fmt.Errorf("%s: %w", id, err)
			}
			mu.Lock()
			defer mu.Unlock()
			b.latencies = append(b.latencies, time.Since(began))
			return nil
		})
	}
	return ids, g.Wait()
}

func (st *stand) usageOf(ctx context.Context, k kind) (u usage, err error) {
	if k.dir == "" {
		return u, nil
	}
	if u, err = usageOf(ctx, k.dir); err != nil || k.database == "" {
		return u, err
	}
	size, err := st.postgres.size(ctx, k.database)
	u.bytes += int64(size)
	return u, err
}

// postgresCPU is the processor time that PostgreSQL has used, if it runs.
func (st *stand) postgresCPU() time.Duration {
	if st.postgres == nil {
		return 0
	}
	return cpuBelow(st.postgres.cmd.Process.Pid)
}

// largeBatch bounds a batch, so that the whole takes minutes.
const largeBatch = 96

// compare runs batches of all kinds in turn and prints what they took.
func compare(ctx context.Context, s settings, dir string) error {
	st, err := newStand(ctx, s, dir)
	if err != nil {
		return err
	}
	defer st.close()               //nolint:errcheck // all is measured
	for _, name := range s.kinds { // what is slow only once
		if _, err := st.batch(ctx, name, 2, 1); err != nil {
			return err
		}
	}
	fmt.Printf("Sessions of %d phases; medians of %d batches of each kind, taken in turn.\n", s.phases, s.rounds)
	fmt.Printf("maestro: the agent is a function, so this is the cost of the bookkeeping; shim: the agent is a shell script "+
		"behind the shim; room: the same in a room; %s: the store is a PostgreSQL database and a bucket.\n", onPostgres)
	for _, at := range s.at {
		sessions := max(s.sessions, min(2*at, largeBatch), at)
		taken := map[string][]batch{}
		for range s.rounds {
			for _, name := range s.kinds {
				b, err := st.batch(ctx, name, sessions, at)
				if err != nil {
					return err
				}
				taken[name] = append(taken[name], b)
			}
		}
		fmt.Printf("\n### %d at a time, %d sessions a batch\n\n", at, sessions)
		printTable(s.kinds, taken)
	}
	return nil
}

// quantile is the value below which a share q of the sorted values lies.
func quantile[T any](sorted []T, q float64) T {
	return sorted[min(int(q*float64(len(sorted))), len(sorted)-1)]
}

// percentile is in milliseconds.
func (b batch) percentile(q float64) float64 {
	slices.Sort(b.latencies)
	return float64(quantile(b.latencies, q).Microseconds()) / 1000
}
