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
    unsigned steps; /* counts everything that is told */
};

/* Forks, which is safe only before any library is loaded, and runs the command. Where there is no
 * memory for a process, or the user wants none, it runs here. */
enum exit_code worker_run(struct console *console, struct args *args);

/* `state` may be NULL: the command is not in a worker. */
void worker_tell_doing(struct worker_state *state, const char *doing);
void worker_tell_end(struct worker_state *state, enum exit_code code);
void worker_tell_model(struct worker_state *state, const struct onnxptq_report *report);
/* Callback of the library's options; `user` is the state. */
void worker_tell_activity(void *user, const struct onnxptq_activity *activity);

/* ---- After its death (worker_end.c) ---- */

struct worker_end {
    int status;       /* of waitpid() */
    bool timed_out;   /* ended by the parent, since it did not get on for `seconds` */
    bool interrupted; /* ended by the parent, since it did not stop when the user wanted */
    unsigned long seconds;
};

/* Says what happened; the exit code of that. */
enum exit_code worker_explain(struct console *console, const struct args *args,
                              const struct worker_state *state, const struct worker_end *end);
/* Whether the state of its calibration is kept for --resume even when that was not given. */
bool worker_may_go_on(const struct worker_state *state, const struct worker_end *end);
/* Removes the temporary files of that process beside `output`. */
void worker_remove_leftovers(const char *output, pid_t process);

#endif
