package store

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"time"

	"github.com/maestro-hive/maestro/internal/cas"
	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/state"
	"github.com/maestro-hive/maestro/internal/storage"
)

// documents reads and writes documents of any kind.
type documents struct {
	docs storage.Storage
	// state is the database; nil for a store that an archive is unpacked into.
	state *state.DB
	// dir is the store's directory, for messages, and id the store's id.
	dir, id string
	now     func() time.Time
}

// sealStart and sealEnd enclose the digest at the end of each document.
const (
	sealStart = `,"sha256":"`
	sealEnd   = `"}` + "\n"
)

// seal encodes an object as a document: one line of JSON whose last field, sha256, is the SHA-256
// of the line with that field empty. So any change is detected.
func seal(object any) ([]byte, error) {
	var line bytes.Buffer
	to := json.NewEncoder(&line)
	to.SetEscapeHTML(false) // it makes paths six times as long
	if err := to.Encode(object); err != nil {
		return nil, err
	}
	data := slices.Grow(bytes.TrimSuffix(line.Bytes(), []byte("}\n")), len(sealStart)+digestLength+len(sealEnd))
	data = append(data, sealStart+sealEnd...)
	digest := cas.DigestOf(data)
	return append(append(data[:len(data)-len(sealEnd)], digest...), sealEnd...), nil
}

// digestLength is the length of a digest in hex.
const digestLength = 64

// unseal decodes a document into v. It returns an error if the document does not end with its
// digest. Unknown fields are ignored: a newer version may have written them.
func unseal(data []byte, v any) error {
	at := len(data) - len(sealEnd) - digestLength
	if at < 0 {
		return errors.New("it does not end with its sha256")
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

// newer matches documents of a version of their schema that this program does not know.
var newer = regexp.MustCompile(`^\{\s*"schema":\s*"maestro\.[a-z]+/v([2-9]|[1-9][0-9]+)"`)

// intact reports whether a document is JSON, and has the digest that it states, if it states one.
func intact(data []byte) bool {
	var v struct{}
	if bytes.Contains(data, []byte(sealStart)) {
		return unseal(data, &v) == nil
	}
	return json.Unmarshal(data, &v) == nil
}

// readDocument reads a document, decodes it with parse and returns its version. A missing
// document is [session.ErrNotFound]. A document that parse rejects is moved to the quarantine,
// and is [session.ErrCorrupt]; the version is set only if it could not be moved.
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
	if newer.Match(data) && intact(data) {
		return version, fmt.Errorf("read the %s: %s was written by a newer version of Maestro; use that version", what, key)
	}
	// Another process may have replaced it by an intact one since the read.
	if again, version, err := s.docs.Read(key); err == nil && !bytes.Equal(again, data) && parse(again) == nil {
		return version, nil
	}
	moved, err := s.docs.Quarantine(key, version)
	if errors.Is(err, storage.ErrConflict) || errors.Is(err, storage.ErrNotFound) { // another process has moved or replaced it
		return s.readDocument(key, what, parse)
	}
	if err != nil {
		return version, &cas.Fault{Path: key, What: "cannot be moved to the quarantine: " + err.Error(), Kind: session.ErrCorrupt}
	}
	return "", &cas.Fault{Path: key, What: fault.Error(), Quarantined: moved, Kind: session.ErrCorrupt}
}

// replace writes a document without checking its version.
func (s *documents) replace(key string, data []byte) error {
	return storage.Update(s.docs, key, storage.UntilPowerLoss, func() ([]byte, storage.Version, error) {
		_, version, err := s.docs.Read(key)
		if errors.Is(err, storage.ErrNotFound) {
			err = nil
		}
		return data, version, err
	})
}

// missing reports whether an error says that there is no intact document, so that one may be
// created.
func missing(err error) bool {
	return errors.Is(err, session.ErrNotFound) || errors.Is(err, session.ErrCorrupt)
}
