/* my.pace: gives its input back, in its own time, and tells about it: takes `alpha` milliseconds,
 * and appends the first element, a line each, to the file that PACE_LOG names. When that is the
 * number in PACE_CRASH the process dies, as often as PACE_FUSE (a file, one byte a death) holds.
 * With PACE_FAST it takes no time. */
#include "op_common.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static void tell(float number) {
    const char *path = getenv("PACE_LOG");
    char line[32];
    int length = snprintf(line, sizeof line, "%g\n", (double)number);
    int file = path ? open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666) : -1;
    if (file >= 0) {
        ssize_t written = write(file, line, (size_t)length);
        (void)written;
        close(file);
    }
}

static void crash_once(float number) {
    const char *when = getenv("PACE_CRASH"), *fuse = getenv("PACE_FUSE");
    struct stat status;
    if (!when || !fuse || strtof(when, NULL) != number) {
        return;
    }
    if (stat(fuse, &status) == 0 && status.st_size > 0 && truncate(fuse, status.st_size - 1) == 0) {
        abort();
    }
}

static OrtStatus *give_back(struct kernel *kernel, OrtKernelContext *context) {
    struct view x;
    void *out = NULL;
    TRY(read_input(kernel, context, 0, &x));
    TRY(make_output(kernel, context, 0, x.dims, x.rank, &out));
    if (!out || x.count == 0) {
        return NULL;
    }
    memcpy(out, x.data, x.count * sizeof(float));
    float first = *(const float *)x.data;
    tell(first);
    crash_once(first);
    long microseconds = getenv("PACE_FAST") ? 0 : (long)(kernel->alpha * 1000);
    nanosleep(&(struct timespec){.tv_sec = microseconds / 1000000,
                                 .tv_nsec = microseconds % 1000000 * 1000},
              NULL);
    return NULL;
}

static struct test_op ops[] = {
    {.name = "Pace",
     .inputs = {FLOAT_EDGE},
     .input_count = 1,
     .outputs = {FLOAT_EDGE},
     .output_count = 1,
     .compute = give_back},
};

OrtStatus *RegisterCustomOps(OrtSessionOptions *options, const OrtApiBase *base) {
    return register_ops(options, base, "my.pace", ops, OP_COUNT(ops));
}
