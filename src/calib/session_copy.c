/*
 * Every session of a whole model is made of such a copy: those of trace and calibration, where
 * observers are added to it (watch_model.c), and those of the check.
 */
#include "calib/session_copy.h"

#include "model/edit.h"
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
    if (status != ONNXPTQ_OK) {
        oq_model_destroy(copy);
        return status;
    }
    *out = copy;
    return ONNXPTQ_OK;
}
