/*
 * Running constant nodes. One clone of the model serves all runs: its main graph is set to the
 * nodes and initializers of each group in turn. Tensors are renamed after their value ids, since
 * nodes of several scopes come together.
 */
#include "prepare/evaluate.h"

#include "base/number.h"
#include "model/tensor.h"
#include "model/write.h"
#include "runtime/session.h"

#include <stdlib.h>
#include <string.h>

/* What is run together: results are as large as the weights behind them, as a rule, but a few bytes
 * can expand to many. */
#define GROUP_BYTES ((uint64_t)32 << 20)
#define GROUP_SIZE 16

struct evaluation {
    const struct oq_preparation *preparation;
    struct oq_model *model;
    struct oq_graph *graph; /* of the clone: its nodes are the ones that are run */
    struct oq_arena *arena; /* the clone's */
    struct oq_weight_file *weights;
    struct oq_spill *spill;

    bool *node_needed, *value_needed; /* of the group */
    Onnx__NodeProto **nodes;
    Onnx__TensorProto **initializers;
    Onnx__SparseTensorProto **sparse;
    uint64_t bytes; /* of the group's initializers */
};

/* ---- The clone ------------------------------------------------------------------------------ */

static char *value_name(const struct evaluation *evaluation, uint32_t value) {
    return value == OQ_NONE ? oq_arena_strdup(evaluation->arena, "")
                            : oq_arena_printf(evaluation->arena, "v%u", value);
}

static bool rename_node(const struct evaluation *evaluation, const struct oq_node *node) {
    bool done = true;
    for (size_t i = 0; i < node->proto->n_input; i++) {
        node->proto->input[i] = value_name(evaluation, node->inputs[i]);
        done = done && node->proto->input[i] != NULL;
    }
    for (size_t i = 0; i < node->proto->n_output; i++) {
        node->proto->output[i] = value_name(evaluation, node->outputs[i]);
        done = done && node->proto->output[i] != NULL;
    }
    return done;
}

static bool rename_tensor(const struct evaluation *evaluation, Onnx__TensorProto *tensor,
                          uint32_t value) {
    tensor->name = value_name(evaluation, value);
    return tensor->name != NULL;
}

static bool rename_all(const struct evaluation *evaluation, const bool *constant_nodes) {
    for (uint32_t i = 0; i < oq_graph_n_nodes(evaluation->graph); i++) {
        if (constant_nodes[i] && !rename_node(evaluation, oq_graph_node(evaluation->graph, i))) {
            return false;
        }
    }
    for (uint32_t i = 0; i < oq_graph_n_values(evaluation->graph); i++) {
        const struct oq_value *value = oq_graph_value(evaluation->graph, i);
        Onnx__TensorProto *tensor = value->initializer;
        if (tensor == NULL && value->sparse_initializer != NULL) {
            tensor = value->sparse_initializer->values;
        }
        if (tensor != NULL && !rename_tensor(evaluation, tensor, i)) {
            return false;
        }
    }
    return true;
}

static void strip(Onnx__ModelProto *model) {
    Onnx__GraphProto *graph = model->graph;
    graph->n_node = graph->n_initializer = graph->n_sparse_initializer = 0;
    graph->n_input = graph->n_output = graph->n_value_info = 0;
    graph->n_quantization_annotation = 0;
    model->n_training_info = 0;
    if (model->ir_version < OQ_IR_FREE_INITIALIZERS) {
        model->has_ir_version = 1;
        model->ir_version = OQ_IR_FREE_INITIALIZERS;
    }
}

static enum onnxptq_status make_clone(struct evaluation *evaluation, const bool *constant_nodes,
                                      struct onnxptq_error *error) {
    OQ_TRY(oq_model_clone(evaluation->preparation->model, &evaluation->model, error));
    OQ_TRY(oq_graph_build(evaluation->model, &evaluation->graph, error));
    evaluation->arena = oq_model_arena(evaluation->model);
    const size_t n_nodes = oq_graph_n_nodes(evaluation->graph);
    const size_t n_values = oq_graph_n_values(evaluation->graph);
    evaluation->node_needed = oq_arena_array(evaluation->arena, n_nodes, sizeof(bool));
    evaluation->value_needed = oq_arena_array(evaluation->arena, n_values, sizeof(bool));
    evaluation->nodes = oq_arena_array(evaluation->arena, n_nodes + n_values, sizeof(void *));
    evaluation->initializers = oq_arena_array(evaluation->arena, n_values, sizeof(void *));
    evaluation->sparse = oq_arena_array(evaluation->arena, n_values, sizeof(void *));
    if (evaluation->node_needed == NULL || evaluation->value_needed == NULL ||
        evaluation->nodes == NULL || evaluation->initializers == NULL ||
        evaluation->sparse == NULL || !rename_all(evaluation, constant_nodes)) {
        return oq_fail_memory(error, "constants");
    }
    strip(oq_model_proto(evaluation->model));
    return ONNXPTQ_OK;
}

/* ---- Groups --------------------------------------------------------------------------------- */

