-- The state of a Maestro installation, as rows. Read it from top to bottom: what was started, what was done, what it
-- cost, whom it waits for, who works, who may do what, what is kept.
--
-- The same file makes a SQLite database and a PostgreSQL database. Conventions:
--
--   times       bigint, microseconds since 1970 (UTC); null if it has not happened
--   money       bigint, billionths of a US dollar
--   digests     text, SHA-256 in hex; the content with this digest is a blob in blobs/
--   flags       integer, 0 or 1
--   json        text, for what no statement looks into
--   empty text  "none", where a column is not null
--
-- A session is identified by (namespace, session): its Temporal namespace and its workflow id.
--
-- Five counters number everything that happens again, and there are no others:
--
--   run      a Temporal run of the session: resume, continue-as-new, reset. Only the newest may write
--   pass     an order of an assignment's work: at the start, sent back, rejected, retried, forced, its inputs changed
--   round    what one activity does for an assignment; starts at 1 in each pass
--   attempt  one try inside a round; starts at 1 in each round
--   call     one paid request to a provider inside an attempt; 0 is a whole attempt of a program whose calls nobody sees

-- ------------------------------------------------------------------------------------------------------------------
-- The installation

-- One row. A restored backup gets the next generation: processes of an earlier one change nothing.
create table installation (
  one        integer primary key check (one = 1),
  id         text    not null,         -- random; names the task queues and is stated in every checkpoint
  generation bigint  not null,
  content    text    not null,         -- the bucket or host with the content, if several hosts share the database
  created_at bigint  not null
);

-- Transactions of PostgreSQL that have committed in the last hour: one whose reply was lost finds that it has.
create table writes (
  id text   primary key,               -- random
  at bigint not null
);
create index writes_old on writes (at);

-- Who executes an assignment or a merge, where several hosts share the database. The assignment's lock on the host of the
-- holder says the same; another host waits until the lease has ended.
create table leases (
  name       text   primary key,       -- of the lock, like default/shop/build.coder
  host       text   not null,          -- id of the holder's host
  holder     text   not null,          -- random, for each time that the lock was taken
  expires_at bigint not null           -- by the database's clock; the holder raises it
);

-- ------------------------------------------------------------------------------------------------------------------
-- What was started

create table sessions (
  namespace     text   not null,
  session       text   not null,
  team          text   not null,       -- the team's name
  requirement   text   not null,       -- its beginning, 2,000 bytes at most; the checkpoints have the whole text
  search        text   not null,       -- the session's name and the beginning of its requirement, in lower case
  workspace     text   not null,       -- manifest of the files that the session started from; empty if there were none
  decisions     text   not null,       -- json: by name, merged, as of the newest boundary
  status        text   not null check (status in ('admitted', 'running', 'waiting_breaker', 'help_needed',
                                                  'awaiting_approval', 'completed', 'failed', 'cancelled')),
  reason        text   not null,       -- one sentence: why it failed, or what it waits for
  revision      bigint not null,       -- counts the changes of the status
  mirrored      bigint not null,       -- the revision that execution_state.json has; -1 after a restore
  run           bigint not null,       -- the newest run, the only one that may write
  boundary_at   bigint not null,       -- workflow time of the newest boundary; an earlier boundary changes nothing
  temporal_run  text   not null,       -- the Temporal run that wrote the status, and the first of those that continue
  first_run     text   not null,       -- each other as new
  forked_from   text   not null,       -- the session that it was forked from
  forked_at     text   not null,       -- digest of the checkpoint that it was forked from
  report_to     text   not null,       -- key of the ticket that the requirement came from
  started_by    text   not null,       -- a person's name
  started_by_id text   not null,       -- the same person by id, where the name alone does not identify
  via           text   not null,       -- how an agent started it: mcp, mcp/NAME or agent/NAME; empty: no agent
  started_at    bigint not null,
  ended_at      bigint,
  updated_at    bigint not null,       -- when the status was written
  restart_at    bigint,                -- when a worker may start its next run, because it had not ended when a backup was
                                       -- restored; null if none is due
  primary key (namespace, session)
);
create index sessions_to_restart on sessions (namespace, restart_at) where restart_at is not null;
create index sessions_newest on sessions (namespace, started_at desc, session);
create index sessions_by_status on sessions (namespace, status, started_at desc);
create index sessions_of_team on sessions (namespace, team, started_at desc);
create index sessions_to_mirror on sessions (namespace, session) where mirrored <> revision;

