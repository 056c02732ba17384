/*
 * Opening and closing the runtime: library, environment, providers, custom-op libraries.
 */
#include "runtime/runtime.h"

#include "runtime/domains.h"
#include "runtime/library.h"
#include "runtime/ort.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef ONNXPTQ_DEFAULT_ORT_LIB
#define ONNXPTQ_DEFAULT_ORT_LIB ""
#endif
#define ORT_ENVIRONMENT_VARIABLE "ONNXPTQ_ORT_LIB"

/* Names that the loader's own search may find. */
static const char *const default_names[] = {"libonnxruntime.so", "libonnxruntime.so.1"};

/* "1.21.1"; what is no version is let through, for the runtime to judge. */
static bool is_old(const char *version) {
    char *end;
    long major = strtol(version, &end, 10);
    if (end == version || *end != '.') {
        return false;
    }
    return major < 1 || (major == 1 && strtol(end + 1, NULL, 10) < OQ_ORT_MINOR_MINIMUM);
}

static enum onnxptq_status use_library(struct oq_runtime *runtime, void *handle, const char *path,
                                       struct onnxptq_error *error) {
    const OrtApiBase *(*get_base)(void) = NULL;
    void *symbol = oq_library_symbol(handle, "OrtGetApiBase");
    if (symbol == NULL) {
        return oq_fail(
            error, ONNXPTQ_ERROR_RUNTIME,
            "cannot use ONNX Runtime library '%s': it has no OrtGetApiBase, so it is not "
            "ONNX Runtime; pass libonnxruntime.so with --ort-lib",
            path);
    }
    memcpy(&get_base, &symbol, sizeof get_base);
    symbol = oq_library_symbol(handle, "OrtSessionOptionsAppendExecutionProvider_CPU");
    memcpy(&runtime->append_cpu, &symbol, sizeof symbol);
    runtime->base = get_base();
    runtime->version = runtime->base->GetVersionString();
    bool old = is_old(runtime->version);
    /* Asking an old runtime for a version it lacks makes it print to stderr. */
    runtime->api = old ? NULL : runtime->base->GetApi(OQ_ORT_API_VERSION);
    if (runtime->api == NULL) {
        return oq_fail(
            error, ONNXPTQ_ERROR_RUNTIME,
            "cannot use ONNX Runtime library '%s': its version is %s; pass one of 1.%d or "
            "later with --ort-lib",
            path, runtime->version, OQ_ORT_MINOR_MINIMUM);
    }
    return ONNXPTQ_OK;
}

/* `source` is who named the file, for the message. */
static enum onnxptq_status load_file(struct oq_runtime *runtime, const char *file,
                                     const char *source, struct onnxptq_error *error) {
    char reason[OQ_LIBRARY_REASON_SIZE];
    runtime->path = oq_path_absolute(file);
    if (runtime->path == NULL) {
        return oq_fail_memory(error, "a path");
    }
    void *handle = oq_library_load(runtime->path, reason);
    if (handle == NULL) {
        return oq_fail(error, ONNXPTQ_ERROR_RUNTIME,
                       "cannot load ONNX Runtime library '%s' (%s): %s; pass the path of "
                       "libonnxruntime.so with --ort-lib",
                       file, source, reason);
    }
    return use_library(runtime, handle, runtime->path, error);
}

static enum onnxptq_status load_default(struct oq_runtime *runtime, struct onnxptq_error *error) {
    char reason[OQ_LIBRARY_REASON_SIZE] = "";
    for (size_t i = 0; i < sizeof default_names / sizeof default_names[0]; i++) {
        void *handle = oq_library_open(default_names[i], false, reason, sizeof reason);
        if (handle != NULL) {
            runtime->path = strdup(default_names[i]);
            if (runtime->path == NULL) {
                return oq_fail_memory(error, "a path");
            }
            return use_library(runtime, handle, runtime->path, error);
        }
    }
    return oq_fail(error, ONNXPTQ_ERROR_RUNTIME,
                   "cannot load ONNX Runtime library '%s': %s; pass its path with --ort-lib or in "
                   "the environment variable " ORT_ENVIRONMENT_VARIABLE,
                   default_names[0], reason);
}

static enum onnxptq_status load_runtime(struct oq_runtime *runtime, const char *option,
                                        struct onnxptq_error *error) {
    const char *variable = getenv(ORT_ENVIRONMENT_VARIABLE);
    static const char built_in[] = ONNXPTQ_DEFAULT_ORT_LIB;
    if (option != NULL) {
        return load_file(runtime, option, "--ort-lib", error);
    }
    if (variable != NULL && variable[0] != '\0') {
        return load_file(runtime, variable, "environment variable " ORT_ENVIRONMENT_VARIABLE,
                         error);
    }
    /* The built-in path may be that of another machine. */
    if (built_in[0] != '\0' && oq_path_exists(built_in)) {
        return load_file(runtime, built_in, "the path set when this program was built", error);
    }
    return load_default(runtime, error);
}

/* The environment is one per process and may live longer than this runtime or come from the program
 * around us, so its own messages go nowhere and hold no pointer to us; each session has a logger of
 * its own. */
static void ORT_API_CALL drop_message(void *param, OrtLoggingLevel severity, const char *category,
                                      const char *logid, const char *location,
                                      const char *message) {
    (void)param;
    (void)severity;
    (void)category;
    (void)logid;
    (void)location;
    (void)message;
}

