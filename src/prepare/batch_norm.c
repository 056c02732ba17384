/*
 * Folding BatchNormalization: which, and the edit. The arithmetic is in fold.c.
 */
#include "prepare/batch_norm.h"

#include "model/value_info.h"
#include "prepare/constant_edit.h"
#include "prepare/constant_find.h"
#include "prepare/fold.h"

#include <stdlib.h>
#include <string.h>

#define OLDEST_OPSET 7 /* before it, BatchNormalization trains unless told otherwise */

struct folder {
    struct oq_preparation *preparation;
    const struct oq_graph *graph;
    bool *constant_nodes;
    struct oq_spill *spill;
    struct oq_constant_edit *edit;
    struct oq_use *uses; /* (convolution, input) of each replaced constant; two a node */
    size_t n_uses;
    size_t n_folded;
};

/* ---- Which ---------------------------------------------------------------------------------- */

static bool has_role(const struct oq_node *node, enum oq_role role) {
    return node->op != NULL && node->op->role == role && !node->local_function;
}

static bool has_one_result(const struct oq_node *node) {
    for (size_t i = 1; i < node->proto->n_output; i++) {
        if (node->outputs[i] != OQ_NONE) {
            return false;
        }
    }
    return node->proto->n_output > 0 && node->outputs[0] != OQ_NONE;
}

static bool is_inference_norm(const struct folder *folder, const struct oq_node *node) {
    return has_role(node, OQ_ROLE_BATCH_NORM) && has_one_result(node) &&
           node->proto->n_input == OQ_NORM_INPUTS &&
           oq_model_opset(folder->preparation->model) >= OLDEST_OPSET &&
           oq_attribute_int(node->proto, "training_mode", 0) == 0 &&
           oq_attribute_int(node->proto, "spatial", 1) == 1 &&
           !oq_preparation_excludes(folder->preparation, node->proto);
}

/* The convolution whose result nothing but `node` reads, or OQ_NONE. */
static uint32_t convolution_before(const struct folder *folder, const struct oq_node *node) {
    const uint32_t id = oq_node_input(node, 0);
    const struct oq_value *value = id == OQ_NONE ? NULL : oq_graph_value(folder->graph, id);
    if (value == NULL || value->producer == OQ_NONE || value->n_uses != 1 || value->is_output ||
        value->captured) {
        return OQ_NONE;
    }
    const struct oq_node *convolution = oq_graph_node(folder->graph, value->producer);
    const bool fits =
        (has_role(convolution, OQ_ROLE_CONV) || has_role(convolution, OQ_ROLE_CONV_TRANSPOSE)) &&
        convolution->scope == node->scope && has_one_result(convolution) &&
        !oq_preparation_excludes(folder->preparation, convolution->proto);
    return fits ? value->producer : OQ_NONE;
}

/* False when an input that is there is not constant. */
static bool find_constant(const struct folder *folder, uint32_t value,
                          const Onnx__TensorProto **out) {
    *out = value == OQ_NONE ? NULL : oq_graph_constant(folder->graph, value);
    return value == OQ_NONE || *out != NULL;
}

static bool describe_fold(const struct folder *folder, const struct oq_node *convolution,
                          const struct oq_node *norm, struct oq_fold *fold) {
    *fold = (struct oq_fold){.model = folder->preparation->model,
                             .transposed = has_role(convolution, OQ_ROLE_CONV_TRANSPOSE),
                             .groups = oq_attribute_int(convolution->proto, "group", 1),
                             .epsilon = oq_attribute_float(norm->proto, "epsilon", 1e-5F)};
    for (size_t i = 1; i < OQ_NORM_INPUTS; i++) {
        if (!find_constant(folder, oq_node_input(norm, i), &fold->norm[i]) ||
            fold->norm[i] == NULL) {
            return false;
        }
    }
    return find_constant(folder, oq_node_input(convolution, 1), &fold->weight) &&
           fold->weight != NULL &&
           find_constant(folder, oq_node_input(convolution, 2), &fold->bias);
}

/* ---- The edit ------------------------------------------------------------------------------- */

