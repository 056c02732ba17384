/*
 * Starting a team, and what becomes of it. A member that dies is begun again once, from its last
 * state: what it died of may have been an accident, and the samples of the others are not lost.
 */
#define _GNU_SOURCE /* sched_getaffinity */

#include "team.h"
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
    /* Of the member that brings the team down. */
    bool failed;
    struct worker_state last;
    struct worker_end end;
    size_t n_accidents; /* members that were begun again, and how the first ended */
    char accident[WORKER_TEXT_SIZE];
    bool is_member; /* this process is one of them */
};

/* ---- A member ------------------------------------------------------------------------------ */

/* The processors are shared, unless the user says how many threads each has. */
static uint64_t choose_threads(size_t n) {
    cpu_set_t set;
    int available = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
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
    args->part = i;
    args->n_parts = team->n;
    args->go_on = true;
    if (args->threads == 0) {
        args->threads = choose_threads(team->n);
    }
    return worker_run_here(console, args);
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
    if (!team->failed && !worker_interrupted()) {
        team->failed = true;
        team->last = *worker->state;
        team->end = worker->end;
    }
    stop_all(team);
}

/* What kills it at once, or hangs, or comes from outside, is not tried again. */
static bool may_be_accident(const struct team *team, size_t i) {
    const struct worker *worker = &team->workers[i];
    return team->tries[i] < TRIES && !team->failed && !worker_interrupted() &&
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

static void show_progress(const struct team *team) {
    size_t done = 0, total = 0;
    for (size_t i = 0; i < team->n; i++) {
        if (team->states[i].total == 0 && !team->states[i].finished) {
            return; /* how much there is to do is not known yet */
        }
        done += team->states[i].done;
        total += team->states[i].total;
    }
    if (total > 0) {
        (void)console_progress(team->console, "calibrate", done, total);
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

/* ---- All of it ----------------------------------------------------------------------------- */

/* Files of earlier teams, which may have been of another size. */
static enum exit_code prepare_state(struct console *console, const struct args *args) {
    struct onnxptq_error error = {0};
    enum onnxptq_status status = args->resume ? onnxptq_state_join(args->state_path, &error)
                                              : onnxptq_state_discard(args->state_path, &error);
    return status == ONNXPTQ_OK ? EXIT_DONE : console_fail(console, &error, "onnxptq --help");
}

/* What the members did is kept as one file, or not at all. */
static void keep_state(const struct team *team, bool keep) {
    struct onnxptq_error error;
    if (keep && onnxptq_state_join(team->args->state_path, &error) == ONNXPTQ_OK) {
        return;
    }
    resume_drop_state(team->args);
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

static enum exit_code tell_end(struct team *team) {
    struct console *console = team->console;
    console_clear_progress(console);
    if (worker_interrupted()) {
        keep_state(team, true);
        return resume_tell_interrupt(console, team->args);
    }
    if (!team->failed) {
        tell_accidents(team);
        return EXIT_DONE;
    }
    bool told = team->last.finished;
    keep_state(team, team->args->resume || (!told && worker_may_go_on(&team->last, &team->end)));
    if (!told) {
        return worker_explain(console, team->args, &team->last, &team->end);
    }
    return console_fail(console, &team->last.error, NULL);
}

static enum exit_code run_members(struct team *team) {
    enum exit_code code = prepare_state(team->console, team->args);
    if (code != EXIT_DONE || !start_all(team, &code) || !wait_for_all(team, &code)) {
        return code;
    }
    return tell_end(team);
}

static enum exit_code run_team(struct console *console, struct args *args) {
    struct team *team = calloc(1, sizeof *team);
    struct worker_state *states = worker_states_map((size_t)args->jobs);
    enum exit_code code = EXIT_FAILED;
    bool alone = team == NULL || states == NULL;
    if (!alone) {
        *team = (struct team){
            .console = console, .args = args, .states = states, .n = (size_t)args->jobs};
        code = run_members(team);
        alone = code == EXIT_DONE && !team->is_member;
        args->go_on = alone;
    }
    free(team);
    worker_states_unmap(states, (size_t)args->jobs);
    return alone ? worker_run(console, args) : code;
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
    if (!check_options(args, &error)) {
        return console_fail(console, &error, "onnxptq --help");
    }
    if (!resume_name_state(console, args, &code)) {
        return code;
    }
    bool shared = args->jobs > 1 && args->state_path != NULL;
    return shared ? run_team(console, args) : worker_run(console, args);
}
