/*
 * Starting workers, and waiting for their end. What they tell is in worker_tell.c.
 */
#include "worker.h"
#include "resume.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#ifdef __linux__
#include <sys/prctl.h>
#endif

/* ---- Signals to the parent ----------------------------------------------------------------- */

/* A signal handler has no other way to know, nor to tell. 0: no process. */
static volatile pid_t processes[WORKER_MAX];
static volatile sig_atomic_t n_interrupts;

/* Interrupts of a terminal reach the workers by themselves; what was sent to this process alone is
 * passed on. */
static void pass_on(int number, siginfo_t *info, void *context) {
    (void)context;
    int saved = errno;
    n_interrupts++;
    for (size_t i = 0; info->si_code <= 0 && i < WORKER_MAX; i++) {
        if (processes[i] > 0) {
            kill(processes[i], number);
        }
    }
    errno = saved;
}

static void remember(pid_t process, pid_t instead_of) {
    for (size_t i = 0; i < WORKER_MAX; i++) {
        if (processes[i] == instead_of) {
            processes[i] = process;
            return;
        }
    }
}

bool worker_interrupted(void) {
    return n_interrupts > 0;
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

#define SECONDS_TO_FOLLOW 7

/* A worker whose parent is gone is asked to stop; code of others may not let it hear. */
static void *watch_parent(void *argument) {
    const struct timespec second = {.tv_sec = 1}, last = {.tv_sec = SECONDS_TO_FOLLOW};
    while (getppid() == (pid_t)(intptr_t)argument) {
        nanosleep(&second, NULL);
    }
    nanosleep(&last, NULL);
    kill(getpid(), SIGKILL);
    return NULL;
}

static void start_watching(pid_t parent) {
    pthread_t thread;
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    if (pthread_create(&thread, NULL, watch_parent, (void *)(intptr_t)parent) == 0) {
        pthread_detach(thread);
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

/* A worker without a parent stops at its next step. */
static void follow_parent(pid_t parent) {
#ifdef __linux__
    prctl(PR_SET_PDEATHSIG, SIGTERM);
#endif
    if (getppid() != parent) {
        raise(SIGTERM);
    }
    start_watching(parent);
}

static double now(void) {
    struct timespec time = {0};
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

/* The child of a parent that has workers already has its handlers too, and those of MPI, which
 * print pages about a crash. */
static void become_worker(struct console *console, struct worker_state *state, pid_t parent,
                          sigset_t *mask) {
    for (size_t i = 0; i < WORKER_MAX; i++) {
        processes[i] = 0;
    }
    static const int defaults[] = {SIGCHLD, SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL};
    for (size_t i = 0; i < sizeof defaults / sizeof *defaults; i++) {
        signal(defaults[i], SIG_DFL);
    }
    signals_init();
    sigdelset(mask, SIGCHLD);
    console->worker = state;
    follow_parent(parent);
}

/* Forks with these signals held back, so that none is lost before both sides are ready for it. */
pid_t worker_start(struct console *console, const struct args *args, struct worker *worker) {
    sigset_t stopping, before;
    memset(worker->state, 0, sizeof *worker->state);
    worker_tell_libraries(worker->state, args);
    worker_tell_doing(worker->state, "read");
    list_stopping_signals(&stopping);
    sigprocmask(SIG_BLOCK, &stopping, &before);
    pid_t parent = getpid();
    fflush(NULL);
    pid_t process = fork();
    if (process == 0) {
        become_worker(console, worker->state, parent, &before);
    } else if (process > 0) {
        *worker = (struct worker){.process = process, .state = worker->state};
        worker->watch.time = worker->watch.since = now();
        remember(process, 0);
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

/* ---- Waiting ------------------------------------------------------------------------------- */

/* How long unloading libraries may take at most once all is done. */
#define SECONDS_TO_UNLOAD 10
/* After an interrupt the worker comes to its end by itself within five seconds, unless a library
 * took its signals away, or stopped it. */
#define SECONDS_TO_OBEY 7
#define SECONDS_TO_OBEY_TWO 1
/* A sleep that took longer: this process was stopped, and the worker with it. */
#define SECONDS_OF_PAUSE 1

/* SIGCHLD is blocked but while this sleeps, so that no end is missed. */
void worker_sleep(double seconds) {
    struct timespec time = {.tv_sec = (time_t)seconds,
                            .tv_nsec = (long)((seconds - (double)(time_t)seconds) * 1e9)};
    sigset_t open;
    sigprocmask(SIG_BLOCK, NULL, &open);
    sigdelset(&open, SIGCHLD);
    pselect(0, NULL, NULL, NULL, &time, &open);
}

static void look(struct worker_watch *watch, const struct worker_state *state) {
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
static bool is_overdue(const struct worker_watch *watch, const struct worker_state *state,
                       unsigned long timeout) {
    bool theirs = watch->finished || state->stage[0] != '\0';
    double limit = (double)timeout;
    if (watch->finished && (timeout == 0 || timeout > SECONDS_TO_UNLOAD)) {
        limit = SECONDS_TO_UNLOAD;
    }
    return theirs && limit > 0 && watch->time - watch->since > limit;
}

static bool disobeys(const struct worker_watch *watch) {
    double limit = n_interrupts > 1 ? SECONDS_TO_OBEY_TWO : SECONDS_TO_OBEY;
    return watch->asked > 0 && watch->time - watch->asked > limit;
}

static void end_by_force(struct worker *worker, bool disobedient, unsigned long timeout) {
    worker->end = (struct worker_end){
        .interrupted = disobedient, .timed_out = !disobedient, .seconds = timeout};
    kill(worker->process, SIGKILL);
    while (waitpid(worker->process, &worker->end.status, 0) == -1 && errno == EINTR) {
    }
}

bool worker_has_ended(struct worker *worker, unsigned long timeout) {
    if (worker->ended) {
        return true;
    }
    if (waitpid(worker->process, &worker->end.status, WNOHANG) == 0) {
        look(&worker->watch, worker->state);
        bool disobedient = disobeys(&worker->watch);
        if (!disobedient && !is_overdue(&worker->watch, worker->state, timeout)) {
            return false;
        }
        end_by_force(worker, disobedient, timeout);
    }
    worker->ended = true;
    remember(0, worker->process);
    return true;
}

void worker_stop(struct worker *worker) {
    if (!worker->ended && worker->watch.asked <= 0) {
        worker->watch.asked = now();
        kill(worker->process, SIGTERM);
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

void worker_clean_up(const struct args *args, const struct worker *worker) {
    const char *const outputs[] = {args->output, args->save_ranges, args->state_path};
    for (size_t i = 0; i < sizeof outputs / sizeof *outputs; i++) {
        if (outputs[i] != NULL) {
            worker_remove_leftovers(outputs[i], worker->process);
        }
    }
    end_texts(worker->state);
}

static enum exit_code wait_for(struct console *console, const struct args *args,
                               struct worker *worker) {
    while (!worker_has_ended(worker, (unsigned long)args->timeout)) {
        worker_sleep(0.1);
    }
    if (worker->state->finished) {
        return code_of(worker->state, &worker->end);
    }
    worker_clean_up(args, worker);
    if (args->resume || worker_may_go_on(worker->state, &worker->end)) {
        resume_keep_state(console, args);
    } else {
        resume_drop_state(args);
    }
    return worker_explain(console, args, worker->state, &worker->end);
}

/* ---- Run ----------------------------------------------------------------------------------- */

struct worker_state *worker_states_map(size_t n) {
    void *states = mmap(NULL, n * sizeof(struct worker_state), PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return states == MAP_FAILED ? NULL : states;
}

void worker_states_unmap(struct worker_state *states, size_t n) {
    if (states != NULL) {
        munmap(states, n * sizeof *states);
    }
}

enum exit_code worker_run_here(struct console *console, struct args *args) {
    if (console->worker != NULL) {
        results_hide(console);
    }
    enum exit_code code = args->command->run(console, args);
    worker_tell_end(console->worker, code);
    return code;
}

enum exit_code worker_run(struct console *console, struct args *args) {
    struct worker worker = {.state = args->in_process ? NULL : worker_states_map(1)};
    if (worker.state == NULL) {
        return worker_run_here(console, args);
    }
    pid_t process = worker_start(console, args, &worker);
    if (process == 0) {
        return worker_run_here(console, args);
    }
    enum exit_code code =
        process == -1 ? worker_run_here(console, args) : wait_for(console, args, &worker);
    worker_states_unmap(worker.state, 1);
    return code;
}
