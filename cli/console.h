/*
 * Everything the command says: errors, warnings, progress, and the exit code they lead to.
 * Results go to stdout, all else to stderr.
 */
#ifndef ONNXPTQ_CLI_CONSOLE_H
#define ONNXPTQ_CLI_CONSOLE_H

#include <onnxptq.h>

#include <stdio.h>

enum exit_code { EXIT_DONE = 0, EXIT_FAILED = 1, EXIT_USAGE = 2, EXIT_QUALITY = 3 };

/* On a terminal, a bar unless --quiet; JSON lines always; nothing. */
enum progress { PROGRESS_AUTO, PROGRESS_JSON, PROGRESS_OFF };

struct worker_state;

struct console {
    struct worker_state *worker; /* when this is a worker (worker.h) */
    bool member;                 /* of a team (team.h): the parent speaks for all */
    bool json, quiet, verbose;
    bool colour;   /* of stdout */
    bool terminal; /* stderr is one: progress and colour */
    char stage[16];
    enum progress progress;
    double stage_start, last_shown;
    size_t first_done; /* when the stage began to report */
    bool bar_drawn;
    int results; /* where stdout led before results_hide, else -1 */
};

void console_init(struct console *console);

/* Where the user finds more, after a mistake: "onnxptq quantize --help". */
#define HELP_COMMAND_SIZE 64

/* "onnxptq: <message>" on stderr, on one line; with --json the same as an object on stdout. Returns
 * the exit code. `help` (may be NULL) is named after wrong usage. */
enum exit_code console_fail(struct console *console, const struct onnxptq_error *error,
                            const char *help);
/* The same for a message made here. */
enum exit_code console_fail_text(struct console *console, enum onnxptq_status status,
                                 const char *help, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

#define INTERRUPTED "interrupted; nothing was written"

/* Callbacks of the library's options; `user` is the console. Progress stops the run after an
 * interrupt. */
void console_log(void *user, enum onnxptq_log_level level, const char *message);
bool console_progress(void *user, const char *stage, size_t done, size_t total);
void console_clear_progress(struct console *console);

/* Flushes stdout: a report that could not be written is a failure. `done` says what has been done
 * nevertheless; may be NULL. */
enum exit_code console_finish(struct console *console, const char *done);

/* Opens what the caller closed of the three standard streams, so that no file of ours takes its
 * number; lines on stderr are written whole. */
void streams_init(void);

/* Libraries of others print where they like, but stdout holds results only: in between these two it
 * leads to stderr. */
void results_hide(struct console *console);
void results_show(struct console *console);

/* Interrupt and termination end the run at its next step; broken pipes and full disks are errors,
 * not deaths. */
void signals_init(void);
bool signals_interrupted(void);

/* Text that comes from a file: control characters, which a terminal would obey, become '?'. */
void print_text(FILE *file, const char *text);
/* "12.3 MiB" */
#define BYTES_TEXT_SIZE 32
const char *bytes_text(char text[BYTES_TEXT_SIZE], uint64_t bytes);

#endif
