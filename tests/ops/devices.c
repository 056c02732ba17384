/* No operator library but a runtime: the one that REAL_RUNTIME names, which claims to have devices
 * besides. Their providers write down what they are given, and leave every node to the processor.
 *
 *   DEVICES_LOG    folder: session-N.onnx is the model that session N was given, session-N.txt its
 *                  providers, in order, one line each: name, tab, key=value, tab, key=value, ...
 *   DEVICES_BROKEN a provider that refuses to come, as one does whose driver is missing
 *
 * TensorRT registers custom_domain's DummyOp in the domain trt.plugins, as the real one does with
 * what it finds in its plugin libraries. */
#include "op_common.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { MAX_OPEN = 64, LINE_SIZE = 4096, NAME_SIZE = 64 };

/* Options of a provider, before they are appended. */
struct offer {
    char line[LINE_SIZE];
};

/* What was appended to session options that are still there. */
static struct {
    const OrtSessionOptions *options;
    char lines[LINE_SIZE];
} records[MAX_OPEN];

static const OrtApi *real;
static OrtApi ours;
static OrtApiBase our_base;
static void *real_library;
static int session_count;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void add(char *line, const char *text) {
    size_t used = strlen(line);
    snprintf(line + used, LINE_SIZE - used, "%s", text);
}

static void add_options(char *line, const char *const *keys, const char *const *values, size_t n) {
    for (size_t i = 0; i < n; ++i) {
        add(line, "\t");
        add(line, keys[i]);
        add(line, "=");
        add(line, values[i]);
    }
}

static char *lines_of(const OrtSessionOptions *options) {
    size_t free_one = 0;
    for (size_t i = 0; i < MAX_OPEN; ++i) {
        if (records[i].options == options) {
            return records[i].lines;
        }
        free_one = records[i].options ? free_one : i;
    }
    records[free_one].options = options;
    records[free_one].lines[0] = '\0';
    return records[free_one].lines;
}

static OrtStatus *append(OrtSessionOptions *options, const char *name, const char *given) {
    const char *broken = getenv("DEVICES_BROKEN");
    if (broken && !strcmp(broken, name)) {
        return real->CreateStatus(ORT_FAIL, "libdevice.so.9: cannot open shared object file");
    }
    pthread_mutex_lock(&lock);
    char *lines = lines_of(options);
    add(lines, name);
    add(lines, given);
    add(lines, "\n");
    pthread_mutex_unlock(&lock);
    return NULL;
}

/* ---- What there is ---- */

static char names[][NAME_SIZE] = {"TensorrtExecutionProvider", "CUDAExecutionProvider",
                                  "DmlExecutionProvider", "CPUExecutionProvider"};

static OrtStatus *ORT_API_CALL list(char ***out, int *count) {
    static char *list[OP_COUNT(names)];
    for (size_t i = 0; i < OP_COUNT(names); ++i) {
        list[i] = names[i];
    }
    *out = list;
    *count = OP_COUNT(names);
    return NULL;
}

static OrtStatus *ORT_API_CALL release_list(char **given, int count) {
    (void)given;
    (void)count;
    return NULL;
}

/* ---- CUDA and TensorRT: calls of their own; their options are types that only they know ---- */

static struct offer *new_offer(void) {
    return calloc(1, sizeof(struct offer));
}

static OrtStatus *ORT_API_CALL create_cuda(OrtCUDAProviderOptionsV2 **out) {
    *out = (void *)new_offer();
    return NULL;
}

static OrtStatus *ORT_API_CALL update_cuda(OrtCUDAProviderOptionsV2 *options,
                                           const char *const *keys, const char *const *values,
                                           size_t n) {
    add_options(((struct offer *)(void *)options)->line, keys, values, n);
    return NULL;
}

static void ORT_API_CALL release_cuda(OrtCUDAProviderOptionsV2 *options) {
    free(options);
}

static OrtStatus *ORT_API_CALL append_cuda(OrtSessionOptions *options,
                                           const OrtCUDAProviderOptionsV2 *given) {
    return append(options, "CUDA", ((const struct offer *)(const void *)given)->line);
}

static OrtStatus *ORT_API_CALL create_tensorrt(OrtTensorRTProviderOptionsV2 **out) {
    *out = (void *)new_offer();
    return NULL;
}

static OrtStatus *ORT_API_CALL update_tensorrt(OrtTensorRTProviderOptionsV2 *options,
                                               const char *const *keys, const char *const *values,
                                               size_t n) {
    add_options(((struct offer *)(void *)options)->line, keys, values, n);
    return NULL;
}

static void ORT_API_CALL release_tensorrt(OrtTensorRTProviderOptionsV2 *options) {
    free(options);
}

static OrtStatus *halve(struct kernel *kernel, OrtKernelContext *context) {
    struct view x;
    void *out = NULL;
    TRY(read_input(kernel, context, 0, &x));
    TRY(make_output(kernel, context, 0, x.dims, x.rank, &out));
    for (size_t i = 0; i < x.count; ++i) {
        ((float *)out)[i] = 0.5F * ((const float *)x.data)[i];
    }
    return NULL;
}

