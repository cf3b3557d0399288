package temporalutil

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

const (
	// localFile is the document of a [LocalServer], below the directory of a store.
	localFile = "temporal/dev.json"
	// maxLocalFile bounds that document, in bytes.
	maxLocalFile = 64 << 10
)

// LocalServer is the Temporal server that `maestro dev` runs for one store, as it is
// announced in that store's directory.
type LocalServer struct {
	// Address is host and port of the server, WebUI the address of its Web UI; empty:
	// there is none.
	Address   string `json:"address"`
	Namespace string `json:"namespace"`
	WebUI     string `json:"web_ui,omitempty"`
	// Host is the machine that it runs on, and PID the number of the process that runs it.
	Host string `json:"host"`
	PID  int    `json:"pid"`
	// WorkerFile is the worker file that it serves, and Reloads whether it reads that again at SIGHUP.
	WorkerFile string `json:"worker_file"`
	Reloads    bool   `json:"reloads"`
}

// Announce writes where a server is into the directory of a store, for [FindLocal]. The
// returned function removes that. When this process ends without it, the announcement is
// stale, which readers see by its lock. The part of the directory that is Temporal's has to
// exist, and to be this process's alone.
func Announce(storeDir string, s LocalServer) (withdraw func(), err error) {
	path := filepath.Join(storeDir, localFile)
	data, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", path, err)
	}
	f, err := os.OpenFile(path+".new", os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("announce the server: %w", err)
	}
	_, err = f.Write(append(data, '\n'))
	// It is locked before it has its name: a reader never finds it unlocked while this
	// process lives.
	if err = errors.Join(err, unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("announce the server: %w", err)
	}
	return func() {
		_ = os.Remove(path) // one that stays is stale
		_ = f.Close()
	}, nil
}

// FindLocal reads which server was announced in the directory of a store by a process on
// this host. lives is false where that process has ended without withdrawing it. The
// address is empty where none was announced, or where the announcement cannot be read.
func FindLocal(storeDir, host string) (s LocalServer, lives bool) {
	if storeDir == "" {
		return LocalServer{}, false
	}
	f, err := os.Open(filepath.Join(storeDir, localFile))
	if err != nil {
		return LocalServer{}, false
	}
	defer f.Close() //nolint:errcheck // only read
	if err := json.NewDecoder(io.LimitReader(f, maxLocalFile)).Decode(&s); err != nil || s.Host != host {
		return LocalServer{}, false
	}
	return s, errors.Is(unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB), unix.EWOULDBLOCK)
}
