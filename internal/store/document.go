package store

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/gowebpki/jcs"

	"github.com/maestro-hive/maestro/internal/team"
)

// sealField is the field of a document that holds its digest.
const sealField = "sha256"

// seal returns a document as it is stored: canonical JSON (RFC 8785), indented,
// with its field sha256 set to the SHA-256 of the canonical JSON of the rest.
// There is one way to write a document, so that any changed byte shows.
func seal(v any) ([]byte, error) {
	data, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	fields, err := fieldsOf(data)
	if err != nil {
		return nil, err
	}
	digest, err := sealOf(fields)
	if err != nil {
		return nil, err
	}
	fields[sealField] = json.RawMessage(`"` + string(digest) + `"`)
	return render(fields)
}

// unseal reads a document into v and refuses one that seal cannot have written.
// Fields that v does not have are passed over: a newer version may have them.
func unseal(data []byte, v any) error {
	fields, err := fieldsOf(data)
	if err != nil {
		return err
	}
	var stated team.Digest
	if err := json.Unmarshal(fields[sealField], &stated); err != nil {
		return fmt.Errorf("it has no %s: %w", sealField, err)
	}
	found, err := sealOf(fields)
	if err != nil {
		return err
	}
	if found != stated {
		return fmt.Errorf("its %s does not fit its content", sealField)
	}
	rendered, err := render(fields)
	if err != nil {
		return err
	}
	if !bytes.Equal(rendered, data) {
		return errors.New("it is not written as it was stored")
	}
	return json.Unmarshal(data, v)
}

func fieldsOf(data []byte) (map[string]json.RawMessage, error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(data, &fields); err != nil {
		return nil, err
	}
	if fields == nil {
		return nil, errors.New("it is not a JSON object")
	}
	return fields, nil
}

// sealOf is the digest over the canonical JSON of all fields but the seal.
func sealOf(fields map[string]json.RawMessage) (team.Digest, error) {
	stated, sealed := fields[sealField]
	delete(fields, sealField)
	data, err := canonicalFields(fields)
	if sealed {
		fields[sealField] = stated
	}
	return digestOf(data), err
}

func canonicalFields(fields map[string]json.RawMessage) ([]byte, error) {
	data, err := json.Marshal(fields)
	if err != nil {
		return nil, err
	}
	return jcs.Transform(data)
}

func render(fields map[string]json.RawMessage) ([]byte, error) {
	data, err := canonicalFields(fields)
	if err != nil {
		return nil, err
	}
	var buf bytes.Buffer
	if err := json.Indent(&buf, data, "", "  "); err != nil {
		return nil, err
	}
	buf.WriteByte('\n')
	return buf.Bytes(), nil
}

// readDocument reads the file at path with parse. A missing file is
// [team.ErrNotFound]; one that parse refuses is quarantined and
// [team.ErrCorrupt].
func (s *Store) readDocument(path, what string, parse func(data []byte) error) error {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return &Fault{Path: s.rel(path), What: "the store " + s.dir + " has no such " + what, kind: team.ErrNotFound}
	}
	if err != nil {
		return fmt.Errorf("read the %s: %w", what, err)
	}
	fault := parse(data)
	if fault == nil {
		return nil
	}
	// It may have been replaced by a sound one since it was read.
	if again, err := os.ReadFile(path); err == nil && !bytes.Equal(again, data) && parse(again) == nil {
		return nil
	}
	moved, err := s.quarantine(path)
	if err != nil {
		return s.stuck(path, err)
	}
	return &Fault{Path: s.rel(path), What: fault.Error(), Quarantined: s.rel(moved), kind: team.ErrCorrupt}
}
