package access

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/maestro-hive/maestro/internal/platform/httpserver"
)

const (
	// Of each network, so many failed sign-ins are answered at once, and then one in a while.
	failuresAtOnce = 10
	failureEvery   = 6 * time.Second
	// So many networks are remembered.
	failureNetworks = 8192

	// Of each name of an account, so many passwords are tried at once, and then one in a while.
	guessesAtOnce = 10
	guessEvery    = time.Minute
	// Of each network, so many ceremonies of passkeys fail or are under way, and then one in a while: each is a row.
	ceremoniesAtOnce = 30

	// Of all failures, one a minute and network is recorded, and so many a minute in all.
	recordedEvery   = time.Minute
	recordedAtOnce  = 60
	recordedBetween = time.Second
)

// failures limits and records failed sign-ins. What is good is never refused for the failures
// of others at its address: secrets have 256 random bits, so that guessing one is hopeless,
// and the limit protects the log and the processor.
type failures struct {
	audit   *Audit
	answers *quota
	// passwords are those that were not right, by network: tokens that have ended keep nobody from signing in. guesses are tried
	// passwords, by the name that was given.
	passwords *quota
	guesses   *nameQuota
	// ceremonies of passkeys are those that were begun and did not succeed, by network.
	ceremonies *quota
	records    *quota
	overall    *quota
	// logged bounds the log of requests that the store could not be used for.
	logged *quota
	// skipped is the number of failures since the last one that was recorded.
	skipped atomic.Int64
}

func newFailures(audit *Audit, now func() time.Time) *failures {
	return &failures{
		audit:      audit,
		answers:    newQuota(failureNetworks, failuresAtOnce, failureEvery, now),
		passwords:  newQuota(failureNetworks, failuresAtOnce, failureEvery, now),
		guesses:    newNameQuota(guessesAtOnce, guessEvery, now),
		ceremonies: newQuota(failureNetworks, ceremoniesAtOnce, failureEvery, now),
		records:    newQuota(failureNetworks, 1, recordedEvery, now),
		overall:    newQuota(1, recordedAtOnce, recordedBetween, now),
		logged:     newQuota(1, recordedAtOnce, recordedEvery, now),
	}
}

// note records a failure of a client, and returns how long the client is to wait; zero: it may
// try again.
func (f *failures) note(ctx context.Context, v visit, action, detail string) time.Duration {
	from := httpserver.Network(v.client)
	record, _ := f.records.take(from)
	if record {
		record, _ = f.overall.take("")
	}
	if record {
		if n := f.skipped.Swap(0); n > 0 {
			detail = fmt.Sprintf("%s; %d more failures before it", detail, n)
		}
		_ = f.audit.Record(ctx, Event{Action: action, From: v.client, Detail: detail, Outcome: Denied})
	} else {
		f.skipped.Add(1)
	}
	if ok, after := f.answers.take(from); !ok {
		return max(after, time.Second)
	}
	return 0
}
