package activities

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
	"github.com/maestro-hive/maestro/internal/store/state"
)

// attempt is one try of an agent, or of a person's files, at an assignment: a directory
// filled from the manifest that it starts from, work in it, and the difference collected.
type attempt struct {
	*round
	// merge is the report that the round works on; zero: it works on none.
	merge mergeReport
	// given are the conflicts of the input that the round settles.
	given conflicts
}

// attemptEnd is how an attempt ended: the outcome of its agent, and the files, which are
// empty if they are not known. It is also set if the attempt fails, because the next one may
// continue from these files.
type attemptEnd struct {
	// from is the start of the attempt, and dir the directory that was filled for it; zero: no
	// directory was filled.
	from    failures.Start
	dir     session.WorkDir
	outcome session.Outcome
	files   spec.Digest
	// elsewhere: the agent has ended on another host, which has its conversation.
	elsewhere bool
}

// run does the attempt with an agent.
func (a *attempt) run(ctx context.Context) (*session.RoundResult, attemptEnd, error) {
	basis, err := a.basis(ctx)
	if err != nil {
		return nil, attemptEnd{}, err
	}
	if err := a.readConflicts(ctx); err != nil {
		return nil, attemptEnd{}, err
	}
	end, found, err := a.resumeEndedAgent(ctx)
	if err == nil && !found {
		end, err = a.runAgent(ctx, basis)
	}
	if err != nil {
		return nil, end, err
	}
	if f := a.keepsWithoutConflict(end.outcome); f != nil {
		return nil, end, f
	}
	contract, collect := contractOf(a.session.team, a.in), a.collection(end.dir)
	collected, err := a.checks.collect(ctx, collect)
	if err != nil {
		return nil, end, err
	}
	end.files = collected.Output
	if err := a.noteCollected(ctx, collected.Output); err != nil {
		return nil, end, err
	}
	if err := a.resetToCollected(ctx, end.dir, collected, &end.outcome); err != nil {
		return nil, end, err
	}
	dropped, collected, err := a.accept(ctx, contract, end.dir, collect, collected, &end.outcome)
	if err != nil {
		return nil, end, err
	}
	return &session.RoundResult{
		BasedWork: session.BasedWork{Input: a.in.Input, Basis: &basis, Work: session.Work{Delta: collected.Delta}},
		Output:    collected.Output,
		Files:     len(collected.Changed) + len(collected.Deleted),
		SendsBack: end.outcome.SendsBack,
		Dropped:   dropped,
	}, end, nil
}

// basis returns what the attempt is based on.
func (a *attempt) basis(ctx context.Context) (session.Basis, error) {
	persona := a.session.team.Personas[a.in.Persona]
	own, err := a.ownAgent(ctx, persona.Agent)
	if err != nil {
		return session.Basis{}, err
	}
	phase, _ := a.session.team.Phase(a.in.Phase)
	return session.BasisOf(a.in.AssignmentID, persona, own, a.session.checkpoint.Requirement, a.in.Input, a.decisions()).
		DeliveredTo(phase.Deliver), nil
}

// runAgent runs the agent from what the attempt starts from, and notes its end.
func (a *attempt) runAgent(ctx context.Context, basis session.Basis) (end attemptEnd, err error) {
	start := a.startFacts(ctx, basis).decide()
	end.from = start.from()
	dir, brief, err := a.prepare(ctx, start)
	if err != nil {
		return end, err
	}
	end.dir = dir
	if !start.continues {
		a.rows.setConversation(nil)
	}
	if err := a.rows.noteStart(ctx, start.begun, a.Clock().UTC(), a.hasConversation(), basis); err != nil {
		return end, err
	}
	a.spender.setAttempt(a.rows.attemptKey(), start.earlier)
	collect := a.collection(dir)
	job := a.job(dir, start)
	job.Ended = func(ctx context.Context, o session.Outcome) error {
		return a.noteAgentEnded(ctx, attemptEnd{from: end.from, dir: dir, outcome: o})
	}
	job.Brief, job.Deliver, job.Try, job.Breaker = brief, contractOf(a.session.team, a.in), a.try(dir, collect),
		a.breaker.forCalls(ctx)
	if end.outcome, err = a.work(ctx, job); err != nil {
		err = a.exec.dir.blame(ctx, err)
		if !a.exec.dir.isCleared() {
			end.files = a.collectLeft(ctx, err, dir, collect, &end.outcome)
		}
		return end, err
	}
	if a.rows.snapshot().Ended != nil { // before its cost was booked
		return end, nil
	}
	return end, a.noteAgentEnded(ctx, end)
}

