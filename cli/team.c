/*
 * Starting a team, and what becomes of it. A member that dies is begun again once, from its last
 * state: what it died of may have been an accident, and the samples of the others are not lost.
 */
#define _GNU_SOURCE /* sched_getaffinity */

#include "team.h"
#include "ranks.h"
#include "resume.h"

#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define TRIES 2

struct team {
    struct console *console;
    struct args *args;
    struct worker workers[WORKER_MAX];
    size_t tries[WORKER_MAX];
    struct worker_state *states;
    size_t n;
    const struct ranks *ranks; /* NULL: mpirun is not at work */
    bool stopped;              /* another rank has failed */
    /* Of the member that brings the team down. */
    bool failed;
    struct worker_state last;
    struct worker_end end;
    size_t n_accidents; /* members that were begun again, and how the first ended */
    char accident[WORKER_TEXT_SIZE];
    bool is_member; /* this process is one of them */
};

/* ---- A member ------------------------------------------------------------------------------ */

/* The processors are shared, unless the user says how many threads each has. Those that mpirun has
 * bound this process to are its own. */
static uint64_t choose_threads(const struct team *team) {
    cpu_set_t set;
    int available = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
    bool bound = available < sysconf(_SC_NPROCESSORS_ONLN);
    size_t n = team->n * (team->ranks != NULL && !bound ? team->ranks->n_here : 1);
    uint64_t share = (uint64_t)available / n;
    return share > 0 ? share : 1;
}

/* It speaks through its state; of the runtime's messages, those of one are enough. */
static enum exit_code be_member(struct team *team, size_t i) {
    struct args *args = team->args;
    struct console *console = team->console;
    team->is_member = true;
    console->member = true;
    console->verbose = console->verbose && i == 0;
    args->part = (team->ranks != NULL ? team->ranks->rank * team->n : 0) + i;
    args->n_parts = (team->ranks != NULL ? team->ranks->size : 1) * team->n;
    args->go_on = true;
    if (args->threads == 0) {
        args->threads = choose_threads(team);
    }
    enum exit_code code = worker_run_here(console, args);
    if (team->ranks != NULL) {
        fflush(NULL);
        _exit((int)code); /* MPI's exit handlers are the parent's */
    }
    return code;
}

static bool start_member(struct team *team, size_t i, enum exit_code *code) {
    struct worker *worker = &team->workers[i];
    worker->state = &team->states[i];
    team->tries[i]++;
    pid_t process = worker_start(team->console, team->args, worker);
    if (process == 0) {
        *code = be_member(team, i);
    }
    return process > 0;
}

/* ---- Their ends ---------------------------------------------------------------------------- */

static void stop_all(struct team *team) {
    for (size_t i = 0; i < team->n; i++) {
        if (team->tries[i] > 0) {
            worker_stop(&team->workers[i]);
        }
    }
}

/* The first failure is the one to tell; those of members that were asked to stop are none. */
static void note_failure(struct team *team, const struct worker *worker) {
    if (!team->failed && !worker_interrupted() && !team->stopped) {
        team->failed = true;
        if (team->ranks != NULL) {
            team->ranks->tell_failure();
        }
        team->last = *worker->state;
        team->end = worker->end;
    }
    stop_all(team);
}

/* What kills it at once, or hangs, or comes from outside, is not tried again. */
static bool may_be_accident(const struct team *team, size_t i) {
    const struct worker *worker = &team->workers[i];
    return team->tries[i] < TRIES && !team->failed && !team->stopped && !worker_interrupted() &&
           !worker->end.timed_out && !worker->end.interrupted &&
           strcmp(worker->state->doing, "calibrate") == 0;
}

/* False in a process that has become a member. */
static bool settle(struct team *team, size_t i, enum exit_code *code) {
    struct worker *worker = &team->workers[i];
    const struct worker_state *state = worker->state;
    if (state->finished && state->code == EXIT_DONE) {
        return true;
    }
    if (state->finished) {
        note_failure(team, worker);
        return true;
    }
    worker_clean_up(team->args, worker);
    if (may_be_accident(team, i)) {
        if (team->n_accidents++ == 0) {
            worker_describe(state, &worker->end, team->accident);
        }
        (void)start_member(team, i, code);
        return !team->is_member;
    }
    note_failure(team, worker);
    return true;
}

/* Of all ranks, on the first of them. */
static void show_progress(struct team *team) {
    uint64_t done = 0, total = 0;
    bool known = true;
    for (size_t i = 0; i < team->n; i++) {
        const struct worker_state *state = &team->states[i];
        known = known && (state->total > 0 || state->finished);
        done += state->done;
        total += state->total;
    }
    total = known ? total : 0;
    if (team->ranks != NULL && !team->ranks->poll(&done, &total)) {
        team->stopped = true;
        stop_all(team);
    }
    if (total > 0 && (team->ranks == NULL || team->ranks->rank == 0)) {
        (void)console_progress(team->console, "calibrate", (size_t)done, (size_t)total);
    }
}