create table session_labels (
  namespace text not null,
  session   text not null,
  name      text not null,
  value     text not null,
  primary key (namespace, session, name),
  foreign key (namespace, session) references sessions on delete cascade
);
create index session_labels_by_value on session_labels (name, value);

-- One row for each Temporal run. An admission inserts it and raises sessions.run in one transaction; a repeated
-- admission finds its own row by temporal_run. A Temporal reset is a run that the table does not know.
create table runs (
  namespace    text   not null,
  session      text   not null,
  run          bigint not null,
  temporal_run text   not null,
  original_run text   not null,        -- the Temporal run that a reset follows; else temporal_run
  first        bigint not null,        -- the first of the runs that continue each other as new
  base         text   not null,        -- digest of the checkpoint that it continues; empty for the first run
  team_digest  text   not null,        -- digest of the team as it was resolved
  selection    text   not null,        -- json: phases to run, to pause after, to force, supplied work, the workspace's source
  plan         text   not null,        -- json: what was restored, runs, is supplied or left, each with its reason
  started_at   bigint not null,
  primary key (namespace, session, run),
  unique (namespace, session, temporal_run),
  foreign key (namespace, session) references sessions on delete cascade
);

-- ------------------------------------------------------------------------------------------------------------------
-- What was done

-- What the session's workflow said of its phases at the newest boundary.
create table phases (
  namespace text    not null,
  session   text    not null,
  phase     text    not null,
  position  integer not null,          -- in the team file, from 0
  state     text    not null check (state in ('pending', 'running', 'help_needed', 'awaiting_approval', 'completed',
                                              'restored', 'supplied', 'skipped', 'failed')),
  primary key (namespace, session, phase),
  foreign key (namespace, session) references sessions on delete cascade
);

-- What the workflow said of each assignment at the newest boundary. It includes work that was restored from another
-- session, which has no other rows here. What has happened since is in rounds and attempts.
create table outcomes (
  namespace    text    not null,
  session      text    not null,
  phase        text    not null,
  persona      text    not null,
  position     integer not null,       -- in the phase, from 0
  state        text    not null check (state in ('pending', 'running', 'waiting', 'help_needed', 'completed',
                                                 'restored', 'supplied', 'skipped', 'failed')),
  substitute   text    not null,       -- the agent that works in place of the persona's own
  agent        text    not null,       -- the agent that worked last, and its model
  model        text    not null,
  rounds       bigint  not null,
  attempts     bigint  not null,       -- counted attempts, over all rounds
  failures     bigint  not null,       -- those of them that failed
  lost_workers bigint  not null,
  failed       text    not null,       -- json: category and message of the last failed attempts
  summary      text    not null,       -- the agent's own
  files        bigint  not null,       -- changed files
  dropped      text    not null,       -- json: versions in a conflict that the phase's result does not have
  left_out     text    not null,       -- json: sentences on what the result does not have of the agent's files
  awaits       text    not null,       -- json: the breaker that it waits for; null if it waits for none
  primary key (namespace, session, phase, persona),
  foreign key (namespace, session) references sessions on delete cascade
);

-- One order of one persona's work in one phase. All rounds on the merged tree belong to the order of the integrator.
create table assignments (
  namespace       text   not null,
  session         text   not null,
  phase           text   not null,
  persona         text   not null,
  pass            bigint not null,
  run             bigint not null,     -- the run that ordered it; first of the runs that continue as new
  ordered         bigint not null,     -- the number of the order in these runs: a repeated order finds its own row
  ordered_because text   not null check (ordered_because in ('start', 'sent_back', 'retried', 'forced', 'resumed')),
  answers_from    bigint not null,     -- the first pass whose stored answers this one may use
  undone          text   not null check (undone in ('', 'sent_back', 'resumed')),
                                       -- why its work counts no more; the rows stay for their cost and their logs
  holder          text   not null,     -- the only execution of an activity that may write the assignment's work: each
                                       -- takes the place of the one before. Empty in the other passes
  primary key (namespace, session, phase, persona, pass),
  foreign key (namespace, session) references sessions on delete cascade
);
create unique index assignments_ordered on assignments (namespace, session, phase, persona, run, ordered);

