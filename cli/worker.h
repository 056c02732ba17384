/*
 * The worker: a command runs in a child process, because it loads and runs libraries of others, and
 * what they do to their process must not be the end of the tool. The parent waits; when the worker
 * dies the parent says so, and removes what it left.
 */
#ifndef ONNXPTQ_CLI_WORKER_H
#define ONNXPTQ_CLI_WORKER_H

#include "args.h"

/* What the worker tells the parent, in memory that both see. */
struct worker_state {
    bool finished; /* all is done, with this code; unloading libraries remains */
    enum exit_code code;
    char doing[32];
    size_t n_done; /* samples of this stage */
    char libraries[1024], operators[4096];
};

/* Forks, which is safe only before any library is loaded, and runs the command. Where there is no
 * memory for a process, it runs here. */
enum exit_code worker_run(struct console *console, struct args *args);

/* `state` may be NULL: the command is not in a worker. */
void worker_tell_doing(struct worker_state *state, const char *doing);
void worker_tell_end(struct worker_state *state, enum exit_code code);
void worker_tell_model(struct worker_state *state, const struct onnxptq_report *report);

#endif