// start is what an attempt starts from. The failure table decides it by the failure of
// the previous attempt.
type start struct {
	// files is the manifest that the directory is filled from. asLeft: it is
	// not filled, because it has the files of an interrupted execution.
	files  spec.Digest
	asLeft bool
	// waited: they are those of the attempt itself, which was interrupted by an outage.
	waited bool
	// begun is when an earlier, interrupted execution has begun the attempt; zero: none
	// has.
	begun time.Time
	// continues: a conversation continues. restored is the one to restore from the store
	// first; nil: it is in the directory and HOME.
	continues bool
	restored  *session.Conversation
	// first is the attempt with which the conversation began, and earlier are
	// its failed attempts since, newest first: this attempt can use their paid
	// answers, too.
	first   state.AttemptKey
	earlier []state.AttemptKey
	// failure is the failed attempt before the conversation; nil: there was none.
	// kept: the directory has the files of that attempt.
	failure *tried
	kept    bool
	// former: the directory has the assignment's work that was sent back.
	former bool
}

// from returns the kind of start for the attempt's report.
func (s start) from() failures.Start {
	switch {
	case s.continues || len(s.earlier) > 0:
		return failures.FromConversation
	case s.kept || s.former || s.asLeft || s.waited:
		return failures.FromFiles
	}
	return failures.FromInput
}

// startFacts collects the facts that decide the start of the attempt.
func (a *attempt) startFacts(ctx context.Context, basis session.Basis) startFacts {
	f := startFacts{
		in: a.in, basis: basis, of: a.rows.of, round: a.rows.snapshot(), rounds: a.rows.rounds(), firstRun: a.rows.opened.First,
		agent:        a.rows.agent,
		conversation: a.exec.agents.Offered(a.rows.agent).Conversation,
		outage:       a.rows.outage(), former: a.formerWork(ctx),
		intact: func(manifest spec.Digest) bool { return a.Files.Intact(ctx, manifest) == nil },
	}
	if f.conversation == spec.InDirectory {
		f.findConversation(a)
	}
	return f
}

// decide decides what the attempt starts from.
func (f startFacts) decide() start {
	s := start{files: f.in.Input, begun: f.round.AttemptAt}
	s.first = f.key(f.round, len(f.round.Attempts)+1)
	history := f.tried()
	for _, last := range slices.Backward(history) {
		if !f.continuesConversation(last) {
			break
		}
		s.earlier = append(s.earlier, last.key)
		s.first = last.key
		history = history[:len(history)-1]
	}
	if f.former != "" {
		s.files, s.former = f.former, true
	}
	if len(history) > 0 {
		s.failure = &history[len(history)-1]
		last := s.failure.report
		s.kept = f.keeps(*s.failure)
		if s.kept {
			s.files, s.former = last.Files, false
		}
	}
	if f.outage != nil && f.outage.FilesInPlace && f.conversation == "" {
		if s.waited = f.outage.Files != "" && f.intact(f.outage.Files); s.waited { // another host may continue
			s.files, s.former = f.outage.Files, false
		}
		s.asLeft = !s.waited
	}
	if f.continuable {
		cutOff := f.round.ContinuableAttempt == len(f.round.Attempts)+1
		if begun, ok := f.inherits(); ok {
			cutOff, s.begun = true, begun
		}
		s.asLeft = cutOff && f.stored == nil
		told := s.kept && s.failure.basis.SameWork(f.basis) // a conversation is not told of other instructions
		if s.continues = cutOff || told || s.former && s.failure == nil; s.continues {
			s.restored = f.stored
		}
		if cutOff && f.stored != nil { // the files that the conversation is about
			s.files = f.stored.Files
		}
	}
	return s
}

