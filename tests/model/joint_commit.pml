// SPDX-License-Identifier: Apache-2.0
// The commit of one save by three ranks in one directory: every order of their steps, with whatever happens to them.
//
//   1. Rank 0 has made .tmp-<name>-<uuid>; all have joined it, and      core/save_ranks.cpp: join_directory
//      written their files
//   2. A rank syncs its files, its table and its directories            io/durable_file.cpp; joined_directory.cpp: prepare
//   3. A rank but rank 0 is committing from here on, and votes          joint/save_protocol.cpp: after
//   4. Rank 0 has all votes, looks for the files, writes and syncs      joint/joint_save.cpp: collect_votes;
//      COMMIT                                                           store/publish.cpp: publish_staged, seal
//   5. Rank 0 asks its commit state whether it may                      store/publish.cpp: require_permission
//   6. The temporary directory gets the target's name; in an overwrite  rename_staged; publish_by_exchange
//      the two change places
//   7. The parent is synced, and then .owner                            settle: sync_visible, require_working_file_system
//   8. The commit has ended; rank 0 tells the verdict                   core/save_job.cpp: end_publish_step
//   9. The old checkpoint goes, unless somebody was told `unknown`      require_retirement, remove_retired
//  10. A rank that has voted does what the verdict says, or, where it   core/save_ranks.cpp: decide_alone, hear
//      cannot hear rank 0, what the disk says                           store/joined_directory.cpp: decide
//  11. A rank that fails says so to all, and cleans up                  core/save_job.cpp: tell_failure, abandon;
//                                                                       core/save_ranks.cpp: end, attribute
//
// Each rank is a process that takes these steps; instead of any of them it may die. `Fate` stops ranks, gives them up,
// cuts them off, and shuts the file system down. A recovery begins at any moment when there is something to remove. The
// power is cut at every moment: `keep_promises` looks at all that would be left. One statement or one `atomic` is one
// step, and between two of them everything else may happen.
//
// -DOVERWRITE: an old checkpoint is there. -DMUTANT_...: one step is wrong; `check` has the list.

#define RANKS 3

mtype:state = {running, stopped, committing, committed, given_up};  // CommitState::State; there it is called `unknown`.
mtype:word = {nothing_yet, says_committed, says_aborted, says_unknown};
mtype:content = {nothing, old, new};        // The directory that a name leads to.
mtype:files = {missing, written, durable};  // Those of one rank; of rank 0 COMMIT, too.

// The names in the parent.
#define TMP 0
#define TARGET 1
#define TRASH 2

// What programs see, what is durable, and which names have changed places between the two, in this order. Each of
// these changes needs the one before, so a power cut keeps some of the first ones.
#define MOST_PENDING 8
mtype:content at[3];
mtype:content durable_at[3];
byte pending[MOST_PENDING];
byte pendings;
mtype:files part[RANKS];  // The new checkpoint's files.
bool is_old_whole = true;
bool is_shut_down;  // The file system: changes and syncs of files fail, but syncs of directories say that they succeed.

// The ranks.
bool is_alive[RANKS] = true;
bool has_ended[RANKS];
bool is_cut_off[RANKS];  // It and rank 0 do not hear each other.
bool is_stopped[RANKS];
mtype:state commit[RANKS] = running;
mtype:word told[RANKS] = nothing_yet;  // To the caller, whom only the first answer reaches.

// What they have said to each other. It arrives at any later moment; who waits too long finds others lost. So where a
// rank says something after a step of its own, the two are one step here: nobody could tell whether it was said late or
// has arrived late.
bool has_failed;  // Some rank, in the session of the work.
bool has_voted[RANKS];
mtype:word verdict = nothing_yet;  // In the session of the verdict.

bool has_let_go;  // Rank 0, of the lock on .owner.
bool is_calm;     // From here on nobody dies or is stopped, and no line is cut: all that live must come to their end.

#define is_lock_free (!is_alive[0] || has_let_go)
#define is_lost(r) (!has_ended[r] && (!is_alive[r] || is_cut_off[r]))
#define cannot_hear_rank_0(r) (!is_alive[0] || is_cut_off[r])
#define has_somebody_failed (has_failed || is_lost(0) || is_lost(1) || is_lost(2))  // Who finds one lost tells all.
#define has_been_told(what) (told[0] == what || told[1] == what || told[2] == what)
#define is_new_whole (part[0] != missing && part[1] != missing && part[2] != missing)
#define is_new_synced (part[0] == durable && part[1] == durable && part[2] == durable)

