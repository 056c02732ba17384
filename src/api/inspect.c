/*
 * Inspecting a model: what it holds, what of it the runtime runs, what the target would quantize.
 */
#include "api/inspect.h"

#include "api/declare.h"
#include "api/options.h"
#include "model/tensor.h"
#include "quant/target.h"
#include "runtime/probe.h"

#include <stdlib.h>
#include <string.h>

struct onnxptq_inspector {
    struct oq_arena *arena;
    struct oq_model *model; /* most strings of the result are the model's and the graph's */
    struct oq_graph *graph;
    struct onnxptq_inspection result;
};

/* ---- What the file says -------------------------------------------------------------------- */

static enum onnxptq_status list_opsets(struct onnxptq_inspector *inspector,
                                       struct onnxptq_error *error) {
    const Onnx__ModelProto *proto = oq_model_proto(inspector->model);
    struct onnxptq_opset_info *opsets =
        oq_arena_array(inspector->arena, proto->n_opset_import, sizeof *opsets);
    if (opsets == NULL) {
        return oq_fail_memory(error, "the list of opsets");
    }
    for (size_t i = 0; i < proto->n_opset_import; i++) {
        const char *domain = proto->opset_import[i]->domain;
        opsets[i].domain = oq_is_default_domain(domain) ? "" : domain;
        opsets[i].version = proto->opset_import[i]->version;
    }
    inspector->result.opsets = opsets;
    inspector->result.n_opsets = proto->n_opset_import;
    return ONNXPTQ_OK;
}

static uint64_t tensor_bytes(const Onnx__TensorProto *tensor) {
    size_t n = 0, size = 0;
    return oq_tensor_byte_size(tensor, &n, &size) ? size : 0;
}

static void count_weights(struct onnxptq_inspector *inspector) {
    for (uint32_t i = 0; i < oq_graph_n_values(inspector->graph); i++) {
        const Onnx__TensorProto *tensor = oq_graph_value(inspector->graph, i)->initializer;
        if (tensor != NULL) {
            inspector->result.n_weights++;
            inspector->result.weight_bytes += tensor_bytes(tensor);
        }
    }
}

static enum onnxptq_status describe_file(struct onnxptq_inspector *inspector, const char *path,
                                         struct onnxptq_error *error) {
    struct onnxptq_inspection *result = &inspector->result;
    const Onnx__ModelProto *proto = oq_model_proto(inspector->model);
    result->model_path = oq_arena_strdup(inspector->arena, path);
    if (result->model_path == NULL) {
        return oq_fail_memory(error, "the result of the inspection");
    }
    result->ir_version = proto->ir_version;
    result->n_functions = proto->n_functions;
    count_weights(inspector);
    OQ_TRY(list_opsets(inspector, error));
    OQ_TRY(oq_declare_inputs(inspector->graph, inspector->arena, &result->inputs, &result->n_inputs,
                             error));
    return oq_declare_outputs(inspector->graph, inspector->arena, &result->outputs,
                              &result->n_outputs, error);
}

/* ---- What the target would do -------------------------------------------------------------- */

/* A plan without a trace: what would be quantized if every size fits and nothing is excluded. */
static enum onnxptq_status estimate(const struct onnxptq_inspector *inspector,
                                    const struct oq_target *target, struct oq_plan **plan,
                                    struct onnxptq_error *error) {
    struct onnxptq_quantize_options options;
    onnxptq_quantize_options_init(&options);
    struct oq_selection *selection = NULL;
    enum onnxptq_status status = ONNXPTQ_OK;
    OQ_TRY_DONE(oq_selection_create(&options, inspector->graph, &selection, error));
    struct oq_plan_context context = {
        .graph = inspector->graph, .selection = selection, .quantize_outputs = -1};
    OQ_TRY_DONE(oq_plan_create(inspector->graph, plan, error));
    OQ_TRY_DONE(oq_target_plan(target, &context, *plan, error));
done:
    oq_selection_destroy(selection);
    return status;
}

static int by_op(const void *a, const void *b) {
    const struct onnxptq_operator_info *left = a, *right = b;
    return strcmp(left->op, right->op);
}

static void count_quantizable(const struct onnxptq_inspector *inspector, const struct oq_plan *plan,
                              struct onnxptq_operator_info *operators, size_t n) {
    for (uint32_t i = 0; i < oq_graph_n_nodes(inspector->graph); i++) {
        if (plan->nodes[i].decision == ONNXPTQ_DECISION_QUANTIZED) {
            struct onnxptq_operator_info key = {.op = oq_graph_node(inspector->graph, i)->op_name};
            struct onnxptq_operator_info *found =
                bsearch(&key, operators, n, sizeof *operators, by_op);
            if (found != NULL) {
                found->n_quantizable++;
            }
        }
    }
}

