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

void oq_report_add_stage(struct oq_report *report, const char *name, double seconds,
                         double processor_seconds) {
    if (report->public.n_stages < OQ_REPORT_MAX_STAGES) {
        report->stages[report->public.n_stages++] =
            (struct onnxptq_stage_report){name, seconds, processor_seconds};
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

void oq_report_reason(const char *message, char reason[OQ_REASON_SIZE]) {
    static const char left_out[] = "... ";
    size_t n = strlen(message), room = OQ_REASON_SIZE - sizeof left_out;
    bool cut = n > OQ_REASON_SIZE - 1;
    const char *end = cut ? message + n - room : message;
    const char *word = cut ? strchr(end, ' ') : NULL;
    snprintf(reason, OQ_REASON_SIZE, "%s%s", cut ? left_out : "", word != NULL ? word + 1 : end);
}

void oq_report_remove_notes(struct oq_report *report, size_t first, size_t n) {
    if (n == 0) {
        return;
    }
    size_t behind = report->n_notes - first - n;
    memmove(report->notes + first, report->notes + first + n, behind * sizeof *report->notes);
    report->n_notes -= n;
    report->public.n_notes = report->n_notes;
}

/* ---- Decisions ----------------------------------------------------------------------------- */

static struct onnxptq_node_report
describe_node(const struct oq_node *node, const struct oq_plan_node *planned, bool left_float) {
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
    if (left_float) {
        report.decision = ONNXPTQ_DECISION_FLOAT;
        report.rule = "numbers";
        report.reason = "what it reads has no range or scale that int8 can hold; the notes say why";
    }
    return report;
}

enum onnxptq_status oq_report_add_nodes(struct oq_report *report, const struct oq_graph *graph,
                                        const struct oq_plan *plan, const bool *left_float,
                                        struct onnxptq_error *error) {
    uint32_t n = oq_graph_n_nodes(graph);
    struct onnxptq_node_report *nodes = oq_arena_array(report->arena, n, sizeof *nodes);
    if (nodes == NULL) {
        return oq_fail_memory(error, "the report of nodes");
    }
    for (uint32_t i = 0; i < n; i++) {
        nodes[i] = describe_node(oq_graph_node(graph, i), plan != NULL ? &plan->nodes[i] : NULL,
                                 left_float != NULL && left_float[i]);
    }
    report->public.nodes = nodes;
    report->public.n_nodes = n;
    return ONNXPTQ_OK;
}

enum onnxptq_status oq_report_add_precision(struct oq_report *report,
                                            const struct oq_precision_plan *plan,
                                            struct onnxptq_error *error) {
    struct onnxptq_node_report *nodes = (struct onnxptq_node_report *)report->public.nodes;
    for (size_t i = 0; i < report->public.n_nodes; i++) {
        const struct oq_precision_node *node = &plan->nodes[i];
        if (node->reason == NULL) {
            continue;
        }
        nodes[i].precision = oq_type_name(node->half ? (int)plan->type : (int)ONNXPTQ_TYPE_FLOAT);
        nodes[i].precision_rule = oq_arena_strdup(report->arena, node->rule);
        nodes[i].precision_reason = oq_arena_strdup(report->arena, node->reason);
        if (nodes[i].precision_rule == NULL || nodes[i].precision_reason == NULL) {
            return oq_fail_memory(error, "the report of nodes");
        }
    }
    return ONNXPTQ_OK;
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
