/*
 * What remains of a worker that did not finish: an explanation, and files.
 */
#include "resume.h"
#include "worker.h"

#include <dirent.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- Its files ----------------------------------------------------------------------------- */

/* Temporary files lie beside the output: its name (of which the system may not take all), the
 * worker's number, something random, ".tmp". */
static bool is_temporary(const char *name, const char *output, pid_t process) {
    enum { LONGEST_STEM = 200 };
    char number[16];
    size_t length = strlen(name), stem = strnlen(output, LONGEST_STEM);
    int digits = snprintf(number, sizeof number, ".%d.", (int)process);
    return length > stem + 4 && strncmp(name, output, stem) == 0 &&
           strncmp(name + stem, number, (size_t)digits) == 0 &&
           strcmp(name + length - 4, ".tmp") == 0;
}

static void remove_file(const char *folder, const char *name) {
    char path[PATH_MAX];
    int length = snprintf(path, sizeof path, "%s/%s", folder, name);
    if (length > 0 && (size_t)length < sizeof path) {
        unlink(path);
    }
}

static void remove_beside(const char *output, pid_t process) {
    const char *slash = strrchr(output, '/');
    char *folder = slash == NULL     ? strdup(".")
                   : slash == output ? strdup("/")
                                     : strndup(output, (size_t)(slash - output));
    DIR *entries = folder != NULL ? opendir(folder) : NULL;
    struct dirent *entry = NULL;
    while (entries != NULL && (entry = readdir(entries)) != NULL) {
        if (is_temporary(entry->d_name, slash != NULL ? slash + 1 : output, process)) {
            remove_file(folder, entry->d_name);
        }
    }
    if (entries != NULL) {
        closedir(entries);
    }
    free(folder);
}

/* They lie beside the file that a link leads to; those of its weights, when they are kept outside,
 * beside the link. */
void worker_remove_leftovers(const char *output, pid_t process) {
    char data[PATH_MAX];
    char *target = realpath(output, NULL);
    int length = snprintf(data, sizeof data, "%s.data", output);
    remove_beside(target != NULL ? target : output, process);
    if (length > 0 && (size_t)length < sizeof data) {
        remove_beside(data, process);
    }
    free(target);
}

/* ---- What it was doing --------------------------------------------------------------------- */

#define TEXT_SIZE WORKER_TEXT_SIZE

/* ", at sample 3 of calibrate" */
static void describe_place(const struct worker_state *state, char text[TEXT_SIZE]) {
    if (state->stage[0] == '\0') {
        snprintf(text, TEXT_SIZE, "in step '%s'", state->doing);
    } else if (strcmp(state->stage, "close") == 0) {
        snprintf(text, TEXT_SIZE, "while a session was closed in step '%s'", state->doing);
    } else if (strcmp(state->stage, "load") == 0) {
        snprintf(text, TEXT_SIZE, "while libraries were loaded");
    } else if (state->n_samples == 0) {
        snprintf(text, TEXT_SIZE, "while a model was loaded for %s", state->stage);
    } else if (state->n_samples == 1) {
        snprintf(text, TEXT_SIZE, "at sample %zu of %s", state->first_sample, state->stage);
    } else {
        snprintf(text, TEXT_SIZE, "in the run of %zu samples from %zu on of %s", state->n_samples,
                 state->first_sample, state->stage);
    }
}

/* Said of the process, or of what made it do so. */
static void describe_end(const struct worker_end *end, bool process, char text[TEXT_SIZE]) {
    if (end->timed_out) {
        snprintf(text, TEXT_SIZE, "did not come to an end within %lu s (--timeout)", end->seconds);
    } else if (WIFSIGNALED(end->status)) {
        snprintf(text, TEXT_SIZE, "was killed by signal %d (%s)", WTERMSIG(end->status),
                 strsignal(WTERMSIG(end->status)));
    } else {
        snprintf(text, TEXT_SIZE, "%s with exit code %d",
                 process ? "came to its end" : "ended the process", WEXITSTATUS(end->status));
    }
}

