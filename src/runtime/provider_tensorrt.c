/*
 * Options of the TensorRT provider that the user gives by options of their own: plugin libraries
 * and shape profiles.
 */
#include "base/arena.h"
#include "base/file.h"
#include "runtime/provider.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Text that grows; `failed` once out of memory. */
struct text {
    char *data;
    size_t size, capacity;
    bool failed;
};

static void put(struct text *text, const char *piece) {
    size_t n = strlen(piece);
    if (text->failed || !oq_grow((void **)&text->data, &text->capacity, text->size + n + 1, 1)) {
        text->failed = true;
        return;
    }
    memcpy(text->data + text->size, piece, n + 1);
    text->size += n;
}

/* Sets the option for every TensorRT of the list. */
static enum onnxptq_status set_all(struct oq_providers *providers, const char *key,
                                   struct text *value, struct onnxptq_error *error) {
    enum onnxptq_status status =
        value->failed ? oq_fail_memory(error, "an execution provider's options") : ONNXPTQ_OK;
    for (size_t i = 0; i < providers->n && status == ONNXPTQ_OK; i++) {
        if (strcmp(providers->items[i].name, OQ_PROVIDER_TENSORRT) == 0) {
            status = oq_provider_set(&providers->items[i], key, value->data, error);
        }
    }
    free(value->data);
    return status;
}

/* The runtime only warns about a library that it cannot load. */
static enum onnxptq_status put_plugin(struct text *text, const char *path,
                                      struct onnxptq_error *error) {
    char *absolute = path[0] != '\0' ? oq_path_absolute(path) : NULL;
    const char *fact = path[0] == '\0'             ? "its name is empty"
                       : strchr(path, ';') != NULL ? "the runtime splits the list at semicolons"
                       : !oq_path_is_regular(path) ? "no such file"
                                                   : NULL;
    if (fact == NULL && absolute != NULL) {
        put(text, text->size > 0 ? ";" : "");
        put(text, absolute);
    }
    bool memory = absolute != NULL || path[0] == '\0';
    free(absolute);
    if (!memory) {
        return oq_fail_memory(error, "an execution provider's options");
    }
    return fact == NULL ? ONNXPTQ_OK
                        : oq_fail(error, ONNXPTQ_ERROR_USAGE,
                                  "cannot use TensorRT plugin library '%s': %s; check --trt-plugin",
                                  path, fact);
}

static enum onnxptq_status add_plugins(struct oq_providers *providers,
                                       const struct onnxptq_runtime_options *options,
                                       struct onnxptq_error *error) {
    struct text text = {0};
    for (size_t i = 0; i < options->n_trt_plugins; i++) {
        enum onnxptq_status status = put_plugin(&text, options->trt_plugins[i], error);
        if (status != ONNXPTQ_OK) {
            free(text.data);
            return status;
        }
    }
    return options->n_trt_plugins > 0
               ? set_all(providers, "trt_extra_plugin_lib_paths", &text, error)
               : ONNXPTQ_OK;
}

struct profile {
    const char *option, *key;
    const struct onnxptq_input_shape *shapes;
    size_t n;
};

static const struct onnxptq_input_shape *find_shape(const struct profile *profile,
                                                    const char *name) {
    for (size_t i = 0; i < profile->n; i++) {
        if (strcmp(profile->shapes[i].name, name) == 0) {
            return &profile->shapes[i];
        }
    }
    return NULL;
}

/* Every input of `one` must be in `other`, with as many dimensions; `rising`: none smaller. */
static enum onnxptq_status check_pair(const struct profile *one, const struct profile *other,
                                      bool rising, struct onnxptq_error *error) {
    for (size_t i = 0; i < one->n; i++) {
        const struct onnxptq_input_shape *low = &one->shapes[i];
        const struct onnxptq_input_shape *high = find_shape(other, low->name);
        const char *fact = high == NULL              ? "is missing"
                           : high->rank != low->rank ? "has another number of dimensions"
                                                     : NULL;
        for (size_t d = 0; fact == NULL && rising && d < low->rank; d++) {
            fact = high->shape[d] < low->shape[d] ? "is smaller" : NULL;
        }
        if (fact != NULL) {
            return oq_fail(error, ONNXPTQ_ERROR_USAGE,
                           "cannot use the TensorRT profile of input '%s': its %s %s, beside its "
                           "%s; give min, opt and max with as many dimensions, in rising order",
                           low->name, other->option, fact, one->option);
        }
    }
    return ONNXPTQ_OK;
}

/* "x:1x3x8x8,mask:1x8" */
static enum onnxptq_status add_profile(struct oq_providers *providers,
                                       const struct profile *profile, struct onnxptq_error *error) {
    struct text text = {0};
    for (size_t i = 0; i < profile->n; i++) {
        const struct onnxptq_input_shape *shape = &profile->shapes[i];
        put(&text, i > 0 ? "," : "");
        put(&text, shape->name);
        for (size_t d = 0; d < shape->rank; d++) {
            char number[32];
            (void)snprintf(number, sizeof number, "%c%" PRId64, d > 0 ? 'x' : ':', shape->shape[d]);
            put(&text, number);
        }
    }
    return set_all(providers, profile->key, &text, error);
}

static enum onnxptq_status add_profiles(struct oq_providers *providers,
                                        const struct onnxptq_runtime_options *options,
                                        struct onnxptq_error *error) {
    const struct profile profiles[] = {{"--trt-profile-min", "trt_profile_min_shapes",
                                        options->trt_profile_min, options->n_trt_profile_min},
                                       {"--trt-profile-opt", "trt_profile_opt_shapes",
                                        options->trt_profile_opt, options->n_trt_profile_opt},
                                       {"--trt-profile-max", "trt_profile_max_shapes",
                                        options->trt_profile_max, options->n_trt_profile_max}};
    if (profiles[0].n + profiles[1].n + profiles[2].n == 0) {
        return ONNXPTQ_OK;
    }
    for (size_t i = 0; i < 9; i++) {
        OQ_TRY(check_pair(&profiles[i / 3], &profiles[i % 3], i / 3 < i % 3, error));
    }
    for (size_t i = 0; i < 3; i++) {
        OQ_TRY(add_profile(providers, &profiles[i], error));
    }
    return ONNXPTQ_OK;
}

static bool has_tensorrt(const struct oq_providers *providers) {
    for (size_t i = 0; i < providers->n; i++) {
        if (strcmp(providers->items[i].name, OQ_PROVIDER_TENSORRT) == 0) {
            return true;
        }
    }
    return false;
}

enum onnxptq_status oq_providers_add_tensorrt(struct oq_providers *providers,
                                              const struct onnxptq_runtime_options *options,
                                              struct onnxptq_error *error) {
    size_t n_profiles =
        options->n_trt_profile_min + options->n_trt_profile_opt + options->n_trt_profile_max;
    if ((options->n_trt_plugins > 0 || n_profiles > 0) && !has_tensorrt(providers)) {
        return oq_fail(error, ONNXPTQ_ERROR_USAGE,
                       "cannot use %s: TensorRT is not among the providers; add it with "
                       "--providers trt,cuda",
                       options->n_trt_plugins > 0 ? "--trt-plugin"
                                                  : "--trt-profile-min, -opt, -max");
    }
    OQ_TRY(add_plugins(providers, options, error));
    return add_profiles(providers, options, error);
}
