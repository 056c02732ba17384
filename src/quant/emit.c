/*
 * Applying a plan: the order of the work. See quant/emitter.h for who does what.
 */
#include "quant/emitter.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NOTE_SIZE 1024

enum onnxptq_status oq_emit_note(struct oq_emitter *emitter, struct onnxptq_error *error,
                                 const char *format, ...) {
    char text[NOTE_SIZE];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    struct oq_emit_result *result = emitter->result;
    const char *note = oq_arena_strdup(result->arena, text);
    void *notes = result->notes;
    if (!note ||
        !oq_grow(&notes, &emitter->capacity_notes, result->n_notes + 1, sizeof *result->notes)) {
        return oq_fail_memory(error, "note");
    }
    result->notes = notes;
    result->notes[result->n_notes++] = note;
    return ONNXPTQ_OK;
}

void oq_emit_leave_float(struct oq_emitter *emitter, uint32_t node) {
    emitter->node_float[node] = true;
}

/* ---- The plan fits the graph and the model -------------------------------------------------- */

static bool use_fits(const struct oq_graph *graph, struct oq_use use, uint32_t value) {
    if (use.node >= oq_graph_n_nodes(graph) || value >= oq_graph_n_values(graph)) {
        return false;
    }
    const struct oq_node *node = oq_graph_node(graph, use.node);
    return use.input < node->proto->n_input && node->inputs[use.input] == value;
}

static bool uses_fit(const struct oq_graph *graph, const struct oq_use *uses, size_t n,
                     uint32_t value) {
    for (size_t i = 0; i < n; i++) {
        if (!use_fits(graph, uses[i], value)) {
            return false;
        }
    }
    return value < oq_graph_n_values(graph);
}

static bool plan_fits(const struct oq_plan *plan, const struct oq_graph *graph) {
    bool fits =
        plan->n_nodes == oq_graph_n_nodes(graph) && plan->n_values == oq_graph_n_values(graph);
    for (size_t i = 0; fits && i < plan->n_pairs; i++) {
        const struct oq_plan_pair *pair = &plan->pairs[i];
        fits =
            pair->group < plan->n_groups && uses_fit(graph, pair->uses, pair->n_uses, pair->value);
    }
    for (size_t i = 0; fits && i < plan->n_weights; i++) {
        const struct oq_plan_weight *weight = &plan->weights[i];
        fits = uses_fit(graph, weight->uses, weight->n_uses, weight->value);
    }
    for (size_t i = 0; fits && i < plan->n_biases; i++) {
        const struct oq_plan_bias *bias = &plan->biases[i];
        fits = bias->pair < plan->n_pairs && bias->weight < plan->n_weights &&
               use_fits(graph, bias->use, bias->value);
    }
    return fits;
}

static int64_t needed_opset(const struct oq_plan *plan) {
    int64_t needed = 0;
    for (size_t i = 0; i < plan->n_pairs; i++) {
        int64_t own = oq_quant_needed_opset(&plan->pairs[i].spec, false);
        needed = own > needed ? own : needed;
    }
    for (size_t i = 0; i < plan->n_weights; i++) {
        const struct oq_plan_weight *weight = &plan->weights[i];
        int64_t own = oq_quant_needed_opset(&weight->spec, weight->axis >= 0);
        needed = own > needed ? own : needed;
    }
    return needed;
}

static enum onnxptq_status check_plan(const struct oq_emitter *emitter,
                                      struct onnxptq_error *error) {
    int64_t opset = oq_model_opset(emitter->model);
    int64_t needed = needed_opset(emitter->plan);
    if (!plan_fits(emitter->plan, emitter->graph) ||
        oq_graph_n_nodes(emitter->graph) != oq_graph_n_nodes(emitter->spec->graph)) {
        return oq_fail(error, ONNXPTQ_ERROR_INTERNAL,
                       "cannot apply plan: it belongs to another graph; this is a bug");
    }
    if (opset < needed) {
        return oq_fail(error, ONNXPTQ_ERROR_INTERNAL,
                       "cannot apply plan: it needs opset %lld, the model has %lld; this is a bug",
                       (long long)needed, (long long)opset);
    }
    return ONNXPTQ_OK;
}

/* ---- Stages --------------------------------------------------------------------------------- */

static bool allocate_result(struct oq_emit_result *result, const struct oq_plan *plan) {
    struct oq_arena *arena = result->arena = oq_arena_create();
    if (!arena) {
        return false;
    }
    result->pairs = oq_arena_array(arena, plan->n_pairs, sizeof *result->pairs);
    result->weight_scale_min = oq_arena_array(arena, plan->n_weights, sizeof(float));
    result->weight_scale_max = oq_arena_array(arena, plan->n_weights, sizeof(float));
    result->weight_channels = oq_arena_array(arena, plan->n_weights, sizeof(size_t));
    result->biases = oq_arena_array(arena, plan->n_biases, sizeof(bool));
    result->nodes_left_float = oq_arena_array(arena, plan->n_nodes, sizeof(bool));
    return result->pairs && result->weight_scale_min && result->weight_scale_max &&
           result->weight_channels && result->biases && result->nodes_left_float;
}