static uint64_t initializer_bytes(const struct oq_value *value) {
    size_t n, size = 0;
    if (value->initializer != NULL && !oq_tensor_byte_size(value->initializer, &n, &size)) {
        size = 0;
    }
    return size;
}

static void need_value(struct evaluation *evaluation, uint32_t id) {
    const struct oq_value *value = oq_graph_value(evaluation->graph, id);
    if (evaluation->value_needed[id]) {
        return;
    }
    evaluation->value_needed[id] = true;
    evaluation->bytes += initializer_bytes(value);
    if (value->producer != OQ_NONE) {
        evaluation->node_needed[value->producer] = true;
    }
}

/* Producers have lower ids than their readers: one pass backwards finds them all. */
static void need_producers(struct evaluation *evaluation) {
    for (uint32_t i = oq_graph_n_nodes(evaluation->graph); i-- > 0;) {
        const struct oq_node *node = oq_graph_node(evaluation->graph, i);
        if (!evaluation->node_needed[i]) {
            continue;
        }
        for (size_t j = 0; j < node->proto->n_input; j++) {
            if (node->inputs[j] != OQ_NONE) {
                need_value(evaluation, node->inputs[j]);
            }
        }
    }
}

static void need_nothing(struct evaluation *evaluation) {
    memset(evaluation->node_needed, 0, oq_graph_n_nodes(evaluation->graph) * sizeof(bool));
    memset(evaluation->value_needed, 0, oq_graph_n_values(evaluation->graph) * sizeof(bool));
    evaluation->bytes = 0;
}

/* How many of `items` are run together: at least one. */
static size_t form_group(struct evaluation *evaluation, const struct oq_evaluated *items,
                         size_t n) {
    size_t taken = 0;
    uint64_t total = 0;
    while (taken < n && taken < GROUP_SIZE) {
        need_nothing(evaluation);
        need_value(evaluation, items[taken].value);
        need_producers(evaluation);
        total += evaluation->bytes;
        if (taken > 0 && total > GROUP_BYTES) {
            break;
        }
        taken++;
    }
    return taken;
}

/* ---- The model of a group ------------------------------------------------------------------- */

/* The runtime makes initializers of Constant nodes, and returns sparse ones as they are. */
static bool may_be_sparse(const struct oq_graph *graph, uint32_t value) {
    const uint32_t producer = oq_graph_value(graph, value)->producer;
    return producer == OQ_NONE ||
           strcmp(oq_graph_node(graph, producer)->proto->op_type, "Constant") == 0;
}

/* A result must come from a node that computes: what is sparse passes through one. */
static char *output_name(struct evaluation *evaluation, uint32_t id, size_t *n_nodes) {
    char *name = value_name(evaluation, id);
    if (name == NULL || !may_be_sparse(evaluation->graph, id)) {
        return name;
    }
    char *output = oq_arena_printf(evaluation->arena, "o%u", id);
    const char *const in[] = {name}, *const out[] = {output};
    Onnx__NodeProto *node =
        output == NULL ? NULL
                       : oq_node_create(evaluation->model, "", "", "Identity", in, 1, out, 1);
    if (node == NULL) {
        return NULL;
    }
    evaluation->nodes[(*n_nodes)++] = node;
    return output;
}

static void list_constants(struct evaluation *evaluation, Onnx__GraphProto *graph) {
    size_t n = 0, n_sparse = 0;
    for (uint32_t i = 0; i < oq_graph_n_values(evaluation->graph); i++) {
        const struct oq_value *value = oq_graph_value(evaluation->graph, i);
        if (!evaluation->value_needed[i] || value->producer != OQ_NONE) {
            continue;
        }
        if (value->initializer != NULL) {
            evaluation->initializers[n++] = value->initializer;
        } else {
            evaluation->sparse[n_sparse++] = value->sparse_initializer;
        }
    }
    graph->initializer = evaluation->initializers;
    graph->n_initializer = n;
    graph->sparse_initializer = evaluation->sparse;
    graph->n_sparse_initializer = n_sparse;
}

static bool fill_graph(struct evaluation *evaluation, const struct oq_evaluated *items, size_t n) {
    Onnx__GraphProto *graph = oq_model_proto(evaluation->model)->graph;
    size_t n_nodes = 0;
    need_nothing(evaluation);
    for (size_t i = 0; i < n; i++) {
        need_value(evaluation, items[i].value);
    }
    need_producers(evaluation);
    for (uint32_t i = 0; i < oq_graph_n_nodes(evaluation->graph); i++) {
        if (evaluation->node_needed[i]) {
            evaluation->nodes[n_nodes++] = oq_graph_node(evaluation->graph, i)->proto;
        }
    }
    graph->n_output = 0;
    for (size_t i = 0; i < n; i++) {
        const char *name = output_name(evaluation, items[i].value, &n_nodes);
        if (name == NULL || !oq_graph_add_output(evaluation->model, graph, name)) {
            return false;
        }
    }
    graph->node = evaluation->nodes;
    graph->n_node = n_nodes;
    list_constants(evaluation, graph);
    return true;
}

