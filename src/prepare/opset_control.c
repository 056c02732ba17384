/*
 * Conversions of Scan and Scatter; see opset_table.h.
 */
#include "prepare/opset_table.h"

enum onnxptq_status oq_opset_scatter_11(struct oq_opset_body *body, Onnx__NodeProto *node,
                                        struct onnxptq_error *error) {
    (void)error;
    oq_opset_set_type(body, node, "ScatterElements");
    oq_opset_emit(body, node);
    return ONNXPTQ_OK;
}

/* A graph input or output of that name, its type left to the runtime. */
static Onnx__ValueInfoProto *new_info(struct oq_opset_body *body, const char *name) {
    Onnx__ValueInfoProto *info = oq_arena_alloc(oq_model_arena(body->edit->model), sizeof *info);
    if (info == NULL) {
        body->edit->out_of_memory = true;
        return NULL;
    }
    onnx__value_info_proto__init(info);
    info->name = (char *)name;
    return info;
}

static Onnx__ValueInfoProto **name_infos(struct oq_opset_body *body, char **names, size_t n) {
    Onnx__ValueInfoProto **infos =
        oq_arena_array(oq_model_arena(body->edit->model), n, sizeof(Onnx__ValueInfoProto *));
    for (size_t i = 0; infos != NULL && i < n; i++) {
        infos[i] = new_info(body, names[i]);
    }
    if (infos == NULL) {
        body->edit->out_of_memory = true;
    }
    return infos;
}

/* Gives the inner node names of its own, which are also those of the graph around it. */
static void rename_values(struct oq_opset_body *body, Onnx__NodeProto *inner) {
    for (size_t i = 0; i < inner->n_input; i++) {
        inner->input[i] = (char *)oq_opset_unique(body, inner, "row");
    }
    for (size_t i = 0; i < inner->n_output; i++) {
        inner->output[i] = (char *)oq_opset_unique(body, inner, "row");
    }
}

/* A graph that holds one node and hands on all its inputs and outputs. */
static Onnx__GraphProto *wrap(struct oq_opset_body *body, Onnx__NodeProto *node) {
    struct oq_arena *arena = oq_model_arena(body->edit->model);
    Onnx__GraphProto *graph = oq_arena_alloc(arena, sizeof *graph);
    Onnx__NodeProto **nodes = oq_arena_array(arena, 1, sizeof(Onnx__NodeProto *));
    Onnx__ValueInfoProto **inputs = name_infos(body, node->input, node->n_input);
    Onnx__ValueInfoProto **outputs = name_infos(body, node->output, node->n_output);
    if (graph == NULL || nodes == NULL) {
        body->edit->out_of_memory = true;
        return NULL;
    }
    onnx__graph_proto__init(graph);
    nodes[0] = node;
    graph->name = (char *)oq_opset_unique(body, node, "batch");
    graph->node = nodes;
    graph->n_node = 1;
    graph->input = inputs;
    graph->n_input = node->n_input;
    graph->output = outputs;
    graph->n_output = node->n_output;
    return graph;
}

/* Before, Scan took a batch, and scanned each of its rows. Now that is a Scan over the rows whose
 * body is the Scan of one row. */
enum onnxptq_status oq_opset_scan_9(struct oq_opset_body *body, Onnx__NodeProto *node,
                                    struct onnxptq_error *error) {
    const char *const names[] = {"num_scan_inputs", "directions", NULL};
    OQ_TRY(oq_opset_require_values(body, node, names, error));
    if (node == NULL) {
        return ONNXPTQ_OK;
    }
    if (*oq_opset_input(node, 0) != '\0') {
        return oq_opset_refuse(body, node, error,
                               "rows of different length (its first input) are no longer possible; "
                               "export the model again with that opset");
    }
    Onnx__NodeProto *inner = oq_opset_copy_node(body, node);
    if (inner == NULL || node->n_input == 0) {
        return ONNXPTQ_OK;
    }
    inner->name = (char *)oq_opset_unique(body, node, "row");
    inner->input++;
    inner->n_input--;
    const Onnx__AttributeProto *directions = oq_attribute(node, "directions");
    if (directions != NULL) {
        oq_opset_set_ints(body, inner, "scan_input_directions", directions->ints,
                          directions->n_ints);
    }
    oq_opset_remove_attribute(inner, "directions");
    node->input++;
    node->n_input--;
    node->n_attribute = 0;
    rename_values(body, inner);
    oq_opset_set_int(body, node, "num_scan_inputs", (int64_t)node->n_input);
    oq_opset_set_graph(body, node, "body", wrap(body, inner));
    oq_opset_emit(body, node);
    return ONNXPTQ_OK;
}
