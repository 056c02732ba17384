/*
 * Reading the user's providers. Appending them is in providers_append.c.
 */
#include "runtime/providers.h"

#include "runtime/ort.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define SUFFIX "ExecutionProvider"

/* Length of a provider's name without "ExecutionProvider". */
static size_t stem_length(const char *name) {
    size_t n = strlen(name), suffix = strlen(SUFFIX);
    bool has = n > suffix && strcasecmp(name + n - suffix, SUFFIX) == 0;
    return has ? n - suffix : n;
}

static bool same_provider(const char *wanted, size_t n, const char *available) {
    if (n == strlen(available) && strncasecmp(wanted, available, n) == 0) {
        return true;
    }
    if (n == 3 && strncasecmp(wanted, "trt", 3) == 0) {
        return strcmp(available, "TensorrtExecutionProvider") == 0;
    }
    return n == stem_length(available) && strncasecmp(wanted, available, n) == 0;
}

/* "cpu (CPUExecutionProvider), cuda (CUDAExecutionProvider)" */
static void list_available(char *text, size_t size, char **available, int n) {
    size_t used = 0;
    text[0] = '\0';
    for (int i = 0; i < n && used < size; i++) {
        char stem[64];
        size_t length = stem_length(available[i]);
        if (length >= sizeof stem) {
            length = sizeof stem - 1;
        }
        for (size_t c = 0; c < length; c++) {
            char letter = available[i][c];
            stem[c] = (char)(letter >= 'A' && letter <= 'Z' ? letter - 'A' + 'a' : letter);
        }
        stem[length] = '\0';
        int more =
            snprintf(text + used, size - used, "%s%s (%s)", i > 0 ? ", " : "", stem, available[i]);
        used += more > 0 ? (size_t)more : size;
    }
}

static enum onnxptq_status find_name(struct oq_provider *provider, char **available, int n,
                                     struct onnxptq_error *error) {
    size_t length = strcspn(provider->text, ":");
    for (int i = 0; i < n; i++) {
        if (same_provider(provider->text, length, available[i])) {
            provider->name = strdup(available[i]);
            return provider->name != NULL ? ONNXPTQ_OK
                                          : oq_fail_memory(error, "an execution provider");
        }
    }
    char list[1024];
    list_available(list, sizeof list, available, n);
    return oq_fail(error, ONNXPTQ_ERROR_RUNTIME,
                   "cannot use execution provider '%s': this ONNX Runtime does not have it; it has "
                   "%s",
                   provider->text, list);
}

/* One of "0" and "key=value"; cuts `text` in place. */
static bool parse_option(char *text, const char **key, const char **value) {
    char *equals = strchr(text, '=');
    if (equals != NULL) {
        *equals = '\0';
        *key = text;
        *value = equals + 1;
        return equals != text;
    }
    *key = "device_id";
    *value = text;
    return text[0] != '\0' && text[strspn(text, "0123456789")] == '\0';
}

/* Cuts provider->options into at most `most` keys and values. */
static enum onnxptq_status split_options(struct oq_provider *provider, size_t most,
                                         struct onnxptq_error *error) {
    char *next = provider->options;
    for (size_t i = 0; i < most && next != NULL; i++) {
        char *option = next;
        next = strchr(option, ';');
        if (next != NULL) {
            *next++ = '\0';
        }
        if (!parse_option(option, &provider->keys[i], &provider->values[i])) {
            return oq_fail(error, ONNXPTQ_ERROR_USAGE,
                           "cannot use execution provider '%s': '%s' is neither a device number "
                           "nor key=value; write it as in cuda:0 or openvino:device_type=CPU",
                           provider->text, option);
        }
        provider->n_options = i + 1;
    }
    return ONNXPTQ_OK;
}

static enum onnxptq_status parse_options(struct oq_provider *provider,
                                         struct onnxptq_error *error) {
    const char *colon = strchr(provider->text, ':');
    if (colon == NULL) {
        return ONNXPTQ_OK;
    }
    size_t most = 1;
    for (const char *c = colon; *c != '\0'; c++) {
        if (*c == ';') {
            most++;
        }
    }
    provider->options = strdup(colon + 1);
    provider->keys = calloc(most, sizeof *provider->keys);
    provider->values = calloc(most, sizeof *provider->values);
    if (provider->options == NULL || provider->keys == NULL || provider->values == NULL) {
        return oq_fail_memory(error, "an execution provider's options");
    }
    return split_options(provider, most, error);
}

static void reset_provider(struct oq_provider *provider) {
    free(provider->text);
    free(provider->name);
    free(provider->options);
    free(provider->keys);
    free(provider->values);
    *provider = (struct oq_provider){0};
}

static enum onnxptq_status parse_provider(struct oq_provider *provider, const char *text,
                                          char **available, int n, struct onnxptq_error *error) {
    provider->text = strdup(text);
    if (provider->text == NULL) {
        return oq_fail_memory(error, "an execution provider");
    }
    OQ_TRY(find_name(provider, available, n, error));
    return parse_options(provider, error);
}

static bool is_duplicate(const struct oq_providers *providers, const struct oq_provider *next) {
    for (size_t i = 0; i < providers->n; i++) {
        if (strcmp(providers->items[i].text, next->text) == 0) {
            return true;
        }
    }
    return false;
}

static enum onnxptq_status parse_all(struct oq_providers *providers, const char *const *texts,
                                     size_t n, char **available, int n_available,
                                     struct onnxptq_error *error) {
    for (size_t i = 0; i < n; i++) {
        struct oq_provider next = {0};
        enum onnxptq_status status = parse_provider(&next, texts[i], available, n_available, error);
        if (status == ONNXPTQ_OK && !is_duplicate(providers, &next)) {
            providers->items[providers->n++] = next;
        } else {
            reset_provider(&next);
        }
        OQ_TRY(status);
    }
    return ONNXPTQ_OK;
}

enum onnxptq_status oq_providers_parse(struct oq_providers *providers, const OrtApi *api,
                                       const char *const *texts, size_t n,
                                       struct onnxptq_error *error) {
    if (n == 0) {
        return ONNXPTQ_OK;
    }
    providers->n = 0;
    providers->items = calloc(n, sizeof *providers->items);
    if (providers->items == NULL) {
        return oq_fail_memory(error, "the execution providers");
    }
    char **available = NULL;
    int n_available = 0;
    OQ_TRY(oq_ort_check(api, api->GetAvailableProviders(&available, &n_available),
                        ONNXPTQ_ERROR_RUNTIME, error, "cannot list the execution providers"));
    enum onnxptq_status status = parse_all(providers, texts, n, available, n_available, error);
    OrtStatus *ignored = api->ReleaseAvailableProviders(available, n_available);
    if (ignored != NULL) {
        api->ReleaseStatus(ignored);
    }
    return status;
}

void oq_providers_reset(struct oq_providers *providers) {
    for (size_t i = 0; i < providers->n; i++) {
        reset_provider(&providers->items[i]);
    }
    free(providers->items);
    *providers = (struct oq_providers){0};
}