-- What one activity does for an assignment, or several that continue each other, and the result.
create table rounds (
  namespace          text    not null,
  session            text    not null,
  phase              text    not null,
  persona            text    not null,
  pass               bigint  not null,
  round              bigint  not null,
  activity           text    not null, -- the id of its activity: a repeated execution finds its own round
  sequence           bigint  not null, -- of the activity among those of the assignment: an earlier one is late
  agent              text    not null, -- the agent that works in place of the persona's own
  integrating        integer not null, -- 1: it fixes the phase's merged tree
  supplied           integer not null, -- 1: a person's files are its work
  outcome            text    not null check (outcome in ('', 'succeeded', 'failed', 'failed_for_good')),
                                       -- failed: another round follows by itself; failed_for_good: none does
  at_work            integer not null, -- 1: an execution has started its agent or its checks, and has not noted the end
  lost               bigint  not null, -- workers lost after the agent was started
  lost_at_progress   bigint  not null, -- lost at the last progress; the difference is the losses in a row
  calls              bigint  not null, -- calls of the assignment that had ended when a loss was last examined
  permit             text    not null, -- json: the breaker's permission; null if it has given none yet
  outage             text    not null, -- json: the outage that it waits out; null if there is none
  pauses             text    not null, -- json: waits within its attempts
  -- What its last attempt was based on. Work is reused while all six are unchanged. Empty if none was started.
  basis_persona      text    not null,
  basis_agent        text    not null,
  basis_instructions text    not null,
  basis_requirement  text    not null,
  basis_input        text    not null, -- the manifest that the work started from
  basis_decisions    text    not null,
  basis_target       text    not null, -- where it was delivered to; empty: it was not
  -- Its result, once it has succeeded.
  input              text    not null, -- manifest that the work started from
  delta              text    not null, -- blob of what it changed
  output             text    not null, -- manifest of input and delta
  files              bigint  not null, -- changed files
  decisions          text    not null, -- json: by name
  kept               text    not null, -- json: versions of conflicts that it has kept, with reasons
  summary            text    not null,
  left_out           text    not null, -- json: sentences on what the result does not have of the agent's files
  dropped            text    not null, -- json: versions in conflicts of its input that it does not have
  sends_back         text    not null, -- json: reasons for which it sends an earlier phase's work back
  primary key (namespace, session, phase, persona, pass, round),
  foreign key (namespace, session, phase, persona, pass) references assignments on delete cascade
);

-- Each step of an attempt is durable before the next begins. After a crash the work continues at the last step.
create table attempts (
  namespace   text    not null,
  session     text    not null,
  phase       text    not null,
  persona     text    not null,
  pass        bigint  not null,
  round       bigint  not null,
  attempt     bigint  not null,
  state       text    not null check (state in ('started', 'agent_ended', 'collected', 'recorded', 'failed')),
                                       -- agent_ended: its result and its cost are known, and its files are in its directory;
                                       -- collected: the files are stored, and checks may follow; recorded: the round has
                                       -- succeeded
  agent       text    not null,
  starts_from text    not null check (starts_from in ('', 'input', 'files', 'conversation')),
  continuable integer not null,        -- 1: its agent has a conversation with which a later execution can go on
  directory   text    not null,        -- random name of the directory on one host that has its files, from state agent_ended on
  result      text    not null,        -- json: what the agent said at its end, from state agent_ended on
  files       text    not null,        -- manifest of what it left, from state collected on
  diff        text    not null,        -- blob of the difference from its start, of a failed attempt
  transcript  text    not null,        -- blob
  category    text    not null,        -- of its failure; empty if it has not failed
  message     text    not null,
  output      text    not null,        -- what the agent or the check printed last
  final       integer not null,        -- 1: another attempt would be useless
  retry_after bigint  not null,        -- nanoseconds that the provider asked to wait
  left_out    text    not null,        -- json: what was not taken of its files, with reasons
  started_at  bigint,
  ended_at    bigint,
  primary key (namespace, session, phase, persona, pass, round, attempt),
  foreign key (namespace, session, phase, persona, pass, round) references rounds on delete cascade
);

