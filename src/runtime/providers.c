/*
 * The user's providers, found among those that the runtime has. Appending them is in
 * providers_append.c.
 */
#include "runtime/providers.h"

#include "runtime/ort.h"

#include <stdlib.h>
#include <string.h>

static enum onnxptq_status find_name(struct oq_provider *provider, char **available, int n,
                                     struct onnxptq_error *error) {
    size_t length = strcspn(provider->text, ":");
    for (int i = 0; i < n; i++) {
        if (oq_provider_is_called(available[i], provider->text, length)) {
            provider->name = strdup(available[i]);
            return provider->name != NULL ? ONNXPTQ_OK
                                          : oq_fail_memory(error, "an execution provider");
        }
    }
    char list[1024];
    oq_provider_list_names(list, sizeof list, available, n);
    return oq_fail(error, ONNXPTQ_ERROR_RUNTIME,
                   "cannot use execution provider '%s': this ONNX Runtime does not have it; it has "
                   "%s",
                   provider->text, list);
}

static enum onnxptq_status parse_provider(struct oq_provider *provider, const char *text,
                                          char **available, int n, struct onnxptq_error *error) {
    provider->text = strdup(text);
    if (provider->text == NULL) {
        return oq_fail_memory(error, "an execution provider");
    }
    OQ_TRY(find_name(provider, available, n, error));
    const char *colon = strchr(text, ':');
    return colon != NULL ? oq_provider_add_inline(provider, colon + 1, error) : ONNXPTQ_OK;
}

/* Whatever the user called them. */
static bool have_one_name(const struct oq_provider *a, const struct oq_provider *b) {
    return a->name != NULL && b->name != NULL && strcmp(a->name, b->name) == 0;
}

static bool is_same(const struct oq_provider *a, const struct oq_provider *b) {
    bool same = have_one_name(a, b) && a->n_options == b->n_options;
    for (size_t i = 0; i < a->n_options && same; i++) {
        same = strcmp(a->keys[i], b->keys[i]) == 0 && strcmp(a->values[i], b->values[i]) == 0;
    }
    return same;
}

static bool is_duplicate(const struct oq_providers *providers, const struct oq_provider *next) {
    for (size_t i = 0; i < providers->n; i++) {
        if (is_same(&providers->items[i], next)) {
            return true;
        }
    }
    return false;
}

/* The runtime takes a provider once, and says so only when a model is loaded. */
static enum onnxptq_status refuse_second(const struct oq_providers *providers,
                                         const struct oq_provider *next,
                                         struct onnxptq_error *error) {
    for (size_t i = 0; i < providers->n; i++) {
        if (have_one_name(&providers->items[i], next)) {
            return oq_fail(error, ONNXPTQ_ERROR_USAGE,
                           "cannot use execution providers '%s' and '%s' together: both are %s, "
                           "which ONNX Runtime takes once; leave one of them out",
                           providers->items[i].text, next->text, next->name);
        }
    }
    return ONNXPTQ_OK;
}

static enum onnxptq_status parse_all(struct oq_providers *providers, const char *const *texts,
                                     size_t n, char **available, int n_available,
                                     struct onnxptq_error *error) {
    for (size_t i = 0; i < n; i++) {
        struct oq_provider next = {0};
        enum onnxptq_status status = parse_provider(&next, texts[i], available, n_available, error);
        bool again = status == ONNXPTQ_OK && is_duplicate(providers, &next);
        if (status == ONNXPTQ_OK && !again) {
            status = refuse_second(providers, &next, error);
        }
        if (status == ONNXPTQ_OK && !again) {
            providers->items[providers->n++] = next;
        } else {
            oq_provider_reset(&next);
        }
        OQ_TRY(status);
    }
    return ONNXPTQ_OK;
}

static enum onnxptq_status parse_list(struct oq_providers *providers, const OrtApi *api,
                                      const char *const *texts, size_t n,
                                      struct onnxptq_error *error) {
    if (n == 0) {
        return ONNXPTQ_OK;
    }
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

enum onnxptq_status oq_providers_parse(struct oq_providers *providers, const OrtApi *api,
                                       const struct onnxptq_runtime_options *options,
                                       struct onnxptq_error *error) {
    OQ_TRY(parse_list(providers, api, options->providers, options->n_providers, error));
    return oq_providers_add_options(providers, options, error);
}

void oq_providers_list_available(const OrtApi *api, char *text, size_t size) {
    char **available = NULL;
    int n = 0;
    OrtStatus *ort = api->GetAvailableProviders(&available, &n);
    text[0] = '\0';
    if (ort == NULL) {
        oq_provider_list_names(text, size, available, n);
        ort = api->ReleaseAvailableProviders(available, n);
    }
    if (ort != NULL) {
        api->ReleaseStatus(ort);
    }
}