// The promises. ---------------------------------------------------------------------------------------------------------

hidden mtype:content after_cut[3];
hidden mtype:content moving;
hidden byte kept;
hidden byte from;
hidden byte to;

// Asked whenever something has changed on the disk, and when somebody has been told something: what a reader finds, now
// and after a power cut now, is whole, and is what was told. A cut ends all ranks; of files that were not synced it
// keeps nothing, or all, as now. A recovery that follows never touches what has the target's name.
inline keep_promises() {
  assert(at[TARGET] != new || is_new_whole);
  after_cut[TMP] = durable_at[TMP];
  after_cut[TARGET] = durable_at[TARGET];
  after_cut[TRASH] = durable_at[TRASH];
  kept = 0;
  do
  :: kept <= pendings ->
    assert(after_cut[TARGET] != new || is_new_synced);
    assert(after_cut[TARGET] != new || !has_been_told(says_aborted));
    assert(after_cut[TARGET] == new || !has_been_told(says_committed));
    assert(after_cut[TARGET] != old || is_old_whole);
#ifdef OVERWRITE
    assert(after_cut[TARGET] != nothing);
#endif
    from = pending[kept] / 3;
    to = pending[kept] % 3;
    if
    :: from == to -> after_cut[from] = nothing
    :: else ->
      moving = after_cut[from];
      after_cut[from] = after_cut[to];
      after_cut[to] = moving
    fi;
    kept++
  :: else -> break
  od
}

// Says to the caller of a rank what has become of the save, unless it has been told.
inline tell(r, what) {
  if
  :: told[r] == nothing_yet ->
    told[r] = what;
    assert(!(has_been_told(says_committed) && has_been_told(says_aborted)));
    keep_promises()
  :: else
  fi
}

// The disk. -------------------------------------------------------------------------------------------------------------

// Two names change places. Where one of them leads to nothing that is a rename which does not replace.
inline exchange(a, b) {
  assert(pendings + 1 < MOST_PENDING);
  moving = at[a];
  at[a] = at[b];
  at[b] = moving;
  pending[pendings] = a * 3 + b;
  pendings++;
  keep_promises()
}

// A name goes; what it led to has lost its files before.
inline remove_name(a) {
  assert(pendings + 1 < MOST_PENDING);
  at[a] = nothing;
  pending[pendings] = a * 3 + a;
  pendings++;
  keep_promises()
}

inline remove_new(r) {
  part[r] = missing;
  keep_promises()
}

inline remove_old() {
  is_old_whole = false;
  keep_promises()
}

inline sync_parent() {
  durable_at[TMP] = at[TMP];
  durable_at[TARGET] = at[TARGET];
  durable_at[TRASH] = at[TRASH];
  do
  :: pendings > 0 -> pendings--; pending[pendings] = 0
  :: else -> break
  od;
  keep_promises()
}

// What a rank does. -----------------------------------------------------------------------------------------------------

// Instead of the next step. What it has said and nobody has heard is lost with it.
#define OR_DIES(r) \
  :: atomic { !is_calm -> is_alive[r] = false; commit[r] = running; is_stopped[r] = false; goto gone }

// The first verdict counts.
inline send_verdict(what) {
  if
  :: verdict == nothing_yet -> verdict = what
  :: else
  fi
}

// A rank fails: its save is stopped where it does not commit yet, and all are told; of rank 0 that is the verdict, too.
inline fail(r, what) {
  if
  :: commit[r] == running -> commit[r] = stopped
  :: else
  fi;
  has_failed = true;
  if
  :: r == 0 -> send_verdict(what)
  :: else
  fi
}

// The last step. Nobody asks for the state of a rank that has ended, so it is always the same then.
inline end_with(r, what) {
  tell(r, what);
  has_ended[r] = true;
  is_stopped[r] = false;
  commit[r] = committed
}