/* ---- Running -------------------------------------------------------------------------------- */

static enum onnxptq_status create_session(struct evaluation *evaluation, struct oq_session **out,
                                          struct onnxptq_error *error) {
    uint8_t *bytes = NULL;
    size_t size = 0;
    OQ_TRY(oq_session_bytes(evaluation->model, evaluation->weights, &bytes, &size, error));
    /* Optimizations would compute the constants while loading, and hold them twice. */
    const struct oq_session_spec spec = {.model = bytes,
                                         .size = size,
                                         .weights_folder =
                                             oq_weight_file_folder(evaluation->weights),
                                         .optimization = OQ_OPTIMIZE_NONE,
                                         .no_prepacking = true,
                                         .cpu_only = true, /* others may round differently */
                                         .purpose = "evaluation of constants"};
    const enum onnxptq_status status =
        oq_session_create(evaluation->preparation->spec->runtime, &spec, out, error);
    free(bytes);
    return status;
}

static enum onnxptq_status keep_result(struct evaluation *evaluation, struct oq_evaluated *item,
                                       const struct onnxptq_tensor *result,
                                       struct onnxptq_error *error) {
    if (result->data == NULL || oq_type_size((int)result->type) == 0) {
        const struct oq_graph *graph = evaluation->preparation->graph;
        oq_preparation_note(evaluation->preparation,
                            "constant '%s' was not evaluated: it is no dense tensor of numbers",
                            oq_graph_value(graph, item->value)->name);
        return ONNXPTQ_OK;
    }
    OQ_TRY(oq_spill_begin(evaluation->spill, (int)result->type, result->shape, result->rank,
                          result->size, &item->data, error));
    oq_spill_put(evaluation->spill, result->data, result->size);
    item->known = true;
    return ONNXPTQ_OK;
}

static enum onnxptq_status run_group(struct evaluation *evaluation, struct oq_evaluated *items,
                                     size_t n, struct onnxptq_error *error) {
    struct oq_session *session = NULL;
    enum onnxptq_status status = ONNXPTQ_OK;
    struct onnxptq_tensor *results = calloc(n, sizeof *results);
    if (results == NULL || !fill_graph(evaluation, items, n)) {
        free(results);
        return oq_fail_memory(error, "constants");
    }
    OQ_TRY_DONE(create_session(evaluation, &session, error));
    oq_runtime_tell_run(evaluation->preparation->spec->runtime, "evaluation of constants", 0, 0);
    OQ_TRY_DONE(oq_session_run(session, NULL, results, error));
    for (size_t i = 0; i < n; i++) {
        OQ_TRY_DONE(keep_result(evaluation, &items[i], &results[i], error));
    }
done:
    oq_session_destroy(session);
    free(results);
    return status;
}

/* What the runtime cannot compute ahead stays as it is; in a group, each is tried alone. */
static enum onnxptq_status run_what_runs(struct evaluation *evaluation, struct oq_evaluated *items,
                                         size_t n, struct onnxptq_error *error) {
    struct onnxptq_error *reason = calloc(1, sizeof *reason);
    if (reason == NULL) {
        return oq_fail_memory(error, "a message");
    }
    enum onnxptq_status status = run_group(evaluation, items, n, reason);
    if (status == ONNXPTQ_ERROR_RUNTIME && n == 1) {
        oq_preparation_note(evaluation->preparation, "constant '%s' was not evaluated: %s",
                            oq_graph_value(evaluation->preparation->graph, items[0].value)->name,
                            reason->message);
        status = ONNXPTQ_OK;
    } else if (status == ONNXPTQ_ERROR_RUNTIME) {
        status = ONNXPTQ_OK;
        for (size_t i = 0; i < n && status == ONNXPTQ_OK; i++) {
            status = run_what_runs(evaluation, &items[i], 1, reason);
        }
    }
    if (status != ONNXPTQ_OK) {
        (void)oq_fail(error, status, "%s", reason->message);
    }
    free(reason);
    return status;
}

enum onnxptq_status oq_evaluate(const struct oq_preparation *preparation,
                                const bool *constant_nodes, struct oq_evaluated *items, size_t n,
                                struct oq_spill *spill, struct onnxptq_error *error) {
    struct evaluation evaluation = {.preparation = preparation, .spill = spill};
    enum onnxptq_status status = ONNXPTQ_OK;
    OQ_TRY_DONE(make_clone(&evaluation, constant_nodes, error));
    OQ_TRY_DONE(oq_weight_file_create(preparation->spec->beside_path, &evaluation.weights, error));
    for (size_t first = 0; first < n;) {
        const size_t taken = form_group(&evaluation, items + first, n - first);
        OQ_TRY_DONE(run_what_runs(&evaluation, items + first, taken, error));
        first += taken;
    }
done:
    oq_weight_file_destroy(evaluation.weights);
    oq_graph_destroy(evaluation.graph);
    oq_model_destroy(evaluation.model);
    return status;
}
