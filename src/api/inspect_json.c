/*
 * The result of an inspection as JSON (docs/report.md).
 */
#include "api/inspect.h"
#include "api/json.h"

#include <string.h>

/* A domain imported twice counts once: a key must not repeat. The first import is the one in force.
 */
static bool is_first_import(const struct onnxptq_inspection *inspection, size_t index) {
    for (size_t i = 0; i < index; i++) {
        if (strcmp(inspection->opsets[i].domain, inspection->opsets[index].domain) == 0) {
            return false;
        }
    }
    return true;
}

static void write_opsets(struct oq_json *json, const struct onnxptq_inspection *inspection) {
    yyjson_mut_val *opsets = oq_json_object(json, json->root, "opsets");
    for (size_t i = 0; i < inspection->n_opsets; i++) {
        const struct onnxptq_opset_info *opset = &inspection->opsets[i];
        if (is_first_import(inspection, i)) {
            const char *domain = opset->domain[0] != '\0' ? opset->domain : "ai.onnx";
            oq_json_integer(json, opsets, domain, opset->version);
        }
    }
}

static void write_declarations(struct oq_json *json, const char *key,
                               const struct onnxptq_tensor *tensors, size_t n) {
    yyjson_mut_val *list = oq_json_array(json, json->root, key);
    for (size_t i = 0; i < n; i++) {
        oq_json_declaration(json, list, &tensors[i]);
    }
}

static void write_operators(struct oq_json *json, const struct onnxptq_inspection *inspection) {
    yyjson_mut_val *list = oq_json_array(json, json->root, "operators");
    for (size_t i = 0; i < inspection->n_operators; i++) {
        const struct onnxptq_operator_info *info = &inspection->operators[i];
        yyjson_mut_val *object = oq_json_object(json, list, NULL);
        oq_json_text(json, object, "op", info->op);
        oq_json_count(json, object, "count", info->count);
        oq_json_bool(json, object, "runnable", info->runnable);
        oq_json_bool(json, object, "foreign", info->foreign);
        oq_json_count(json, object, "quantizable", info->n_quantizable);
    }
}

static void write_quantizable(struct oq_json *json, const struct onnxptq_inspection *inspection) {
    yyjson_mut_val *object = oq_json_object(json, json->root, "quantizable");
    for (size_t i = 0; i < inspection->n_operators; i++) {
        if (inspection->operators[i].n_quantizable > 0) {
            oq_json_count(json, object, inspection->operators[i].op,
                          inspection->operators[i].n_quantizable);
        }
    }
}

enum onnxptq_status oq_inspection_write_json(const struct onnxptq_inspection *inspection,
                                             char **text, struct onnxptq_error *error) {
    struct oq_json json;
    oq_json_init(&json);
    oq_json_text(&json, json.root, "model", inspection->model_path);
    oq_json_text(&json, json.root, "runtime", inspection->runtime_version);
    oq_json_integer(&json, json.root, "ir_version", inspection->ir_version);
    write_opsets(&json, inspection);
    write_declarations(&json, "inputs", inspection->inputs, inspection->n_inputs);
    write_declarations(&json, "outputs", inspection->outputs, inspection->n_outputs);
    write_operators(&json, inspection);
    yyjson_mut_val *weights = oq_json_object(&json, json.root, "weights");
    oq_json_count(&json, weights, "count", inspection->n_weights);
    oq_json_count(&json, weights, "bytes", inspection->weight_bytes);
    write_quantizable(&json, inspection);
    oq_json_count(&json, json.root, "functions", inspection->n_functions);
    return oq_json_finish(&json, text, error);
}