proctype Rank0() {
  if  // Step 4.
#ifdef MUTANT_DOES_NOT_WAIT_FOR_ALL_VOTES
  :: atomic { (has_voted[1] || has_voted[2]) && !is_shut_down -> part[0] = durable }
#else
  :: atomic { has_voted[1] && has_voted[2] && !is_shut_down -> part[0] = durable }
#endif
  :: !is_calm || commit[0] == stopped || is_shut_down -> goto failed  // It was stopped; a disk is full, a handler fails.
  OR_DIES(0)
  fi;

  if  // Step 5.
  :: atomic { commit[0] == running -> commit[0] = committing }
#ifdef MUTANT_DOES_NOT_ASK_WHETHER_IT_MAY
  :: commit[0] == stopped
#else
  :: commit[0] == stopped -> goto failed
#endif
  OR_DIES(0)
  fi;

  if  // Step 6.
  :: atomic { !is_shut_down && at[TMP] == new -> exchange(TMP, TARGET) }
  :: atomic { !is_shut_down && at[TMP] == new -> exchange(TMP, TARGET); goto unknown }  // The call says that it failed,
  :: is_shut_down -> goto unknown                                                       // and nobody can look.
  :: is_shut_down -> goto failed
  :: !is_shut_down && at[TMP] != new -> goto failed  // Another rank has moved it.
  OR_DIES(0)
  fi;

#ifdef MUTANT_TELLS_BEFORE_THE_SYNC
  atomic { send_verdict(says_committed) };
#endif
#ifdef MUTANT_RETIRES_BEFORE_THE_SYNC
  atomic { remove_old() };
#endif

  if  // Step 7.
  :: atomic { !is_shut_down -> sync_parent() }
  :: is_shut_down
  :: goto unknown
  OR_DIES(0)
  fi;
#ifndef MUTANT_RANK_0_SYNCS_NO_FILE
  if
  :: !is_shut_down
  :: goto unknown
  OR_DIES(0)
  fi;
#endif

  if  // Step 8.
  :: atomic { commit[0] != given_up -> commit[0] = committed; send_verdict(says_committed) }
  :: atomic { commit[0] == given_up -> send_verdict(says_committed) }
  OR_DIES(0)
  fi;

  if  // Step 9.
#ifdef MUTANT_RETIRES_IN_ANY_CASE
  :: atomic { at[TMP] == old -> assert(told[0] != says_unknown); remove_old() }
#else
  :: atomic { commit[0] == committed && at[TMP] == old -> assert(told[0] != says_unknown); remove_old() }
#endif
  :: goto is_committed  // There is none, or a call fails, or another rank has moved it.
  OR_DIES(0)
  fi;
  if
  :: atomic { !is_shut_down && at[TMP] == old -> remove_name(TMP) }
  :: is_shut_down || at[TMP] != old
  OR_DIES(0)
  fi;
is_committed:
  if
  :: atomic { end_with(0, says_committed); goto gone }
  OR_DIES(0)
  fi;

failed:  // Step 11.
  if
  :: atomic { true -> fail(0, says_aborted) }
  OR_DIES(0)
  fi;
  if
  :: atomic { true -> has_let_go = true; remove_new(0) }
  OR_DIES(0)
  fi;
  if
  :: atomic { !is_shut_down && at[TMP] == new -> remove_name(TMP) }
  :: is_shut_down || at[TMP] != new
  OR_DIES(0)
  fi;
  if
  :: atomic { end_with(0, says_aborted); goto gone }
  OR_DIES(0)
  fi;

unknown:  // Nothing is removed.
  if
  :: atomic { true -> fail(0, says_unknown); has_let_go = true; end_with(0, says_unknown) }
  OR_DIES(0)
  fi;
gone:
}

