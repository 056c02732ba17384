/*
 * Merging and completing imports of operator sets.
 */
#include "prepare/imports.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* The imports of a model or of a function. */
struct list {
    Onnx__OperatorSetIdProto ***imports;
    size_t *n;
    const Onnx__FunctionProto *function; /* NULL: the model's own */
    struct oq_preparation *preparation;
    struct onnxptq_error *error;
    enum onnxptq_status status;
};

static Onnx__OperatorSetIdProto *find(Onnx__OperatorSetIdProto *const *imports, size_t n,
                                      const char *domain) {
    for (size_t i = 0; i < n; i++) {
        if (oq_same_domain(imports[i]->domain, domain)) {
            return imports[i];
        }
    }
    return NULL;
}

int64_t oq_imports_find(Onnx__OperatorSetIdProto *const *imports, size_t n, const char *domain) {
    const Onnx__OperatorSetIdProto *import = find(imports, n, domain);
    return import == NULL ? 0 : import->version;
}

static const char *domain_text(const char *domain) {
    return oq_is_default_domain(domain) ? "ai.onnx" : domain;
}

/* ---- Merging -------------------------------------------------------------------------------- */

static enum onnxptq_status merge(const struct list *list) {
    size_t kept = 0;
    for (size_t i = 0; i < *list->n; i++) {
        Onnx__OperatorSetIdProto *import = (*list->imports)[i];
        const Onnx__OperatorSetIdProto *same = find(*list->imports, kept, import->domain);
        if (same == NULL) {
            (*list->imports)[kept++] = import;
        } else if (same->version != import->version) {
            return oq_fail(list->error, ONNXPTQ_ERROR_MODEL,
                           "cannot use %s '%s': it imports versions %" PRId64 " and %" PRId64
                           " of operator set '%s' at once; keep one of them",
                           list->function == NULL ? "model" : "function",
                           list->function == NULL ? oq_model_path(list->preparation->model)
                                                  : oq_text(list->function->name),
                           same->version, import->version, domain_text(import->domain));
        }
    }
    *list->n = kept;
    return ONNXPTQ_OK;
}

/* ---- Completing ----------------------------------------------------------------------------- */

/* What the runtime takes a domain without import for is its own newest version. For the domains
 * that have one version only that is 1; the nodes of ai.onnx.ml are those of 3 in every runtime. */
static int64_t version_of(const struct list *list, const char *domain) {
    const Onnx__ModelProto *model = oq_model_proto(list->preparation->model);
    const int64_t own = oq_imports_find(model->opset_import, model->n_opset_import, domain);
    if (list->function != NULL && own != 0) {
        return own;
    }
    return strcmp(domain_text(domain), "ai.onnx.ml") == 0 ? 3 : 1;
}

static bool append(const struct list *list, const char *domain, int64_t version) {
    struct oq_arena *arena = oq_model_arena(list->preparation->model);
    Onnx__OperatorSetIdProto *import = oq_arena_alloc(arena, sizeof *import);
    Onnx__OperatorSetIdProto **grown = oq_arena_array(arena, *list->n + 1, sizeof(void *));
    if (import == NULL || grown == NULL) {
        return false;
    }
    onnx__operator_set_id_proto__init(import);
    import->domain = oq_arena_strdup(arena, domain);
    import->has_version = 1;
    import->version = version;
    if (*list->n > 0) {
        memcpy(grown, *list->imports, *list->n * sizeof(void *));
    }
    grown[(*list->n)++] = import;
    *list->imports = grown;
    return import->domain != NULL;
}

/* The meaning of standard operators depends on the version: there is no guessing it. */
static enum onnxptq_status no_default(const struct list *list, const Onnx__NodeProto *node) {
    return oq_fail(list->error, ONNXPTQ_ERROR_MODEL,
                   "cannot use %s '%s': it holds %s of the standard operator set, but imports no "
                   "version of that; add the one that the model was exported with to opset_import",
                   list->function == NULL ? "model" : "function",
                   list->function == NULL ? oq_model_path(list->preparation->model)
                                          : oq_text(list->function->name),
                   oq_text(node->op_type));
}

static bool complete(void *user, Onnx__NodeProto *node) {
    struct list *list = user;
    const char *domain = oq_text(node->domain);
    if (find(*list->imports, *list->n, domain) != NULL) {
        return true;
    }
    const int64_t version = version_of(list, domain);
    const bool standard = oq_is_default_domain(domain);
    if (standard && (list->function == NULL || version <= 1)) {
        list->status = no_default(list, node);
        return false;
    }
    if (!append(list, domain, version)) {
        list->status = oq_fail_memory(list->error, "an operator set");
        return false;
    }
    oq_preparation_note(list->preparation,
                        "operator set '%s' was used but not imported: version %" PRId64
                        " is imported now%s%s",
                        domain_text(domain), version, list->function == NULL ? "" : " by function ",
                        list->function == NULL ? "" : oq_text(list->function->name));
    return true;
}

static enum onnxptq_status fix(struct list *list, Onnx__NodeProto *const *nodes, size_t n) {
    OQ_TRY(merge(list));
    return oq_visit_nodes(nodes, n, complete, list) ? ONNXPTQ_OK : list->status;
}

enum onnxptq_status oq_prepare_imports(struct oq_preparation *preparation,
                                       struct onnxptq_error *error) {
    Onnx__ModelProto *model = oq_model_proto(preparation->model);
    struct list own = {.imports = &model->opset_import,
                       .n = &model->n_opset_import,
                       .preparation = preparation,
                       .error = error};
    OQ_TRY(fix(&own, model->graph->node, model->graph->n_node));
    for (size_t i = 0; i < model->n_functions; i++) {
        Onnx__FunctionProto *function = model->functions[i];
        struct list list = {.imports = &function->opset_import,
                            .n = &function->n_opset_import,
                            .function = function,
                            .preparation = preparation,
                            .error = error};
        OQ_TRY(fix(&list, function->node, function->n_node));
    }
    return ONNXPTQ_OK;
}
