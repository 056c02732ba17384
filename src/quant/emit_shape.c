/*
 * Shapes for the results of foreign operators, which nobody can infer: as they were seen.
 *
 * A wrong fixed dimension makes runtimes fail where an unknown one only costs an optimization. So a
 * dimension is fixed only when nothing about the inputs is open and different samples agreed on it;
 * else the rank alone is recorded.
 */
#include "model/value_info.h"
#include "quant/emitter.h"

static bool inputs_are_fixed(const struct oq_emitter *emitter) {
    const Onnx__GraphProto *main_graph = oq_graph_scope(emitter->graph, 0)->proto;
    for (size_t i = 0; i < main_graph->n_input; i++) {
        const char *name = main_graph->input[i]->name;
        uint32_t value = name ? oq_graph_find_value(emitter->graph, 0, name) : OQ_NONE;
        bool constant = value != OQ_NONE && oq_graph_constant(emitter->graph, value);
        if (!constant && !oq_value_info_is_fixed(main_graph->input[i])) {
            return false;
        }
    }
    return true;
}

static bool is_described(const Onnx__GraphProto *graph, const char *name) {
    return oq_value_info_find(graph->value_info, graph->n_value_info, name) != NULL ||
           oq_value_info_find(graph->output, graph->n_output, name) != NULL;
}

static enum onnxptq_status record(struct oq_emitter *emitter, uint32_t id, bool fixed_inputs,
                                  struct onnxptq_error *error) {
    const struct oq_value *value = oq_graph_value(emitter->graph, id);
    struct oq_statistics seen = emitter->spec->ranges[id];
    seen.histogram = NULL; /* not ours */
    bool fixed = fixed_inputs && seen.seen > 1;
    if (emitter->spec->trace && !oq_statistics_merge(&seen, &emitter->spec->trace[id])) {
        return oq_fail_memory(error, "value_info");
    }
    const char *name = emitter->float_name[id] ? emitter->float_name[id] : value->name;
    Onnx__GraphProto *graph = oq_graph_scope(emitter->graph, value->scope)->proto;
    if (seen.seen == 0 || seen.type == 0 || seen.type_varies || seen.rank_varies ||
        seen.rank > ONNXPTQ_MAX_RANK || is_described(graph, name)) {
        return ONNXPTQ_OK;
    }
    int64_t shape[ONNXPTQ_MAX_RANK] = {0};
    for (size_t i = 0; i < seen.rank; i++) {
        shape[i] = fixed && !seen.dim_varies[i] ? seen.shape[i] : -1;
    }
    if (!oq_graph_add_value_info(emitter->model, graph, name, seen.type, shape, seen.rank)) {
        return oq_fail_memory(error, "value_info");
    }
    return ONNXPTQ_OK;
}

enum onnxptq_status oq_emit_shapes(struct oq_emitter *emitter, struct onnxptq_error *error) {
    bool fixed_inputs = inputs_are_fixed(emitter);
    for (uint32_t i = 0; i < oq_graph_n_nodes(emitter->graph); i++) {
        const struct oq_node *node = oq_graph_node(emitter->graph, i);
        for (size_t k = 0; node->foreign && k < node->proto->n_output; k++) {
            if (node->outputs[k] != OQ_NONE) {
                OQ_TRY(record(emitter, node->outputs[k], fixed_inputs, error));
            }
        }
    }
    return ONNXPTQ_OK;
}