proctype Rank(byte r) {
  mtype:word decision = nothing_yet;
  bool has_moved = false;
  bool is_disputed = false;

  if  // Step 2.
#ifdef MUTANT_VOTES_BEFORE_ITS_SYNC
  :: true
#else
  :: atomic { !is_shut_down -> part[r] = durable }
#endif
  :: !is_calm || is_shut_down -> goto failed
  OR_DIES(r)
  fi;

  if  // Step 3. Rank 2 after rank 1: what happens the other way round is the same with their numbers changed.
  :: atomic { commit[r] == running && (r == 1 || has_voted[1]) -> commit[r] = committing; has_voted[r] = true }
  :: commit[r] == stopped -> goto failed
  OR_DIES(r)
  fi;

  if  // Step 10.
  :: atomic { verdict != nothing_yet -> decision = verdict; goto apply }
#ifdef MUTANT_TAKES_ITS_VOTE_BACK
  :: atomic { is_stopped[r] -> decision = says_aborted; goto apply }
#endif
#ifndef MUTANT_WAITS_FOR_EVER
  :: cannot_hear_rank_0(r)
#endif
  OR_DIES(r)
  fi;

#ifdef MUTANT_SAYS_ABORTED_WITHOUT_A_LOOK
  atomic { decision = says_aborted; goto apply };
#endif
#ifdef MUTANT_LOOKS_AND_FORBIDS_NOTHING
  if
  :: atomic { at[TARGET] != new -> decision = says_aborted; goto apply }
  :: at[TARGET] == new
  fi;
#endif

  if
  :: atomic { !is_shut_down && at[TMP] != nothing && at[TRASH] == nothing -> exchange(TMP, TRASH); has_moved = true }
  :: !is_shut_down && at[TMP] == nothing
  :: atomic { true -> decision = says_unknown; goto apply }  // The rename fails, or there is none that does not replace.
  OR_DIES(r)
  fi;

  if  // What was moved, by this rank or by another one?
#ifdef MUTANT_TAKES_WHAT_IT_HAS_MOVED_FOR_ITS_OWN
  :: atomic { at[TRASH] == new || has_moved -> is_disputed = true; has_moved = false }
#else
  :: atomic { at[TRASH] == new -> is_disputed = true; has_moved = false }
#endif
  :: at[TRASH] != new && has_moved -> goto put_back
  :: at[TRASH] != new && !has_moved -> goto look
  OR_DIES(r)
  fi;
  if
  :: atomic { !is_shut_down -> sync_parent(); decision = says_aborted; goto apply }
  :: atomic { is_shut_down -> decision = says_aborted; goto apply }
  :: atomic { true -> decision = says_unknown; goto apply }
  OR_DIES(r)
  fi;

put_back:  // The old checkpoint.
  if
  :: atomic { !is_shut_down && at[TRASH] == old && at[TMP] == nothing -> exchange(TRASH, TMP); has_moved = false }
  :: has_moved = false  // It is recovery's.
  OR_DIES(r)
  fi;

look:
  if
  :: at[TARGET] == new && is_new_whole
  :: atomic { at[TARGET] != new || !is_new_whole -> decision = says_unknown; goto apply }
  OR_DIES(r)
  fi;
#ifndef MUTANT_LONE_RANK_DOES_NOT_SYNC
  if
  :: atomic { !is_shut_down -> sync_parent() }
  :: is_shut_down
  :: atomic { true -> decision = says_unknown; goto apply }
  OR_DIES(r)
  fi;
#endif
#ifndef MUTANT_LONE_RANK_SYNCS_NO_FILE
  if
  :: !is_shut_down
  :: atomic { true -> decision = says_unknown; goto apply }
  OR_DIES(r)
  fi;
#endif
  decision = says_committed;

apply:
  if
  :: atomic { decision == says_committed -> end_with(r, says_committed); goto gone }
#ifdef MUTANT_REMOVES_ITS_FILES_WHEN_IT_DOES_NOT_KNOW
  :: atomic { decision == says_unknown -> fail(r, says_unknown); remove_new(r); end_with(r, says_unknown); goto gone }
#else
  :: atomic { decision == says_unknown -> fail(r, says_unknown); end_with(r, says_unknown); goto gone }
#endif
  :: decision == says_aborted || decision == nothing_yet  // It takes back what it had handed over.
  OR_DIES(r)
  fi;

failed:  // Step 11.
  if
  :: atomic { true -> fail(r, says_aborted) }
  OR_DIES(r)
  fi;
  if  // `attribute`: a rank that has not voted, and may have failed because of another one, hears what came first.
  :: atomic { decision == nothing_yet && verdict != nothing_yet -> assert(verdict == says_aborted) }
  :: decision == nothing_yet && cannot_hear_rank_0(r)
  :: decision == says_aborted
  OR_DIES(r)
  fi;
  if
  :: atomic { true -> remove_new(r) }
  OR_DIES(r)
  fi;
  if  // `remove_rest`, where rank 0 has let go of it.
  :: atomic { !is_disputed && !is_shut_down && at[TMP] == new && is_lock_free -> remove_new(0) }
  :: goto is_aborted
  OR_DIES(r)
  fi;
  if
  :: atomic { !is_shut_down && at[TMP] == new -> remove_name(TMP) }
  :: is_shut_down || at[TMP] != new
  OR_DIES(r)
  fi;
is_aborted:
  if
  :: atomic { end_with(r, says_aborted) }
  OR_DIES(r)
  fi;
gone:
  atomic { decision = nothing_yet; has_moved = false; is_disputed = false }
}

