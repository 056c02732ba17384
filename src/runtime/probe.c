/*
 * Which operators are known, and the message about those that are not. The stubs are in stub.c, the
 * list of operators in probe_list.c.
 */
#include "runtime/probe.h"

#include "runtime/ort.h"
#include "runtime/probe_list.h"
#include "runtime/stub.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Asking ---- */

/* What the runtime says of a type that neither it nor a library has: custom domains, the default
 * domain. */
static bool says_unknown(const char *message) {
    static const char *const phrases[] = {"is not a registered function/op", "No Op registered for",
                                          "No opset import for domain"};
    for (size_t i = 0; i < sizeof phrases / sizeof phrases[0]; i++) {
        if (strstr(message, phrases[i]) != NULL) {
            return true;
        }
    }
    return false;
}

/* The stub's last node is unknown on purpose: a complaint about that one means that the first was
 * known. */
static bool says_missing(const char *message) {
    return says_unknown(message) && strstr(message, OQ_STUB_END_DOMAIN) == NULL;
}

static enum onnxptq_status ask_runtime(const struct oq_runtime *runtime,
                                       const OrtSessionOptions *options,
                                       const struct oq_probe_entry *entry, bool *runnable,
                                       struct onnxptq_error *error) {
    const OrtApi *api = runtime->api;
    struct oq_stub stub = {entry->domain, entry->type, entry->imports, entry->n_imports};
    uint8_t *bytes = NULL;
    size_t size = 0;
    OQ_TRY(oq_stub_operator(&stub, &bytes, &size, error));
    OrtSession *session = NULL;
    OrtStatus *ort = api->CreateSessionFromArray(runtime->env, bytes, size, options, &session);
    *runnable = ort == NULL || !says_missing(api->GetErrorMessage(ort));
    if (ort != NULL) {
        api->ReleaseStatus(ort);
    }
    if (session != NULL) {
        api->ReleaseSession(session);
    }
    free(bytes);
    return ONNXPTQ_OK;
}

static enum onnxptq_status ask_all(const struct oq_runtime *runtime, struct oq_probe_list *list,
                                   struct onnxptq_error *error) {
    OrtSessionOptions *options = NULL;
    oq_activity_tell_load(runtime->custom_ops.activity, NULL);
    OQ_TRY(oq_ort_options_create(runtime, &options, error));
    enum onnxptq_status status =
        oq_ort_check(runtime->api, runtime->api->SetIntraOpNumThreads(options, 1),
                     ONNXPTQ_ERROR_RUNTIME, error, "cannot set the threads of a session");
    for (size_t i = 0; i < list->n && status == ONNXPTQ_OK; i++) {
        status =
            ask_runtime(runtime, options, &list->entries[i], &list->entries[i].runnable, error);
    }
    runtime->api->ReleaseSessionOptions(options);
    return status;
}

/* ---- Plugins ---- */

/* What a plugin would be called. */
static enum onnxptq_status ask_plugin(struct oq_runtime *runtime, const OrtSessionOptions *options,
                                      struct oq_probe_entry *entry, struct onnxptq_error *error) {
    char domain[] = OQ_PLUGIN_DOMAIN;
    Onnx__OperatorSetIdProto import = ONNX__OPERATOR_SET_ID_PROTO__INIT;
    import.domain = domain;
    import.has_version = 1;
    import.version = 1;
    Onnx__OperatorSetIdProto *imports[] = {&import};
    struct oq_probe_entry plugin = *entry;
    plugin.domain = domain;
    plugin.imports = imports;
    plugin.n_imports = 1;
    bool known = false;
    OQ_TRY(ask_runtime(runtime, options, &plugin, &known, error));
    if (known) {
        OQ_TRY(oq_plugins_add(&runtime->plugins, entry->op_name, error));
        entry->runnable = true;
    }
    return ONNXPTQ_OK;
}

static enum onnxptq_status find_plugins(struct oq_runtime *runtime, struct oq_probe_list *list,
                                        struct onnxptq_error *error) {
    bool any = false;
    for (size_t i = 0; i < list->n; i++) {
        any = any || (list->entries[i].foreign && !list->entries[i].runnable);
    }
    if (!any) {
        return ONNXPTQ_OK;
    }
    OrtSessionOptions *options = NULL;
    OQ_TRY(oq_ort_options_create(runtime, &options, error));
    enum onnxptq_status status =
        oq_providers_append(&runtime->providers, runtime->append_cpu, runtime->api, options, error);
    for (size_t i = 0; i < list->n && status == ONNXPTQ_OK; i++) {
        if (list->entries[i].foreign && !list->entries[i].runnable) {
            status = ask_plugin(runtime, options, &list->entries[i], error);
        }
    }
    runtime->api->ReleaseSessionOptions(options);
    return status;
}

