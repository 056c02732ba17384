/*
 * The worker process.
 */
#include "worker.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#ifdef __linux__
#include <sys/prctl.h>
#endif

/* ---- What the worker tells ----------------------------------------------------------------- */

void worker_tell_doing(struct worker_state *state, const char *doing) {
    if (state != NULL) {
        snprintf(state->doing, sizeof state->doing, "%s", doing);
        state->n_done = 0;
    }
}

void worker_tell_end(struct worker_state *state, enum exit_code code) {
    if (state != NULL) {
        state->code = code;
        state->finished = true;
    }
}

static void append_quoted(char *text, size_t size, const char *name, const char *op) {
    size_t used = strlen(text);
    if (used + 16 < size) {
        snprintf(text + used, size - used, "%s'%s'%s%s%s", used > 0 ? ", " : "", name,
                 op ? " (" : "", op ? op : "", op ? ")" : "");
    }
}

void worker_tell_model(struct worker_state *state, const struct onnxptq_report *report) {
    for (size_t i = 0; state != NULL && i < report->n_nodes; i++) {
        const struct onnxptq_node_report *node = &report->nodes[i];
        if (node->decision == ONNXPTQ_DECISION_FOREIGN) {
            append_quoted(state->operators, sizeof state->operators, node->name, node->op);
        }
    }
}

/* ---- Signals to the parent ----------------------------------------------------------------- */

static volatile pid_t worker_process; /* a signal handler has no other way to know */

/* Interrupts of a terminal reach the worker by themselves; what was sent to this process alone is
 * passed on. */
static void pass_on(int number, siginfo_t *info, void *context) {
    (void)context;
    int saved = errno;
    if (info->si_code <= 0 && worker_process > 0) {
        kill(worker_process, number);
    }
    errno = saved;
}

static void list_stopping_signals(sigset_t *set) {
    sigemptyset(set);
    sigaddset(set, SIGINT);
    sigaddset(set, SIGTERM);
    sigaddset(set, SIGHUP);
}

static void pass_signals_on(void) {
    struct sigaction action = {.sa_sigaction = pass_on, .sa_flags = SA_SIGINFO};
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGHUP, &action, NULL);
}

/* A worker without a parent stops at its next step. */
static void follow_parent(pid_t parent) {
#ifdef __linux__
    prctl(PR_SET_PDEATHSIG, SIGTERM);
#endif
    if (getppid() != parent) {
        raise(SIGTERM);
    }
}

/* Forks with these signals held back, so that none is lost before both sides are ready for it. */
static pid_t start_worker(struct console *console, struct worker_state *state) {
    sigset_t stopping, before;
    list_stopping_signals(&stopping);
    sigprocmask(SIG_BLOCK, &stopping, &before);
    pid_t parent = getpid();
    fflush(NULL);
    pid_t process = fork();
    if (process == 0) {
        console->worker = state;
        follow_parent(parent);
    } else if (process > 0) {
        worker_process = process;
        pass_signals_on();
    }
    sigprocmask(SIG_SETMASK, &before, NULL);
    return process;
}

/* ---- After its death ----------------------------------------------------------------------- */

/* Temporary files lie beside the output: its name (of which the system may not take all), the
 * worker's number, something random, ".tmp". */
static bool is_temporary(const char *name, const char *output) {
    enum { LONGEST_STEM = 200 };
    char process[16];
    size_t length = strlen(name), stem = strnlen(output, LONGEST_STEM);
    int digits = snprintf(process, sizeof process, ".%d.", (int)worker_process);
    return length > stem + 4 && strncmp(name, output, stem) == 0 &&
           strncmp(name + stem, process, (size_t)digits) == 0 &&
           strcmp(name + length - 4, ".tmp") == 0;
}

static void remove_file(const char *folder, const char *name) {
    char path[PATH_MAX];
    int length = snprintf(path, sizeof path, "%s/%s", folder, name);
    if (length > 0 && (size_t)length < sizeof path) {
        unlink(path);
    }
}

