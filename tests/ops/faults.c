/* my.faults: operators that give their input back, until one day (run number `alpha` of a session)
 * they do what libraries of others have been seen to do. */
#include "op_common.h"

#include <dlfcn.h>
#include <math.h>
#include <string.h>
#include <time.h>

static bool still_good(const struct kernel *kernel) {
    return (float)kernel->counter < kernel->alpha;
}

/* The first elements of the input, as many as the shape says. */
static OrtStatus *give(struct kernel *kernel, OrtKernelContext *context, const struct view *x,
                       float **out) {
    void *data = NULL;
    TRY(make_output(kernel, context, 0, x->dims, x->rank, &data));
    *out = data;
    if (data && x->count > 0) {
        memcpy(data, x->data, x->count * sizeof(float));
    }
    return NULL;
}

static OrtStatus *give_back(struct kernel *kernel, OrtKernelContext *context) {
    struct view x;
    float *out = NULL;
    TRY(read_input(kernel, context, 0, &x));
    return give(kernel, context, &x, &out);
}

static OrtStatus *crash(struct kernel *kernel, OrtKernelContext *context) {
    if (!still_good(kernel)) {
        static volatile uintptr_t nowhere = 8; /* the compiler must not know */
        *(volatile int *)nowhere = 1; /* NOLINT(clang-analyzer-core.FixedAddressDereference) */
    }
    return give_back(kernel, context);
}

static OrtStatus *end_by_abort(struct kernel *kernel, OrtKernelContext *context) {
    if (!still_good(kernel)) {
        abort();
    }
    return give_back(kernel, context);
}

static OrtStatus *end_by_exit(struct kernel *kernel, OrtKernelContext *context) {
    if (!still_good(kernel)) {
        exit(0);
    }
    return give_back(kernel, context);
}

/* What a C++ compiler makes of `throw std::runtime_error("out of cheese")` and of `throw 42`, by
 * the functions of its runtime library. */
static void throw(bool standard) {
    void *runtime = dlopen("libstdc++.so.6", RTLD_NOW);
    void *symbols[4] = {0};
    static const char *const names[4] = {"__cxa_allocate_exception", "__cxa_throw",
                                         "_ZNSt13runtime_errorC1EPKc", "_ZTISt13runtime_error"};
    for (size_t i = 0; i < 4 && runtime; ++i) {
        symbols[i] = dlsym(runtime, i == 3 && !standard ? "_ZTIi" : names[i]);
    }
    if (!symbols[0] || !symbols[1] || !symbols[2] || !symbols[3]) {
        return;
    }
    void *(*allocate)(size_t);
    void (*raise)(void *, void *, void (*)(void *));
    void (*construct)(void *, const char *);
    memcpy(&allocate, &symbols[0], sizeof allocate);
    memcpy(&raise, &symbols[1], sizeof raise);
    memcpy(&construct, &symbols[2], sizeof construct);
    int *exception = allocate(64);
    *exception = 42;
    if (standard) {
        construct(exception, "out of cheese");
    }
    raise(exception, symbols[3], NULL);
}

static OrtStatus *throw_standard(struct kernel *kernel, OrtKernelContext *context) {
    if (!still_good(kernel)) {
        throw(true);
    }
    return give_back(kernel, context);
}

static OrtStatus *throw_number(struct kernel *kernel, OrtKernelContext *context) {
    if (!still_good(kernel)) {
        throw(false);
    }
    return give_back(kernel, context);
}

static OrtStatus *hang(struct kernel *kernel, OrtKernelContext *context) {
    while (!still_good(kernel)) {
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    return give_back(kernel, context);
}

static OrtStatus *fail(struct kernel *kernel, OrtKernelContext *context) {
    return still_good(kernel) ? give_back(kernel, context)
                              : kernel->api->CreateStatus(ORT_FAIL, "out of cheese");
}

static OrtStatus *leak(struct kernel *kernel, OrtKernelContext *context) {
    enum { MEBIBYTE = 1 << 20 };
    void *lost = malloc(64 * MEBIBYTE);
    if (!lost) {
        return kernel->api->CreateStatus(ORT_FAIL, "out of memory");
    }
    memset(lost, 1, 64 * MEBIBYTE);
    return give_back(kernel, context); /* NOLINT(clang-analyzer-unix.Malloc): on purpose */
}

static OrtStatus *write_nan(struct kernel *kernel, OrtKernelContext *context) {
    struct view x;
    float *out = NULL;
    TRY(read_input(kernel, context, 0, &x));
    TRY(give(kernel, context, &x, &out));
    for (size_t i = 0; out && i < x.count && !still_good(kernel); i += 2) {
        out[i] = i % 4 ? NAN : INFINITY;
    }
    return NULL;
}

/* All rows but those that a run number takes away. */
static OrtStatus *lose_rows(struct kernel *kernel, OrtKernelContext *context) {
    struct view x;
    float *out = NULL;
    TRY(read_input(kernel, context, 0, &x));
    if (x.rank > 0 && x.dims[0] > 1) {
        int64_t lost = kernel->counter % x.dims[0];
        x.count = x.count / (size_t)x.dims[0] * (size_t)(x.dims[0] - lost);
        x.dims[0] -= lost;
    }
    return give(kernel, context, &x, &out);
}

/* One dimension more. */
static OrtStatus *change_rank(struct kernel *kernel, OrtKernelContext *context) {
    struct view x;
    float *out = NULL;
    TRY(read_input(kernel, context, 0, &x));
    if (!still_good(kernel) && x.rank < MAX_RANK) {
        x.dims[x.rank++] = 1;
    }
    return give(kernel, context, &x, &out);
}

#define FAULT(op_name, function)                                                                   \
    {.name = (op_name),                                                                            \
     .inputs = {FLOAT_EDGE},                                                                       \
     .input_count = 1,                                                                             \
     .outputs = {FLOAT_EDGE},                                                                      \
     .output_count = 1,                                                                            \
     .compute = (function)}

static struct test_op ops[] = {
    FAULT("Crash", crash),
    FAULT("Abort", end_by_abort),
    FAULT("Exit", end_by_exit),
    FAULT("Throw", throw_standard),
    FAULT("ThrowNumber", throw_number),
    FAULT("Hang", hang),
    FAULT("Fail", fail),
    FAULT("Leak", leak),
    FAULT("Nan", write_nan),
    FAULT("LoseRows", lose_rows),
    FAULT("ChangeRank", change_rank),
    FAULT("Good", give_back),
};

OrtStatus *RegisterCustomOps(OrtSessionOptions *options, const OrtApiBase *base) {
    return register_ops(options, base, "my.faults", ops, OP_COUNT(ops));
}
