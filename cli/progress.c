/*
 * Progress on stderr: a bar on a terminal, one line that is wiped when its stage ends, or a JSON
 * object a line for machines.
 */
#include "console.h"
#include "worker.h"

#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#define BAR_WIDTH 30
#define TEXT_BESIDE_BAR 60
#define SECONDS_PER_FRAME 0.1

static double now(void) {
    struct timespec time = {0};
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

/* Samples in a second, 0 while unknown: counted from the first report on, so that neither what was
 * done before it nor the time that loading took is in it. */
static double rate_of(const struct console *console, double elapsed, size_t done) {
    return elapsed > 0 && done > console->first_done
               ? (double)(done - console->first_done) / elapsed
               : 0;
}

/* ---- Lines --------------------------------------------------------------------------------- */

static void print_json(const struct console *console, double elapsed, size_t done, size_t total) {
    double rate = rate_of(console, elapsed, done);
    char per_second[32] = "null", left[32] = "null";
    if (rate > 0) {
        snprintf(per_second, sizeof per_second, "%.3f", rate);
        snprintf(left, sizeof left, "%.3f", (double)(total - done) / rate);
    }
    fprintf(stderr,
            "{\"stage\": \"%s\", \"done\": %zu, \"total\": %zu, \"seconds\": %.3f, "
            "\"samples_per_second\": %s, \"seconds_left\": %s}\n",
            console->stage, done, total, elapsed, per_second, left);
    fflush(stderr);
}

/* ---- Bar ----------------------------------------------------------------------------------- */

/* What fits beside the numbers: a line that wraps could not be wiped. */
static size_t bar_width(void) {
    struct winsize size = {0};
    if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0 ||
        size.ws_col >= TEXT_BESIDE_BAR + BAR_WIDTH) {
        return BAR_WIDTH;
    }
    return size.ws_col > TEXT_BESIDE_BAR ? size.ws_col - TEXT_BESIDE_BAR : 0;
}

/* "9 s left", "2:05 left", "1:02:05 left" */
static const char *left_text(char *text, size_t size, double seconds) {
    unsigned long long s = seconds < 1e9 ? (unsigned long long)(seconds + 0.5) : 1000000000;
    if (s < 60) {
        snprintf(text, size, "  %llu s left", s);
    } else if (s < 3600) {
        snprintf(text, size, "  %llu:%02llu left", s / 60, s % 60);
    } else {
        snprintf(text, size, "  %llu:%02llu:%02llu left", s / 3600, s / 60 % 60, s % 60);
    }
    return text;
}

static void draw(const struct console *console, double elapsed, size_t done, size_t total) {
    char bar[BAR_WIDTH + 1], left[40] = "";
    size_t width = bar_width(), filled = total > 0 ? done * width / total : 0;
    memset(bar, ' ', width);
    memset(bar, '#', filled < width ? filled : width);
    bar[width] = '\0';
    double rate = rate_of(console, elapsed, done);
    fprintf(stderr, "\r\033[K%-9s [%s] %zu/%zu", console->stage, bar, done, total);
    if (rate > 0) {
        fprintf(stderr, "  %.1f samples/s%s", rate,
                left_text(left, sizeof left, (double)(total - done) / rate));
    }
    fflush(stderr);
}

static void show_bar(struct console *console, double time, size_t done, size_t total) {
    if (done >= total) {
        console_clear_progress(console);
    } else {
        draw(console, time - console->stage_start, done, total);
        console->bar_drawn = true;
    }
}

/* ---- Reports ------------------------------------------------------------------------------- */

static bool begins_stage(struct console *console, const char *stage, double time, size_t done) {
    if (strcmp(console->stage, stage) == 0) {
        return false;
    }
    snprintf(console->stage, sizeof console->stage, "%s", stage);
    console->stage_start = time;
    console->first_done = done;
    return true;
}

bool console_progress(void *user, const char *stage, size_t done, size_t total) {
    struct console *console = user;
    if (console->member) {
        worker_tell_progress(console->worker, stage, done, total);
        return !signals_interrupted();
    }
    bool json = console->progress == PROGRESS_JSON;
    bool bar = console->progress == PROGRESS_AUTO && console->terminal && !console->quiet;
    if (!json && !bar) {
        return !signals_interrupted();
    }
    double time = now();
    bool first = begins_stage(console, stage, time, done);
    if (first || done >= total || time - console->last_shown >= SECONDS_PER_FRAME) {
        console->last_shown = time;
        if (json) {
            print_json(console, time - console->stage_start, done, total);
        } else {
            show_bar(console, time, done, total);
        }
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