static enum onnxptq_status count_operators(struct onnxptq_inspector *inspector,
                                           const struct oq_target *target,
                                           const struct oq_probe_result *probed, size_t n,
                                           struct onnxptq_error *error) {
    struct onnxptq_operator_info *operators =
        oq_arena_array(inspector->arena, n, sizeof *operators);
    if (operators == NULL) {
        return oq_fail_memory(error, "the list of operators");
    }
    for (size_t i = 0; i < n; i++) {
        operators[i] = (struct onnxptq_operator_info){.op = probed[i].op_name,
                                                      .count = probed[i].count,
                                                      .runnable = probed[i].runnable,
                                                      .foreign = probed[i].foreign};
    }
    qsort(operators, n, sizeof *operators, by_op);
    struct oq_plan *plan = NULL;
    enum onnxptq_status status = estimate(inspector, target, &plan, error);
    if (status == ONNXPTQ_OK) {
        count_quantizable(inspector, plan, operators, n);
        inspector->result.operators = operators;
        inspector->result.n_operators = n;
    }
    oq_plan_destroy(plan);
    return status;
}

/* ---- Inspect ------------------------------------------------------------------------------- */

static enum onnxptq_status probe(struct onnxptq_inspector *inspector, struct oq_runtime *runtime,
                                 const struct oq_target *target, struct onnxptq_error *error) {
    const char *version = oq_runtime_version(runtime);
    inspector->result.runtime_version = oq_arena_strdup(inspector->arena, version);
    if (inspector->result.runtime_version == NULL) {
        return oq_fail_memory(error, "the result of the inspection");
    }
    struct oq_probe_result *probed = NULL;
    size_t n = 0;
    OQ_TRY(oq_probe_operators(runtime, inspector->graph, &probed, &n, error));
    enum onnxptq_status status = count_operators(inspector, target, probed, n, error);
    free(probed);
    return status;
}

static enum onnxptq_status inspect(struct onnxptq_inspector *inspector, const char *path,
                                   const struct oq_target *target, struct oq_runtime *runtime,
                                   struct onnxptq_error *error) {
    inspector->result.struct_size = sizeof inspector->result;
    inspector->arena = oq_arena_create();
    if (inspector->arena == NULL) {
        return oq_fail_memory(error, "the inspection");
    }
    OQ_TRY(oq_model_read(path, &inspector->model, error));
    OQ_TRY(oq_graph_build(inspector->model, &inspector->graph, error));
    OQ_TRY(describe_file(inspector, path, error));
    return probe(inspector, runtime, target, error);
}

static enum onnxptq_status check_arguments(const char *model_path, const char *target,
                                           struct onnxptq_error *error) {
    if (model_path == NULL || model_path[0] == '\0') {
        return oq_fail(error, ONNXPTQ_ERROR_USAGE, "cannot inspect: no model given");
    }
    if (oq_target_find(target) == NULL) {
        return oq_fail_no_target(target, error);
    }
    if (!oq_path_exists(model_path)) {
        return oq_fail(error, ONNXPTQ_ERROR_IO, "cannot read model '%s': no such file", model_path);
    }
    return ONNXPTQ_OK;
}

enum onnxptq_status onnxptq_inspect(const char *model_path, const char *target,
                                    const struct onnxptq_runtime_options *options,
                                    struct onnxptq_inspector **out, struct onnxptq_error *error) {
    struct onnxptq_runtime_options own;
    struct oq_runtime *runtime = NULL;
    struct onnxptq_inspector *inspector = NULL;
    enum onnxptq_status status = ONNXPTQ_OK;
    OQ_TRY_DONE(oq_runtime_options_copy(options, &own, error));
    OQ_TRY_DONE(check_arguments(model_path, target, error));
    OQ_TRY_DONE(oq_runtime_open(&own, NULL, &runtime, error));
    inspector = calloc(1, sizeof *inspector);
    if (inspector == NULL) {
        status = oq_fail_memory(error, "the inspection");
        goto done;
    }
    OQ_TRY_DONE(inspect(inspector, model_path, oq_target_find(target), runtime, error));
    *out = inspector;
    inspector = NULL;
done:
    onnxptq_inspector_destroy(inspector);
    oq_runtime_close(runtime);
    return status;
}

const struct onnxptq_inspection *
onnxptq_inspector_result(const struct onnxptq_inspector *inspector) {
    return &inspector->result;
}

enum onnxptq_status onnxptq_inspector_json(const struct onnxptq_inspector *inspector, char **text,
                                           struct onnxptq_error *error) {
    return oq_inspection_write_json(&inspector->result, text, error);
}

void onnxptq_inspector_destroy(struct onnxptq_inspector *inspector) {
    if (inspector != NULL) {
        oq_graph_destroy(inspector->graph);
        oq_model_destroy(inspector->model);
        oq_arena_destroy(inspector->arena);
        free(inspector);
    }
}
