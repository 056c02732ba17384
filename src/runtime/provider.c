/*
 * Names of execution providers. Their options are in provider_options.c.
 */
#include "runtime/provider.h"

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

bool oq_provider_is_called(const char *available, const char *wanted, size_t n) {
    if (n == strlen(available) && strncasecmp(wanted, available, n) == 0) {
        return true;
    }
    if (n == 3 && strncasecmp(wanted, "trt", 3) == 0) {
        return strcmp(available, "TensorrtExecutionProvider") == 0;
    }
    return n == stem_length(available) && strncasecmp(wanted, available, n) == 0;
}

/* "cpu (CPUExecutionProvider), cuda (CUDAExecutionProvider)" */
void oq_provider_list_names(char *text, size_t size, char **names, int n) {
    size_t used = 0;
    text[0] = '\0';
    for (int i = 0; i < n && used < size; i++) {
        char stem[64];
        size_t length = stem_length(names[i]);
        if (length >= sizeof stem) {
            length = sizeof stem - 1;
        }
        for (size_t c = 0; c < length; c++) {
            char letter = names[i][c];
            stem[c] = (char)(letter >= 'A' && letter <= 'Z' ? letter - 'A' + 'a' : letter);
        }
        stem[length] = '\0';
        int more =
            snprintf(text + used, size - used, "%s%s (%s)", i > 0 ? ", " : "", stem, names[i]);
        used += more > 0 ? (size_t)more : size;
    }
}

void oq_providers_list(const struct oq_providers *providers, bool cpu_only, char *text,
                       size_t size) {
    size_t used = 0;
    (void)snprintf(text, size, "cpu");
    for (size_t i = 0; i < providers->n && !cpu_only && used < size; i++) {
        int more =
            snprintf(text + used, size - used, "%s%s", i > 0 ? ", " : "", providers->items[i].text);
        used += more > 0 ? (size_t)more : size;
    }
}

bool oq_provider_has_own_memory(const struct oq_provider *provider) {
    static const char *const names[] = {
        OQ_PROVIDER_CUDA,        OQ_PROVIDER_TENSORRT,        "NvTensorRTRTXExecutionProvider",
        "ROCMExecutionProvider", "MIGraphXExecutionProvider", "DmlExecutionProvider",
        "CANNExecutionProvider", "WebGpuExecutionProvider"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(provider->name, names[i]) == 0) {
            return true;
        }
    }
    return false;
}

void oq_provider_reset(struct oq_provider *provider) {
    free(provider->text);
    free(provider->name);
    for (size_t i = 0; i < provider->n_options; i++) {
        free(provider->keys[i]);
        free(provider->values[i]);
    }
    free((void *)provider->keys);
    free((void *)provider->values);
    *provider = (struct oq_provider){0};
}

void oq_providers_reset(struct oq_providers *providers) {
    for (size_t i = 0; i < providers->n; i++) {
        oq_provider_reset(&providers->items[i]);
    }
    free(providers->items);
    *providers = (struct oq_providers){0};
}
