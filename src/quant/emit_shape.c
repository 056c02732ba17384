/*
 * Shapes for the results of foreign operators, which nobody can infer: as they were seen.
 */
#include "calib/traced_shapes.h"
#include "model/value_info.h"
#include "quant/emitter.h"

static bool is_described(const Onnx__GraphProto *graph, const char *name) {
    return oq_value_info_find(graph->value_info, graph->n_value_info, name) != NULL ||
           oq_value_info_find(graph->output, graph->n_output, name) != NULL;
}

static enum onnxptq_status record(struct oq_emitter *emitter, uint32_t id, bool fixed_inputs,
                                  struct onnxptq_error *error) {
    const struct oq_emit_spec *spec = emitter->spec;
    const struct oq_value *value = oq_graph_value(emitter->graph, id);
    const char *name = emitter->float_name[id] ? emitter->float_name[id] : value->name;
    Onnx__GraphProto *graph = oq_graph_scope(emitter->graph, value->scope)->proto;
    struct oq_traced_shape shape;
    if (is_described(graph, name) ||
        !oq_traced_shape_find(spec->trace != NULL ? &spec->trace[id] : NULL, &spec->ranges[id],
                              fixed_inputs, &shape)) {
        return ONNXPTQ_OK;
    }
    if (!oq_graph_add_value_info(emitter->model, graph, name, shape.type, shape.shape,
                                 shape.rank)) {
        return oq_fail_memory(error, "value_info");
    }
    return ONNXPTQ_OK;
}

enum onnxptq_status oq_emit_shapes(struct oq_emitter *emitter, struct onnxptq_error *error) {
    bool fixed_inputs = oq_traced_inputs_are_fixed(emitter->graph);
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
