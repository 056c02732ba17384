/*
 * Collecting the report.
 */
#include "api/report.h"

#include "base/number.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* An output below this is worth an alarm: the noise is a tenth of the signal's energy. */
#define LOW_SQNR_DB 10.0
/* How many tensors a note names before it only counts. */
#define MAX_NAMED 8

enum onnxptq_status oq_report_init(struct oq_report *report, struct onnxptq_error *error) {
    *report = (struct oq_report){.public = {.struct_size = sizeof report->public}};
    report->arena = oq_arena_create();
    return report->arena ? ONNXPTQ_OK : oq_fail_memory(error, "the report");
}

void oq_report_reset(struct oq_report *report) {
    free(report->notes);
    oq_arena_destroy(report->arena);
    *report = (struct oq_report){0};
}

void oq_report_add_stage(struct oq_report *report, const char *name, double seconds) {
    if (report->public.n_stages < OQ_REPORT_MAX_STAGES) {
        report->stages[report->public.n_stages++] =
            (struct onnxptq_stage_report){.name = name, .seconds = seconds};
        report->public.stages = report->stages;
    }
}

/* ---- Notes --------------------------------------------------------------------------------- */

static void keep_note(struct oq_report *report, const char *text) {
    for (size_t i = 0; i < report->n_notes; i++) {
        if (strcmp(report->notes[i], text) == 0) {
            return;
        }
    }
    char *copy = oq_arena_strdup(report->arena, text);
    if (copy == NULL || !oq_grow((void **)&report->notes, &report->capacity_notes,
                                 report->n_notes + 1, sizeof *report->notes)) {
        return;
    }
    report->notes[report->n_notes++] = copy;
    report->public.notes = (const char *const *)report->notes;
    report->public.n_notes = report->n_notes;
}

void oq_report_add_note(struct oq_report *report, const char *format, ...) {
    char text[2048];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    keep_note(report, text);
}

/* ---- Decisions ----------------------------------------------------------------------------- */

static struct onnxptq_node_report describe_node(const struct oq_node *node,
                                                const struct oq_plan_node *planned) {
    struct onnxptq_node_report report = {
        .name = node->name,
        .op = node->op_name,
        .decision = node->foreign ? ONNXPTQ_DECISION_FOREIGN : ONNXPTQ_DECISION_FLOAT,
        .rule = "undecided",
        .reason = "nothing is planned yet",
    };
    if (planned != NULL) {
        report.decision = planned->decision;
        report.rule = planned->rule;
        report.reason = planned->reason;
    }
    return report;
}

enum onnxptq_status oq_report_add_nodes(struct oq_report *report, const struct oq_graph *graph,
                                        const struct oq_plan *plan, struct onnxptq_error *error) {
    uint32_t n = oq_graph_n_nodes(graph);
    struct onnxptq_node_report *nodes = oq_arena_array(report->arena, n, sizeof *nodes);
    if (nodes == NULL) {
        return oq_fail_memory(error, "the report of nodes");
    }
    for (uint32_t i = 0; i < n; i++) {
        nodes[i] = describe_node(oq_graph_node(graph, i), plan != NULL ? &plan->nodes[i] : NULL);
    }
    report->public.nodes = nodes;
    report->public.n_nodes = n;
    return ONNXPTQ_OK;
}

/* ---- Numbers ------------------------------------------------------------------------------- */

static struct onnxptq_tensor_report describe_pair(const struct oq_graph *graph,
                                                  const struct oq_plan_pair *pair,
                                                  struct oq_quant_params params,
                                                  const struct oq_statistics *range) {
    return (struct onnxptq_tensor_report){
        .name = oq_graph_value(graph, pair->value)->name,
        .type = pair->spec.type,
        .scale = (double)params.scale,
        .zero_point = params.zero_point,
        .min = pair->has_fixed_range ? pair->fixed_min : range->min,
        .max = pair->has_fixed_range ? pair->fixed_max : range->max,
        .rule = pair->rule,
        .reason = pair->reason,
    };
}

/* Adds "'a', 'b', ... and 3 more" piece by piece. */
static void append_name(char *text, size_t size, size_t index, const char *name) {
    size_t used = strlen(text);
    if (index < MAX_NAMED) {
        snprintf(text + used, size - used, "%s'%.100s'", index ? ", " : "", name);
    }
}

static void note_dropped(struct oq_report *report, const char *names, size_t n) {
    if (n > MAX_NAMED) {
        oq_report_add_note(report,
                           "%zu tensors never held a finite value on the calibration samples and "
                           "stay float: %s and %zu more",
                           n, names, n - MAX_NAMED);
    } else if (n > 0) {
        oq_report_add_note(report,
                           "%zu tensor%s never held a finite value on the calibration samples and "
                           "stay%s float: %s",
                           n, n > 1 ? "s" : "", n > 1 ? "" : "s", names);
    }
}

