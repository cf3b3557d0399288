package store_test

import (
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/store"
)

func TestLateWriterNeverReplacesANewerTicket(t *testing.T) {
	t.Parallel()
	st, err := store.Create(filepath.Join(t.TempDir(), "state"), store.Options{Clock: time.Now})
	require.NoError(t, err)
	_, err = st.Ticket("default", "f00")
	require.ErrorIs(t, err, session.ErrNotFound)
	put := func(revision int64, key string) {
		require.NoError(t, st.PutTicket("default", session.TicketRecord{Name: "f00", Revision: revision, Ticket: session.Ticket{Key: key}}))
	}
	var all sync.WaitGroup
	for revision := range int64(20) {
		all.Go(func() { put(revision+1, "MD-1") })
	}
	all.Wait()
	put(20, "MD-2")
	put(3, "MD-2")
	got, err := st.Ticket("default", "f00")
	require.NoError(t, err)
	require.Equal(t, session.TicketRecord{Schema: session.TicketRecordSchema, Name: "f00", Revision: 20, Ticket: session.Ticket{Key: "MD-1"}}, got)
	_, err = st.Ticket("other", "f00")
	require.ErrorIs(t, err, session.ErrNotFound, "namespaces have tickets of their own")
	for _, name := range []string{"../f00", "", "a/b"} {
		require.Error(t, st.PutTicket("default", session.TicketRecord{Name: name}))
		require.Error(t, st.PutTicket(name, session.TicketRecord{Name: "f00"}))
	}
}

func TestDamagedTicketIsFoundAndWrittenAnew(t *testing.T) {
	t.Parallel()
	st, err := store.Create(filepath.Join(t.TempDir(), "state"), store.Options{Clock: time.Now})
	require.NoError(t, err)
	r := session.TicketRecord{Name: "f00", Revision: 4, Ticket: session.Ticket{Key: "MD-1"}}
	require.NoError(t, st.PutTicket("default", r))
	report, err := st.VerifyAll(t.Context())
	require.NoError(t, err)
	require.Empty(t, report.Faults)
	path := filepath.Join(st.Dir(), "tickets", "default", "f00.json")
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	data[len(data)/2] ^= 1
	require.NoError(t, os.WriteFile(path, data, 0o600))
	st, err = store.Open(st.Dir(), store.Options{Clock: time.Now})
	require.NoError(t, err)
	report, err = st.VerifyAll(t.Context())
	require.NoError(t, err)
	require.Len(t, report.Faults, 1)
	require.Equal(t, filepath.Join("tickets", "default", "f00.json"), report.Faults[0].Path)
	_, err = st.Ticket("default", "f00")
	require.ErrorIs(t, err, session.ErrNotFound)
	r.Revision = 1
	require.NoError(t, st.PutTicket("default", r))
	_, err = st.Ticket("default", "f00")
	require.NoError(t, err)
}