-- The newest conversation of an agent program, with which a later attempt may go on, also on another host.
create table conversations (
  namespace    text   not null,
  session      text   not null,
  phase        text   not null,
  persona      text   not null,
  preset       text   not null,        -- the kind of program
  conversation text   not null,        -- the program's own id
  booked       text   not null,        -- json: usage at the end of its earlier runs
  home         text   not null,        -- manifest of its files below HOME; empty if they are not stored
  files        text   not null,        -- manifest of the assignment's tree at that time
  primary key (namespace, session, phase, persona),
  foreign key (namespace, session) references sessions on delete cascade
);

-- The pull request by which a phase delivers the work.
create table deliveries (
  namespace      text    not null,
  session        text    not null,
  phase          text    not null,
  host           text    not null,     -- the agent that has the host's address and credentials
  repository     text    not null,
  ordered        text    not null,     -- the repository and the base that the team named
  number         bigint  not null,     -- 0: it is not open yet
  url            text    not null,
  state          text    not null check (state in ('', 'open', 'closed', 'merged')),
  branch         text    not null,
  base           text    not null,
  pushed         text    not null,     -- the newest commit that Maestro has pushed
  work           text    not null,     -- digest of the tree that pushed has, to compare
  head           text    not null,     -- the newest commit of the branch
  draft          integer not null,
  waits_for      text    not null,     -- one sentence
  unanswered     bigint  not null,     -- comments and reviews that are to be sent back
  checks_passed  bigint  not null,
  checks_failed  bigint  not null,
  checks_pending bigint  not null,
  approvals      bigint  not null,
  sending        text    not null,     -- json: the feedback of the newest pass that has sent work back
  sent_back      text    not null,     -- json: ids of what was sent back as feedback
  sent_for       text    not null,     -- the commit that was pushed when feedback was sent back last
  replies        text    not null,     -- json: threads and comments that are to be answered
  reruns         text    not null,     -- json: checks that were run again, as COMMIT/NAME
  conflicts      text    not null,     -- json: commits of others that contradicted the work, which was done again since
  asked_for      text    not null,     -- the commit for which a person was asked to decide
  asked          text    not null,     -- what the person was asked
  pushed_at      bigint,
  changed_at     bigint,               -- when a look has found something new
  primary key (namespace, session, phase),
  foreign key (namespace, session) references sessions on delete cascade
);
create index deliveries_by_number on deliveries (repository, number);

-- The checks of a phase's merged tree, while they run.
create table merges (
  namespace text    not null,
  session   text    not null,
  phase     text    not null,
  run       bigint  not null,
  activity  text    not null,          -- the activity that merges; another one begins anew
  started   integer not null,          -- 1: its checks were started, and their end was not noted
  lost      bigint  not null,          -- workers lost during the checks
  outage    text    not null,          -- json: the host's outage that stopped them; null if there is none
  primary key (namespace, session, phase),
  foreign key (namespace, session) references sessions on delete cascade
);

-- The one document among the rows: made from them in a boundary's transaction, mirrored as checkpoint_<phase>.json.
create table checkpoints (
  namespace   text   not null,
  session     text   not null,
  run         bigint not null,
  boundary_at bigint not null,         -- workflow time: every executor of one boundary writes the same
  phase       text   not null,         -- the phase that it was taken after; init for the first
  digest      text   not null,         -- of the document, a blob
  previous    text   not null,         -- digest of the one before; empty for the first
  tree        text   not null,         -- manifest of all work so far
  mirrored_at bigint,                  -- null: the mirror has yet to get it
  pruned_at   bigint,                  -- null: its document is kept
  primary key (namespace, session, run, boundary_at),
  foreign key (namespace, session) references sessions on delete cascade
);
create index checkpoints_by_digest on checkpoints (digest);

-- ------------------------------------------------------------------------------------------------------------------
-- What it cost

