/*
 * The report as JSON (docs/report.md).
 */
#include "api/json.h"
#include "api/report.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static void write_nodes(struct oq_json *json, const struct onnxptq_report *report) {
    yyjson_mut_val *list = oq_json_array(json, json->root, "nodes");
    for (size_t i = 0; i < report->n_nodes; i++) {
        const struct onnxptq_node_report *node = &report->nodes[i];
        yyjson_mut_val *object = oq_json_object(json, list, NULL);
        oq_json_text(json, object, "name", node->name);
        oq_json_text(json, object, "op", node->op);
        oq_json_text(json, object, "decision", onnxptq_decision_name(node->decision));
        oq_json_text(json, object, "rule", node->rule);
        oq_json_text(json, object, "reason", node->reason);
        if (node->precision != NULL) {
            oq_json_text(json, object, "precision", node->precision);
            oq_json_text(json, object, "precision_rule", node->precision_rule);
            oq_json_text(json, object, "precision_reason", node->precision_reason);
        }
    }
}

static void write_tensors(struct oq_json *json, const struct onnxptq_report *report) {
    yyjson_mut_val *list = oq_json_array(json, json->root, "tensors");
    for (size_t i = 0; i < report->n_tensors; i++) {
        const struct onnxptq_tensor_report *tensor = &report->tensors[i];
        yyjson_mut_val *object = oq_json_object(json, list, NULL);
        oq_json_text(json, object, "name", tensor->name);
        oq_json_text(json, object, "type", onnxptq_type_name(tensor->type));
        oq_json_number(json, object, "scale", tensor->scale);
        oq_json_integer(json, object, "zero_point", tensor->zero_point);
        oq_json_number(json, object, "min", tensor->min);
        oq_json_number(json, object, "max", tensor->max);
        oq_json_text(json, object, "rule", tensor->rule);
        oq_json_text(json, object, "reason", tensor->reason);
    }
}

static void write_weights(struct oq_json *json, const struct onnxptq_report *report) {
    yyjson_mut_val *list = oq_json_array(json, json->root, "weights");
    for (size_t i = 0; i < report->n_weights; i++) {
        const struct onnxptq_weight_report *weight = &report->weights[i];
        yyjson_mut_val *object = oq_json_object(json, list, NULL);
        oq_json_text(json, object, "name", weight->name);
        oq_json_integer(json, object, "axis", weight->axis);
        oq_json_text(json, object, "type", onnxptq_type_name(weight->type));
        oq_json_count(json, object, "channels", weight->channels);
        oq_json_number(json, object, "scale_min", weight->scale_min);
        oq_json_number(json, object, "scale_max", weight->scale_max);
    }
}

/* ---- Counts by operator -------------------------------------------------------------------- */

