/*
 * The progress bar: on a terminal only, one line that is wiped when its stage ends.
 */
#include "worker.h"

#include <string.h>
#include <time.h>

#define BAR_WIDTH 30
#define SECONDS_PER_FRAME 0.1

static double now(void) {
    struct timespec time = {0};
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static void draw(const struct console *console, double elapsed, size_t done, size_t total) {
    char bar[BAR_WIDTH + 1];
    size_t filled = total > 0 ? done * BAR_WIDTH / total : 0;
    memset(bar, ' ', BAR_WIDTH);
    memset(bar, '#', filled < BAR_WIDTH ? filled : BAR_WIDTH);
    bar[BAR_WIDTH] = '\0';
    double rate = elapsed > 0 ? (double)done / elapsed : 0;
    fprintf(stderr, "\r\033[K%-9s [%s] %zu/%zu  %.1f samples/s", console->stage, bar, done, total,
            rate);
    if (rate > 0 && done < total) {
        fprintf(stderr, "  %.0f s left", (double)(total - done) / rate);
    }
    fflush(stderr);
}

bool console_progress(void *user, const char *stage, size_t done, size_t total) {
    struct console *console = user;
    if (!console->terminal || console->quiet) {
        return !signals_interrupted();
    }
    double time = now();
    if (strcmp(console->stage, stage) != 0) {
        snprintf(console->stage, sizeof console->stage, "%s", stage);
        console->stage_start = time;
        console->last_drawn = 0;
    }
    if (done >= total) {
        console_clear_progress(console);
    } else if (time - console->last_drawn >= SECONDS_PER_FRAME) {
        draw(console, time - console->stage_start, done, total);
        console->last_drawn = time;
        console->bar_drawn = true;
    }
    return !signals_interrupted();
}

void console_clear_progress(struct console *console) {
    if (console->bar_drawn) {
        fputs("\r\033[K", stderr);
        fflush(stderr);
        console->bar_drawn = false;
    }
}