// What happens to them. -------------------------------------------------------------------------------------------------

// A rank is stopped: by its user, a deadline, or because another rank has failed (`take_peer_failure`).
#define STOPS(r) \
  :: atomic { \
    is_alive[r] && !has_ended[r] && !is_stopped[r] && told[r] == nothing_yet && \
      (!is_calm || (commit[r] == running && has_somebody_failed)) -> \
    is_stopped[r] = true; \
    if \
    :: r != 0 || commit[r] == running -> fail(r, says_aborted) \
    :: else \
    fi \
  }

// The time is over that it may take to end (`Operation::give_up`): its caller is told what is known.
#ifdef MUTANT_GIVES_UP_A_COMMIT_AS_ABORTED
#define WORD_OF_COMMITTING says_aborted
#else
#define WORD_OF_COMMITTING says_unknown
#endif
#define IS_GIVEN_UP(r) \
  :: atomic { \
    !is_calm && is_alive[r] && is_stopped[r] && told[r] == nothing_yet -> \
    if \
    :: commit[r] == stopped -> tell(r, says_aborted) \
    :: commit[r] == committing -> commit[r] = given_up; tell(r, WORD_OF_COMMITTING) \
    :: commit[r] == committed -> tell(r, says_committed) \
    fi \
  }

#define IS_CUT_OFF(r) \
  :: atomic { !is_calm && is_alive[0] && is_alive[r] && !has_ended[r] && !is_cut_off[r] -> is_cut_off[r] = true }

proctype Fate() {
end:
  do
  STOPS(0)
  STOPS(1)
  STOPS(2)
  IS_GIVEN_UP(0)
  IS_GIVEN_UP(1)
  IS_GIVEN_UP(2)
  IS_CUT_OFF(1)
  IS_CUT_OFF(2)
#ifndef NO_SHUTDOWN
  :: atomic { !is_calm && !is_shut_down -> is_shut_down = true }
#endif
  :: atomic { !is_calm -> is_calm = true }
  od
}

// What recovery removes: a temporary directory without a writer; an old checkpoint whose place a sound one has.
#define is_abandoned(name) (at[name] == new && is_lock_free)
#define is_retired(name) (at[name] == old && (name == TRASH || (at[TARGET] == new && is_new_whole)))

// Recovery::execute: what is under the name is judged again, loses its files, and then the name.
inline clean(name, was_abandoned, was_retired) {
  if
  :: atomic { !is_shut_down && was_abandoned && is_abandoned(name) -> remove_new(0) };
    if
    :: atomic { !is_shut_down && at[name] == new -> remove_name(name) }
    :: is_shut_down || at[name] != new
    fi
  :: atomic { !is_shut_down && was_retired && is_retired(name) -> remove_old() };
    if
    :: atomic { !is_shut_down && at[name] == old -> remove_name(name) }
    :: is_shut_down || at[name] != old
    fi
  :: is_shut_down || !((was_abandoned && is_abandoned(name)) || (was_retired && is_retired(name)))
  fi;
  atomic { was_abandoned = false; was_retired = false }
}

proctype Recovery() {
  bool was_tmp_abandoned, was_tmp_retired, was_trash_abandoned, was_trash_retired;
end:
  atomic {  // It scans. Where there is nothing to remove it does nothing else.
    is_abandoned(TMP) || is_retired(TMP) || is_abandoned(TRASH) || is_retired(TRASH) ->
    was_tmp_abandoned = is_abandoned(TMP);
    was_tmp_retired = is_retired(TMP);
    was_trash_abandoned = is_abandoned(TRASH);
    was_trash_retired = is_retired(TRASH)
  };
#ifndef MUTANT_RECOVERY_DOES_NOT_SYNC
  if
  :: atomic { !is_shut_down -> sync_parent() }
  :: is_shut_down
  fi;
#endif
  clean(TMP, was_tmp_abandoned, was_tmp_retired);
  clean(TRASH, was_trash_abandoned, was_trash_retired)
}

init {
  atomic {
    at[TMP] = new;
    at[TARGET] = nothing;
    at[TRASH] = nothing;
#ifdef OVERWRITE
    at[TARGET] = old;
#endif
    sync_parent();
    part[0] = missing;
    part[1] = written;
    part[2] = written;
    run Rank0();
    run Rank(1);
    run Rank(2);
#ifndef NO_RECOVERY
    run Recovery();
#endif
    run Fate()
  }
}
