package store

import (
	"bytes"
	"strings"
)

// secrets are values that no tree may hold.
type secrets [][]byte

// newSecrets drops empty values, which would be everywhere.
func newSecrets(values []string) secrets {
	var out secrets
	for _, v := range values {
		if v != "" {
			out = append(out, []byte(v))
		}
	}
	return out
}

func holdsSecret(p string) error {
	return &RefusedError{p, "holds the value of one of the worker's secrets; take it out, and read it from the environment where it is needed"}
}

// checkNames refuses a path or a link's target that holds a secret.
func (s secrets) checkNames(p, target string) error {
	for _, v := range s {
		if strings.Contains(p, string(v)) {
			return holdsSecret(strings.ReplaceAll(p, string(v), "***"))
		}
		if strings.Contains(target, string(v)) {
			return holdsSecret(p)
		}
	}
	return nil
}

// checkContent refuses a file that holds a secret.
func (s secrets) checkContent(p string, data []byte) error {
	for _, v := range s {
		if bytes.Contains(data, v) {
			return holdsSecret(p)
		}
	}
	return nil
}

// scanner looks for the secrets in what is written to it.
func (s secrets) scanner() *secretScanner {
	sc := &secretScanner{secrets: s}
	for _, v := range s {
		sc.overlap = max(sc.overlap, len(v)-1)
	}
	return sc
}

// secretScanner keeps the end of what it has seen, since a secret may lie across
// two writes.
type secretScanner struct {
	secrets secrets
	overlap int
	tail    []byte
	found   bool
}

// Write never fails.
func (sc *secretScanner) Write(data []byte) (int, error) {
	if len(sc.secrets) == 0 || sc.found {
		return len(data), nil
	}
	joint := append(sc.tail, data[:min(len(data), sc.overlap)]...) //nolint:gocritic // tail is replaced below
	for _, v := range sc.secrets {
		if bytes.Contains(joint, v) || bytes.Contains(data, v) {
			sc.found = true
			return len(data), nil
		}
	}
	if len(data) >= sc.overlap {
		joint = append(joint[:0], data[len(data)-sc.overlap:]...)
	} else {
		joint = joint[max(0, len(joint)-sc.overlap):]
	}
	sc.tail = bytes.Clone(joint)
	return len(data), nil
}
