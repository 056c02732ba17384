/*
 * The small entry points: version, names, text.
 */
#include "api/json.h"
#include "base/number.h"

#include <stdlib.h>

const char *onnxptq_version(void) {
    return ONNXPTQ_VERSION;
}

const char *onnxptq_status_name(enum onnxptq_status status) {
    switch (status) {
    case ONNXPTQ_OK: return "ok";
    case ONNXPTQ_ERROR_USAGE: return "wrong usage";
    case ONNXPTQ_ERROR_IO: return "input or output";
    case ONNXPTQ_ERROR_MODEL: return "invalid model";
    case ONNXPTQ_ERROR_DATA: return "invalid data";
    case ONNXPTQ_ERROR_UNSUPPORTED: return "unsupported";
    case ONNXPTQ_ERROR_RUNTIME: return "runtime";
    case ONNXPTQ_ERROR_MISSING_OPERATOR: return "missing operator";
    case ONNXPTQ_ERROR_LIBRARY: return "custom operator library";
    case ONNXPTQ_ERROR_MEMORY: return "out of memory";
    case ONNXPTQ_ERROR_CANCELLED: return "cancelled";
    case ONNXPTQ_ERROR_QUALITY: return "quality";
    case ONNXPTQ_ERROR_INTERNAL: return "internal error";
    }
    return "unknown";
}

const char *onnxptq_type_name(enum onnxptq_type type) {
    return oq_type_name((int)type);
}

const char *onnxptq_decision_name(enum onnxptq_decision decision) {
    switch (decision) {
    case ONNXPTQ_DECISION_FLOAT: return "float";
    case ONNXPTQ_DECISION_QUANTIZED: return "quantized";
    case ONNXPTQ_DECISION_FOREIGN: return "foreign";
    case ONNXPTQ_DECISION_EXCLUDED: return "excluded";
    }
    return "unknown";
}

char *onnxptq_error_json(const struct onnxptq_error *error) {
    struct oq_json json;
    oq_json_init(&json);
    yyjson_mut_val *object = oq_json_object(&json, json.root, "error");
    oq_json_text(&json, object, "status", onnxptq_status_name(error->status));
    oq_json_text(&json, object, "message", error->message);
    char *text = NULL;
    return oq_json_finish(&json, &text, NULL) == ONNXPTQ_OK ? text : NULL;
}

void onnxptq_free(void *text) {
    free(text);
}
