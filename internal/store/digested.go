package store

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"slices"

	"github.com/maestro-hive/maestro/internal/core/spec"
)

// digestStart and digestEnd enclose the digest at the end of each document.
const (
	digestStart = `,"sha256":"`
	digestEnd   = `"}` + "\n"
)

// encodeDigested encodes an object as a document: one line of JSON whose last field, sha256, is the SHA-256
// of the line with that field empty. So any change is detected.
func encodeDigested(object any) ([]byte, error) {
	var line bytes.Buffer
	to := json.NewEncoder(&line)
	to.SetEscapeHTML(false) // it makes paths six times as long
	if err := to.Encode(object); err != nil {
		return nil, err
	}
	data := slices.Grow(bytes.TrimSuffix(line.Bytes(), []byte("}\n")), len(digestStart)+digestLength+len(digestEnd))
	data = append(data, digestStart+digestEnd...)
	digest := spec.DigestOf(data)
	return append(append(data[:len(data)-len(digestEnd)], digest...), digestEnd...), nil
}

// digestLength is the length of a digest in hex.
const digestLength = 64

// decodeDigested decodes a document into v. It returns an error if the document does not end with its
// digest. Unknown fields are ignored: a newer version may have written them.
func decodeDigested(data []byte, v any) error {
	at := len(data) - len(digestEnd) - digestLength
	if at < 0 {
		return errors.New("it does not end with its sha256")
	}
	before, stated, after := data[:at], data[at:at+digestLength], data[at+digestLength:]
	sum := sha256.New()
	sum.Write(before)
	sum.Write(after)
	if !bytes.HasSuffix(before, []byte(digestStart)) || string(after) != digestEnd ||
		hex.EncodeToString(sum.Sum(nil)) != string(stated) {
		return errors.New("its sha256 does not match its content")
	}
	from := json.NewDecoder(bytes.NewReader(data))
	from.UseNumber() // numbers of rows stay as they are
	return from.Decode(v)
}
