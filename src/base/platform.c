/*
 * Dynamic libraries, the clock and memory figures of the process; declared in file.h.
 */
#include "base/file.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <fenv.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* A library built with -ffast-math changes the arithmetic of the thread that loads it: denormals
 * become zero. Our numbers must not depend on that. */
static void *load(const char *path, int flags) {
    fenv_t arithmetic;
    const bool known = fegetenv(&arithmetic) == 0;
    void *library = dlopen(path, flags);
    if (known) {
        fesetenv(&arithmetic);
    }
    return library;
}

void *oq_library_open(const char *path, bool global, char *reason, size_t reason_size) {
    void *library = load(path, RTLD_NOW | (global ? RTLD_GLOBAL : RTLD_LOCAL));
    if (library == NULL && reason_size > 0) {
        const char *text = dlerror();
        snprintf(reason, reason_size, "%s", text == NULL ? "unknown reason" : text);
    }
    return library;
}

void *oq_library_symbol(void *library, const char *name) {
    return dlsym(library, name);
}

static double read_clock(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

double oq_clock_seconds(void) {
    return read_clock(CLOCK_MONOTONIC);
}

double oq_processor_seconds(void) {
    return read_clock(CLOCK_PROCESS_CPUTIME_ID);
}

/* ---- Memory ---- */

#define SAMPLE_NANOSECONDS 10000000L

struct oq_memory_sampler {
    pthread_t thread;
    int file; /* /proc/self/statm: pages in all, resident, of these backed by files or shared */
    uint64_t page;
    atomic_bool stop;
    atomic_uint_fast64_t peak;
};

static void take_sample(struct oq_memory_sampler *sampler) {
    char text[128];
    const ssize_t length = pread(sampler->file, text, sizeof text - 1, 0);
    if (length <= 0) {
        return;
    }
    text[length] = '\0';
    char *end;
    (void)strtoull(text, &end, 10);
    const uint64_t resident = strtoull(end, &end, 10);
    const uint64_t shared = strtoull(end, &end, 10);
    const uint64_t anonymous = resident > shared ? (resident - shared) * sampler->page : 0;
    if (anonymous > atomic_load(&sampler->peak)) {
        atomic_store(&sampler->peak, anonymous); /* one writer: the sampler's thread */
    }
}

static void *run_sampler(void *argument) {
    struct oq_memory_sampler *sampler = argument;
    const struct timespec pause = {0, SAMPLE_NANOSECONDS};
    while (!atomic_load(&sampler->stop)) {
        take_sample(sampler);
        nanosleep(&pause, NULL);
    }
    take_sample(sampler);
    return NULL;
}

/* The host program's signals must not be delivered to our thread. */
static bool start_thread(struct oq_memory_sampler *sampler) {
    sigset_t all, old;
    sigfillset(&all);
    if (pthread_sigmask(SIG_SETMASK, &all, &old) != 0) {
        return false;
    }
    const bool started = pthread_create(&sampler->thread, NULL, run_sampler, sampler) == 0;
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return started;
}

struct oq_memory_sampler *oq_memory_sampler_start(void) {
    struct oq_memory_sampler *sampler = calloc(1, sizeof *sampler);
    if (sampler == NULL) {
        return NULL;
    }
    const long page = sysconf(_SC_PAGESIZE);
    sampler->page = page > 0 ? (uint64_t)page : 4096;
    atomic_init(&sampler->stop, false);
    atomic_init(&sampler->peak, 0);
    sampler->file = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    if (sampler->file >= 0) {
        take_sample(sampler);
        if (start_thread(sampler)) {
            return sampler;
        }
        close(sampler->file);
    }
    free(sampler);
    return NULL;
}

uint64_t oq_memory_sampler_peak(const struct oq_memory_sampler *sampler) {
    return sampler == NULL ? 0 : atomic_load(&sampler->peak);
}

uint64_t oq_memory_sampler_stop(struct oq_memory_sampler *sampler) {
    if (sampler == NULL) {
        return 0;
    }
    atomic_store(&sampler->stop, true);
    pthread_join(sampler->thread, NULL);
    const uint64_t peak = atomic_load(&sampler->peak);
    close(sampler->file);
    free(sampler);
    return peak;
}

uint64_t oq_memory_peak_resident(void) {
    /* Not getrusage: its figure survives exec, so a worker would inherit its parent's. */
    FILE *status = fopen("/proc/self/status", "re");
    if (status == NULL) {
        return 0;
    }
    uint64_t kibibytes = 0;
    char line[256];
    while (fgets(line, sizeof line, status) != NULL) {
        if (strncmp(line, "VmHWM:", 6) == 0) {
            kibibytes = strtoull(line + 6, NULL, 10);
            break;
        }
    }
    fclose(status);
    return kibibytes * 1024;
}