static struct test_op plugin = {
    .name = "DummyOp",
    .inputs = {FLOAT_EDGE},
    .input_count = 1,
    .outputs = {FLOAT_EDGE},
    .output_count = 1,
    .compute = halve,
};

static OrtStatus *ORT_API_CALL append_tensorrt(OrtSessionOptions *options,
                                               const OrtTensorRTProviderOptionsV2 *given) {
    const char *line = ((const struct offer *)(const void *)given)->line;
    TRY(append(options, "TensorRT", line));
    if (!strstr(line, "trt_extra_plugin_lib_paths=")) {
        return NULL;
    }
    OrtCustomOpDomain *domain = NULL;
    fill_callbacks(&plugin.base);
    TRY(real->CreateCustomOpDomain("trt.plugins", &domain));
    TRY(real->CustomOpDomain_Add(domain, &plugin.base));
    return real->AddCustomOpDomain(options, domain);
}

/* ---- All others: one call, with their name ---- */

static OrtStatus *ORT_API_CALL append_named(OrtSessionOptions *options, const char *name,
                                            const char *const *keys, const char *const *values,
                                            size_t n) {
    struct offer offer = {{0}};
    add_options(offer.line, keys, values, n);
    return append(options, name, offer.line);
}

OP_EXPORT OrtStatus *ORT_API_CALL
OrtSessionOptionsAppendExecutionProvider_CPU(OrtSessionOptions *options, int use_arena);

OrtStatus *ORT_API_CALL OrtSessionOptionsAppendExecutionProvider_CPU(OrtSessionOptions *options,
                                                                     int use_arena) {
    OrtStatus *(*theirs)(OrtSessionOptions *, int) = NULL;
    void *symbol = dlsym(real_library, "OrtSessionOptionsAppendExecutionProvider_CPU");
    memcpy(&theirs, &symbol, sizeof theirs);
    TRY(append(options, "CPU", ""));
    return theirs(options, use_arena);
}

/* ---- Sessions ---- */

static void write_file(int number, const char *ending, const void *data, size_t size) {
    char path[LINE_SIZE];
    const char *folder = getenv("DEVICES_LOG");
    snprintf(path, sizeof path, "%s/session-%d.%s", folder ? folder : ".", number, ending);
    FILE *file = folder ? fopen(path, "wb") : NULL;
    if (file) {
        fwrite(data, 1, size, file);
        fclose(file);
    }
}

static OrtStatus *ORT_API_CALL create_session(const OrtEnv *env, const void *model, size_t size,
                                              const OrtSessionOptions *options, OrtSession **out) {
    pthread_mutex_lock(&lock);
    const char *lines = lines_of(options);
    write_file(session_count, "onnx", model, size);
    write_file(session_count++, "txt", lines, strlen(lines));
    pthread_mutex_unlock(&lock);
    return real->CreateSessionFromArray(env, model, size, options, out);
}

static void ORT_API_CALL release_options(OrtSessionOptions *options) {
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < MAX_OPEN; ++i) {
        if (records[i].options == options) {
            records[i].options = NULL;
        }
    }
    pthread_mutex_unlock(&lock);
    real->ReleaseSessionOptions(options);
}

/* ---- The runtime ---- */

static const OrtApi *ORT_API_CALL get_api(uint32_t version) {
    return version <= ORT_API_VERSION ? &ours : NULL;
}

static void fill(void) {
    memcpy(&ours, real, sizeof ours);
    ours.GetAvailableProviders = list;
    ours.ReleaseAvailableProviders = release_list;
    ours.CreateCUDAProviderOptions = create_cuda;
    ours.UpdateCUDAProviderOptions = update_cuda;
    ours.ReleaseCUDAProviderOptions = release_cuda;
    ours.SessionOptionsAppendExecutionProvider_CUDA_V2 = append_cuda;
    ours.CreateTensorRTProviderOptions = create_tensorrt;
    ours.UpdateTensorRTProviderOptions = update_tensorrt;
    ours.ReleaseTensorRTProviderOptions = release_tensorrt;
    ours.SessionOptionsAppendExecutionProvider_TensorRT_V2 = append_tensorrt;
    ours.SessionOptionsAppendExecutionProvider = append_named;
    ours.CreateSessionFromArray = create_session;
    ours.ReleaseSessionOptions = release_options;
}

OP_EXPORT const OrtApiBase *ORT_API_CALL OrtGetApiBase(void) {
    const char *path = getenv("REAL_RUNTIME");
    const OrtApiBase *(*theirs)(void) = NULL;
    /* NOLINTNEXTLINE(clang-analyzer-optin.taint.GenericTaint): the test says what to load */
    real_library = dlopen(path ? path : "", RTLD_NOW | RTLD_LOCAL);
    void *symbol = real_library ? dlsym(real_library, "OrtGetApiBase") : NULL;
    if (!symbol) {
        fprintf(stderr, "REAL_RUNTIME: %s\n", dlerror());
        exit(1);
    }
    memcpy(&theirs, &symbol, sizeof theirs);
    real = theirs()->GetApi(ORT_API_VERSION);
    fill();
    our_base = (OrtApiBase){.GetApi = get_api, .GetVersionString = theirs()->GetVersionString};
    return &our_base;
}