static enum onnxptq_status prepare(struct oq_emitter *emitter, struct onnxptq_error *error) {
    const struct oq_graph *graph = emitter->spec->graph;
    emitter->scratch = oq_arena_create();
    if (!emitter->scratch || !allocate_result(emitter->result, emitter->plan)) {
        return oq_fail_memory(error, "emitter");
    }
    OQ_TRY(oq_model_clone(oq_graph_model(graph), &emitter->model, error));
    emitter->result->model = emitter->model;
    OQ_TRY(oq_graph_build(emitter->model, &emitter->graph, error));
    OQ_TRY(check_plan(emitter, error));
    emitter->names = oq_names_create(emitter->model);
    emitter->node_float = emitter->result->nodes_left_float;
    emitter->copies = oq_map_create();
    if (!emitter->names || !emitter->copies) {
        return oq_fail_memory(error, "emitter");
    }
    return oq_emit_place_init(emitter, error);
}

/* The new initializers are no inputs. */
static enum onnxptq_status raise_ir_version(struct oq_emitter *emitter,
                                            struct onnxptq_error *error) {
    int64_t old = oq_model_proto(emitter->model)->ir_version;
    if (!emitter->added_initializer || old >= OQ_IR_FREE_INITIALIZERS) {
        return ONNXPTQ_OK;
    }
    if (!oq_model_free_initializers(emitter->model)) {
        return oq_fail_memory(error, "the names of initializers");
    }
    return oq_emit_note(emitter, error,
                        "IR version raised from %lld to %d: before it, the new initializers would "
                        "have to be inputs of the model",
                        (long long)old, OQ_IR_FREE_INITIALIZERS);
}

/* The result must be a graph itself: every name defined, once, without cycles. */
static enum onnxptq_status verify(const struct oq_emitter *emitter, struct onnxptq_error *error) {
    struct oq_graph *graph = NULL;
    enum onnxptq_status status = oq_graph_build(emitter->model, &graph, error);
    oq_graph_destroy(graph);
    if (status != ONNXPTQ_OK && status != ONNXPTQ_ERROR_MEMORY) {
        oq_prefix(error, status, "cannot use the quantized graph, this is a bug: ");
        return ONNXPTQ_ERROR_INTERNAL;
    }
    return status;
}

static enum onnxptq_status edit(struct oq_emitter *emitter, struct onnxptq_error *error) {
    OQ_TRY(oq_emit_pairs(emitter, error));
    OQ_TRY(oq_emit_weights(emitter, error));
    OQ_TRY(oq_emit_biases(emitter, error));
    oq_emit_rename(emitter);
    oq_emit_remove_unread(emitter);
    OQ_TRY(oq_emit_shapes(emitter, error));
    OQ_TRY(oq_emit_place(emitter, error));
    OQ_TRY(raise_ir_version(emitter, error));
    return verify(emitter, error);
}

static enum onnxptq_status run(struct oq_emitter *emitter, struct onnxptq_error *error) {
    OQ_TRY(prepare(emitter, error));
    OQ_TRY(oq_emit_ranges(emitter, error));
    OQ_TRY(oq_emit_weight_scales(emitter, error));
    OQ_TRY(oq_emit_bias_scales(emitter, error));
    OQ_TRY(oq_emit_float_bias_scales(emitter, error));
    return edit(emitter, error);
}

enum onnxptq_status oq_emit(const struct oq_emit_spec *spec, struct oq_emit_result *out,
                            struct onnxptq_error *error) {
    struct oq_emit_result result = {0};
    struct oq_emitter emitter = {.spec = spec, .plan = spec->plan, .result = &result};
    enum onnxptq_status status = run(&emitter, error);
    oq_names_destroy(emitter.names);
    oq_map_destroy(emitter.copies);
    oq_graph_destroy(emitter.graph);
    oq_arena_destroy(emitter.scratch);
    oq_writer_destroy(emitter.spill);
    free(emitter.weights);
    free(emitter.biases);
    free(emitter.insertions);
    if (status != ONNXPTQ_OK) {
        oq_emit_result_reset(&result);
        return status;
    }
    *out = result;
    return ONNXPTQ_OK;
}

void oq_emit_result_reset(struct oq_emit_result *result) {
    oq_model_destroy(result->model);
    free(result->notes);
    oq_arena_destroy(result->arena);
    *result = (struct oq_emit_result){0};
}