// prepare fills the assignment's directory with what the attempt starts from and
// writes its brief.
func (a *attempt) prepare(ctx context.Context, s start) (dir session.WorkDir, brief session.Brief, err error) {
	err = a.exec.retryStore(ctx, func() error {
		if dir, err = a.exec.dir.openWithSpace(); err != nil {
			return err
		}
		if dir.New { // what was left is on another host, or was removed
			s.asLeft = false
		}
		if dir, err = a.fill(ctx, dir, s); err != nil {
			return err
		}
		switch {
		case !s.continues: // otherwise an interrupted attempt without a conversation of its own would continue the old one
			err = a.exec.agents.Forget(dir)
		case s.restored != nil:
			err = a.restoreConversation(ctx, dir, *s.restored)
		}
		if err != nil {
			return err
		}
		brief, err = a.brief(ctx, s)
		return err
	})
	return dir, brief, err
}

// fill fills the directory with the files that the attempt starts from.
func (a *attempt) fill(ctx context.Context, dir session.WorkDir, s start) (session.WorkDir, error) {
	dirs, files := a.exec.dir.workDirs, s.files
	if a.merge.Sides != "" {
		shown, err := a.Files.Overlay(ctx, s.files, a.merge.Sides)
		if err != nil {
			return dir, err
		}
		files = shown.Output
	}
	switch inLayers := dirs.HasLayers() && a.exec.agents.Offered(a.rows.agent).Conversation != spec.InCalls; {
	case s.asLeft && inLayers:
		return a.exec.dir.hold(dirs.WithLayers(ctx, dir))
	case s.asLeft && !dirs.IsLayered(dir):
		return dir, nil
	case inLayers:
		return a.exec.dir.hold(dirs.UseLayers(ctx, dir, files, a.near()...))
	}
	if err := dirs.ForgetLayers(dir); err != nil {
		return dir, err
	}
	return dir, a.Files.Materialise(ctx, files, dir.Tree)
}

// near lists trees of the session that are similar to that of the attempt: its input, the
// input of the work before it, and the workspace.
func (a *attempt) near() []spec.Digest {
	near := []spec.Digest{a.in.Input}
	if done := a.session.checkpoint.Assignments; len(done) > 0 {
		near = append(near, done[len(done)-1].Input)
	}
	return append(near, a.session.checkpoint.Workspace)
}

func (a *attempt) brief(ctx context.Context, s start) (session.Brief, error) {
	inputs, err := a.Files.List(ctx, a.in.Input, session.MaxInputs)
	if err != nil {
		return session.Brief{}, err
	}
	feedback, err := a.feedback(ctx, s)
	if err != nil {
		return session.Brief{}, err
	}
	persona := a.session.team.Personas[a.in.Persona]
	phase, _ := a.session.team.Phase(a.in.Phase)
	return session.Brief{
		Session: a.session.key.Session, Phase: a.in.Phase, Persona: a.in.Persona, Role: persona.Role,
		Instructions: persona.Instructions, Requirement: a.session.checkpoint.Requirement,
		Decisions: a.decisions(), Inputs: inputs.Paths, InputCount: inputs.Count, Round: int(s.first.Round),
		Attempt: int(s.first.Attempt),
		LeftOut: a.leftOut(s), Feedback: feedback, Conflicts: a.merge.Conflicts, MaySendBack: maySendBack(a.session.team, a.in),
		Protected: phase.Protected,
	}, nil
}

// job describes the attempt to the agent.
func (a *attempt) job(dir session.WorkDir, s start) session.Job {
	persona := a.session.team.Personas[a.in.Persona]
	phase, _ := a.session.team.Phase(a.in.Phase)
	return session.Job{
		Delivery: a.delivery(phase.Deliver),
		Input:    a.in.Input, Agent: a.rows.agent, Team: a.checks.domain(), WorkDir: dir, Begun: s.begun,
		Timeout: persona.Timeout, MaxTurns: persona.MaxTurns, Lock: a.exec.lock(), Progress: a.exec.setProgress,
		Calls: a.spender, Waits: a.exec.waits, Continues: s.continues,
	}
}

// work runs the agent.
func (a *attempt) work(ctx context.Context, job session.Job) (outcome session.Outcome, err error) {
	process := a.exec.agents.Offered(job.Agent).Conversation != spec.InCalls
	err = a.exec.dir.watch(ctx, "the agent", process, a.rows.snapshot().AttemptAt, func(ctx context.Context) (err error) {
		outcome, err = a.exec.agents.Run(ctx, job)
		return err
	})
	return outcome, err
}

// Between the end of an agent and the record of its work lie the collection of its files and its checks, which can take
// long. Each of these steps is noted durably. An execution that continues the attempt begins with the last one: on the same
// host with the agent's files as they are, on another one with the collected files.

