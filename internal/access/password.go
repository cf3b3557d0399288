package access

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/crypto/argon2"
	"golang.org/x/sync/semaphore"
)

const (
	// minPassword is the length of a password in characters, and maxPassword in bytes.
	minPassword = 12
	maxPassword = 1000

	// A password is stored as argon2id computes it with 19 MiB of memory, as OWASP advises.
	argonMemory, argonTime, argonThreads = 19 << 10, 2, 1
	argonKey                             = 32
	// Passwords are computed so many at once, and one waits for its turn for hashPatience.
	hashedAtOnce = 2
	hashPatience = 10 * time.Second
)

// hashing bounds the memory of the process for passwords: whoever guesses from many addresses makes others wait.
var hashing = semaphore.NewWeighted(hashedAtOnce)

// nobody is the stored password of names that nobody has: no password is known that fits, and a check takes as long.
var nobody = stored(make([]byte, 16), make([]byte, argonKey))

func stored(salt, key []byte) string {
	encode := base64.RawStdEncoding.EncodeToString
	return fmt.Sprintf("$argon2id$v=%d$m=%d,t=%d,p=%d$%s$%s", argon2.Version, argonMemory, argonTime, argonThreads, encode(salt), encode(key))
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
	salt := make([]byte, 16)
	_, _ = rand.Read(salt) // never fails
	key, err := deriveKey(ctx, password, salt, argonMemory, argonTime, argonThreads, argonKey)
	return stored(salt, key), err
}

// fits reports whether a password is the one of which something is stored.
func fits(ctx context.Context, password, stored string) (bool, error) {
	var version int
	var memory, time, length uint32
	var threads uint8
	parts := strings.Split(stored, "$")
	if len(parts) != 6 || parts[1] != "argon2id" {
		return false, errors.New("what is stored of the password cannot be read")
	}
	_, err := fmt.Sscanf(parts[2]+" "+parts[3], "v=%d m=%d,t=%d,p=%d", &version, &memory, &time, &threads)
	salt, badSalt := base64.RawStdEncoding.DecodeString(parts[4])
	want, badKey := base64.RawStdEncoding.DecodeString(parts[5])
	if err := errors.Join(err, badSalt, badKey); err != nil {
		return false, fmt.Errorf("what is stored of the password cannot be read: %w", err)
	}
	length = uint32(len(want)) //nolint:gosec // a few bytes
	key, err := deriveKey(ctx, password, salt, memory, time, threads, length)
	return err == nil && subtle.ConstantTimeCompare(key, want) == 1, err
}

// deriveKey computes a key in its turn.
func deriveKey(ctx context.Context, password string, salt []byte, memory, time uint32, threads uint8, length uint32) ([]byte, error) {
	waiting, cancel := context.WithTimeout(ctx, hashPatience)
	defer cancel()
	if hashing.Acquire(waiting, 1) != nil {
		return nil, errBusy
	}
	defer hashing.Release(1)
	return argon2.IDKey([]byte(password), salt, time, memory, threads, length), nil
}
