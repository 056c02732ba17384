/* custom_domain::DummyOp in a library that takes liberties with its process. UNRULY in the
 * environment says which:
 *
 *   print   writes to standard output when it is loaded, registered, run and unloaded
 *   unload  dies when it is unloaded
 *   hang    never comes back from a run
 *   round   changes the rounding of floats when it is loaded */
#include "op_common.h"

#include <fenv.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static bool wants(const char *what) {
    const char *wanted = getenv("UNRULY");
    return wanted && !strcmp(wanted, what);
}

static void say(const char *text) {
    if (wants("print")) {
        puts(text);
    }
}

__attribute__((constructor)) static void loaded(void) {
    say("unruly: loaded");
    if (wants("round")) {
        fesetround(FE_UPWARD);
    }
}

__attribute__((destructor)) static void unloaded(void) {
    say("unruly: unloaded");
    if (wants("unload")) {
        raise(SIGKILL);
    }
}

static OrtStatus *copy(struct kernel *kernel, OrtKernelContext *context) {
    struct view x;
    void *out = NULL;
    while (wants("hang")) {
        pause();
    }
    say("unruly: run");
    TRY(read_input(kernel, context, 0, &x));
    TRY(make_output(kernel, context, 0, x.dims, x.rank, &out));
    for (size_t i = 0; i < x.count; ++i) {
        ((float *)out)[i] = ((const float *)x.data)[i];
    }
    return NULL;
}

static struct test_op ops[] = {
    {.name = "DummyOp",
     .inputs = {FLOAT_EDGE},
     .input_count = 1,
     .outputs = {FLOAT_EDGE},
     .output_count = 1,
     .compute = copy},
};

OrtStatus *RegisterCustomOps(OrtSessionOptions *options, const OrtApiBase *base) {
    say("unruly: registered");
    return register_ops(options, base, "custom_domain", ops, OP_COUNT(ops));
}