// noteAgentEnded notes durably that the agent has ended, with what it has said.
func (a *attempt) noteAgentEnded(ctx context.Context, end attemptEnd) error {
	outcome := end.outcome
	outcome.Summary, outcome.Log = textfmt.Shorten(a.exec.agents.Mask(outcome.Summary), session.MaxSummary), nil
	return a.rows.noteAgentEnded(ctx, session.AgentEnded{
		Directory: nameOf(end.dir), Outcome: outcome, From: end.from, Transcript: storeLog(ctx, a.Files, a.exec.agents,
			end.outcome.Log),
	})
}

// collection returns the parameters for collecting the agent's changes in a directory.
func (a *attempt) collection(dir session.WorkDir) session.Collect {
	phase, _ := a.session.team.Phase(a.in.Phase)
	protected := phase.Protected
	if a.merge.Sides != "" { // the versions of the conflicts are not part of the result
		protected = append(slices.Clone(protected), session.MergeDir+"/**")
	}
	return session.Collect{
		Base: a.in.Input, Dir: dir.Tree, Lower: dir.Lower(), Ignore: a.session.team.Ignore, Protected: protected,
		Produces: a.session.team.Outputs(a.in.AssignmentID), Secrets: a.exec.agents.Secrets(),
	}
}

// nameLeftOut reports what was left out of a collected tree.
func (a *attempt) nameLeftOut(work session.Collected, outcome *session.Outcome) {
	protected := slices.DeleteFunc(slices.Clone(work.Protected),
		func(p string) bool { return strings.HasPrefix(p, session.MergeDir+"/") })
	for _, left := range []struct {
		note  string
		paths []string
	}{
		{"changes to protected files are not used", protected},
		{"left out, because it cannot be kept", work.LeftOut},
		{"left out by ignore rules", work.Ignored},
	} {
		if len(left.paths) == 0 {
			continue
		}
		note := a.exec.agents.Mask(session.LeftOutNote(left.note, left.paths))
		outcome.LeftOut = append(outcome.LeftOut, note)
		outcome.Log = bytes.Join([][]byte{outcome.Log, []byte("--- " + a.exec.agents.Mask(session.LeftOutList(left.note, left.paths)))},
			[]byte("\n"))
		outcome.Summary = textfmt.Shorten(strings.TrimSpace(outcome.Summary+" ("+note+")"), session.MaxSummary)
	}
}

// noteCollected notes durably that the agent's files are stored.
func (a *attempt) noteCollected(ctx context.Context, files spec.Digest) error {
	ended := *a.rows.snapshot().Ended
	ended.Files = files
	return a.rows.noteAgentEnded(ctx, ended)
}

// resetToCollected makes the directory equal to the collected tree, and reports what was left out of it. They differ in
// changes to protected files, in what no tree can hold, and in what is ignored, which stays.
func (a *attempt) resetToCollected(ctx context.Context, dir session.WorkDir, work session.Collected,
	outcome *session.Outcome,
) error {
	a.nameLeftOut(work, outcome)
	if len(work.Protected)+len(work.LeftOut) == 0 {
		a.exec.dir.workDirs.NoteCollected(dir, work.Output)
		return nil
	}
	if dir.Layers != nil { // checks get trees of their own
		return nil
	}
	return a.exec.retryStore(ctx, func() error { return a.Files.Materialise(ctx, work.Output, dir.Tree) })
}

// accept verifies the collected work: it settles the conflicts of its input and fulfils its contract. dropped are the
// versions in these conflicts that it does not have. Work that is sent back has no contract.
func (a *attempt) accept(
	ctx context.Context, c spec.Contract, dir session.WorkDir, req session.Collect, work session.Collected, o *session.Outcome,
) (dropped []string, _ session.Collected, err error) {
	if len(o.SendsBack) > 0 {
		if f := mayNotSendBack(a.session.team, a.in); f != nil {
			return nil, work, f
		}
		return nil, work, nil
	}
	if dropped, err = a.settle(ctx, work.Output, *o); err != nil {
		return nil, work, err
	}
	if work, err = a.checks.verify(ctx, c, dir, req, work, o); err != nil {
		if err = a.exec.dir.blame(ctx, err); a.exec.dir.now().wasFull { // the work may lack what the disk did not take
			a.rows.change(func(log *session.RoundLog) { log.Ended = nil })
		}
	}
	return dropped, work, err
}
