/*
 * The worker: a command runs in a child process, because it loads and runs libraries of others, and
 * what they do to their process must not be the end of the tool. The parent waits; when the worker
 * dies or hangs the parent says what it was doing, and removes what it left.
 */
#ifndef ONNXPTQ_CLI_WORKER_H
#define ONNXPTQ_CLI_WORKER_H

#include "args.h"

#include <sys/types.h>

/* What the worker tells the parent, in memory that both see. Texts are cut to size; a worker that
 * dies while it writes one leaves an old one, or a part. */
struct worker_state {
    bool finished; /* all is done, with this code; unloading libraries remains */
    enum exit_code code;
    char doing[32];                        /* step of the command */
    char libraries[1024], operators[4096]; /* of the user */
    char stage[64];                        /* of onnxptq_activity; empty: our own code runs */
    char node[512], op[256], current_library[1024];
    size_t first_sample, n_samples;
    unsigned steps;             /* counts everything that is told */
    size_t done, total;         /* samples of calibration; of a member of a team (team.h) */
    struct onnxptq_error error; /* the first; the same */
};

struct worker_end {
    int status;       /* of waitpid() */
    bool timed_out;   /* ended by the parent, since it did not get on for `seconds` */
    bool interrupted; /* ended by the parent, since it did not stop when the user wanted */
    unsigned long seconds;
};

/* Since when the worker has told nothing new, and since when it has been asked to stop. */
struct worker_watch {
    unsigned steps;
    bool finished;
    double time, since, asked; /* `asked` 0: not yet */
};

/* A worker, as the parent sees it. */
struct worker {
    pid_t process;
    struct worker_state *state;
    struct worker_watch watch;
    bool ended;
    struct worker_end end;
};

/* How many there may be at a time. */
#define WORKER_MAX 256

/* Runs the command in a worker. Where there is no memory for a process, or the user wants none, it
 * runs here. */
enum exit_code worker_run(struct console *console, struct args *args);
/* Without a worker, or in it. */
enum exit_code worker_run_here(struct console *console, struct args *args);

/* Memory that processes share; NULL: there is none. */
struct worker_state *worker_states_map(size_t n);
void worker_states_unmap(struct worker_state *states, size_t n); /* NULL is allowed */

/* Forks, which is safe only before any library is loaded. As fork() returns: 0 in the worker, -1
 * when the system does not allow it. worker->state is given. */
pid_t worker_start(struct console *console, const struct args *args, struct worker *worker);
/* Ends a worker that a library does not let go on for `timeout` seconds, 0: for ever. */
bool worker_has_ended(struct worker *worker, unsigned long timeout);
/* Until a worker has ended or the time is up. */
void worker_sleep(double seconds);
/* Asks it to come to its end, as an interrupt does. */
void worker_stop(struct worker *worker);
/* An interrupt has come; workers were told. */
bool worker_interrupted(void);
/* After the death of a worker: its temporary files go, what it told is made readable. */
void worker_clean_up(const struct args *args, const struct worker *worker);

/* `state` may be NULL: the command is not in a worker. */
void worker_tell_doing(struct worker_state *state, const char *doing);
void worker_tell_end(struct worker_state *state, enum exit_code code);
void worker_tell_libraries(struct worker_state *state, const struct args *args);
void worker_tell_progress(struct worker_state *state, const char *stage, size_t done, size_t total);
void worker_tell_error(struct worker_state *state, const struct onnxptq_error *error);
void worker_tell_model(struct worker_state *state, const struct onnxptq_report *report);
/* Callback of the library's options; `user` is the state. */
void worker_tell_activity(void *user, const struct onnxptq_activity *activity);

/* ---- After its death (worker_end.c) ---- */

/* "was killed by signal 11 (...) at sample 3 of calibrate, in node ..." */
#define WORKER_TEXT_SIZE 1024
void worker_describe(const struct worker_state *state, const struct worker_end *end,
                     char text[WORKER_TEXT_SIZE]);
/* Says what happened; the exit code of that. */
enum exit_code worker_explain(struct console *console, const struct args *args,
                              const struct worker_state *state, const struct worker_end *end);
/* Whether the state of its calibration is kept for --resume even when that was not given. */
bool worker_may_go_on(const struct worker_state *state, const struct worker_end *end);
/* Removes the temporary files of that process beside `output`. */
void worker_remove_leftovers(const char *output, pid_t process);

#endif
