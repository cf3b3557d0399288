package store

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"time"

	"github.com/gowebpki/jcs"

	"github.com/maestro-hive/maestro/internal/cas"
	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/spec"
	"github.com/maestro-hive/maestro/internal/storage"
	"github.com/maestro-hive/maestro/internal/textfmt"
)

// documents reads and writes documents, whatever they are about.
type documents struct {
	docs storage.Storage
	// dir is the store's directory, for people, and id the store's.
	dir, id string
	now     func() time.Time
	// sealed are the digests of documents whose seal was found good.
	sealed cas.RecentDigests
}

// sealField is the field of a document that holds its digest.
const sealField = "sha256"

// fieldName is what the names of a document's fields look like. They need no
// escapes, and sort as bytes.
var fieldName = regexp.MustCompile(`^[A-Za-z0-9_]+$`)

// seal returns a document as it is stored: canonical JSON (RFC 8785), indented,
// with its field sha256 set to the SHA-256 of the canonical JSON of the rest.
// There is one way to write a document, so that any changed byte shows.
func seal(v any) ([]byte, error) {
	data, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	fields, err := canonicalFields(data)
	if err != nil {
		return nil, err
	}
	fields[sealField] = []byte(`"` + string(sealOf(fields)) + `"`)
	return render(fields)
}

// unseal reads a document into v and refuses one that seal cannot have written.
// Fields that v does not have are passed over: a newer version may have them.
func unseal(data []byte, v any) error {
	if err := checkSeal(data); err != nil {
		return err
	}
	return json.Unmarshal(data, v)
}

// seal is as the function, and remembers what it has sealed.
func (s *documents) seal(v any) ([]byte, error) {
	data, err := seal(v)
	if err == nil {
		s.sealed.Add(cas.DigestOf(data))
	}
	return data, err
}

// unseal is as the function. Bytes that this process has sealed, or found sound,
// are not looked into again.
func (s *documents) unseal(data []byte, v any) error {
	digest := cas.DigestOf(data)
	if s.sealed.Has(digest) {
		return json.Unmarshal(data, v)
	}
	if err := unseal(data, v); err != nil {
		return err
	}
	s.sealed.Add(digest)
	return nil
}

func checkSeal(data []byte) error {
	fields, err := canonicalFields(data)
	if err != nil {
		return err
	}
	var stated spec.Digest
	if err := json.Unmarshal(fields[sealField], &stated); err != nil {
		return fmt.Errorf("it has no %s: %w", sealField, err)
	}
	if sealOf(fields) != stated {
		return fmt.Errorf("its %s does not match its content", sealField)
	}
	rendered, err := render(fields)
	if err != nil {
		return err
	}
	if !bytes.Equal(rendered, data) {
		return errors.New("it is not in the stored format")
	}
	return nil
}

// canonicalFields takes an object apart: its fields, each as canonical JSON.
func canonicalFields(data []byte) (map[string][]byte, error) {
	var raw map[string]json.RawMessage
	if err := json.Unmarshal(data, &raw); err != nil {
		return nil, err
	}
	if raw == nil {
		return nil, errors.New("it is not a JSON object")
	}
	fields := make(map[string][]byte, len(raw))
	for name, value := range raw {
		if !fieldName.MatchString(name) {
			return nil, fmt.Errorf("%q is not a field name", textfmt.Shorten(name, 80))
		}
		// Only arrays and objects can be transformed.
		array, err := jcs.Transform(slices.Concat([]byte("["), value, []byte("]")))
		if err != nil {
			return nil, err
		}
		fields[name] = array[1 : len(array)-1]
	}
	return fields, nil
}

// object is the canonical JSON of an object with the fields, but for one.
func object(fields map[string][]byte, without string) []byte {
	var out []byte
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if name == without {
			continue
		}
		out = append(out, `,"`+name+`":`...)
		out = append(out, fields[name]...)
	}
	if len(out) == 0 {
		return []byte("{}")
	}
	out[0] = '{'
	return append(out, '}')
}

// sealOf is the digest over the canonical JSON of all fields but the seal.
func sealOf(fields map[string][]byte) spec.Digest { return cas.DigestOf(object(fields, sealField)) }

func render(fields map[string][]byte) ([]byte, error) {
	var buf bytes.Buffer
	if err := json.Indent(&buf, object(fields, ""), "", "  "); err != nil {
		return nil, err
	}
	buf.WriteByte('\n')
	return buf.Bytes(), nil
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