/* ---- Libraries ---- */

/* Asks one library for the operators that nobody was found for yet. */
static enum onnxptq_status ask_library(const struct oq_runtime *runtime, size_t library,
                                       struct oq_probe_list *list, struct onnxptq_error *error) {
    OrtSessionOptions *options = NULL;
    enum onnxptq_status status = ONNXPTQ_OK;
    oq_activity_tell_load(runtime->custom_ops.activity, oq_runtime_library_name(runtime, library));
    OQ_TRY(oq_ort_trial_options(runtime, &library, 1, &options, error));
    for (size_t i = 0; i < list->n && status == ONNXPTQ_OK; i++) {
        struct oq_probe_entry *entry = &list->entries[i];
        bool known = false;
        if (!entry->foreign || !entry->runnable || entry->library != OQ_NO_LIBRARY) {
            continue;
        }
        status = ask_runtime(runtime, options, entry, &known, error);
        if (status == ONNXPTQ_OK && known) {
            entry->library = library;
        }
    }
    runtime->api->ReleaseSessionOptions(options);
    return status;
}

/* The runtime's own foreign operators are known whatever the library: those it has with none are
 * taken out again. */
static enum onnxptq_status drop_own(const struct oq_runtime *runtime, struct oq_probe_list *list,
                                    struct onnxptq_error *error) {
    OrtSessionOptions *options = NULL;
    enum onnxptq_status status = ONNXPTQ_OK;
    oq_activity_tell_load(runtime->custom_ops.activity, NULL);
    OQ_TRY(oq_ort_trial_options(runtime, NULL, 0, &options, error));
    for (size_t i = 0; i < list->n && status == ONNXPTQ_OK; i++) {
        struct oq_probe_entry *entry = &list->entries[i];
        bool own = false;
        if (entry->library == OQ_NO_LIBRARY) {
            continue;
        }
        status = ask_runtime(runtime, options, entry, &own, error);
        if (status == ONNXPTQ_OK && own) {
            entry->library = OQ_NO_LIBRARY;
        }
    }
    runtime->api->ReleaseSessionOptions(options);
    return status;
}

static enum onnxptq_status keep_libraries(struct oq_activity *activity,
                                          const struct oq_probe_list *list,
                                          struct onnxptq_error *error) {
    if (activity->library_of == NULL) {
        activity->library_of = oq_map_create();
    }
    bool kept = activity->library_of != NULL;
    for (size_t i = 0; i < list->n && kept; i++) {
        const struct oq_probe_entry *entry = &list->entries[i];
        if (entry->library != OQ_NO_LIBRARY) {
            kept = oq_map_put_copy(activity->library_of, entry->op_name, strlen(entry->op_name),
                                   entry->library);
        }
    }
    return kept ? ONNXPTQ_OK : oq_fail_memory(error, "the list of operators");
}

static enum onnxptq_status find_libraries(struct oq_runtime *runtime, struct oq_probe_list *list,
                                          struct onnxptq_error *error) {
    for (size_t i = 0; i < oq_runtime_n_libraries(runtime); i++) {
        OQ_TRY(ask_library(runtime, i, list, error));
    }
    OQ_TRY(drop_own(runtime, list, error));
    return keep_libraries(&runtime->activity, list, error);
}

static enum onnxptq_status copy_results(const struct oq_probe_list *list,
                                        struct oq_probe_result **results, size_t *n,
                                        struct onnxptq_error *error) {
    struct oq_probe_result *copy = calloc(list->n > 0 ? list->n : 1, sizeof *copy);
    if (copy == NULL) {
        return oq_fail_memory(error, "the list of operators");
    }
    for (size_t i = 0; i < list->n; i++) {
        const struct oq_probe_entry *entry = &list->entries[i];
        copy[i] = (struct oq_probe_result){.op_name = entry->op_name,
                                           .first_node = entry->first_node,
                                           .count = entry->count,
                                           .foreign = entry->foreign,
                                           .runnable = entry->runnable,
                                           .library = entry->library};
    }
    *results = copy;
    *n = list->n;
    return ONNXPTQ_OK;
}

