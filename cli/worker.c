/*
 * The worker process.
 */
#include "worker.h"
#include "resume.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#ifdef __linux__
#include <sys/prctl.h>
#endif

/* ---- What the worker tells ----------------------------------------------------------------- */

void worker_tell_doing(struct worker_state *state, const char *doing) {
    if (state != NULL) {
        snprintf(state->doing, sizeof state->doing, "%s", doing);
        state->steps++;
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

/* Strings are empty where there is none. */
static void copy_text(char *to, size_t size, const char *from) {
    snprintf(to, size, "%s", from != NULL ? from : "");
}

void worker_tell_activity(void *user, const struct onnxptq_activity *activity) {
    struct worker_state *state = user;
    copy_text(state->node, sizeof state->node, activity->node);
    copy_text(state->op, sizeof state->op, activity->op);
    copy_text(state->current_library, sizeof state->current_library, activity->library);
    copy_text(state->stage, sizeof state->stage, activity->stage);
    state->first_sample = activity->first_sample;
    state->n_samples = activity->n_samples;
    state->steps++;
}

/* ---- Signals to the parent ----------------------------------------------------------------- */

static volatile pid_t worker_process; /* a signal handler has no other way to know, nor to tell */
static volatile sig_atomic_t n_interrupts;

/* Interrupts of a terminal reach the worker by themselves; what was sent to this process alone is
 * passed on. */
static void pass_on(int number, siginfo_t *info, void *context) {
    (void)context;
    int saved = errno;
    n_interrupts++;
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

static void wake(int number) {
    (void)number; /* ends the parent's sleep */
}

static void pass_signals_on(void) {
    struct sigaction action = {.sa_sigaction = pass_on, .sa_flags = SA_SIGINFO};
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGHUP, &action, NULL);
    struct sigaction end = {.sa_handler = wake, .sa_flags = SA_NOCLDSTOP};
    sigemptyset(&end.sa_mask);
    sigaction(SIGCHLD, &end, NULL);
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
        sigset_t child;
        sigemptyset(&child);
        sigaddset(&child, SIGCHLD);
        sigprocmask(SIG_BLOCK, &child, NULL);
        sigaddset(&before, SIGCHLD);
    }
    sigprocmask(SIG_SETMASK, &before, NULL);
    return process;
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

/* ---- Waiting ------------------------------------------------------------------------------- */

/* How long unloading libraries may take at most once all is done. */
#define SECONDS_TO_UNLOAD 10
/* After an interrupt the worker comes to its end by itself within five seconds, unless a library
 * took its signals away, or stopped it. */
#define SECONDS_TO_OBEY 7
#define SECONDS_TO_OBEY_TWO 1
/* A sleep that took longer: this process was stopped, and the worker with it. */
#define SECONDS_OF_PAUSE 1

static double now(void) {
    struct timespec time = {0};
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

/* Until the worker has ended, or the time is up. False in the latter case. SIGCHLD is blocked but
 * while this sleeps. */
static bool sleep_until_end(double seconds, int *status) {
    struct timespec time = {.tv_sec = (time_t)seconds,
                            .tv_nsec = (long)((seconds - (double)(time_t)seconds) * 1e9)};
    sigset_t open;
    sigprocmask(SIG_BLOCK, NULL, &open);
    sigdelset(&open, SIGCHLD);
    pid_t ended = waitpid(worker_process, status, WNOHANG);
    if (ended == 0) {
        pselect(0, NULL, NULL, NULL, &time, &open);
        ended = waitpid(worker_process, status, WNOHANG);
    }
    return ended != 0;
}

/* Since when the worker has told nothing new, and since when it has been asked to stop. */
struct watch {
    unsigned steps;
    bool finished;
    double time, since, asked; /* `asked` 0: not yet */
};

static void look(struct watch *watch, const struct worker_state *state) {
    double time = now(), pause = time - watch->time;
    watch->time = time;
    if (watch->steps != state->steps || watch->finished != state->finished) {
        watch->steps = state->steps;
        watch->finished = state->finished;
        watch->since = time;
    } else if (pause > SECONDS_OF_PAUSE) {
        watch->since += pause;
    }
    if (n_interrupts > 0 && watch->asked <= 0) {
        watch->asked = time;
    }
}

/* Code of others that does not get on is ended; ours may take as long as it needs. */
static bool is_overdue(const struct watch *watch, const struct worker_state *state,
                       unsigned long timeout) {
    bool theirs = watch->finished || state->stage[0] != '\0';
    double limit = (double)timeout;
    if (watch->finished && (timeout == 0 || timeout > SECONDS_TO_UNLOAD)) {
        limit = SECONDS_TO_UNLOAD;
    }
    return theirs && limit > 0 && watch->time - watch->since > limit;
}

static bool disobeys(const struct watch *watch) {
    double limit = n_interrupts > 1 ? SECONDS_TO_OBEY_TWO : SECONDS_TO_OBEY;
    return watch->asked > 0 && watch->time - watch->asked > limit;
}

static void wait_for_end(const struct worker_state *state, unsigned long timeout,
                         struct worker_end *end) {
    struct watch watch = {.time = now()};
    watch.since = watch.time;
    while (!sleep_until_end(0.1, &end->status)) {
        look(&watch, state);
        bool disobedient = disobeys(&watch);
        if (disobedient || is_overdue(&watch, state, timeout)) {
            *end = (struct worker_end){
                .interrupted = disobedient, .timed_out = !disobedient, .seconds = timeout};
            kill(worker_process, SIGKILL);
            while (waitpid(worker_process, &end->status, 0) == -1 && errno == EINTR) {
            }
            return;
        }
    }
}

/* What a library makes of the end of the process changes nothing any more; what a sanitizer finds
 * by then does. */
static enum exit_code code_of(const struct worker_state *state, const struct worker_end *end) {
#if defined(__SANITIZE_ADDRESS__)
    if (WIFEXITED(end->status)) {
        return (enum exit_code)WEXITSTATUS(end->status);
    }
#endif
    (void)end;
    return state->code;
}

/* A library that writes where it should not may have written here. */
static void end_texts(struct worker_state *state) {
    state->doing[sizeof state->doing - 1] = '\0';
    state->libraries[sizeof state->libraries - 1] = '\0';
    state->operators[sizeof state->operators - 1] = '\0';
    state->stage[sizeof state->stage - 1] = '\0';
    state->node[sizeof state->node - 1] = '\0';
    state->op[sizeof state->op - 1] = '\0';
    state->current_library[sizeof state->current_library - 1] = '\0';
}

static enum exit_code wait_for(struct console *console, const struct args *args,
                               const struct worker_state *state) {
    struct worker_end end = {0};
    wait_for_end(state, (unsigned long)args->timeout, &end);
    if (state->finished) {
        return code_of(state, &end);
    }
    if (args->output != NULL) {
        worker_remove_leftovers(args->output, worker_process);
    }
    if (args->save_ranges != NULL) {
        worker_remove_leftovers(args->save_ranges, worker_process);
    }
    if (args->state_path != NULL) {
        worker_remove_leftovers(args->state_path, worker_process);
    }
    struct worker_state last = *state;
    end_texts(&last);
    enum exit_code code = worker_explain(console, args, &last, &end);
    if (!worker_may_go_on(&last, &end)) {
        resume_drop_state(args);
    }
    return code;
}

/* NULL: there is none. */
static struct worker_state *map_state(void) {
    void *state = mmap(NULL, sizeof(struct worker_state), PROT_READ | PROT_WRITE,
                       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return state == MAP_FAILED ? NULL : state;
}

enum exit_code worker_run(struct console *console, struct args *args) {
    if (args->in_process && args->timeout > 0) {
        return console_fail_text(console, ONNXPTQ_ERROR_USAGE, "onnxptq --help",
                                 "cannot use --timeout with --in-process: it takes a process of "
                                 "its own to end what hangs; leave one of them out");
    }
    enum exit_code failed = EXIT_DONE;
    if (!resume_name_state(console, args, &failed)) {
        return failed;
    }
    struct worker_state *state = args->in_process ? NULL : map_state();
    if (state == NULL) {
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