/* Until all have ended. False in a process that has become a member. */
static bool wait_for_all(struct team *team, enum exit_code *code) {
    for (;;) {
        bool running = false;
        for (size_t i = 0; i < team->n; i++) {
            struct worker *worker = &team->workers[i];
            if (worker->ended) {
                continue;
            }
            if (worker_has_ended(worker, (unsigned long)team->args->timeout) &&
                !settle(team, i, code)) {
                return false;
            }
            running = running || !worker->ended;
        }
        show_progress(team);
        if (!running) {
            return true;
        }
        worker_sleep(0.1);
    }
}

static bool start_all(struct team *team, enum exit_code *code) {
    for (size_t i = 0; i < team->n; i++) {
        if (!start_member(team, i, code)) {
            if (!team->is_member) {
                team->workers[i].ended = true; /* the last worker does its share */
                team->states[i].finished = true;
            } else {
                return false;
            }
        }
    }
    return true;
}

/* ---- How it all ended ---------------------------------------------------------------------- */

/* What a rank has to say to the others, or this process to itself. */
enum outcome { OUTCOME_DONE, OUTCOME_STOPPED, OUTCOME_INTERRUPTED, OUTCOME_FAILED };

static enum outcome outcome_of(const struct team *team) {
    return team->failed           ? OUTCOME_FAILED
           : team->stopped        ? OUTCOME_STOPPED
           : worker_interrupted() ? OUTCOME_INTERRUPTED
                                  : OUTCOME_DONE;
}

/* The result is whole, but a library that crashes now and then is a thing to know of. */
static void tell_accidents(const struct team *team) {
    if (team->n_accidents == 0 || team->console->quiet) {
        return;
    }
    fprintf(stderr,
            "onnxptq: warning: %zu of the processes died and %s begun again: ", team->n_accidents,
            team->n_accidents == 1 ? "was" : "were");
    print_text(stderr, team->n_accidents == 1 ? "it " : "the first ");
    print_text(stderr, team->accident);
    fputc('\n', stderr);
}

/* What the members did is kept as one file, or not at all. */
static void keep_state(const struct team *team, bool keep) {
    struct onnxptq_error error;
    bool first = team->ranks == NULL || team->ranks->rank == 0;
    if (keep && (!first || onnxptq_state_join(team->args->state_path, &error) == ONNXPTQ_OK)) {
        return;
    }
    resume_drop_state(team->args);
}

static bool is_worth_keeping(const struct team *team, enum outcome outcome) {
    return outcome != OUTCOME_FAILED || team->args->resume ||
           (!team->last.finished && worker_may_go_on(&team->last, &team->end));
}

static enum exit_code tell_end(const struct team *team, enum outcome outcome) {
    if (outcome == OUTCOME_INTERRUPTED) {
        return resume_tell_interrupt(team->console, team->args);
    }
    return team->last.finished ? console_fail(team->console, &team->last.error, NULL)
                               : worker_explain(team->console, team->args, &team->last, &team->end);
}

/* The first rank with the worst end speaks for all. */
static size_t choose_speaker(const struct ranks *ranks, const int *outcomes) {
    size_t speaker = 0;
    for (size_t i = 1; i < ranks->size; i++) {
        speaker = outcomes[i] > outcomes[speaker] ? i : speaker;
    }
    return speaker;
}

/* All ranks have the same exit code, once the one that failed has said why. */
static enum exit_code end_with_ranks(const struct team *team, enum outcome outcome) {
    const struct ranks *ranks = team->ranks;
    int *outcomes = calloc(ranks->size, sizeof *outcomes), code = EXIT_FAILED;
    if (outcomes == NULL) {
        return console_fail_text(team->console, ONNXPTQ_ERROR_MEMORY, NULL, "out of memory");
    }
    ranks->meet((int)outcome, outcomes);
    size_t speaker = choose_speaker(ranks, outcomes);
    enum outcome worst = (enum outcome)outcomes[speaker];
    free(outcomes);
    if (worst == OUTCOME_DONE) {
        ranks_bring_states(ranks, team->args->state_path, team->n);
        return EXIT_DONE;
    }
    keep_state(team, ranks->share_from(speaker, is_worth_keeping(team, worst)) != 0);
    (void)ranks->share(0); /* the first has joined the states */
    if (ranks->rank == speaker) {
        code = (int)tell_end(team, worst);
    }
    return (enum exit_code)ranks->share_from(speaker, code);
}