-- Each paid call: the only book. Spent and reserved are sums over it, inside the transaction that reserves.
-- A session's calls outlive its other rows until the retention of usage ends.
create table calls (
  id                 text    primary key,  -- random, made before the call: a repeated insert changes nothing
  namespace          text    not null,
  session            text    not null,
  phase              text    not null,
  persona            text    not null,
  pass               bigint  not null,
  round              bigint  not null,
  attempt            bigint  not null,
  call               bigint  not null,
  run                bigint  not null,     -- the run that pays
  team               text    not null,
  day                text    not null,     -- UTC day of begun_at, like 2026-11-26; it does not change
  agent              text    not null,
  provider           text    not null,
  model              text    not null,
  state              text    not null check (state in ('begun', 'answered', 'failed', 'unsettled', 'closed')),
                                           -- failed: no answer, and its cost is known; unsettled: its cost is not known
                                           -- in full; closed: a person has stated or written off an unsettled one
  request            text    not null,     -- digest of all that the answer depends on; empty for a whole attempt
  answer             text    not null,     -- blob; empty until state answered
  tools              text    not null,     -- blob: what the tools did after the answer
  -- What is held for it while it is begun; 0 afterwards. It grows where a program's report exceeds it.
  reserved_tokens    bigint  not null,
  reserved_nano_usd  bigint  not null,
  -- What is known of its cost. A program reports it while the call is begun.
  input_tokens       bigint  not null,
  output_tokens      bigint  not null,
  reasoning_tokens   bigint  not null,     -- part of output_tokens
  cache_read_tokens  bigint  not null,
  cache_write_tokens bigint  not null,
  cache_write_1h_tokens bigint not null,   -- part of cache_write_tokens
  web_searches       bigint  not null,
  tokens             bigint  not null,     -- the sum that budgets count
  nano_usd           bigint  not null,
  differs            text    not null,     -- how the provider's total differs from its counts; the higher figure counts
  -- The rest of an unsettled call. It counts as spent until a person closes the call.
  estimated_tokens   bigint  not null,
  estimated_nano_usd bigint  not null,
  closed_by          text    not null,
  closed_note        text    not null,
  begun_at           bigint  not null,
  ended_at           bigint,
  closed_at          bigint,
  digest             text    not null      -- of the row's other columns, to find damage
);
create index calls_of_attempt on calls (namespace, session, phase, persona, pass, round, attempt, call);
create index calls_answered on calls (namespace, session, phase, persona, request) where state = 'answered';
create index calls_of_session on calls (namespace, session, state);
create index calls_of_day on calls (team, day);
create index calls_unsettled on calls (team, day) where state in ('begun', 'unsettled');

-- A budget's limit. A reservation locks the rows of every budget that it counts against, in the order of the primary
-- key. Raises are added to it; a budget without a row has no limit.
create table caps (
  namespace     text   not null,       -- empty for a team's day
  session       text   not null,       -- empty for a team's day
  scope         text   not null check (scope in ('day', 'session', 'phase', 'persona')),
  name          text   not null,       -- of the phase, the persona or the team; empty for a session
  tokens        bigint not null,       -- 0: tokens are not limited
  nano_usd      bigint not null,       -- 0: money is not limited
  warned        text   not null,       -- json: warnings of fractions of the cap that were reached
  primary key (namespace, session, scope, name)
);

-- What a person has added to a budget. day is empty but for a team's day.
create table raises (
  id        text   primary key,        -- of the change: a repeated raise changes nothing
  namespace text   not null,
  session   text   not null,
  scope     text   not null,
  name      text   not null,
  day       text   not null,
  tokens    bigint not null,
  nano_usd  bigint not null,
  by_person text   not null,
  via       text   not null,           -- cli, api, dashboard, mcp, web_ui
  note      text   not null,
  at        bigint not null,
  digest    text   not null
);
create index raises_of_budget on raises (namespace, session, scope, name, day);

-- ------------------------------------------------------------------------------------------------------------------
-- Whom it waits for