static enum onnxptq_status add_pairs(struct oq_report *report, const struct oq_graph *graph,
                                     const struct oq_plan *plan, const struct oq_statistics *ranges,
                                     const struct oq_quant_params *params,
                                     struct onnxptq_error *error) {
    struct onnxptq_tensor_report *tensors =
        oq_arena_array(report->arena, plan->n_pairs, sizeof *tensors);
    if (tensors == NULL) {
        return oq_fail_memory(error, "the report of tensors");
    }
    size_t n = 0, n_dropped = 0;
    char dropped[1024] = "";
    for (size_t i = 0; i < plan->n_pairs; i++) {
        const struct oq_plan_pair *pair = &plan->pairs[i];
        if (params[i].scale > 0) {
            tensors[n++] = describe_pair(graph, pair, params[i], &ranges[pair->value]);
        } else {
            append_name(dropped, sizeof dropped, n_dropped++,
                        oq_graph_value(graph, pair->value)->name);
        }
    }
    note_dropped(report, dropped, n_dropped);
    report->public.tensors = tensors;
    report->public.n_tensors = n;
    return ONNXPTQ_OK;
}

static enum onnxptq_status add_weights(struct oq_report *report, const struct oq_graph *graph,
                                       const struct oq_plan *plan,
                                       const struct oq_emit_result *emitted,
                                       struct onnxptq_error *error) {
    struct onnxptq_weight_report *weights =
        oq_arena_array(report->arena, plan->n_weights, sizeof *weights);
    if (weights == NULL) {
        return oq_fail_memory(error, "the report of weights");
    }
    for (size_t i = 0; i < plan->n_weights; i++) {
        const struct oq_plan_weight *weight = &plan->weights[i];
        weights[i] = (struct onnxptq_weight_report){
            .name = oq_graph_value(graph, weight->value)->name,
            .type = weight->spec.type,
            .axis = weight->axis,
            .channels = emitted->weight_channels[i],
            .scale_min = (double)emitted->weight_scale_min[i],
            .scale_max = (double)emitted->weight_scale_max[i],
        };
    }
    report->public.weights = weights;
    report->public.n_weights = plan->n_weights;
    return ONNXPTQ_OK;
}

enum onnxptq_status oq_report_add_numbers(struct oq_report *report, const struct oq_graph *graph,
                                          const struct oq_plan *plan,
                                          const struct oq_statistics *ranges,
                                          const struct oq_emit_result *emitted,
                                          struct onnxptq_error *error) {
    OQ_TRY(add_pairs(report, graph, plan, ranges, emitted->pairs, error));
    return add_weights(report, graph, plan, emitted, error);
}

/* ---- Quality ------------------------------------------------------------------------------- */

static void note_incomparable(struct oq_report *report, const struct oq_output_quality *quality) {
    if (quality->type == ONNXPTQ_TYPE_UNDEFINED || quality->type == ONNXPTQ_TYPE_STRING) {
        oq_report_add_note(report, "output '%s' was not measured: it is no tensor of numbers",
                           quality->name);
    } else {
        oq_report_add_note(report,
                           "LOW QUALITY: output '%s' of the quantized model has another type or "
                           "shape than the original's on some samples",
                           quality->name);
    }
}

static void note_quality(struct oq_report *report, const struct oq_output_quality *quality,
                         const struct onnxptq_output_report *output) {
    if (!quality->comparable) {
        note_incomparable(report, quality);
        return;
    }
    if (quality->n_nonfinite > 0) {
        oq_report_add_note(report,
                           "LOW QUALITY: output '%s' has %llu elements that are not finite in only "
                           "one of the two models",
                           quality->name, (unsigned long long)quality->n_nonfinite);
    }
    if (output->has_sqnr && output->sqnr_db < LOW_SQNR_DB) {
        oq_report_add_note(report,
                           "LOW QUALITY: output '%s' keeps only %.1f dB of signal to noise; do not "
                           "deploy this model before it is better. More or other calibration "
                           "samples, or excluding sensitive nodes, may help",
                           quality->name, output->sqnr_db);
    } else if (!output->has_sqnr && !output->exact) {
        oq_report_add_note(report, "output '%s' is not equal to the original's on every sample",
                           quality->name);
    }
}

enum onnxptq_status oq_report_add_outputs(struct oq_report *report,
                                          const struct oq_output_quality *quality, size_t n,
                                          struct onnxptq_error *error) {
    struct onnxptq_output_report *outputs = oq_arena_array(report->arena, n, sizeof *outputs);
    if (outputs == NULL) {
        return oq_fail_memory(error, "the report of outputs");
    }
    for (size_t i = 0; i < n; i++) {
        struct onnxptq_output_report *output = &outputs[i];
        output->name = oq_arena_strdup(report->arena, quality[i].name);
        if (output->name == NULL) {
            return oq_fail_memory(error, "the report of outputs");
        }
        output->type = (enum onnxptq_type)quality[i].type;
        output->exact = quality[i].comparable && quality[i].exact;
        output->max_abs_error = quality[i].max_abs_error;
        output->has_sqnr = quality[i].comparable && oq_type_is_float(quality[i].type) &&
                           oq_quality_sqnr(&quality[i], &output->sqnr_db);
        note_quality(report, &quality[i], output);
    }
    report->public.outputs = outputs;
    report->public.n_outputs = n;
    return ONNXPTQ_OK;
}
