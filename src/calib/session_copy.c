/*
 * Every session of a whole model is made of such a copy: those of trace and calibration, where
 * observers are added to it (watch_model.c), and those of the check.
 */
#include "calib/session_copy.h"

#include "model/edit.h"
#include "model/graph.h"
#include "model/operators.h"
#include "model/walk.h"

struct copying {
    const struct oq_runtime *runtime;
    struct oq_model *model;
    bool used; /* the domain of plugins */
};

static enum onnxptq_status rename_plugin(void *user, Onnx__NodeProto *node,
                                         struct onnxptq_error *error) {
    struct copying *copying = user;
    if (oq_is_default_domain(node->domain) || node->op_type == NULL ||
        !oq_runtime_calls_plugin(copying->runtime, node->domain, node->op_type)) {
        return ONNXPTQ_OK;
    }
    node->domain = oq_arena_strdup(oq_model_arena(copying->model), OQ_PLUGIN_DOMAIN);
    copying->used = true;
    return node->domain != NULL ? ONNXPTQ_OK : oq_fail_memory(error, "a node");
}

/* Functions have imports of their own. */
static enum onnxptq_status import_in_function(void *user, Onnx__FunctionProto *function,
                                              struct onnxptq_error *error) {
    const struct copying *copying = user;
    return oq_function_import_opset(copying->model, function, OQ_PLUGIN_DOMAIN, 1)
               ? ONNXPTQ_OK
               : oq_fail_memory(error, "a function");
}

static enum onnxptq_status call_plugins(struct oq_model *model, const struct oq_runtime *runtime,
                                        struct onnxptq_error *error) {
    struct copying copying = {.runtime = runtime, .model = model};
    const struct oq_visitor nodes = {.user = &copying, .node = rename_plugin};
    const struct oq_visitor functions = {.user = &copying, .function = import_in_function};
    OQ_TRY(oq_walk_model(oq_model_proto(model), &nodes, error));
    if (!copying.used) {
        return ONNXPTQ_OK;
    }
    OQ_TRY(oq_walk_model(oq_model_proto(model), &functions, error));
    return oq_model_import_opset(model, OQ_PLUGIN_DOMAIN, 1) ? ONNXPTQ_OK
                                                             : oq_fail_memory(error, "a model");
}

/* The node's name, which quantization does not change, as a number that a float holds. */
static float seed_of(const Onnx__NodeProto *node) {
    char name[256];
    uint32_t hash = 2166136261u; /* FNV-1a */
    oq_node_text(node, name, sizeof name);
    for (const char *p = name; *p != '\0'; p++) {
        hash = (hash ^ (uint8_t)*p) * 16777619u;
    }
    return (float)(hash >> 8);
}

static enum onnxptq_status seed_node(void *user, Onnx__NodeProto *node,
                                     struct onnxptq_error *error) {
    struct oq_model *model = user;
    if (!oq_operator_is_random(node->domain, node->op_type) || oq_attribute(node, "seed") != NULL) {
        return ONNXPTQ_OK;
    }
    return oq_node_set_float(model, node, "seed", seed_of(node)) ? ONNXPTQ_OK
                                                                 : oq_fail_memory(error, "a node");
}

static enum onnxptq_status seed_random(struct oq_model *model, struct onnxptq_error *error) {
    const struct oq_visitor visitor = {.user = model, .node = seed_node};
    return oq_walk_model(oq_model_proto(model), &visitor, error);
}

enum onnxptq_status oq_session_copy_create(const struct oq_model *model,
                                           const struct oq_runtime *runtime,
                                           const struct oq_traced_shapes *shapes,
                                           struct oq_model **out, struct onnxptq_error *error) {
    struct oq_model *copy = NULL;
    OQ_TRY(oq_model_clone(model, &copy, error));
    enum onnxptq_status status =
        shapes != NULL ? oq_traced_shapes_declare(shapes, copy, error) : ONNXPTQ_OK;
    if (status == ONNXPTQ_OK) {
        status = call_plugins(copy, runtime, error);
    }
    if (status == ONNXPTQ_OK) {
        status = seed_random(copy, error);
    }
    if (status != ONNXPTQ_OK) {
        oq_model_destroy(copy);
        return status;
    }
    *out = copy;
    return ONNXPTQ_OK;
}