-- A question to a person. One cause is one request, for as many personas as it stops; an answer is for all of them.
create table requests (
  namespace   text   not null,
  session     text   not null,
  id          text   not null,         -- a reset and a resume make new requests with new ids
  kind        text   not null,         -- help, approval, budget, outage
  phase       text   not null,
  persona     text   not null,         -- empty for an approval
  category    text   not null,         -- of the failure; empty for an approval
  message     text   not null,
  actions     text   not null,         -- json: the answers that it takes, the most common first; none: nobody is asked
  suggestion  text   not null,         -- what may have to be corrected first
  command     text   not null,         -- the shortest way to continue
  skip_effect text   not null,         -- what a skip does, if that is not to continue without the work
  budget_raise text  not null,         -- json: the budget that it is about
  attempts    text   not null,         -- json: the failed attempts
  ticket      text   not null,         -- json: the ticket that was created for it
  quorum      text   not null,         -- json: how many, of which groups, who started; empty if one person decides
  opened_at   bigint,
  until_at    bigint,                  -- when the session stops waiting
  closed_at   bigint,                  -- answered, withdrawn, or the session has ended
  position    integer not null,        -- in the status of the newest boundary, from 1; 0 if it is not in it any more
  primary key (namespace, session, id),
  foreign key (namespace, session) references sessions on delete cascade
);
create index requests_open on requests (namespace, opened_at desc) where closed_at is null;

-- Every answer that a session has applied: for statistics. A person's answers to a quorum are several. The checkpoint has
-- the whole answer.
create table answers (
  namespace   text   not null,
  session     text   not null,
  request     text   not null,         -- id of the request, which an imported session may lack
  person      text   not null,         -- the verified person, or else the name that was given
  at          bigint not null,
  action      text   not null,
  files       text   not null,         -- manifest of supplied files
  opened_at   bigint,                  -- when the request was opened
  primary key (namespace, session, request, person, at),
  foreign key (namespace, session) references sessions on delete cascade
);

-- A rule of a team file whose threshold was reached, once for each session or day.
create table alerts (
  namespace text   not null,
  session   text   not null,
  rule      text   not null,
  detail    text   not null,           -- json: the alert, with the value, the threshold and a sentence on both
  at        bigint not null,
  primary key (namespace, session, rule),
  foreign key (namespace, session) references sessions on delete cascade
);

-- ------------------------------------------------------------------------------------------------------------------
-- Who works, what is shared

-- What a worker offers, renewed while it runs. Deleted 30 days after the last renewal.
create table workers (
  id         text   primary key,
  host       text   not null,
  version    text   not null,
  offer      text   not null,          -- json: process, agents, checks, isolation, limits
  started_at bigint not null,
  renewed_at bigint not null
);

-- The versions of registered teams, by whose names sessions can be started; 100 of each at most.
create table teams (
  team      text   not null,
  digest    text   not null,           -- blob of the resolved team, as sessions record it
  file      text   not null,           -- blob of the team file as it was written
  by_person text   not null,
  at        bigint not null,           -- when it was registered last; the newest version is in force
  primary key (team, digest)
);

-- The circuit breakers of agents and providers. One without a row has never failed.
create table breakers (
  name       text   primary key,
  revision   bigint not null,
  since      bigint not null,          -- when it counted something for the first time
  state      text   not null check (state in ('closed', 'open')),
  failures   integer not null,         -- counted ones in a row
  generation bigint not null,          -- counts changes between closed and open
  trips      integer not null,         -- openings without a closing between them
  open_until bigint,                   -- end of the cooldown; null if it is closed, or open until it is reset
  probes     text   not null,          -- json: leases of the rounds that test the agent
  forced     text   not null,          -- json: who opened it by hand, and why
  last_failure text not null,          -- json: the last counted failure
  settings   text   not null,          -- json
  changed_by text   not null,          -- the last change by hand
  why        text   not null,
  changed_at bigint,                   -- null: it has not changed
  applied    text   not null           -- json: ids of the last changes, so that a repeated report counts once
);

-- The state of tickets while their entity workflows do not run.
create table tickets (
  namespace   text    not null,        -- of Temporal
  name        text    not null,        -- fingerprint of the failure, or the key of a ticket that existed before
  revision    bigint  not null,
  key         text    not null,        -- in the ticket system; empty until it is made
  url         text    not null,
  occurrences integer not null,        -- of the failure
  trouble     text    not null,        -- why it is not up to date; empty if it is
  kind        text    not null,        -- of the last failed call; empty if it worked
  deleted     text    not null,        -- key of an earlier ticket that somebody deleted
  followers   text    not null,        -- json: sessions and requests that wait because of the failure
  seen        text    not null,        -- json: short hashes of accepted notices
  primary key (namespace, name)
);

