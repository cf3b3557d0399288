package store

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/maestro-hive/maestro/internal/cas"
	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/storage"
)

// documents reads and writes documents, whatever they are about.
type documents struct {
	docs storage.Storage
	// dir is the store's directory, for people, and id the store's.
	dir, id string
	now     func() time.Time
}

// sealStart and sealEnd are around the digest with which each document ends.
const (
	sealStart = `,"sha256":"`
	sealEnd   = `"}` + "\n"
)

// seal returns an object as it is stored: JSON of one line that ends with a field sha256, the
// SHA-256 of the line while that field is empty. So any changed byte shows.
func seal(object any) ([]byte, error) {
	data, err := json.Marshal(object)
	if err != nil {
		return nil, err
	}
	data = slices.Grow(bytes.TrimSuffix(data, []byte("}")), len(sealStart)+digestLength+len(sealEnd))
	data = append(data, sealStart+sealEnd...)
	digest := cas.DigestOf(data)
	return append(append(data[:len(data)-len(sealEnd)], digest...), sealEnd...), nil
}

// digestLength is the length of a digest in hex.
const digestLength = 64

// unseal reads a document into v and refuses one that does not end with its digest.
// Fields that v does not have are passed over: a newer version may have them.
func unseal(data []byte, v any) error {
	at := len(data) - len(sealEnd) - digestLength
	if at < 0 {
		return errors.New("it has no sha256 at its end")
	}
	before, stated, after := data[:at], data[at:at+digestLength], data[at+digestLength:]
	sum := sha256.New()
	sum.Write(before)
	sum.Write(after)
	if !bytes.HasSuffix(before, []byte(sealStart)) || string(after) != sealEnd || hex.EncodeToString(sum.Sum(nil)) != string(stated) {
		return errors.New("its sha256 does not match its content")
	}
	return json.Unmarshal(data, v)
}

// readDocument reads a document with parse and returns its version. A missing one is
// [session.ErrNotFound]; one that parse refuses is quarantined and [session.ErrCorrupt]. If it
// could not be moved, it still has the version.
func (s *documents) readDocument(key, what string, parse func(data []byte) error) (storage.Version, error) {
	data, version, err := s.docs.Read(key)
	if errors.Is(err, storage.ErrNotFound) {
		return "", &cas.Fault{Path: key, What: "the store " + s.dir + " has no such " + what, Kind: session.ErrNotFound}
	}
	if err != nil {
		return "", fmt.Errorf("read the %s: %w", what, err)
	}
	fault := parse(data)
	if fault == nil {
		return version, nil
	}
	// It may have been replaced by a sound one since it was read.
	if again, version, err := s.docs.Read(key); err == nil && !bytes.Equal(again, data) && parse(again) == nil {
		return version, nil
	}
	moved, err := s.docs.Quarantine(key, version, false)
	if err != nil {
		return version, &cas.Fault{Path: key, What: "cannot be moved to the quarantine: " + err.Error(), Kind: session.ErrCorrupt}
	}
	return "", &cas.Fault{Path: key, What: fault.Error(), Quarantined: moved, Kind: session.ErrCorrupt}
}

// replace writes a document, whatever is there.
func (s *documents) replace(key string, data []byte) error {
	return storage.Update(s.docs, key, storage.UntilPowerLoss, func() ([]byte, storage.Version, error) {
		_, version, err := s.docs.Read(key)
		if errors.Is(err, storage.ErrNotFound) {
			err = nil
		}
		return data, version, err
	})
}

// missing tells of an error that there is no sound document, so that one may be created.
func missing(err error) bool {
	return errors.Is(err, session.ErrNotFound) || errors.Is(err, session.ErrCorrupt)
}
