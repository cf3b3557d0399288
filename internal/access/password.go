package access

import (
	"context"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/alexedwards/argon2id"
	"golang.org/x/sync/semaphore"
)

const (
	// minPassword is the length of a password in characters, and maxPassword in bytes.
	minPassword = 12
	maxPassword = 1000

	// hashedAtOnce are the passwords that are computed at once, and one waits for its turn for hashPatience.
	hashedAtOnce = 2
	hashPatience = 10 * time.Second
)

// argon has 19 MiB of memory, as OWASP advises for argon2id.
var argon = &argon2id.Params{Memory: 19 << 10, Iterations: 2, Parallelism: 1, SaltLength: 16, KeyLength: 32}

// nobody is the stored password of names that nobody has: no password is known that fits, and a check takes as long.
var nobody = fmt.Sprintf("$argon2id$v=19$m=%d,t=%d,p=%d$%s$%s", argon.Memory, argon.Iterations, argon.Parallelism,
	strings.Repeat("A", 22), strings.Repeat("A", 43))

// hashing bounds the memory of the process for passwords: whoever guesses from many addresses makes others wait.
var hashing = semaphore.NewWeighted(hashedAtOnce)

// inTurn computes something of a password in its turn.
func inTurn[T any](ctx context.Context, compute func() (T, error)) (result T, err error) {
	waiting, cancel := context.WithTimeout(ctx, hashPatience)
	defer cancel()
	if hashing.Acquire(waiting, 1) != nil {
		return result, errBusy
	}
	defer hashing.Release(1)
	return compute()
}

// checkPassword refuses a new password that is too short or too long.
func checkPassword(password string) error {
	if utf8.RuneCountInString(password) < minPassword || len(password) > maxPassword {
		return fmt.Errorf("a password has at least %d characters, and at most %d bytes", minPassword, maxPassword)
	}
	return nil
}

// hashPassword returns what is stored of a password.
func hashPassword(ctx context.Context, password string) (string, error) {
	return inTurn(ctx, func() (string, error) { return argon2id.CreateHash(password, argon) })
}

// fits reports whether a password is the one of which something is stored.
func fits(ctx context.Context, password, stored string) (bool, error) {
	return inTurn(ctx, func() (bool, error) { return argon2id.ComparePasswordAndHash(password, stored) })
}
