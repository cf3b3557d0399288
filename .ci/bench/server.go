package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/maestro-hive/maestro/workflows"
)

// server is a Temporal server as `maestro dev` starts it: a process of its own
// on a SQLite file.
type server struct {
	cmd      *exec.Cmd
	stdin    io.Closer
	address  string
	database string
}

func startServer(program, dir string) (*server, error) {
	s := &server{database: filepath.Join(dir, "temporal.db")}
	args := []string{
		"--ip", "127.0.0.1", "--port", "0", "--headless", "--db-filename", s.database, "--until-stdin-closes",
	}
	for _, key := range workflows.SearchAttributes() {
		args = append(args, "--search-attribute", key.GetName()+"="+key.GetValueType().String())
	}
	s.cmd = exec.Command(program, args...)
	s.cmd.Stderr = os.Stderr
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	var err error
	if s.stdin, err = s.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	stdout, err := s.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := s.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the Temporal server: %w; `make build` builds it", err)
	}
	lines := bufio.NewScanner(stdout)
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), "  ")
		if name == "Temporal" {
			s.address = strings.TrimSpace(value)
		}
		if name == "Database" { // the last line
			go io.Copy(io.Discard, stdout) //nolint:errcheck // nobody reads it
			return s, nil
		}
	}
	return nil, errors.Join(errors.New("the Temporal server did not start"), s.cmd.Wait())
}

// stop ends the server and waits until it is gone.
func (s *server) stop() {
	_ = s.cmd.Process.Signal(syscall.SIGTERM)
	_ = s.stdin.Close()
	_ = s.cmd.Wait()
}

// size is the size of the server's database in bytes, with what is still in the
// write-ahead log: the log's last commit says how many pages there are.
func (s *server) size() int64 {
	info, err := os.Stat(s.database)
	if err != nil {
		return 0
	}
	if pages, pageSize := lastCommit(s.database + "-wal"); pages > 0 {
		return max(pages*pageSize, info.Size())
	}
	return info.Size()
}

// lastCommit reads a SQLite write-ahead log: the size of the database in pages
// after its last commit, zero if there is none, and a page's size in bytes.
func lastCommit(path string) (pages, pageSize int64) {
	const header, frameHeader = 32, 24
	f, err := os.Open(path)
	if err != nil {
		return 0, 0
	}
	defer f.Close() //nolint:errcheck // only read
	head := make([]byte, header)
	if _, err := io.ReadFull(f, head); err != nil {
		return 0, 0
	}
	pageSize = int64(binary.BigEndian.Uint32(head[8:]))
	salt := string(head[16:24])
	frame := make([]byte, frameHeader)
	for at := int64(header); ; at += frameHeader + pageSize {
		// Frames with another salt are left from before the log was reused.
		if _, err := f.ReadAt(frame, at); err != nil || string(frame[8:16]) != salt {
			return pages, pageSize
		}
		if n := binary.BigEndian.Uint32(frame[4:]); n > 0 {
			pages = int64(n)
		}
	}
}

// usage is what the files below a directory occupy on the disk.
type usage struct{ bytes, files int64 }

func usageOf(ctx context.Context, dir string) (u usage, err error) {
	seen := map[uint64]bool{}
	err = filepath.WalkDir(dir, func(_ string, e os.DirEntry, err error) error {
		if err != nil {
			return nil //nolint:nilerr // gone meanwhile
		}
		info, err := e.Info()
		if err != nil {
			return ctx.Err()
		}
		if st, ok := info.Sys().(*syscall.Stat_t); ok && !seen[st.Ino] {
			seen[st.Ino] = true
			u.bytes += st.Blocks * 512
			u.files++
		}
		return ctx.Err()
	})
	return u, err
}
