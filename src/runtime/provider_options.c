/*
 * Options of execution providers: written behind a name, and given one by one. Those of TensorRT
 * that have options of their own are in provider_tensorrt.c.
 */
#include "base/arena.h"
#include "runtime/provider.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- One option ---- */

static enum onnxptq_status no_memory(struct onnxptq_error *error) {
    return oq_fail_memory(error, "an execution provider's options");
}

/* Takes both texts. */
static enum onnxptq_status append_option(struct oq_provider *provider, char *key, char *value,
                                         struct onnxptq_error *error) {
    size_t n = provider->n_options;
    if (key == NULL || value == NULL ||
        !oq_grow((void **)&provider->keys, &provider->capacity_keys, n + 1,
                 sizeof *provider->keys) ||
        !oq_grow((void **)&provider->values, &provider->capacity_values, n + 1,
                 sizeof *provider->values)) {
        free(key);
        free(value);
        return no_memory(error);
    }
    provider->keys[n] = key;
    provider->values[n] = value;
    provider->n_options++;
    return ONNXPTQ_OK;
}

static enum onnxptq_status set_option(struct oq_provider *provider, char *key, char *value,
                                      struct onnxptq_error *error) {
    for (size_t i = 0; i < provider->n_options && key != NULL && value != NULL; i++) {
        if (strcmp(provider->keys[i], key) == 0) {
            free(key);
            free(provider->values[i]);
            provider->values[i] = value;
            return ONNXPTQ_OK;
        }
    }
    return append_option(provider, key, value, error);
}

enum onnxptq_status oq_provider_set(struct oq_provider *provider, const char *key,
                                    const char *value, struct onnxptq_error *error) {
    return set_option(provider, strdup(key), strdup(value), error);
}

/* ---- Behind the name ---- */

/* One of "0" and "key=value", n bytes long. */
static enum onnxptq_status add_one(struct oq_provider *provider, const char *text, size_t n,
                                   struct onnxptq_error *error) {
    const char *equals = memchr(text, '=', n);
    if (equals == NULL && n > 0 && strspn(text, "0123456789") == n) {
        return set_option(provider, strdup("device_id"), strndup(text, n), error);
    }
    if (equals == NULL || equals == text) {
        return oq_fail(error, ONNXPTQ_ERROR_USAGE,
                       "cannot use execution provider '%s': '%.*s' is neither a device number nor "
                       "key=value; write it as in cuda:0 or openvino:device_type=CPU",
                       provider->text, (int)n, text);
    }
    size_t key = (size_t)(equals - text);
    return set_option(provider, strndup(text, key), strndup(equals + 1, n - key - 1), error);
}

enum onnxptq_status oq_provider_add_inline(struct oq_provider *provider, const char *text,
                                           struct onnxptq_error *error) {
    for (;;) {
        size_t n = strcspn(text, ";");
        OQ_TRY(add_one(provider, text, n, error));
        if (text[n] == '\0') {
            return ONNXPTQ_OK;
        }
        text += n + 1;
    }
}

/* ---- NAME:KEY=VALUE ---- */

static enum onnxptq_status fail_unlisted(const struct oq_providers *providers, const char *text,
                                         struct onnxptq_error *error) {
    char list[512];
    oq_providers_list(providers, false, list, sizeof list);
    return oq_fail(error, ONNXPTQ_ERROR_USAGE,
                   "cannot use provider option '%s': that provider is not among those that run the "
                   "model (%s); add it with --providers",
                   text, list);
}

static enum onnxptq_status add_named(struct oq_providers *providers, const char *text,
                                     struct onnxptq_error *error) {
    size_t name = strcspn(text, ":");
    const char *equals = text[name] == ':' ? strchr(text + name + 1, '=') : NULL;
    const char *key = text + name + 1;
    if (name == 0 || equals == NULL || equals == key) {
        return oq_fail(error, ONNXPTQ_ERROR_USAGE,
                       "cannot use provider option '%s': it is not NAME:KEY=VALUE; write it as in "
                       "openvino:device_type=CPU",
                       text);
    }
    bool found = false;
    for (size_t i = 0; i < providers->n; i++) {
        if (!oq_provider_is_called(providers->items[i].name, text, name)) {
            continue;
        }
        OQ_TRY(set_option(&providers->items[i], strndup(key, (size_t)(equals - key)),
                          strdup(equals + 1), error));
        found = true;
    }
    return found ? ONNXPTQ_OK : fail_unlisted(providers, text, error);
}

enum onnxptq_status oq_providers_add_options(struct oq_providers *providers,
                                             const struct onnxptq_runtime_options *options,
                                             struct onnxptq_error *error) {
    for (size_t i = 0; i < options->n_provider_options; i++) {
        OQ_TRY(add_named(providers, options->provider_options[i], error));
    }
    return oq_providers_add_tensorrt(providers, options, error);
}

void oq_provider_list_options(const struct oq_provider *provider, char *text, size_t size) {
    size_t used = 0;
    (void)snprintf(text, size, "none");
    for (size_t i = 0; i < provider->n_options && used < size; i++) {
        int more = snprintf(text + used, size - used, "%s%s=%s", i > 0 ? ", " : "",
                            provider->keys[i], provider->values[i]);
        used += more > 0 ? (size_t)more : size;
    }
}
