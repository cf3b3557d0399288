package cli_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/store"
)

// offers is what the tests read of `agents -o json`.
type offers struct {
	Store    string
	Temporal bool
	Team     string
	Workers  []struct {
		Worker, Identity, Host string
		PID                    int
		Webhook, Jira          bool
		Checks                 []string
		Agents                 []struct {
			Agent, Kind, Breaker, Fallback string
			Concurrency                    int
			State                          string `json:"breaker_state"`
		}
	}
	Queues []struct {
		Queue, For string
		Pollers    []string
	}
	Missing []spec.Lack
}

// agents runs `agents -o json`, whatever its exit code.
func (d *desk) agents(args ...string) (o offers, code int) {
	d.t.Helper()
	c := d.run(append([]string{"agents", "-o", "json"}, args...)...)
	require.NoError(d.t, json.Unmarshal([]byte(c.stdout.String()), &o), c.stderr.String())
	return o, c.code
}

func TestAgentsShowsWhatWorkersOffer(t *testing.T) {
	t.Parallel()
	d := newDesk(t).withServer()
	d.set("HOOK", "http://127.0.0.1:9/hook")
	script := d.file("work.sh", "echo x > code.txt\n")
	isolation, networks := "no rooms", []string{"-", "-"}
	if permitsRooms() {
		isolation, networks = "rooms", []string{`git\.test, \*\.npm\.test`, "host"}
	}
	file := d.file("agents.yaml", `
version: 1
agents:
  coder: {kind: command, argv: [sh, `+script+`], concurrency: 2, fallback: spare, network: [git.test, "*.npm.test"]}
  spare: {kind: command, argv: [sh, `+script+`], breaker: {name: shared}}
checks:
  has-code: {argv: [test, -f, code.txt]}
webhook: {url_env: HOOK}
`)
	require.Equal(t, 2, d.run("agents").code, "there is no store yet")
	d.begin("worker", "--agents", file, "--drain", "1s")
	var o offers
	until(t, func() bool {
		c := d.run("agents", "-o", "json")
		o = offers{}
		return c.code == 0 && json.Unmarshal([]byte(c.stdout.String()), &o) == nil && len(o.Workers) == 1
	}, "the worker did not come up")
	require.True(t, o.Temporal)
	w := o.Workers[0]
	require.Equal(t, "desk", w.Host)
	require.Equal(t, os.Getpid(), w.PID)
	require.True(t, w.Webhook)
	require.False(t, w.Jira)
	require.Equal(t, []string{"has-code"}, w.Checks)
	require.Len(t, w.Agents, 2)
	require.Equal(t, "spare", w.Agents[0].Fallback)
	require.Equal(t, 2, w.Agents[0].Concurrency)
	require.Equal(t, "shared", w.Agents[1].Breaker)
	require.Equal(t, "closed", w.Agents[1].State)
	asked := map[string][]string{}
	for _, q := range o.Queues {
		asked[q.For] = q.Pollers
	}
	us := []string{w.Identity}
	require.Equal(t, map[string][]string{"sessions": us, "agent coder": us, "agent spare": us, "webhook": us}, asked)

	d.must(0, "breaker", "trip", "shared", "--why", "testing")
	table := d.must(0, "agents", "--team", d.file("one.yaml", oneTeam))
	require.Regexp(t, `spare +desk-\d+ +command +- +4 +shared +open`, table)
	require.Contains(t, table, "nothing is missing for team solo")
	require.Regexp(t, ` `+isolation+`.* [0-9.]+ [MGT]iB +has-code +webhook\n`, table)
	require.Regexp(t, `coder .* `+networks[0]+`\n`, table)
	require.Regexp(t, `spare .* `+networks[1]+`\n`, table)

	lacking, code := d.agents("--team", d.file("two.yaml", strings.Replace(planTeam, "go-test", "has-code", 1)))
	require.Equal(t, 1, code)
	require.Equal(t, "web", lacking.Team)
	var messages []string
	for _, l := range lacking.Missing {
		require.NotEmpty(t, l.Remedy, l.Message)
		messages = append(messages, l.Message)
	}
	require.Len(t, messages, 2, "%v", messages)
	require.Contains(t, messages[0], `no worker has agent "writer" of persona analyst, persona tester`)
	require.Contains(t, messages[1], "no worker can create tickets")

}

func TestAgentsMissesWorkersAndPollers(t *testing.T) {
	t.Parallel()
	d := newDesk(t).withServer()
	w := d.withWorker(map[string]string{"coder": "true\n"})
	o, _ := d.agents()
	s, err := store.Open(d.state, store.Options{Clock: time.Now})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	offers, err := s.State.Offers(t.Context())
	require.NoError(t, err)
	require.Len(t, offers, 1)
	w.interrupt()
	w.wait()
	gone, code := d.agents()
	require.Equal(t, 1, code)
	require.Empty(t, gone.Workers)
	require.Contains(t, gone.Missing[0].Message, "no worker serves this store")
	require.Contains(t, gone.Missing[0].Remedy, "maestro worker")
	require.Equal(t, o.Store, gone.Store)

	// A worker that is connected to another Temporal: it lives, and asks elsewhere.
	elsewhere := newDesk(t).withServer()
	d.environ = elsewhere.environ
	d.set("MAESTRO_STATE_DIR", d.state)
	offers[0].RenewedAt = time.Now()
	offers[0].Host, offers[0].Disk = "faraway", spec.Disk{FreeBytes: 5 << 20, Full: true}
	require.NoError(t, s.State.PutOffer(t.Context(), offers[0]))
	lost, code := d.agents()
	require.Equal(t, 1, code)
	require.Len(t, lost.Workers, 1)
	require.Len(t, lost.Missing, 2)
	require.Contains(t, lost.Missing[1].Message, "for agent coder")
	require.Regexp(t, "faraway .* [0-9.]+ MiB, full ", d.must(1, "agents"))
	require.Regexp(t, "faraway is full: [0-9.]+ MiB free", d.must(1, "doctor"))
}

func TestRegisteredTeamsAreTakenByTheirNames(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	_, err := store.Create(d.state, store.Options{Clock: time.Now})
	require.NoError(t, err)
	d.must(0, "team", "register", d.file("pair.yaml", twoTeam))
	require.Contains(t, d.must(0, "validate", "pair"), "pair: 2 phases of pair")
	require.Contains(t, d.must(1, "agents", "--team", "pair"), "no worker serves this store")
	require.Contains(t, d.must(1, "doctor", "pair"), "team pair")
	require.Contains(t, d.run("validate", "pear").stderr.String(), "file pear not found, and")
}
