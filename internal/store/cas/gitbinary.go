package cas

import (
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"fmt"
	"strings"
)

// git85 are the digits of git's base 85 encoding.
const git85 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"

// gitLengths are the letters that encode the number of bytes, from 1 on, in a line of a binary
// patch.
const gitLengths = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

// writeBinary writes git's binary patch from one content to another, followed by the reverse
// patch.
func writeBinary(text *strings.Builder, before, after string) error {
	text.WriteString("GIT binary patch\n")
	for _, content := range []string{after, before} {
		if err := writeLiteral(text, content); err != nil {
			return err
		}
	}
	return nil
}

// writeLiteral writes a whole content: deflated, in lines that begin with a letter for their
// length.
func writeLiteral(text *strings.Builder, content string) error {
	var deflated bytes.Buffer
	z := zlib.NewWriter(&deflated)
	if _, err := z.Write([]byte(content)); err != nil {
		return err
	}
	if err := z.Close(); err != nil {
		return err
	}
	fmt.Fprintf(text, "literal %d\n", len(content))
	for rest := deflated.Bytes(); len(rest) > 0; {
		n := min(len(rest), len(gitLengths))
		text.WriteByte(gitLengths[n-1])
		writeBase85(text, rest[:n])
		text.WriteByte('\n')
		rest = rest[n:]
	}
	text.WriteByte('\n')
	return nil
}

// writeBase85 writes five digits for every four bytes. It pads the last group with zeros.
func writeBase85(text *strings.Builder, data []byte) {
	for len(data) > 0 {
		var group [4]byte
		data = data[copy(group[:], data):]
		value := binary.BigEndian.Uint32(group[:])
		var digits [5]byte
		for i := range digits {
			digits[len(digits)-1-i] = git85[value%85]
			value /= 85
		}
		text.Write(digits[:])
	}
}
