package store_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/store"
	"github.com/maestro-hive/maestro/internal/store/cas"
)

// TestPruningBesideSessionsTakesNothingThatIsNeeded prunes in a loop, with a day
// that lasts a second, while sessions begin, work, end and are forked, all on
// the same few contents, so that what one leaves another uses again.
func TestPruningBesideSessionsTakesNothingThatIsNeeded(t *testing.T) {
	t.Parallel()
	const young = time.Second
	lasts := 3 * time.Second
	if testing.Short() {
		lasts = 2 * time.Second
	}
	o := store.Options{Clock: time.Now}
	dir := filepath.Join(t.TempDir(), "store")
	pruner, err := store.Create(dir, o)
	require.NoError(t, err)
	began := o.Clock()
	var all, workers sync.WaitGroup
	var removed, checkpoints atomic.Int64
	working := func() bool { // on a slow machine the prunes are few
		took := o.Clock().Sub(began)
		return took < lasts || took < 2*time.Minute && (removed.Load() == 0 || checkpoints.Load() == 0)
	}
	done := make(chan struct{})
	all.Go(func() {
		for {
			report, err := pruner.Prune(t.Context(), session.PruneOptions{Keep: 1, OlderThan: young / 2, Young: young, WorkDirs: []session.PrunableDirs{workDirs(pruner)}})
			assert.NoError(t, err)
			removed.Add(int64(report.Blobs))
			checkpoints.Add(int64(report.Checkpoints))
			select {
			case <-done:
				return
			default:
			}
		}
	})
	for n := range 3 {
		workers.Go(func() {
			s, err := store.Open(dir, o)
			if !assert.NoError(t, err) {
				return
			}
			w := &stressWorker{t: t, s: s, random: rand.New(rand.NewPCG(1, uint64(n))), dir: filepath.Join(t.TempDir())}
			for i := 0; working(); i++ {
				w.abandon()
				w.session(session.Key{Namespace: "default", Session: fmt.Sprintf("s%d-%d", n, i)})
			}
		})
	}
	workers.Wait()
	close(done)
	all.Wait()
	sound(t, pruner)
	require.Positive(t, removed.Load())
	require.Positive(t, checkpoints.Load())
	t.Logf("%d blobs and %d checkpoints removed", removed.Load(), checkpoints.Load())
}

// stressWorker plays sessions one after the other.
type stressWorker struct {
	t      *testing.T
	s      *store.Store
	random *rand.Rand
	dir    string
	before []spec.Digest
}

// abandon stores workspaces that no session may come to use. Others store the
// same at about the same time.
func (w *stressWorker) abandon() {
	if w.random.IntN(4) == 0 { // so many are stored together
		files := map[string]string{}
		for i := range 300 {
			files[fmt.Sprint(i)] = fmt.Sprint(i, time.Now().Unix()/2-w.random.Int64N(2)*int64(i%2))
		}
		dir := w.t.TempDir()
		writeTree(w.t, dir, files)
		_, err := w.s.Content.Snapshot(w.t.Context(), dir, cas.SnapshotOptions{})
		assert.NoError(w.t, err)
	}
	for range 3 {
		epoch := time.Now().Unix() / 2
		writeTree(w.t, w.dir, map[string]string{"b/two.txt": fmt.Sprint(epoch-w.random.Int64N(3), w.random.IntN(4))})
		_, err := w.s.Content.Snapshot(w.t.Context(), w.dir, cas.SnapshotOptions{})
		assert.NoError(w.t, err)
	}
}

// webSession plays one session on a workspace that others had, too, sometimes from
// a checkpoint of an earlier one.
func (w *stressWorker) session(key session.Key) {
	ctx, t := w.t.Context(), w.t
	c := session.Checkpoint{Run: 1, Decisions: map[string]string{}, Artifacts: []session.Artifact{}}
	writeTree(t, w.dir, map[string]string{"common.txt": fmt.Sprint(w.random.IntN(3))})
	snap, err := w.s.Content.Snapshot(ctx, w.dir, cas.SnapshotOptions{})
	assert.NoError(t, err)
	c.Workspace, c.Tree = snap.Manifest, snap.Manifest
	c.Team.Blob, err = w.s.Content.PutBlob(ctx, []byte(fmt.Sprintf(`{"name":"team %d"}`, w.random.IntN(3))))
	assert.NoError(t, err)
	if len(w.before) > 0 && w.random.IntN(2) == 0 {
		from, err := w.s.Checkpoint(ctx, w.before[w.random.IntN(len(w.before))])
		switch {
		case err == nil:
			c.Workspace, c.Tree, c.Team = from.Workspace, from.Tree, from.Team
		case !errors.Is(err, session.ErrNotFound):
			assert.NoError(t, err)
		}
	}
	started := time.Now()
	for i, phase := range phases {
		if i > 0 {
			w.work(key, &c, phase)
		}
		c.CurrentPhase, c.CreatedAt = phase, time.Now()
		name, err := w.s.PutCheckpoint(ctx, key, c)
		assert.NoError(t, err)
		put(t, w.s, key, func(e *session.Execution) {
			e.StartedAt, e.Status.Status = &started, session.Running
			if i == len(phases)-1 {
				e.Status.Status = session.Completed
			}
		})
		c.Previous, w.before = name, append(w.before, name)
	}
}

// work fills a directory, changes it and collects what changed.
func (w *stressWorker) work(key session.Key, c *session.Checkpoint, phase string) {
	ctx, t := w.t.Context(), w.t
	done := spec.AssignmentID{Phase: phase, Persona: "ann"}
	dir, err := workDirs(w.s).Make(key, done)
	assert.NoError(t, err)
	if !assert.NoError(t, w.s.Content.Materialise(ctx, c.Tree, dir.Tree), "session %s, phase %s", key.Session, phase) {
		return
	}
	writeTree(t, dir.Tree, map[string]string{phase + ".txt": fmt.Sprint(phase, w.random.IntN(3))})
	out, err := w.s.Content.Collect(ctx, session.Collect{Base: c.Tree, Dir: dir.Tree})
	assert.NoError(t, err)
	log, err := w.s.Content.PutBlob(ctx, []byte("log of "+phase))
	assert.NoError(t, err)
	work := session.BasedWork{Input: c.Tree, Work: session.Work{Delta: out.Delta}}
	assert.NoError(t, w.s.PutRound(ctx, key, done, session.RoundRecord{Result: &session.RoundResult{BasedWork: work, Output: out.Output, Log: log}}, nil))
	c.Assignments = append(c.Assignments, session.CheckpointAssignment{
		AssignmentID: done, BasedWork: work, AssignmentSummary: session.AssignmentSummary{Status: session.Completed, Failures: []session.AttemptFailure{}},
	})
	c.Tree = out.Output
}