-- ------------------------------------------------------------------------------------------------------------------
-- Who may, and who did

-- Secrets of programs. Of those that can be used, each has a name of its own. Deleted 90 days after their end.
create table tokens (
  hash       text    primary key,      -- SHA-256 of the secret, which is not kept
  id         text    not null unique,
  name       text    not null,
  roles      text    not null,         -- json: roles by team; * is all teams
  groups     text    not null,         -- json: groups that count in the rules of approvals
  by_person  text    not null,
  by_id      text    not null,         -- the same person by id, where the name alone does not identify
  agent      integer not null,         -- 1: its holder is an agent, and no person
  created_at bigint  not null,
  expires_at bigint,                   -- null: it does not expire
  last_used  text    not null,         -- UTC day; empty: it was not used
  revoked_at bigint,
  revoked_by text    not null
);

-- Browsers that are signed in.
create table browsers (
  hash       text   primary key,       -- SHA-256 of the cookie
  name       text   not null,
  owner      text   not null,          -- who made the one-time link; empty for a person of a provider
  person_id  text   not null,          -- the person by id, where the name alone does not identify
  mail       text   not null,          -- the address that a provider has verified; it decides roles, too
  via        text   not null,          -- account, oidc, link
  groups     text   not null,          -- json: of the provider; they decide the roles whenever it is used
  roles      text   not null,          -- json: those of a one-time link; those of an account are in its row
  created_at bigint not null,
  seen_at    bigint not null,          -- its last use, within an hour; after a day without use it is signed out
  expires_at bigint not null
);
create index browsers_of_person on browsers (person_id);

-- People who have accounts here. Nothing is deleted: records have the names.
create table people (
  id           text   primary key,
  name         text   not null,
  roles        text   not null,        -- json: roles by team; * is all teams
  groups       text   not null,        -- json: groups that count in the rules of approvals
  password     text   not null,        -- argon2id with its parameters; empty: there is none
  by_person    text   not null,        -- who invited the person
  by_id        text   not null,        -- the same person by id, where the name alone does not identify
  created_at   bigint not null,
  joined_at    bigint,                 -- null: the invitation was not used
  signed_in_at bigint,                 -- the last time
  revoked_at   bigint,
  revoked_by   text   not null
);
create unique index people_of_name on people (lower(name));

-- Links with which people make their accounts, recover them, or add a passkey on another device. Deleted when used.
create table invitations (
  hash       text   primary key,       -- SHA-256 of the code, which is not kept
  person     text   not null,
  purpose    text   not null check (purpose in ('account', 'recovery', 'device')),
  expires_at bigint not null
);

-- Passkeys of people (WebAuthn).
create table passkeys (
  id         text   primary key,       -- the credential's, in base64url
  person     text   not null,
  credential text   not null,          -- json: public key, counter and flags
  created_at bigint not null,
  used_at    bigint
);
create index passkeys_of_person on passkeys (person);

-- Ceremonies of passkeys under way. Deleted when used.
create table ceremonies (
  hash       text   primary key,       -- SHA-256 of the browser's cookie
  data       text   not null,          -- json: the challenge, and what it is for
  expires_at bigint not null
);

-- Links that sign in once.
create table links (
  hash       text   primary key,       -- SHA-256 of the code
  id         text   not null unique,   -- named in the audit log
  owner      text   not null,          -- who made it
  name       text   not null,          -- whom it signs in; empty: nobody knows
  roles      text   not null,          -- json: roles by team; * is all teams
  expires_at bigint not null,
  used_at    bigint                    -- null: it can be used
);

-- Servers of the dashboard that run: where links lead to. Each renews its row, and deletes it when it ends.
create table servers (
  address    text    primary key,
  host       text    not null,
  public     integer not null,         -- 1: the address was given to it, and is not that of its listener
  started_at bigint  not null,
  renewed_at bigint  not null          -- two minutes later it counts as ended
);

