package activities

import (
	"context"
	"slices"
	"time"

	"go.temporal.io/sdk/activity"

	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
	"github.com/maestro-hive/maestro/internal/platform/logs"
)

// dollar is a dollar, as an amount.
const dollar = 1_000_000_000

// spending are the attributes of what something has cost.
func spending(u cost.Usage) []any {
	return []any{"tokens", u.Tokens(), "cost_usd", float64(u.CostUSD) / dollar}
}

// logAttempt logs how an attempt has ended. interrupted is what has interrupted it; nil: nothing.
func logAttempt(ctx context.Context, f *failures.Failure, interrupted error, took time.Duration, u cost.Usage) {
	outcome := []any{"outcome", "completed"}
	switch {
	case interrupted != nil:
		outcome = []any{"outcome", "interrupted", "error", textfmt.Shorten(interrupted.Error(), session.MaxMessage)}
	case f != nil:
		outcome = []any{"outcome", "failed", "category", f.Category, "error", textfmt.Shorten(f.Message, session.MaxMessage)}
	}
	activity.GetLogger(ctx).Info("attempt ended", slices.Concat(outcome, []any{"duration_seconds", took.Seconds()}, spending(u))...)
}

// refuseAdmission is the admission of a session that may not start, and logs why.
func refuseAdmission(ctx context.Context, problems []string) Admission {
	activity.GetLogger(ctx).Info("session not admitted", "problems", problems)
	return Admission{Problems: problems}
}

// logRequest logs that a person is needed.
func logRequest(ctx context.Context, r session.Request) {
	about := []any{"request", r.ID, "why", r.Message, logs.Phase, r.Phase}
	if r.Category != "" {
		about = append(about, "category", r.Category)
	}
	if r.Persona != "" {
		about = append(about, logs.Persona, r.Persona)
	}
	activity.GetLogger(ctx).Info("request to a person opened", append(about, "go_on_with", r.Command)...)
}

// logEnd logs how a session has ended.
func logEnd(ctx context.Context, name string, state session.State, reason string, u cost.Usage) {
	about := []any{"team", name, "status", state}
	if reason != "" {
		about = append(about, "reason", reason)
	}
	activity.GetLogger(ctx).Info("session ended", append(about, spending(u)...)...)
}

// storeLog stores a transcript. If the store fails, that is logged, and the attempt counts without its transcript.
func storeLog(ctx context.Context, files Files, agents Agents, log []byte) spec.Digest {
	if len(log) == 0 {
		return ""
	}
	digest, err := files.PutBlob(ctx, []byte(agents.Mask(string(log))))
	if err != nil {
		activity.GetLogger(ctx).Warn("the transcript of the attempt cannot be stored", "error", err)
		return ""
	}
	return digest
}