void worker_describe(const struct worker_state *state, const struct worker_end *end,
                     char text[WORKER_TEXT_SIZE]) {
    char how[TEXT_SIZE], where[TEXT_SIZE];
    bool known = state->node[0] != '\0';
    describe_end(end, true, how);
    describe_place(state, where);
    snprintf(text, TEXT_SIZE, "%.120s %.200s%s%.200s%s%.300s%s", how, where,
             known ? ", in node '" : "", state->node, known ? "' of library '" : "",
             known ? state->current_library : "", known ? "'" : "");
}

/* A node, or a library being loaded, was at it: known to be its doing. */
static enum exit_code blame_one(struct console *console, const struct worker_state *state,
                                const char *how, const char *where) {
    if (state->node[0] != '\0') {
        return console_fail_text(
            console, ONNXPTQ_ERROR_LIBRARY, NULL,
            "cannot run node '%s': its operator %s, of custom operator library '%s', %s %s; "
            "nothing was written",
            state->node, state->op, state->current_library, how, where);
    }
    return console_fail_text(console, ONNXPTQ_ERROR_LIBRARY, NULL,
                             "cannot load custom operator library '%s': it %s while it was loaded; "
                             "nothing was written",
                             state->current_library, how);
}

static enum exit_code blame_all(struct console *console, const struct worker_state *state,
                                bool timed_out, const char *how, const char *where) {
    bool known = state->operators[0] != '\0';
    if (state->libraries[0] == '\0') {
        return console_fail_text(
            console, ONNXPTQ_ERROR_RUNTIME, NULL,
            "cannot finish: the process %s %s; no custom operator library was loaded: %s", how,
            where,
            timed_out ? "the model may take longer, or never come to an end by itself"
                      : "ONNX Runtime or onnxptq is to blame, please report it");
    }
    return console_fail_text(console, ONNXPTQ_ERROR_LIBRARY, NULL,
                             "cannot finish: the process %s %s; look for the fault in the custom "
                             "operator libraries %s%s%s",
                             how, where, state->libraries, known ? ", whose nodes are " : "",
                             state->operators);
}

static bool is_interrupt(const struct worker_end *end) {
    int number = WIFSIGNALED(end->status) && !end->timed_out ? WTERMSIG(end->status) : 0;
    return end->interrupted || number == SIGINT || number == SIGTERM || number == SIGHUP ||
           number == SIGALRM;
}

/* What a fault of a library leaves is of no use; what came from outside is no fault of the run. An
 * earlier run's state is still there while this one has not begun to calibrate. */
bool worker_may_go_on(const struct worker_state *state, const struct worker_end *end) {
    bool killed = WIFSIGNALED(end->status) && WTERMSIG(end->status) == SIGKILL && !end->timed_out;
    bool early = strcmp(state->doing, "read") == 0 || strcmp(state->doing, "trace and plan") == 0;
    return killed || early || is_interrupt(end);
}

enum exit_code worker_explain(struct console *console, const struct args *args,
                              const struct worker_state *state, const struct worker_end *end) {
    char how[TEXT_SIZE], where[TEXT_SIZE];
    console->bar_drawn = console->terminal; /* perhaps by the worker */
    if (is_interrupt(end)) {
        return resume_tell_interrupt(console, args);
    }
    bool one = state->current_library[0] != '\0';
    describe_end(end, !one, how);
    describe_place(state, where);
    if (WIFSIGNALED(end->status) && WTERMSIG(end->status) == SIGKILL && !end->timed_out) {
        return console_fail_text(console, ONNXPTQ_ERROR_MEMORY, NULL,
                                 "cannot finish: the process %s %s%s%s%s; the system may be out of "
                                 "memory%s",
                                 how, where, state->node[0] != '\0' ? ", node '" : "", state->node,
                                 state->node[0] != '\0' ? "'" : "",
                                 resume_has_state(args)
                                     ? "; the same command with --resume goes on from what was done"
                                     : "");
    }
    return one ? blame_one(console, state, how, where)
               : blame_all(console, state, end->timed_out, how, where);
}
