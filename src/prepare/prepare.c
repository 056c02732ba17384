/*
 * Preparing a model.
 */
#include "prepare/prepare.h"

/* `model` is what the preparations before have made: NULL while nothing was edited. A preparation
 * that edits clones the graph's model first when there is no clone yet. */
typedef enum onnxptq_status preparation(const struct oq_graph *graph, struct oq_model **model,
                                        struct onnxptq_error *error);

/* The opset is never raised by changing the number alone: the meaning of operators changed on the
 * way. */
static enum onnxptq_status require_opset(const struct oq_graph *graph, struct oq_model **model,
                                         struct onnxptq_error *error) {
    (void)model;
    int64_t opset = oq_model_opset(oq_graph_model(graph));
    /* A model of custom operators alone need not import the default domain. */
    if (opset == 0 || opset >= OQ_MINIMUM_OPSET) {
        return ONNXPTQ_OK;
    }
    return oq_fail(
        error, ONNXPTQ_ERROR_UNSUPPORTED,
        "cannot quantize model '%s': it uses opset %lld of the default domain, and scales "
        "per channel exist from opset %d on; export it again with opset %d or later, or "
        "convert it with onnx.version_converter",
        oq_model_path(oq_graph_model(graph)), (long long)opset, OQ_MINIMUM_OPSET, OQ_MINIMUM_OPSET);
}

static preparation *const preparations[] = {require_opset};

enum onnxptq_status oq_prepare(const struct oq_graph *graph, struct oq_model **prepared,
                               struct onnxptq_error *error) {
    struct oq_model *model = NULL;
    for (size_t i = 0; i < sizeof preparations / sizeof *preparations; i++) {
        enum onnxptq_status status = preparations[i](graph, &model, error);
        if (status != ONNXPTQ_OK) {
            oq_model_destroy(model);
            return status;
        }
    }
    *prepared = model;
    return ONNXPTQ_OK;
}