static enum onnxptq_status create_environment(struct oq_runtime *runtime,
                                              struct onnxptq_error *error) {
    OQ_TRY(oq_ort_check(
        runtime->api,
        runtime->api->CreateEnvWithCustomLogger(drop_message, NULL, ORT_LOGGING_LEVEL_WARNING,
                                                "onnxptq", &runtime->env),
        ONNXPTQ_ERROR_RUNTIME, error, "cannot create the environment of '%s'", runtime->path));
    /* Not enough on recent Linux builds, where the caller sets ORT_DISABLE_TELEMETRY (onnxptq.h).
     */
    return oq_ort_check(runtime->api, runtime->api->DisableTelemetryEvents(runtime->env),
                        ONNXPTQ_ERROR_RUNTIME, error, "cannot switch telemetry off in '%s'",
                        runtime->path);
}

/* A provider that does not come at all, for its options or for want of its own libraries, is not
 * one that refuses a model. */
static enum onnxptq_status try_providers(const struct oq_runtime *runtime,
                                         struct onnxptq_error *error) {
    OrtSessionOptions *options = NULL;
    if (!oq_runtime_has_accelerators(runtime)) {
        return ONNXPTQ_OK;
    }
    OQ_TRY(oq_ort_trial_options(runtime, NULL, 0, &options, error));
    enum onnxptq_status status =
        oq_providers_append(&runtime->providers, runtime->append_cpu, runtime->api, options, error);
    runtime->api->ReleaseSessionOptions(options);
    return status;
}

static enum onnxptq_status open_runtime(struct oq_runtime *runtime,
                                        const struct onnxptq_runtime_options *options,
                                        struct onnxptq_error *error) {
    const enum onnxptq_status loaded = load_runtime(runtime, options->ort_library, error);
    if (runtime->api == NULL) {
        return loaded;
    }
    OQ_TRY(create_environment(runtime, error));
    OQ_TRY(oq_providers_parse(&runtime->providers, runtime->api, options, error));
    OQ_TRY(try_providers(runtime, error));
    OQ_TRY(oq_custom_ops_load(&runtime->custom_ops, options->custom_op_libraries,
                              options->n_custom_op_libraries, &runtime->activity, error));
    return oq_domains_check(runtime, error);
}

enum onnxptq_status oq_runtime_open(const struct onnxptq_runtime_options *options,
                                    const struct oq_log *log, struct oq_runtime **out,
                                    struct onnxptq_error *error) {
    struct oq_runtime *runtime = calloc(1, sizeof *runtime);
    if (runtime == NULL) {
        return oq_fail_memory(error, "the runtime");
    }
    runtime->log = log;
    runtime->threads = options->threads;
    runtime->activity.tell = options->activity;
    runtime->activity.user = options->activity_user;
    oq_activity_tell_load(&runtime->activity, NULL);
    enum onnxptq_status status = open_runtime(runtime, options, error);
    oq_activity_tell_rest(&runtime->activity);
    if (status != ONNXPTQ_OK) {
        oq_runtime_close(runtime);
        return status;
    }
    *out = runtime;
    return ONNXPTQ_OK;
}

void oq_runtime_close(struct oq_runtime *runtime) {
    if (runtime == NULL) {
        return;
    }
    if (runtime->env != NULL) {
        runtime->api->ReleaseEnv(runtime->env);
    }
    oq_custom_ops_reset(&runtime->custom_ops);
    oq_providers_reset(&runtime->providers);
    oq_plugins_reset(&runtime->plugins);
    oq_map_destroy(runtime->activity.library_of);
    free(runtime->path);
    free(runtime);
}

const char *oq_runtime_version(const struct oq_runtime *runtime) {
    return runtime->version;
}

const char *oq_runtime_library(const struct oq_runtime *runtime) {
    return runtime->path;
}

size_t oq_runtime_n_libraries(const struct oq_runtime *runtime) {
    return runtime->custom_ops.n;
}

const char *oq_runtime_library_name(const struct oq_runtime *runtime, size_t index) {
    return runtime->custom_ops.libraries[index].name;
}

size_t oq_runtime_n_providers(const struct oq_runtime *runtime) {
    return runtime->providers.n;
}

void oq_runtime_describe_provider(const struct oq_runtime *runtime, size_t index,
                                  struct onnxptq_provider_report *out) {
    const struct oq_provider *provider = &runtime->providers.items[index];
    *out = (struct onnxptq_provider_report){.name = provider->name,
                                            .keys = (const char *const *)provider->keys,
                                            .values = (const char *const *)provider->values,
                                            .n_options = provider->n_options};
}

bool oq_runtime_calls_plugin(const struct oq_runtime *runtime, const char *domain,
                             const char *type) {
    return oq_plugins_has(&runtime->plugins, domain, type);
}

bool oq_runtime_has_own_memory(const struct oq_runtime *runtime) {
    for (size_t i = 0; i < runtime->providers.n; i++) {
        if (oq_provider_has_own_memory(&runtime->providers.items[i])) {
            return true;
        }
    }
    return false;
}

void oq_runtime_tell_run(struct oq_runtime *runtime, const char *stage, size_t first_sample,
                         size_t n_samples) {
    oq_activity_tell_run(&runtime->activity, stage, first_sample, n_samples);
}

bool oq_runtime_wants_marks(const struct oq_runtime *runtime) {
    return runtime->activity.tell != NULL && !oq_runtime_has_accelerators(runtime);
}

const char *oq_runtime_library_of(const struct oq_runtime *runtime, const char *op_name) {
    size_t index;
    return runtime->activity.library_of != NULL &&
                   oq_map_get_name(runtime->activity.library_of, op_name, &index)
               ? oq_runtime_library_name(runtime, index)
               : NULL;
}

bool oq_runtime_has_accelerators(const struct oq_runtime *runtime) {
    for (size_t i = 0; i < runtime->providers.n; i++) {
        if (strcmp(runtime->providers.items[i].name, OQ_PROVIDER_CPU) != 0) {
            return true;
        }
    }
    return false;
}
