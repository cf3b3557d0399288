package service

import (
	"fmt"
	"sync"
	"time"
)

// drainLogInterval is the interval of log lines about the rounds that a drain waits for.
const drainLogInterval = 5 * time.Second

// drain stops polling, and returns when all running work has ended or was handed over, or at the
// time limit.
func (w *Worker) drain() error {
	began := w.Clock()
	under := w.work.rounds()
	w.Logger.Info("worker is draining: it takes no new work", "drain", w.Drain, "rounds", len(under))
	for _, at := range under {
		w.Logger.Info("round continues until the drain ends, then it is handed over", append(at.withSession(), "drain", w.Drain)...)
	}
	close(w.stopping)
	var all sync.WaitGroup
	for _, q := range w.queues.polled {
		all.Go(q.Stop)
	}
	all.Go(w.queues.retiring.Wait)
	ended := make(chan struct{})
	go func() { all.Wait(); close(ended) }()
	limit := time.NewTimer(w.Drain + settle)
	defer limit.Stop()
	tell := time.NewTicker(drainLogInterval)
	defer tell.Stop()
	for {
		select {
		case <-ended:
			w.Logger.Info("worker has drained", "took", w.Clock().Sub(began).Round(time.Millisecond))
			return nil
		case <-tell.C:
			w.Logger.Info("worker is draining", "rounds", len(w.work.rounds()), "left", max(0,
				w.Drain-w.Clock().Sub(began)).Round(time.Second))
		case <-limit.C:
			return fmt.Errorf("%w: %d rounds have not ended %s after the drain; other workers continue them after their heartbeat timeout",
				ErrServing, len(w.work.rounds()), settle)
		}
	}
}
