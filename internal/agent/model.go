package agent

import (
	"context"
	"errors"
	"math"
	"net/http"
	"strings"
	"time"

	"github.com/maestro-hive/maestro/internal/failures"
	"github.com/maestro-hive/maestro/internal/llm"
	"github.com/maestro-hive/maestro/internal/llm/anthropic"
	"github.com/maestro-hive/maestro/internal/llm/openai"
	"github.com/maestro-hive/maestro/internal/procgroup"
	"github.com/maestro-hive/maestro/internal/safetext"
	"github.com/maestro-hive/maestro/internal/session"
)

// isModel reports whether an agent of the kind is a model that works through tools.
func isModel(kind string) bool { return kind == KindAnthropic || kind == KindOpenAI }

// idleConnections is how many connections to one provider are kept for the next
// calls.
const idleConnections = 64

// newTransport is what calls of models go through. Proxies are those of the
// worker's environment.
func newTransport() http.RoundTripper {
	t, ok := http.DefaultTransport.(*http.Transport)
	if !ok {
		return http.DefaultTransport
	}
	t = t.Clone()
	t.MaxIdleConnsPerHost = idleConnections
	return t
}

// converse does an attempt of a model. Its calls are booked one by one, by the
// conversation itself.
func (s *Set) converse(ctx context.Context, d Definition, job session.Job) (session.Outcome, error) {
	provider, err := s.provider(d, job.Agent)
	if err != nil {
		return session.Outcome{}, err
	}
	progress := procgroup.NewProgress(job.Progress)
	defer progress.Close()
	job.Progress = func(line string) { progress.Line(safetext.Line(line)) }
	c := procgroup.NewCapture(s.secrets, math.MaxInt64)
	defer c.CopyTo(job.LiveLog, time.Time{})() // it goes through its stored answers again
	a := &llm.Agent{
		Name: job.Agent, Kind: d.Kind, Model: d.Model, Provider: provider, Transport: s.transport, Prices: d.Prices, Scale: s.scales[job.Agent],
		MaxTurns: d.MaxTurns, MaxOutputTokens: d.MaxOutputTokens, ContextTokens: d.ContextTokens,
		Timeout: d.Timeout.Std(), IdleTimeout: d.IdleTimeout.Std(), Mask: s.Mask, Now: s.now,
		Log: c.Stdout,
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

// provider makes the adapter of the definition's kind, with the key of the
// worker's environment.
func (s *Set) provider(d Definition, agent string) (llm.Provider, error) {
	key := s.key(d)
	if key == "" && d.APIKeyEnv != "" {
		return nil, failures.Failf(failures.Auth, "agent %s: variable %s with the provider's key is not set in the worker's environment", agent, d.APIKeyEnv)
	}
	if d.Kind == KindAnthropic {
		return anthropic.Provider{BaseURL: d.BaseURL, Key: key}, nil
	}
	return openai.Provider{BaseURL: d.BaseURL, Key: key}, nil
}

// key is the provider's key; empty: there is none. Variables that are set from
// files often end with a line end.
func (s *Set) key(d Definition) string {
	if d.APIKeyEnv == "" {
		return ""
	}
	return strings.TrimSpace(s.getenv(d.APIKeyEnv))
}