static int by_text(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* {op: count} of the nodes that are quantized, or of those that are not. */
static void write_counts(struct oq_json *json, yyjson_mut_val *summary, const char *key,
                         const struct onnxptq_report *report, bool quantized) {
    yyjson_mut_val *object = oq_json_object(json, summary, key);
    const char **ops = calloc(report->n_nodes + 1, sizeof *ops);
    if (ops == NULL) {
        json->failed = true;
        return;
    }
    size_t n = 0;
    for (size_t i = 0; i < report->n_nodes; i++) {
        if ((report->nodes[i].decision == ONNXPTQ_DECISION_QUANTIZED) == quantized) {
            ops[n++] = report->nodes[i].op;
        }
    }
    qsort(ops, n, sizeof *ops, by_text);
    for (size_t first = 0, i = 0; i < n; i++) {
        if (i + 1 == n || strcmp(ops[i], ops[i + 1]) != 0) {
            oq_json_count(json, object, ops[i], i + 1 - first);
            first = i + 1;
        }
    }
    free(ops);
}

static void write_summary(struct oq_json *json, const struct onnxptq_report *report) {
    yyjson_mut_val *summary = oq_json_object(json, json->root, "summary");
    write_counts(json, summary, "quantized", report, true);
    write_counts(json, summary, "float", report, false);
}

/* ---- Check, stages, totals ----------------------------------------------------------------- */

static void write_output(struct oq_json *json, yyjson_mut_val *list,
                         const struct onnxptq_output_report *output) {
    yyjson_mut_val *object = oq_json_object(json, list, NULL);
    oq_json_text(json, object, "name", output->name);
    oq_json_text(json, object, "type", onnxptq_type_name(output->type));
    oq_json_number(json, object, "sqnr_db", output->has_sqnr ? output->sqnr_db : (double)NAN);
    oq_json_number(json, object, "max_abs_error", output->max_abs_error);
    oq_json_bool(json, object, "exact", output->exact);
}

static void write_check(struct oq_json *json, const struct onnxptq_report *report) {
    yyjson_mut_val *check = oq_json_object(json, json->root, "check");
    oq_json_count(json, check, "samples", report->n_check_samples);
    oq_json_bool(json, check, "held_back", report->held_back);
    oq_json_bool(json, check, "unoptimized", report->measured_unoptimized);
    yyjson_mut_val *list = oq_json_array(json, check, "outputs");
    for (size_t i = 0; i < report->n_outputs; i++) {
        write_output(json, list, &report->outputs[i]);
    }
}

static void write_stages(struct oq_json *json, const struct onnxptq_report *report) {
    yyjson_mut_val *list = oq_json_array(json, json->root, "stages");
    for (size_t i = 0; i < report->n_stages; i++) {
        yyjson_mut_val *object = oq_json_object(json, list, NULL);
        oq_json_text(json, object, "name", report->stages[i].name);
        oq_json_number(json, object, "seconds", report->stages[i].seconds);
        oq_json_number(json, object, "processor_seconds", report->stages[i].processor_seconds);
    }
}

static void write_totals(struct oq_json *json, const struct onnxptq_report *report) {
    yyjson_mut_val *peak = oq_json_object(json, json->root, "peak_memory");
    oq_json_count(json, peak, "anonymous_bytes", report->peak_anonymous_bytes);
    oq_json_count(json, peak, "resident_bytes", report->peak_resident_bytes);
    oq_json_count(json, json->root, "model_bytes", report->model_bytes);
    oq_json_count(json, json->root, "output_bytes", report->output_bytes);
    oq_json_count(json, json->root, "temporary_bytes", report->temporary_bytes);
    yyjson_mut_val *notes = oq_json_array(json, json->root, "notes");
    for (size_t i = 0; i < report->n_notes; i++) {
        oq_json_text(json, notes, NULL, report->notes[i]);
    }
}

static void write_providers(struct oq_json *json, const struct onnxptq_report *report) {
    yyjson_mut_val *list = oq_json_array(json, json->root, "providers");
    for (size_t i = 0; i < report->n_providers; i++) {
        const struct onnxptq_provider_report *provider = &report->providers[i];
        yyjson_mut_val *object = oq_json_object(json, list, NULL);
        oq_json_text(json, object, "name", provider->name);
        yyjson_mut_val *options = oq_json_object(json, object, "options");
        for (size_t k = 0; k < provider->n_options; k++) {
            oq_json_text(json, options, provider->keys[k], provider->values[k]);
        }
    }
}

static void write_percentile(struct oq_json *json, yyjson_mut_val *parent, double percentile) {
    oq_json_number(json, parent, "percentile", percentile > 0 ? percentile : (double)NAN);
}

/* What the method "auto" tried. */
static void write_choice(struct oq_json *json, const struct onnxptq_report *report) {
    if (report->n_candidates == 0) {
        oq_json_null(json, json->root, "choice");
        return;
    }
    yyjson_mut_val *choice = oq_json_object(json, json->root, "choice");
    oq_json_count(json, choice, "samples", report->n_choice_samples);
    oq_json_count(json, choice, "held_back", report->n_choice_held_back);
    yyjson_mut_val *list = oq_json_array(json, choice, "candidates");
    for (size_t i = 0; i < report->n_candidates; i++) {
        const struct onnxptq_candidate_report *candidate = &report->candidates[i];
        yyjson_mut_val *object = oq_json_object(json, list, NULL);
        oq_json_text(json, object, "method", candidate->method);
        write_percentile(json, object, candidate->percentile);
        oq_json_number(json, object, "sqnr_db",
                       candidate->has_sqnr ? candidate->sqnr_db : (double)NAN);
        oq_json_text(json, object, "output", candidate->output);
        oq_json_bool(json, object, "chosen", candidate->chosen);
    }
}

static void write_head(struct oq_json *json, const struct onnxptq_report *report) {
    oq_json_text(json, json->root, "version", onnxptq_version());
    oq_json_text(json, json->root, "model", report->model_path);
    oq_json_text(json, json->root, "output", report->output_path);
    if (report->output_data_path != NULL) {
        oq_json_text(json, json->root, "output_data", report->output_data_path);
    } else {
        oq_json_null(json, json->root, "output_data");
    }
    oq_json_text(json, json->root, "target", report->target);
    oq_json_text(json, json->root, "method", report->method);
    oq_json_text(json, json->root, "requested_method", report->requested_method);
    write_percentile(json, json->root, report->percentile);
    oq_json_text(json, json->root, "runtime", report->runtime_version);
    yyjson_mut_val *libraries = oq_json_array(json, json->root, "custom_op_libraries");
    for (size_t i = 0; i < report->n_custom_op_libraries; i++) {
        oq_json_text(json, libraries, NULL, report->custom_op_libraries[i]);
    }
    write_providers(json, report);
    yyjson_mut_val *inputs = oq_json_array(json, json->root, "inputs");
    for (size_t i = 0; i < report->n_inputs; i++) {
        oq_json_declaration(json, inputs, &report->inputs[i]);
    }
    oq_json_count(json, json->root, "calibration_samples", report->n_calibration_samples);
}

enum onnxptq_status oq_report_write_json(const struct onnxptq_report *report, char **text,
                                         struct onnxptq_error *error) {
    struct oq_json json;
    oq_json_init(&json);
    write_head(&json, report);
    write_nodes(&json, report);
    write_tensors(&json, report);
    write_weights(&json, report);
    write_summary(&json, report);
    write_choice(&json, report);
    write_check(&json, report);
    write_stages(&json, report);
    write_totals(&json, report);
    return oq_json_finish(&json, text, error);
}