static bool replace_input(struct folder *folder, uint32_t convolution, uint32_t input,
                          struct oq_spilled data) {
    const struct oq_node *node = oq_graph_node(folder->graph, convolution);
    const uint32_t value = oq_node_input(node, input);
    if (value == OQ_NONE) {
        const char *base = oq_text(node->proto->name);
        base = oq_arena_printf(folder->preparation->scratch, "%s_bias",
                               base[0] == '\0' ? node->proto->output[0] : base);
        return base != NULL && oq_constant_edit_add(folder->edit, convolution, input, base, data);
    }
    struct oq_use *use = &folder->uses[folder->n_uses++];
    *use = (struct oq_use){convolution, input};
    return oq_constant_edit_replace(folder->edit, value, use, 1, data);
}

static enum onnxptq_status fold_node(struct folder *folder, uint32_t id,
                                     struct onnxptq_error *error) {
    const struct oq_node *norm = oq_graph_node(folder->graph, id);
    if (!is_inference_norm(folder, norm)) {
        return ONNXPTQ_OK;
    }
    const uint32_t convolution = convolution_before(folder, norm);
    struct oq_fold fold;
    if (convolution == OQ_NONE) {
        return ONNXPTQ_OK;
    }
    const struct oq_node *node = oq_graph_node(folder->graph, convolution);
    if (!describe_fold(folder, node, norm, &fold)) {
        return ONNXPTQ_OK;
    }
    bool exact = false;
    OQ_TRY(oq_fold_compute(&fold, folder->spill, &exact, error));
    if (!exact) {
        return ONNXPTQ_OK;
    }
    if (!replace_input(folder, convolution, 1, fold.new_weight) ||
        !replace_input(folder, convolution, 2, fold.new_bias)) {
        return oq_fail_memory(error, "a folded BatchNormalization");
    }
    oq_constant_edit_remove(folder->edit, id);
    oq_value_info_remove(oq_graph_scope(folder->graph, node->scope)->proto, node->proto->output[0]);
    node->proto->output[0] = norm->proto->output[0];
    folder->n_folded++;
    return ONNXPTQ_OK;
}

/* ---- Passes --------------------------------------------------------------------------------- */

static enum onnxptq_status fold_all(struct folder *folder, struct onnxptq_error *error) {
    const size_t n_nodes = oq_graph_n_nodes(folder->graph);
    OQ_TRY(oq_constant_find_nodes(folder->preparation, &folder->constant_nodes, error));
    folder->spill =
        oq_spill_create(folder->preparation->spec->beside_path, folder->preparation->scratch);
    folder->edit = oq_constant_edit_create(folder->preparation, folder->constant_nodes);
    folder->uses = oq_arena_array(folder->preparation->scratch, 2 * n_nodes, sizeof *folder->uses);
    if (folder->spill == NULL || folder->edit == NULL || folder->uses == NULL) {
        return oq_fail_memory(error, "folding BatchNormalization");
    }
    for (uint32_t i = 0; i < n_nodes; i++) {
        OQ_TRY(fold_node(folder, i, error));
    }
    OQ_TRY(oq_spill_attach(folder->spill, folder->preparation->model, error));
    return oq_constant_edit_apply(folder->edit, folder->spill, error);
}

static enum onnxptq_status run_pass(struct oq_preparation *preparation, size_t *n_folded,
                                    struct onnxptq_error *error) {
    OQ_TRY(oq_preparation_index(preparation, error));
    struct folder folder = {.preparation = preparation, .graph = preparation->graph};
    const enum onnxptq_status status = fold_all(&folder, error);
    oq_constant_edit_destroy(folder.edit);
    oq_spill_destroy(folder.spill);
    free(folder.constant_nodes);
    *n_folded = folder.n_folded;
    return status;
}

enum onnxptq_status oq_prepare_batch_norm(struct oq_preparation *preparation,
                                          struct onnxptq_error *error) {
    size_t total = 0, n = 0;
    do { /* one behind another takes two passes */
        OQ_TRY(run_pass(preparation, &n, error));
        total += n;
    } while (n > 0);
    if (total > 0) {
        oq_preparation_note(
            preparation, "%zu BatchNormalization node%s folded into the convolution%s before %s",
            total, total == 1 ? "" : "s", total == 1 ? "" : "s", total == 1 ? "it" : "them");
    }
    return ONNXPTQ_OK;
}
