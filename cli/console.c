/*
 * Messages, exit codes, signals.
 */
#include "console.h"
#include "worker.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

void console_init(struct console *console) {
    const char *no_colour = getenv("NO_COLOR");
    bool colour = no_colour == NULL || no_colour[0] == '\0';
    *console = (struct console){.colour = colour && isatty(STDOUT_FILENO),
                                .terminal = isatty(STDERR_FILENO),
                                .results = -1};
}

/* ---- Signals ------------------------------------------------------------------------------- */

static volatile sig_atomic_t interrupted; /* a signal handler has no other way to tell */

/* What does not come to its next step in time is not waited for. */
#define SECONDS_TO_STOP 5

/* One interrupt may come twice: to a whole group of processes, and passed on by the parent. */
#define SECONDS_OF_ONE_INTERRUPT 0.5

static volatile double interrupt_time;

static double clock_seconds(void) {
    struct timespec time = {0};
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

/* A second interrupt ends the process at once, for an operator that hangs. */
static void interrupt(int signal_number) {
    double now = clock_seconds();
    if (interrupted != 0 && now - interrupt_time > SECONDS_OF_ONE_INTERRUPT) {
        signal(signal_number, SIG_DFL);
        raise(signal_number);
    } else if (interrupted == 0) {
        interrupt_time = now;
        interrupted = 1;
        alarm(SECONDS_TO_STOP);
    }
}

void signals_init(void) {
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN);
    struct sigaction action = {.sa_handler = interrupt};
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGHUP, &action, NULL);
}

bool signals_interrupted(void) {
    return interrupted != 0;
}

/* ---- Errors -------------------------------------------------------------------------------- */

static enum exit_code exit_code_of(enum onnxptq_status status) {
    switch (status) {
    case ONNXPTQ_OK: return EXIT_DONE;
    case ONNXPTQ_ERROR_USAGE: return EXIT_USAGE;
    case ONNXPTQ_ERROR_QUALITY: return EXIT_QUALITY;
    case ONNXPTQ_ERROR_IO:
    case ONNXPTQ_ERROR_MODEL:
    case ONNXPTQ_ERROR_DATA:
    case ONNXPTQ_ERROR_UNSUPPORTED:
    case ONNXPTQ_ERROR_RUNTIME:
    case ONNXPTQ_ERROR_MISSING_OPERATOR:
    case ONNXPTQ_ERROR_LIBRARY:
    case ONNXPTQ_ERROR_MEMORY:
    case ONNXPTQ_ERROR_CANCELLED:
    case ONNXPTQ_ERROR_INTERNAL: return EXIT_FAILED;
    }
    return EXIT_FAILED;
}

/* Messages of the runtime may have several lines; an error is one. */
static void join_lines(char *text) {
    char *to = text;
    for (const char *from = text; *from != '\0'; from++) {
        bool blank = *from == '\n' || *from == '\r' || *from == '\t' || *from == ' ';
        if (!blank) {
            *to++ = *from;
        } else if (to > text && to[-1] != ' ') {
            *to++ = ' ';
        }
    }
    while (to > text && to[-1] == ' ') {
        to--;
    }
    *to = '\0';
}

enum exit_code console_fail(struct console *console, const struct onnxptq_error *error,
                            const char *help) {
    struct onnxptq_error line = *error;
    if (line.status == ONNXPTQ_ERROR_USAGE && help != NULL) {
        size_t used = strlen(line.message);
        snprintf(line.message + used, sizeof line.message - used, " (see '%s')", help);
    }
    join_lines(line.message);
    if (console->member) {
        if (console->worker != NULL) {
            worker_tell_error(console->worker, &line);
        }
        return exit_code_of(error->status);
    }
    console_clear_progress(console);
    fputs(console->terminal ? "\033[31monnxptq:\033[0m " : "onnxptq: ", stderr);
    print_text(stderr, line.message);
    fputc('\n', stderr);
    if (console->json) {
        char *text = onnxptq_error_json(&line);
        results_show(console);
        printf("%s\n", text != NULL ? text : "{\"error\": {\"status\": \"out of memory\"}}");
        fflush(stdout);
        onnxptq_free(text);
    }
    if (console->worker != NULL) {
        results_hide(console);
    }
    return exit_code_of(error->status);
}

enum exit_code console_fail_text(struct console *console, enum onnxptq_status status,
                                 const char *help, const char *format, ...) {
    struct onnxptq_error error = {.status = status};
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(error.message, sizeof error.message, format, arguments);
    va_end(arguments);
    return console_fail(console, &error, help);
}

void console_log(void *user, enum onnxptq_log_level level, const char *message) {
    struct console *console = user;
    if (!console->verbose) {
        return; /* what matters of it is in the report's notes */
    }
    console_clear_progress(console);
    fputs(level == ONNXPTQ_LOG_WARNING ? "onnxptq: warning: " : "onnxptq: ", stderr);
    print_text(stderr, message);
    fputc('\n', stderr);
}

/* ---- Output -------------------------------------------------------------------------------- */

enum exit_code console_finish(struct console *console, const char *done) {
    errno = 0;
    bool written = fflush(stdout) == 0 && ferror(stdout) == 0;
    const char *reason = errno != 0 ? strerror(errno) : "it failed";
    if (console->worker != NULL) {
        results_hide(console);
    }
    if (written) {
        return EXIT_DONE;
    }
    console->json = false; /* stdout is what failed */
    return console_fail_text(console, ONNXPTQ_ERROR_IO, NULL,
                             "cannot write the report to standard output: %s%s%s", reason,
                             done != NULL ? "; " : "", done != NULL ? done : "");
}

void print_text(FILE *file, const char *text) {
    for (const unsigned char *p = (const unsigned char *)text; *p != '\0'; p++) {
        fputc(*p < 0x20 || *p == 0x7F ? '?' : *p, file);
    }
}

const char *bytes_text(char text[BYTES_TEXT_SIZE], uint64_t bytes) {
    static const char *const units[] = {"KiB", "MiB", "GiB", "TiB"};
    if (bytes < 1024) {
        snprintf(text, BYTES_TEXT_SIZE, "%u bytes", (unsigned)bytes);
        return text;
    }
    double value = (double)bytes / 1024;
    size_t unit = 0;
    while (value >= 1024 && unit + 1 < sizeof units / sizeof *units) {
        value /= 1024;
        unit++;
    }
    snprintf(text, BYTES_TEXT_SIZE, "%.1f %s", value, units[unit]);
    return text;
}
