package agent

import (
	"context"
	"errors"
	"math"
	"net/http"
	"time"

	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/safetext"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/models/llm"
	"github.com/maestro-hive/maestro/internal/sandbox/procgroup"
)

// idleConnections is how many idle connections to a provider are kept.
const idleConnections = 64

// newTransport returns the transport for calls of models. It uses the proxies in the worker's
// environment.
func newTransport() http.RoundTripper {
	t, ok := http.DefaultTransport.(*http.Transport)
	if !ok {
		return http.DefaultTransport
	}
	t = t.Clone()
	t.MaxIdleConnsPerHost = idleConnections
	return t
}

// runModel does an attempt of a model. The conversation books its calls one by one.
func (s *Set) runModel(ctx context.Context, d Definition, job session.Job) (session.Outcome, error) {
	p, key := s.config.Providers[d.Provider], s.keys[d.Provider]
	if key.err != nil {
		return session.Outcome{}, failures.Failf(failures.Auth, "provider %s: %v", d.Provider, key.err)
	}
	prices, _ := cost.PriceList(p.Models).For(d.Model)
	progress := job.Progress
	job.Progress = func(line string) { procgroup.Say(progress, safetext.Line(line)) }
	c := procgroup.NewCapture(s.secrets, math.MaxInt64)
	defer c.CopyTo(job.LiveLog, time.Time{})() // it goes through its stored answers again
	a := &llm.Agent{
		Name: job.Agent, API: p.Format, BaseURL: p.BaseURL, Key: key.value, Model: d.Model, Transport: s.transport, Prices: prices,
		Scale:    s.o.Gateway.Scale(job.Agent, d.Provider, d.Model),
		MaxTurns: d.MaxTurns, MaxOutputTokens: d.MaxOutputTokens, ContextTokens: d.ContextTokens,
		Timeout: d.Timeout.Std(), IdleTimeout: d.IdleTimeout.Std(), Mask: s.Mask, Now: s.o.Now,
		Log: c.Stdout,
		Enter: func(ctx context.Context, tokens int64) (leave func(used int64), err error) {
			return s.o.Gateway.Enter(ctx, d.Provider, tokens)
		},
	}
	out, err := a.Run(ctx, job)
	_ = c.Stdout.Close() // it writes what it has, and cannot fail
	out.Summary, out.Log = safetext.Block(out.Summary), c.Log()
	var f *failures.Failure
	if errors.As(err, &f) {
		f.Output = safetext.Block(f.Output)
	}
	return out, err
}
