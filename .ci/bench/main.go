package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/maestro-hive/maestro/internal/sandbox/room"
)

func main() {
	room.Shim() // agents run below this program
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// settings say what to measure.
type settings struct {
	server   string
	at       []int
	sessions int
	rounds   int
	phases   int
	kinds    []string
	growth   string
	largest  int
	profile  string
	// waiting, rooms and files are how large the fleet's parts are; zero leaves one out.
	waiting, rooms, files int
	rest                  time.Duration
}

// defaultKinds leaves out the kinds on PostgreSQL if this machine has none.
func defaultKinds() string {
	kinds := []string{bareKind, shapeKind, maestroKind, shimKind, roomKind}
	if postgresProgram("initdb") != "" {
		kinds = append(kinds, maestroKind+onPostgres, roomKind+onPostgres)
	}
	return strings.Join(kinds, ",")
}

func parse() (settings, error) {
	var s settings
	var at, kinds string
	flag.StringVar(&s.server, "server", "bin/maestro-server", "the Temporal server's program")
	flag.StringVar(&at, "at", "1,16,64", "how many sessions are at work at a time")
	flag.IntVar(&s.sessions, "sessions", 12, "sessions in a batch; more where many are at work at a time")
	flag.IntVar(&s.rounds, "rounds", 5, "batches of each kind, in turn")
	flag.IntVar(&s.phases, "phases", 5, "phases of a session, and activities of a bare workflow")
	flag.StringVar(&kinds, "kinds", defaultKinds(), "what to compare, of bare, shape, maestro, shim, room, and the last three with "+
		onPostgres+"; the first is what the others are compared with")
	flag.StringVar(&s.growth, "growth", "", "measure how the cost grows instead, with: sessions, files, phases, rooms, "+
		"waiting, or all")
	flag.IntVar(&s.largest, "largest", 1<<30, "growth: leave out sizes above this one")
	flag.IntVar(&s.waiting, "fleet-waiting", 0, "measure a fleet instead: so many sessions that wait for a person")
	flag.IntVar(&s.rooms, "fleet-rooms", 0, "measure a fleet instead: up to so many rooms at once, over two and four hosts")
	flag.IntVar(&s.files, "fleet-files", 0, "measure a fleet instead: rooms over so many files, on two hosts")
	flag.DurationVar(&s.rest, "fleet-rest", time.Minute, "how long waiting sessions are watched")
	flag.StringVar(&s.profile, "profile", "", "write a CPU profile of this process to a file")
	flag.Parse()
	s.kinds = strings.Split(kinds, ",")
	for _, text := range strings.Split(at, ",") {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			return s, fmt.Errorf("-at %s: %q is no number of sessions", at, text)
		}
		s.at = append(s.at, n)
	}
	return s, nil
}

func run(ctx context.Context) (err error) {
	s, err := parse()
	if err != nil {
		return err
	}
	if _, err := room.Program(); err != nil { // every process would start many times slower
		return fmt.Errorf("the benchmark is to be built with the shim beside it, by make bench: %w", err)
	}
	dir, err := os.MkdirTemp("", "maestro-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // a leftover does no harm
	if s.profile != "" {
		f, err := os.Create(filepath.Clean(s.profile))
		if err != nil {
			return err
		}
		defer f.Close() //nolint:errcheck // a profile
		if err := pprof.StartCPUProfile(f); err != nil {
			return err
		}
		defer pprof.StopCPUProfile()
	}
	started, err := startOfProgram(ctx)
	if err != nil {
		return err
	}
	fmt.Printf("%d processors, %s; %s; to start /bin/true takes %.2f ms of the processors\n\n", runtime.NumCPU(), runtime.Version(),
		busyness(), started)
	switch {
	case s.growth != "":
		return grow(ctx, s, dir)
	case s.waiting+s.rooms+s.files > 0:
		return measureFleet(ctx, s, dir)
	}
	return compare(ctx, s, dir)
}

// busyness says what else the machine does, as far as it is known.
func busyness() string {
	data, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "load not known"
	}
	return "load before " + strings.Join(strings.Fields(string(data))[:3], " ")
}

// startOfProgram is the processor time that a process takes to start a small program and to wait for
// it, in milliseconds: hosts differ in it more than in anything else that is measured.
func startOfProgram(ctx context.Context) (float64, error) {
	const times = 50
	before := ownCPU()
	for range times {
		if err := exec.CommandContext(ctx, "/bin/true").Run(); err != nil {
			return 0, err
		}
	}
	return milliseconds(ownCPU()-before) / times, nil
}
