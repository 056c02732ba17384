/* custom_domain::DummyOp in a library that fails outside its kernel's work. FAULT_PLACE in the
 * environment says where:
 *
 *   load, register, describe, create, run, destroy, exit
 *
 * after as many passes as FAULT_AFTER says (0), whatever session they are of, and FAULT_HOW what
 * happens there:
 *
 *   crash, exit (of the process, with code 7), hang, deaf (hangs, and hears no signal), stop (the
 *   process, as Ctrl-Z does), refuse (with an error, where there is a way), work (for half a second
 * of the processor, in the first run) */
#include "op_common.h"

#include <signal.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static void hang(void) {
    for (;;) {
        nanosleep(&(struct timespec){.tv_sec = 1}, NULL);
    }
}

static void hang_deaf(void) {
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP, SIGALRM};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; ++i) {
        signal(numbers[i], SIG_IGN);
    }
    hang();
}

static void work(void) {
    static bool done;
    clock_t end = clock() + CLOCKS_PER_SEC / 2;
    while (!done && clock() < end) {
    }
    done = true;
}

static void fail(void) {
    const char *how = getenv("FAULT_HOW");
    if (!how || !strcmp(how, "crash")) {
        raise(SIGSEGV);
    } else if (!strcmp(how, "exit")) {
        _exit(7);
    } else if (!strcmp(how, "hang")) {
        hang();
    } else if (!strcmp(how, "deaf")) {
        hang_deaf();
    } else if (!strcmp(how, "work")) {
        work();
    } else if (!strcmp(how, "stop")) {
        raise(SIGSTOP);
    }
}

static bool is_wanted(const char *variable, const char *what) {
    const char *wanted = getenv(variable);
    return wanted && !strcmp(wanted, what);
}

static void here(const char *place) {
    static long passes;
    const char *after = getenv("FAULT_AFTER");
    if (is_wanted("FAULT_PLACE", place) && passes++ >= (after ? strtol(after, NULL, 10) : 0)) {
        fail();
    }
}

__attribute__((constructor)) static void loaded(void) {
    here("load");
}

__attribute__((destructor)) static void unloaded(void) {
    here("exit");
}

static OrtStatus *copy(struct kernel *kernel, OrtKernelContext *context) {
    struct view x;
    void *out = NULL;
    here("run");
    TRY(read_input(kernel, context, 0, &x));
    TRY(make_output(kernel, context, 0, x.dims, x.rank, &out));
    if (out && x.count > 0) {
        memcpy(out, x.data, x.count * sizeof(float));
    }
    return NULL;
}

static OrtStatus *create(const OrtCustomOp *op, const OrtApi *api, const OrtKernelInfo *info,
                         void **out) {
    here("create");
    if (is_wanted("FAULT_PLACE", "create") && is_wanted("FAULT_HOW", "refuse")) {
        return api->CreateStatus(ORT_FAIL, "no cheese today");
    }
    return op_create_kernel(op, api, info, out);
}

static void destroy(void *kernel) {
    here("destroy");
    op_destroy(kernel);
}

static ONNXTensorElementDataType describe(const OrtCustomOp *op, size_t index) {
    here("describe");
    return op_input_type(op, index);
}

static struct test_op dummy = {
    .name = "DummyOp",
    .inputs = {FLOAT_EDGE},
    .input_count = 1,
    .outputs = {FLOAT_EDGE},
    .output_count = 1,
    .compute = copy,
};

OrtStatus *RegisterCustomOps(OrtSessionOptions *options, const OrtApiBase *base) {
    const OrtApi *api = base->GetApi(ORT_API_VERSION);
    OrtCustomOpDomain *domain = NULL;
    here("register");
    fill_callbacks(&dummy.base);
    dummy.base.CreateKernelV2 = create;
    dummy.base.KernelDestroy = destroy;
    dummy.base.GetInputType = describe;
    TRY(api->CreateCustomOpDomain("custom_domain", &domain));
    TRY(api->CustomOpDomain_Add(domain, &dummy.base));
    return api->AddCustomOpDomain(options, domain);
}
