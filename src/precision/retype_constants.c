/*
 * Constants in half precision: converted a block at a time, under the name that they had unless
 * somebody still reads them in float32.
 */
#include "precision/retype.h"

#include "base/number.h"
#include "model/tensor.h"

#include <string.h>

#define BLOCK 16384

/* ---- Numbers ---- */

static double largest(int type) {
    return type == ONNXPTQ_TYPE_FLOAT16 ? (double)OQ_HALF_MAX : (double)OQ_BFLOAT16_MAX;
}

/* Finite numbers stay finite: masks of the lowest float become the type's lowest. */
static double fit(struct oq_precision_counts *counts, int type, double value) {
    if (isfinite(value) && fabs(value) > largest(type)) {
        counts->clamped++;
        return copysign(largest(type), value);
    }
    return value;
}

static void convert_block(struct oq_precision_counts *counts, int type, const float *values,
                          size_t n, uint16_t *out) {
    for (size_t i = 0; i < n; i++) {
        oq_store_float(type, fit(counts, type, (double)values[i]), &out[i]);
        counts->underflown += values[i] != 0.0F && (out[i] & 0x7fffU) == 0;
    }
}

static enum onnxptq_status convert(struct oq_retyper *retyper, uint32_t value,
                                   struct onnxptq_error *error) {
    const int type = (int)retyper->plan->type;
    const Onnx__TensorProto *constant = oq_graph_constant(retyper->graph, value);
    struct oq_tensor_view view;
    float *block = oq_arena_array(retyper->plan->arena, BLOCK, sizeof *block);
    uint16_t *half = oq_arena_array(retyper->plan->arena, BLOCK, sizeof *half);
    if (block == NULL || half == NULL) {
        return oq_fail_memory(error, "a constant");
    }
    OQ_TRY(oq_tensor_view(retyper->model, constant, &view, error));
    OQ_TRY(oq_spill_begin(retyper->spill, type, view.shape, view.rank,
                          view.n_elements * sizeof *half, &retyper->values[value].spilled, error));
    for (size_t first = 0; first < view.n_elements; first += BLOCK) {
        const size_t left = view.n_elements - first, n = left < BLOCK ? left : BLOCK;
        oq_tensor_view_floats(&view, first, n, block);
        convert_block(retyper->counts, type, block, n, half);
        oq_spill_put(retyper->spill, half, n * sizeof *half);
    }
    oq_arena_release(retyper->plan->arena, half);
    oq_arena_release(retyper->plan->arena, block);
    return ONNXPTQ_OK;
}

static bool is_wanted(const struct oq_retyper *retyper, uint32_t value) {
    return retyper->values[value].constant && retyper->values[value].wants_half;
}

enum onnxptq_status oq_retype_convert_constants(struct oq_retyper *retyper,
                                                struct onnxptq_error *error) {
    for (uint32_t i = 0; i < oq_graph_n_values(retyper->graph); i++) {
        if (is_wanted(retyper, i)) {
            OQ_TRY(convert(retyper, i, error));
        }
    }
    return oq_spill_attach(retyper->spill, retyper->model, error);
}

/* ---- Places ---- */

static void drop_initializer(Onnx__GraphProto *graph, const char *name) {
    size_t kept = 0;
    for (size_t i = 0; i < graph->n_initializer; i++) {
        if (strcmp(oq_text(graph->initializer[i]->name), name) != 0) {
            graph->initializer[kept++] = graph->initializer[i];
        }
    }
    graph->n_initializer = kept;
}

static void drop_node(Onnx__GraphProto *graph, const Onnx__NodeProto *node) {
    size_t kept = 0;
    for (size_t i = 0; i < graph->n_node; i++) {
        if (graph->node[i] != node) {
            graph->node[kept++] = graph->node[i];
        }
    }
    graph->n_node = kept;
}

static bool place(struct oq_retyper *retyper, uint32_t id) {
    const struct oq_value *value = oq_graph_value(retyper->graph, id);
    const struct oq_retyped *retyped = &retyper->values[id];
    Onnx__GraphProto *graph = oq_graph_scope(retyper->graph, value->scope)->proto;
    Onnx__TensorProto *tensor =
        oq_spill_tensor(retyper->spill, retyper->model, &retyped->spilled, retyped->half_name);
    if (tensor == NULL) {
        return false;
    }
    if (strcmp(retyped->half_name, value->name) == 0 && value->producer == OQ_NONE) {
        drop_initializer(graph, value->name);
    } else if (strcmp(retyped->half_name, value->name) == 0) {
        drop_node(graph, oq_graph_node(retyper->graph, value->producer)->proto);
    }
    return oq_graph_add_initializer(retyper->model, graph, tensor);
}

enum onnxptq_status oq_retype_place_constants(struct oq_retyper *retyper,
                                              struct onnxptq_error *error) {
    for (uint32_t i = 0; i < oq_graph_n_values(retyper->graph); i++) {
        if (is_wanted(retyper, i) && !place(retyper, i)) {
            return oq_fail_memory(error, "a constant");
        }
    }
    return ONNXPTQ_OK;
}

/* ---- What nobody reads ---- */

/* What nobody read before is the user's. */
static bool was_read(const struct oq_retyper *retyper, const struct oq_value *value) {
    const uint32_t before = oq_graph_find_value(retyper->graph, value->scope, value->name);
    return before != OQ_NONE && oq_graph_value(retyper->graph, before)->n_uses > 0;
}

/* From the last node to the first, so that an Identity goes before the Constant behind it. A value
 * goes whose float32 readers all read half now: it had readers before. */
enum onnxptq_status oq_retype_drop_unread(struct oq_retyper *retyper, struct onnxptq_error *error) {
    struct oq_graph *graph = NULL;
    OQ_TRY(oq_graph_build(retyper->model, &graph, error));
    const uint32_t n = oq_graph_n_values(graph);
    uint32_t *reads = oq_arena_array(retyper->plan->arena, n, sizeof *reads);
    for (uint32_t i = 0; reads != NULL && i < n; i++) {
        const struct oq_value *value = oq_graph_value(graph, i);
        reads[i] = value->n_uses + (value->is_output || value->is_input);
    }
    for (uint32_t id = oq_graph_n_nodes(graph); reads != NULL && id-- > 0;) {
        const struct oq_node *node = oq_graph_node(graph, id);
        const uint32_t made = node->proto->n_output == 1 ? node->outputs[0] : OQ_NONE;
        if (made != OQ_NONE && reads[made] == 0 && oq_graph_constant(graph, made) != NULL &&
            was_read(retyper, oq_graph_value(graph, made))) {
            for (size_t i = 0; i < node->proto->n_input; i++) {
                reads[node->inputs[i]] -= node->inputs[i] != OQ_NONE;
            }
            drop_node(oq_graph_scope(graph, node->scope)->proto, node->proto);
        }
    }
    for (uint32_t i = 0; reads != NULL && i < n; i++) {
        const struct oq_value *value = oq_graph_value(graph, i);
        if (reads[i] == 0 && value->initializer != NULL && was_read(retyper, value)) {
            drop_initializer(oq_graph_scope(graph, value->scope)->proto, value->name);
        }
    }
    oq_graph_destroy(graph);
    return reads != NULL ? ONNXPTQ_OK : oq_fail_memory(error, "constants");
}