-- Addresses at which other systems start sessions of one team with signed calls.
create table hooks (
  name       text    primary key,
  kind       text    not null,         -- generic, github, gitlab
  team       text    not null,         -- NAME or NAME@DIGEST
  directory  text    not null,         -- of the server, by name, from whose files sessions start; empty: from none
  labels     text    not null,         -- json: those of its sessions
  places     text    not null,         -- json: where in a generic call the texts are, as JSON pointers
  events     text    not null,         -- json: events of GitHub or GitLab that start a session
  users      text    not null,         -- json: users of GitLab whose commands start a session
  secret     text    not null,         -- signs calls, and is part of the ids of its sessions; a signature needs the secret itself
  by_person  text    not null,
  created_at bigint  not null
);

-- Every change by a person or a program, every denial and every sign-in. A change is written before it is made, and
-- completed with its outcome after it. Nothing is deleted.
create table audit (
  id        bigint primary key,        -- counts up without gaps
  at        bigint not null,           -- not earlier than that of the entry before
  actor     text   not null,           -- name of a person, a token, a one-time link or a hook; empty: nobody was signed in
  owner     text   not null,           -- the person who made the token or the link
  person_id text   not null,           -- the person by id, where the name alone does not identify
  via       text   not null,           -- how the actor was authenticated: cli, token, agent, link, account, oidc, hook
  program   text   not null,           -- mcp or mcp/NAME: a program did it with the rights of the actor
  address   text   not null,           -- of the client; empty: the program ran on a host of the installation
  action    text   not null,           -- noun and verb, like session.cancel
  session   text   not null,
  team      text   not null,
  subject   text   not null,           -- what was changed, besides the session: a phase, a breaker, a token
  detail    text   not null,
  outcome   text   not null check (outcome in ('', 'done', 'denied', 'failed')),
                                       -- empty: it is under way, or its process ended before it did
  failure   text   not null,           -- why it failed or was denied
  ended_at  bigint                     -- null: it has not ended, or was written with its outcome
);
create index audit_by_time on audit (at, id);
create index audit_of_session on audit (session, id);
create index audit_of_team on audit (team, id);
create index audit_of_actor on audit (actor, id);
create index audit_of_owner on audit (owner, id);

-- The answer to a change that a client may send again with a key of its own, kept for a day.
create table idempotency (
  key          text    primary key,    -- SHA-256 of who sends it, and of the client's key
  request      text    not null,       -- SHA-256 of the request: another one with the same key is refused
  change_id    text    not null,       -- the same in all tries: the operation makes a change with one id once
  tried_at     bigint,                 -- when the try at work began, which is lost after two minutes; null: none is
  status       integer not null,       -- of HTTP; 0: there is no answer
  content_type text    not null,
  answer       text    not null,
  at           bigint  not null        -- of the first try
);
create index idempotency_old on idempotency (at);

-- ------------------------------------------------------------------------------------------------------------------
-- What is kept

-- Content that a person of a team may name when a session starts: a digest is not a permission. Kept for 30 days.
create table uploads (
  team      text   not null,
  digest    text   not null,           -- of a manifest
  by_person text   not null,
  left_out  text   not null,           -- json: sentences on what of the archive was not stored
  at        bigint not null,
  primary key (team, digest)
);
create index uploads_old on uploads (at);

-- Where the content is, if it is in a bucket: an object has one blob, or many one after the other. An object is written once,
-- before its rows, and never changed. With a directory, the table is empty.
create table blobs (
  digest  text    primary key,
  size    bigint  not null,
  object  text    not null,            -- its name in the bucket: when it was begun by this database's clock, and random letters
  start   bigint  not null,            -- where the blob begins in the object
  kind    integer not null,            -- what it refers to, judged by its first bytes: 0 nothing, 1 a tree, 2 a delta, 3 a checkpoint
  used_at bigint  not null             -- when it was last put or used, to the hour
);
create index blobs_of_object on blobs (object);

-- When a session was last changed, for live pages and for what is derived from rows: readers ask for what has a higher
-- number than the last one that they saw.
create table changes (
  name   text   primary key,           -- of the session with its namespace, like default/shop
  number bigint not null               -- counts up; taken under a lock, so that no smaller one appears later
);
create unique index changes_by_number on changes (number);
