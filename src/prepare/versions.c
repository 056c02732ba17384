/*
 * Versions of a model; see versions.h. Conversion itself is in opset.c.
 */
#include "prepare/versions.h"

#include "prepare/opset.h"

#include <inttypes.h>

#define FIRST_IR_WITHOUT_INPUTS 4

enum onnxptq_status oq_prepare_opset(struct oq_preparation *preparation,
                                     struct onnxptq_error *error) {
    const int64_t wanted = preparation->spec->opset;
    const int64_t old = oq_model_opset(preparation->model);
    /* A model of custom operators alone need not import the default domain. */
    if (old == 0 || old >= wanted) {
        return ONNXPTQ_OK;
    }
    OQ_TRY(oq_opset_raise(preparation->model, wanted, error));
    oq_preparation_note(preparation, "opset raised from %" PRId64 " to %" PRId64, old, wanted);
    return ONNXPTQ_OK;
}

static bool is_initializer(const struct oq_graph *index, const char *name) {
    const uint32_t value = oq_graph_find_value(index, 0, oq_text(name));
    return value != OQ_NONE && oq_graph_value(index, value)->initializer != NULL;
}

static bool has_new_initializers(const Onnx__GraphProto *graph, const struct oq_graph *index) {
    for (size_t i = 0; i < graph->n_initializer; i++) {
        const uint32_t value = oq_graph_find_value(index, 0, oq_text(graph->initializer[i]->name));
        if (value != OQ_NONE && !oq_graph_value(index, value)->is_input) {
            return true;
        }
    }
    return false;
}

void oq_prepare_ir(struct oq_preparation *preparation) {
    Onnx__ModelProto *model = oq_model_proto(preparation->model);
    Onnx__GraphProto *graph = model->graph;
    const int64_t old = model->ir_version;
    if (old >= FIRST_IR_WITHOUT_INPUTS || !has_new_initializers(graph, preparation->graph)) {
        return;
    }
    size_t kept = 0;
    for (size_t i = 0; i < graph->n_input; i++) {
        if (!is_initializer(preparation->graph, graph->input[i]->name)) {
            graph->input[kept++] = graph->input[i];
        }
    }
    graph->n_input = kept;
    model->has_ir_version = 1;
    model->ir_version = FIRST_IR_WITHOUT_INPUTS;
    oq_preparation_note(preparation,
                        "IR version raised from %" PRId64 " to %d: before it, the new initializers "
                        "would have to be inputs of the model",
                        old, FIRST_IR_WITHOUT_INPUTS);
}