static enum exit_code end_alone(const struct team *team, enum outcome outcome) {
    if (outcome == OUTCOME_DONE) {
        return EXIT_DONE;
    }
    keep_state(team, is_worth_keeping(team, outcome));
    return tell_end(team, outcome);
}

/* ---- All of it ----------------------------------------------------------------------------- */

/* Files of earlier teams, which may have been of another size. */
static enum exit_code prepare_state(const struct team *team) {
    struct onnxptq_error error = {0};
    const struct args *args = team->args;
    enum exit_code code = EXIT_DONE;
    if (team->ranks == NULL || team->ranks->rank == 0) {
        enum onnxptq_status status = args->resume ? onnxptq_state_join(args->state_path, &error)
                                                  : onnxptq_state_discard(args->state_path, &error);
        code = status == ONNXPTQ_OK ? EXIT_DONE
                                    : console_fail(team->console, &error, "onnxptq --help");
    }
    return team->ranks != NULL ? (enum exit_code)team->ranks->share((int)code) : code;
}

static enum exit_code run_members(struct team *team) {
    enum exit_code code = prepare_state(team);
    if (code != EXIT_DONE || !start_all(team, &code) || !wait_for_all(team, &code)) {
        return code;
    }
    console_clear_progress(team->console);
    enum outcome outcome = outcome_of(team);
    if (outcome == OUTCOME_DONE) {
        tell_accidents(team);
    }
    return team->ranks != NULL ? end_with_ranks(team, outcome) : end_alone(team, outcome);
}

/* Whether this process goes on alone, from what the team has left. */
static bool run_team(struct console *console, struct args *args, const struct ranks *ranks,
                     enum exit_code *code) {
    size_t n = args->jobs > 0 ? (size_t)args->jobs : 1;
    struct team *team = calloc(1, sizeof *team);
    struct worker_state *states = worker_states_map(n);
    bool go_on = false;
    if (team == NULL || states == NULL) {
        *code = console_fail_text(console, ONNXPTQ_ERROR_MEMORY, NULL,
                                  "cannot share memory between processes");
    } else {
        *team = (struct team){
            .console = console, .args = args, .states = states, .n = n, .ranks = ranks};
        *code = run_members(team);
        go_on = *code == EXIT_DONE && !team->is_member && (ranks == NULL || ranks->rank == 0);
    }
    free(team);
    worker_states_unmap(states, n);
    return go_on;
}

static enum exit_code run_shared(struct console *console, struct args *args,
                                 const struct ranks *ranks) {
    enum exit_code code = EXIT_DONE;
    bool alone = ranks != NULL && args->state_path == NULL; /* there is nothing to share */
    bool go_on = alone ? ranks->rank == 0 : run_team(console, args, ranks, &code);
    if (ranks != NULL) {
        ranks->close();
    }
    args->go_on = !alone;
    return go_on ? worker_run(console, args) : code;
}

static bool check_options(const struct args *args, struct onnxptq_error *error) {
    error->status = ONNXPTQ_ERROR_USAGE;
    const char *option = args->timeout > 0 ? "timeout" : "jobs";
    if (args->in_process && (args->timeout > 0 || args->jobs > 1)) {
        snprintf(error->message, sizeof error->message,
                 "cannot use --%s with --in-process: it takes processes of their own; leave one "
                 "of them out",
                 option);
        return false;
    }
    if (args->jobs > WORKER_MAX) {
        snprintf(error->message, sizeof error->message,
                 "cannot run %llu jobs: there are %d at most; take --shard for more",
                 (unsigned long long)args->jobs, WORKER_MAX);
        return false;
    }
    return true;
}

enum exit_code team_run(struct console *console, struct args *args) {
    struct onnxptq_error error = {0};
    enum exit_code code = EXIT_DONE;
    const struct ranks *ranks = NULL;
    bool follower = ranks_is_follower();
    if (follower && (args->command->bit & FOR_RUNS) == 0) {
        return EXIT_DONE; /* the first rank does what cannot be shared */
    }
    if (!check_options(args, &error)) {
        return follower ? EXIT_DONE : console_fail(console, &error, "onnxptq --help");
    }
    if (!resume_name_state(console, args, &code)) {
        return code;
    }
    if ((args->command->bit & FOR_RUNS) != 0 && !ranks_open(console, &ranks)) {
        return EXIT_FAILED;
    }
    if (ranks != NULL && !ranks->agree(args->hash)) {
        ranks->close(); /* each has a command of its own */
        ranks = NULL;
    }
    bool shared = ranks != NULL || (args->jobs > 1 && args->state_path != NULL);
    return shared ? run_shared(console, args, ranks) : worker_run(console, args);
}
