/*
 * Preparing a model: the order of the steps.
 */
#include "prepare/prepare.h"

#include "prepare/batch_norm.h"
#include "prepare/constants.h"
#include "prepare/imports.h"
#include "prepare/inline.h"
#include "prepare/preparation.h"
#include "prepare/versions.h"

/* A clone is indexed like its original: same graphs, same ids. */
enum onnxptq_status oq_prepare_mark_origins(struct oq_model *model, const struct oq_graph *original,
                                            struct onnxptq_error *error) {
    struct oq_graph *graph = NULL;
    OQ_TRY(oq_graph_build(model, &graph, error));
    const uint32_t n = oq_graph_n_nodes(graph);
    if (n != oq_graph_n_nodes(original)) {
        oq_graph_destroy(graph);
        return oq_fail(error, ONNXPTQ_ERROR_INTERNAL,
                       "cannot prepare model '%s': it is no clone of the original; this is a bug",
                       oq_model_path(model));
    }
    for (uint32_t i = 0; i < n; i++) {
        Onnx__NodeProto *node = oq_graph_node(graph, i)->proto;
        node->has_origin = 1;
        node->origin = i + 1;
    }
    oq_graph_destroy(graph);
    return ONNXPTQ_OK;
}

static enum onnxptq_status run_steps(struct oq_preparation *preparation,
                                     struct onnxptq_error *error) {
    OQ_TRY(oq_prepare_imports(preparation, error));
    OQ_TRY(oq_prepare_opset(preparation, error));
    preparation->names =
        oq_names_create(preparation->model); /* conversion makes names of its own */
    if (preparation->names == NULL) {
        return oq_fail_memory(error, "the names of a model");
    }
    OQ_TRY(oq_prepare_inline(preparation, error));
    OQ_TRY(oq_prepare_constants(preparation, error));
    OQ_TRY(oq_prepare_batch_norm(preparation, error));
    OQ_TRY(oq_preparation_index(preparation, error));
    return oq_prepare_ir(preparation, error);
}

enum onnxptq_status oq_prepare(const struct oq_prepare_spec *spec, struct oq_model **out,
                               struct onnxptq_error *error) {
    struct oq_preparation preparation = {.spec = spec};
    enum onnxptq_status status = ONNXPTQ_OK;
    OQ_TRY_DONE(oq_model_clone(oq_graph_model(spec->graph), &preparation.model, error));
    OQ_TRY_DONE(oq_prepare_mark_origins(preparation.model, spec->graph, error));
    preparation.scratch = oq_arena_create();
    if (preparation.scratch == NULL) {
        status = oq_fail_memory(error, "preparing the model");
        goto done;
    }
    OQ_TRY_DONE(run_steps(&preparation, error));
    *out = preparation.model;
    preparation.model = NULL;
done:
    oq_graph_destroy(preparation.graph);
    oq_names_destroy(preparation.names);
    oq_arena_destroy(preparation.scratch);
    oq_model_destroy(preparation.model);
    return status;
}
