/*
 * The three standard streams.
 */
#define _GNU_SOURCE /* F_DUPFD_CLOEXEC */
#include "console.h"

#include <fcntl.h>
#include <unistd.h>

/* Opened for the wrong direction: using a stream that the caller closed still fails. */
void streams_init(void) {
    static char lines[2 * ONNXPTQ_ERROR_MESSAGE_SIZE];
    for (int stream = STDIN_FILENO; stream <= STDERR_FILENO; stream++) {
        if (fcntl(stream, F_GETFD) == -1) {
            int opened = open("/dev/null", stream == STDIN_FILENO ? O_WRONLY : O_RDONLY);
            (void)opened; /* takes the lowest free number, which is the stream's */
        }
    }
    setvbuf(stderr, lines, _IOLBF, sizeof lines);
}

void results_hide(struct console *console) {
    if (console->results == -1) {
        fflush(stdout);
        console->results = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
        if (console->results != -1) {
            dup2(STDERR_FILENO, STDOUT_FILENO);
        }
    }
}

void results_show(struct console *console) {
    if (console->results != -1) {
        fflush(stdout);
        clearerr(stdout); /* what others could not print is not our failure */
        dup2(console->results, STDOUT_FILENO);
        close(console->results);
        console->results = -1;
    }
}
