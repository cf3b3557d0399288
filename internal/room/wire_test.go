package room

import (
	"bytes"
	"fmt"
	"hash/crc32"
	"math"
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestOrdersArriveAsTheyWereSent(t *testing.T) {
	t.Parallel()
	for _, sent := range []Orders{
		{},
		{
			Build: "go1", Argv: []string{"sh", "-c", ""}, Dir: "/\x00é", Env: []string{"A=1"}, Grace: time.Hour, User: &Account{Name: "a", UID: math.MaxUint32, Groups: []uint32{0, 7}},
			MaxFile: math.MaxUint64, MaxThreads: -1, MaxMemory: math.MinInt64, Terminal: true, Ports: []uint16{1, math.MaxUint16},
			Room: &Layout{
				Mounts: []Mount{{Source: "/a", Target: "/b", Optional: true}, {Writable: true}}, Hidden: []string{"/h"}, Network: NetworkNone, UID: 1, GID: 2,
				Overlay: &Overlay{Lower: []string{"1", "2"}, Upper: "u", Work: "w"},
			},
			Floor: &Floor{Own: []string{"/own"}, Shown: []Mount{{Source: "/shown"}}, Hidden: []string{"/x"}, Home: "/root", Mounts: true},
		},
	} {
		var pipe bytes.Buffer
		require.NoError(t, WriteOrders(&pipe, sent))
		frame := bytes.Clone(pipe.Bytes())
		var got Orders
		require.NoError(t, receive(&pipe, &got))
		require.EqualExportedValues(t, sent, got)

		for end := range frame { // a worker that died wrote a part
			require.Error(t, receive(bytes.NewReader(frame[:end]), &got))
		}
	}
}

// TestOrdersOfAnotherBuild are refused whatever follows the name of the build.
func TestOrdersOfAnotherBuild(t *testing.T) {
	t.Parallel()
	for _, more := range []string{"", "\x00", "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", "\xff\xff\xff\xff\x0f"} {
		frame := append([]byte{0, 0, 0, byte(4 + len(more)), 3}, "old"+more...)
		var o Orders
		require.ErrorContains(t, receive(bytes.NewReader(frame), &o), "another build")
		require.Equal(t, "old", o.Build)
	}
	require.ErrorContains(t, receive(bytes.NewReader([]byte{255, 255, 255, 255, 0}), &Orders{}), "too many")
}

// TestTheChecksumOfWhatIsSent tells the shims and workers of two sources apart that have no name.
func TestTheChecksumOfWhatIsSent(t *testing.T) {
	t.Parallel()
	sum := crc32.ChecksumIEEE([]byte(describe(reflect.TypeFor[Orders]()) + describe(reflect.TypeFor[Report]())))
	require.Equal(t, sentTypes, fmt.Sprintf("%08x", sum), "the types have changed: change sentTypes, too")
}

// describe names a type with all that it consists of.
func describe(t reflect.Type) string {
	text := t.Kind().String()
	if t.Kind() == reflect.Slice || t.Kind() == reflect.Pointer {
		text += " " + describe(t.Elem())
	}
	if t.Kind() == reflect.Struct {
		for _, f := range reflect.VisibleFields(t) {
			text += fmt.Sprintf(" %s %s;", f.Name, describe(f.Type))
		}
	}
	return text
}
