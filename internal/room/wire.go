package room

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"reflect"
)

// maxFrame bounds what is sent at once, in bytes.
const maxFrame = 16 << 20

// sentTypes is a checksum of the types that are sent, which a test computes.
const sentTypes = "2425247e"

// send writes a frame: its length, and the fields of a struct in their order. Nothing names them, because both sides
// are of one build. In each shim encoding/json would take ten times as long, because it first has to learn the types.
func send(w io.Writer, value any) error {
	sent := appendValue(make([]byte, 4, 4096), reflect.ValueOf(value))
	if len(sent) > maxFrame {
		return fmt.Errorf("%d bytes are too many", len(sent))
	}
	binary.BigEndian.PutUint32(sent, uint32(len(sent)-4)) //nolint:gosec // bounded
	_, err := w.Write(sent)
	return err
}

// receive reads the next frame that is not empty into the struct that a pointer points to. Of one that
// is not understood, the first fields are set.
func receive(r io.Reader, value any) error {
	var length [4]byte
	for length == [4]byte{} {
		if _, err := io.ReadFull(r, length[:]); err != nil {
			return err
		}
	}
	size := binary.BigEndian.Uint32(length[:])
	if size > maxFrame {
		return fmt.Errorf("%d bytes are too many", size)
	}
	f := frame{rest: make([]byte, size)}
	if _, err := io.ReadFull(r, f.rest); err != nil {
		return err
	}
	f.read(reflect.ValueOf(value).Elem())
	if f.broken || len(f.rest) > 0 {
		return errors.New("it is of another build")
	}
	return nil
}

// appendValue appends what [frame.read] reads: integers, strings, and structs, slices and pointers of such.
func appendValue(to []byte, v reflect.Value) []byte {
	number := func(n uint64) { to = binary.AppendUvarint(to, n) }
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			to = appendValue(to, v.Field(i))
		}
	case reflect.Slice:
		number(uint64(v.Len())) //nolint:gosec // not negative
		for i := range v.Len() {
			to = appendValue(to, v.Index(i))
		}
	case reflect.String:
		number(uint64(v.Len())) //nolint:gosec // not negative
		to = append(to, v.String()...)
	case reflect.Pointer:
		if v.IsNil() {
			return append(to, 0)
		}
		return appendValue(append(to, 1), v.Elem())
	case reflect.Bool:
		if v.Bool() {
			return append(to, 1)
		}
		return append(to, 0)
	case reflect.Int, reflect.Int64:
		number(uint64(v.Int())) //nolint:gosec // the same bits
	default:
		number(v.Uint())
	}
	return to
}

// frame is what is left to read of a frame.
type frame struct {
	rest   []byte
	broken bool
}

// read reads what appendValue appends.
func (f *frame) read(v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			f.read(v.Field(i))
		}
	case reflect.Slice:
		if n := f.length(); n > 0 {
			v.Set(reflect.MakeSlice(v.Type(), n, n))
		}
		for i := range v.Len() {
			f.read(v.Index(i))
		}
	case reflect.String:
		n := f.length()
		v.SetString(string(f.rest[:n]))
		f.rest = f.rest[n:]
	case reflect.Pointer:
		if f.number() != 0 {
			v.Set(reflect.New(v.Type().Elem()))
			f.read(v.Elem())
		}
	case reflect.Bool:
		v.SetBool(f.number() != 0)
	case reflect.Int, reflect.Int64:
		v.SetInt(int64(f.number())) //nolint:gosec // the same bits
	default:
		v.SetUint(f.number())
	}
}

// number reads a number; zero: the frame is broken.
func (f *frame) number() uint64 {
	n, size := binary.Uvarint(f.rest)
	if size <= 0 {
		f.rest, f.broken = nil, true
		return 0
	}
	f.rest = f.rest[size:]
	return n
}

// length reads how many bytes or elements follow; no element is empty.
func (f *frame) length() int {
	n := f.number()
	if n > uint64(len(f.rest)) {
		f.rest, f.broken = nil, true
		return 0
	}
	return int(n) //nolint:gosec // bounded
}