static enum onnxptq_status probe(struct oq_runtime *runtime, const struct oq_graph *graph,
                                 struct oq_probe_result **results, size_t *n,
                                 struct onnxptq_error *error) {
    struct oq_probe_list list;
    enum onnxptq_status status = oq_probe_list_build(graph, &list, error);
    for (size_t i = 0; i < list.n; i++) {
        list.entries[i].library = OQ_NO_LIBRARY;
    }
    if (status == ONNXPTQ_OK) {
        status = ask_all(runtime, &list, error);
    }
    if (status == ONNXPTQ_OK) {
        status = find_plugins(runtime, &list, error);
    }
    if (status == ONNXPTQ_OK) {
        status = find_libraries(runtime, &list, error);
    }
    if (status == ONNXPTQ_OK) {
        status = copy_results(&list, results, n, error);
    }
    oq_probe_list_reset(&list);
    return status;
}

enum onnxptq_status oq_probe_operators(struct oq_runtime *runtime, const struct oq_graph *graph,
                                       struct oq_probe_result **results, size_t *n,
                                       struct onnxptq_error *error) {
    enum onnxptq_status status = probe(runtime, graph, results, n, error);
    oq_activity_tell_rest(&runtime->activity);
    return status;
}

/* ---- The message ---- */

struct text {
    char buffer[ONNXPTQ_ERROR_MESSAGE_SIZE];
    size_t used;
    size_t left_out;
};

/* Appends a part whole or counts it as left out: a model may miss more than a message holds. */
static void add_part(struct text *text, const char *part) {
    size_t n = strlen(part);
    const size_t limit = sizeof text->buffer - 2048; /* room for the libraries and the advice */
    if (text->left_out > 0 || text->used + n + 1 > limit) {
        text->left_out++;
        return;
    }
    memcpy(text->buffer + text->used, part, n + 1);
    text->used += n;
}

static void add_missing(struct text *text, const struct oq_probe_result *result) {
    char part[1024];
    (void)snprintf(part, sizeof part, "%s%.200s (%zu node%s, first '%.200s')",
                   text->used > 0 ? ", " : "", result->op_name, result->count,
                   result->count == 1 ? "" : "s", result->first_node);
    add_part(text, part);
}

static void list_libraries(const struct oq_runtime *runtime, char *text, size_t size) {
    size_t used = 0, n = oq_runtime_n_libraries(runtime);
    text[0] = '\0';
    for (size_t i = 0; i < n && used + 1 < size; i++) {
        int more = snprintf(text + used, size - used, "%s%s",
                            i > 0 ? ", " : " (given: ", oq_runtime_library_name(runtime, i));
        used += more > 0 ? (size_t)more : size;
    }
    if (n > 0 && used + 1 < size) {
        (void)snprintf(text + used, size - used, ")");
    }
}

static enum onnxptq_status fail_missing(const struct oq_runtime *runtime,
                                        const struct oq_probe_result *results, size_t n,
                                        struct onnxptq_error *error) {
    struct text text = {.used = 0};
    char libraries[1024], more[64] = "";
    bool foreign = false;
    for (size_t i = 0; i < n; i++) {
        if (results[i].runnable) {
            continue;
        }
        foreign = foreign || results[i].foreign;
        add_missing(&text, &results[i]);
    }
    if (text.left_out > 0) {
        (void)snprintf(more, sizeof more, " and %zu more", text.left_out);
    }
    list_libraries(runtime, libraries, sizeof libraries);
    return oq_fail(error, ONNXPTQ_ERROR_MISSING_OPERATOR,
                   "cannot run the model: neither ONNX Runtime %s nor a custom operator library%s "
                   "has %s%s; %s",
                   oq_runtime_version(runtime), libraries, text.buffer, more,
                   foreign ? "pass the library that does with --custom-op-lib"
                           : "pass a newer ONNX Runtime with --ort-lib, or a library that has them "
                             "with --custom-op-lib");
}

enum onnxptq_status oq_probe_require_all(struct oq_runtime *runtime, const struct oq_graph *graph,
                                         struct onnxptq_error *error) {
    struct oq_probe_result *results = NULL;
    size_t n = 0;
    OQ_TRY(oq_probe_operators(runtime, graph, &results, &n, error));
    enum onnxptq_status status = ONNXPTQ_OK;
    for (size_t i = 0; i < n && status == ONNXPTQ_OK; i++) {
        if (!results[i].runnable) {
            status = fail_missing(runtime, results, n, error);
        }
    }
    free(results);
    return status;
}