static void remove_beside(const char *output) {
    const char *slash = strrchr(output, '/');
    char *folder = slash == NULL     ? strdup(".")
                   : slash == output ? strdup("/")
                                     : strndup(output, (size_t)(slash - output));
    DIR *entries = folder != NULL ? opendir(folder) : NULL;
    struct dirent *entry = NULL;
    while (entries != NULL && (entry = readdir(entries)) != NULL) {
        if (is_temporary(entry->d_name, slash != NULL ? slash + 1 : output)) {
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
static void remove_leftovers(const char *output) {
    char data[PATH_MAX];
    char *target = realpath(output, NULL);
    int length = snprintf(data, sizeof data, "%s.data", output);
    remove_beside(target != NULL ? target : output);
    if (length > 0 && (size_t)length < sizeof data) {
        remove_beside(data);
    }
    free(target);
}

static const char *describe_end(int status, char *text, size_t size) {
    if (WIFSIGNALED(status)) {
        snprintf(text, size, "was killed by signal %d (%s)", WTERMSIG(status),
                 strsignal(WTERMSIG(status)));
    } else {
        snprintf(text, size, "ended by itself with exit code %d", WEXITSTATUS(status));
    }
    return text;
}

static enum exit_code explain_death(struct console *console, const struct worker_state *state,
                                    int status) {
    char end[96];
    describe_end(status, end, sizeof end);
    int number = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    if (number == SIGINT || number == SIGTERM || number == SIGHUP || number == SIGALRM) {
        return console_fail_text(console, ONNXPTQ_ERROR_CANCELLED, NULL, INTERRUPTED);
    }
    if (number == SIGKILL) {
        return console_fail_text(
            console, ONNXPTQ_ERROR_MEMORY, NULL,
            "cannot finish: the process that ran '%s' %s; the system may be out "
            "of memory",
            state->doing, end);
    }
    if (state->libraries[0] == '\0') {
        return console_fail_text(
            console, ONNXPTQ_ERROR_RUNTIME, NULL,
            "cannot finish: the process that ran '%s' %s after %zu samples; no "
            "custom operator library was loaded: ONNX Runtime or onnxptq is to "
            "blame, please report it",
            state->doing, end, state->n_done);
    }
    bool known = state->operators[0] != '\0';
    return console_fail_text(
        console, ONNXPTQ_ERROR_LIBRARY, NULL,
        "cannot finish: the process that ran '%s' %s after %zu samples; look for "
        "the fault in the custom operator libraries %s%s%s",
        state->doing, end, state->n_done, state->libraries, known ? ", whose nodes are " : "",
        state->operators);
}

/* ---- Run ----------------------------------------------------------------------------------- */

static enum exit_code run_here(struct console *console, struct args *args) {
    if (console->worker != NULL) {
        results_hide(console);
    }
    enum exit_code code = args->command->run(console, args);
    worker_tell_end(console->worker, code);
    return code;
}

static enum exit_code wait_for(struct console *console, const struct args *args,
                               const struct worker_state *state) {
    int status = 0;
    while (waitpid(worker_process, &status, 0) == -1) {
        if (errno != EINTR) {
            return console_fail_text(console, ONNXPTQ_ERROR_INTERNAL, NULL,
                                     "cannot wait for the worker: %s", strerror(errno));
        }
    }
    if (state->finished) {
        /* A library may crash when it is unloaded, which changes nothing any more. */
        return WIFEXITED(status) ? (enum exit_code)WEXITSTATUS(status) : state->code;
    }
    if (args->output != NULL) {
        remove_leftovers(args->output);
    }
    return explain_death(console, state, status);
}

enum exit_code worker_run(struct console *console, struct args *args) {
    struct worker_state *state =
        mmap(NULL, sizeof *state, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (state == MAP_FAILED) {
        return run_here(console, args);
    }
    for (size_t i = 0; i < args->libraries.n; i++) {
        append_quoted(state->libraries, sizeof state->libraries, args->libraries.items[i], NULL);
    }
    worker_tell_doing(state, "read");
    pid_t process = start_worker(console, state);
    if (process == 0) {
        return run_here(console, args);
    }
    enum exit_code code = process == -1 ? run_here(console, args) : wait_for(console, args, state);
    munmap(state, sizeof *state);
    return code;
}
