/*
 * The report for people.
 */
#include "summary.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define LINE_WIDTH 100
#define OP_WIDTH 28
#define LOW_SQNR_DB 10.0

void print_heading(FILE *file, const struct console *console, const char *text) {
    fprintf(file, console->colour ? "\n\033[1m%s\033[0m\n" : "\n%s\n", text);
}

void print_wrapped(FILE *file, int column, const char *text) {
    int at = column;
    for (const char *word = text + strspn(text, " "); *word != '\0'; word += strspn(word, " ")) {
        int length = (int)strcspn(word, " ");
        if (at > column && at + 1 + length > LINE_WIDTH) {
            fprintf(file, "\n%*s", column, "");
            at = column;
        } else if (at > column) {
            fputc(' ', file);
            at++;
        }
        char *copy = strndup(word, (size_t)length);
        print_text(file, copy != NULL ? copy : "");
        free(copy);
        word += length;
        at += length;
    }
    fputc('\n', file);
}

/* ---- Decisions by operator ----------------------------------------------------------------- */

static int by_op_and_reason(const void *a, const void *b) {
    const struct onnxptq_node_report *left = *(const struct onnxptq_node_report *const *)a;
    const struct onnxptq_node_report *right = *(const struct onnxptq_node_report *const *)b;
    int order = strcmp(left->op, right->op);
    return order != 0 ? order : strcmp(left->reason, right->reason);
}

static void print_group(FILE *file, const struct onnxptq_node_report *node, size_t n) {
    fputs("  ", file);
    print_text(file, node->op);
    int padding = OP_WIDTH - (int)strlen(node->op);
    int column = fprintf(file, "%*s%6zu  ", padding > 0 ? padding : 0, "", n);
    column += padding > 0 ? OP_WIDTH - padding + 2 : (int)strlen(node->op) + 2;
    print_wrapped(file, column, node->reason);
}

/* The nodes that are quantized, or those that are not, by operator and reason. */
static size_t print_groups(FILE *file, const struct onnxptq_report *report, bool quantized) {
    const struct onnxptq_node_report **nodes = calloc(report->n_nodes + 1, sizeof *nodes);
    size_t n = 0;
    for (size_t i = 0; nodes != NULL && i < report->n_nodes; i++) {
        if ((report->nodes[i].decision == ONNXPTQ_DECISION_QUANTIZED) == quantized) {
            nodes[n++] = &report->nodes[i];
        }
    }
    if (n > 0) {
        qsort(nodes, n, sizeof *nodes, by_op_and_reason);
    }
    for (size_t first = 0, i = 0; i < n; i++) {
        if (i + 1 == n || by_op_and_reason(&nodes[i], &nodes[i + 1]) != 0) {
            print_group(file, nodes[i], i + 1 - first);
            first = i + 1;
        }
    }
    free(nodes);
    return n;
}

static size_t count_quantized(const struct onnxptq_report *report) {
    size_t n = 0;
    for (size_t i = 0; i < report->n_nodes; i++) {
        n += report->nodes[i].decision == ONNXPTQ_DECISION_QUANTIZED;
    }
    return n;
}

/* By type, operator and rule, with high precision. */
static int by_precision(const void *a, const void *b) {
    const struct onnxptq_node_report *left = *(const struct onnxptq_node_report *const *)a;
    const struct onnxptq_node_report *right = *(const struct onnxptq_node_report *const *)b;
    int order = strcmp(left->precision, right->precision);
    order = order != 0 ? order : strcmp(left->op, right->op);
    return order != 0 ? order : strcmp(left->precision_rule, right->precision_rule);
}

static void print_precision(FILE *file, const struct console *console,
                            const struct onnxptq_report *report) {
    const struct onnxptq_node_report **nodes = calloc(report->n_nodes + 1, sizeof *nodes);
    size_t n = 0, n_float = 0;
    for (size_t i = 0; nodes != NULL && i < report->n_nodes; i++) {
        if (report->nodes[i].precision != NULL) {
            nodes[n++] = &report->nodes[i];
            n_float += strcmp(report->nodes[i].precision, "float") == 0;
        }
    }
    if (n > 0) {
        char heading[96];
        qsort(nodes, n, sizeof *nodes, by_precision);
        snprintf(heading, sizeof heading, "Half precision: %zu of %zu float operators", n - n_float,
                 n);
        print_heading(file, console, heading);
    }
    for (size_t first = 0, i = 0; i < n; i++) {
        if (i + 1 == n || by_precision(&nodes[i], &nodes[i + 1]) != 0) {
            struct onnxptq_node_report line = *nodes[i];
            char reason[512];
            snprintf(reason, sizeof reason, "%s: %s", line.precision, line.precision_reason);
            line.reason = reason;
            print_group(file, &line, i + 1 - first);
            first = i + 1;
        }
    }
    free(nodes);
}

static void print_decisions(FILE *file, const struct console *console,
                            const struct onnxptq_report *report) {
    char heading[96];
    size_t n = count_quantized(report);
    snprintf(heading, sizeof heading, "Quantized: %zu of %zu nodes", n, report->n_nodes);
    print_heading(file, console, heading);
    print_groups(file, report, true);
    if (n < report->n_nodes) {
        print_heading(file, console, "Left float");
        print_groups(file, report, false);
    }
    print_precision(file, console, report);
}

/* ---- Every decision ------------------------------------------------------------------------ */

static void print_all_nodes(FILE *file, const struct console *console,
                            const struct onnxptq_report *report) {
    print_heading(file, console, "Nodes");
    for (size_t i = 0; i < report->n_nodes; i++) {
        const struct onnxptq_node_report *node = &report->nodes[i];
        fputs("  ", file);
        print_text(file, node->name);
        fputs(" (", file);
        print_text(file, node->op);
        fprintf(file, "): %s, ", onnxptq_decision_name(node->decision));
        print_text(file, node->reason);
        fprintf(file, " [%s]\n", node->rule);
    }
}

static void print_all_tensors(FILE *file, const struct console *console,
                              const struct onnxptq_report *report) {
    print_heading(file, console, "Quantized tensors");
    for (size_t i = 0; i < report->n_tensors; i++) {
        const struct onnxptq_tensor_report *tensor = &report->tensors[i];
        fputs("  ", file);
        print_text(file, tensor->name);
        fprintf(file, ": %s, scale %.6g, zero point %lld, seen %.6g to %.6g, ",
                onnxptq_type_name(tensor->type), tensor->scale, (long long)tensor->zero_point,
                tensor->min, tensor->max);
        print_text(file, tensor->reason);
        fprintf(file, " [%s]\n", tensor->rule);
    }
    print_heading(file, console, "Quantized weights");
    for (size_t i = 0; i < report->n_weights; i++) {
        const struct onnxptq_weight_report *weight = &report->weights[i];
        fputs("  ", file);
        print_text(file, weight->name);
        fprintf(file, ": %s, axis %d, %zu scales, %.6g to %.6g\n", onnxptq_type_name(weight->type),
                weight->axis, weight->channels, weight->scale_min, weight->scale_max);
    }
}

/* ---- Numbers ------------------------------------------------------------------------------- */

static void print_scales(FILE *file, const struct onnxptq_report *report) {
    double low = INFINITY, high = 0, weight_low = INFINITY, weight_high = 0;
    size_t channels = 0;
    for (size_t i = 0; i < report->n_tensors; i++) {
        low = fmin(low, report->tensors[i].scale);
        high = fmax(high, report->tensors[i].scale);
    }
    for (size_t i = 0; i < report->n_weights; i++) {
        weight_low = fmin(weight_low, report->weights[i].scale_min);
        weight_high = fmax(weight_high, report->weights[i].scale_max);
        channels += report->weights[i].channels;
    }
    if (report->n_tensors > 0) {
        fprintf(file, "  Scales    %zu activations: %.4g to %.4g\n", report->n_tensors, low, high);
    }
    if (report->n_weights > 0) {
        fprintf(file, "%s %zu weights, %zu scales: %.4g to %.4g\n",
                report->n_tensors > 0 ? "           " : "  Scales   ", report->n_weights, channels,
                weight_low, weight_high);
    }
}

/* What the method auto tried, and what it kept. */
static void print_choice(FILE *file, const struct onnxptq_report *report) {
    char number[32];
    for (size_t i = 0; i < report->n_candidates; i++) {
        const struct onnxptq_candidate_report *candidate = &report->candidates[i];
        fprintf(file, i == 0 ? "  Methods   %s" : ", %s", candidate->method);
        if (candidate->percentile > 0) {
            fprintf(file, " %g", candidate->percentile);
        }
        snprintf(number, sizeof number, "%.1f dB", candidate->sqnr_db);
        fprintf(file, " %s%s", candidate->has_sqnr ? number : "unknown",
                candidate->chosen ? " (kept)" : "");
    }
    if (report->n_candidates > 0) {
        fprintf(file, "; %zu sample%s, %zu of them held back\n", report->n_choice_samples,
                report->n_choice_samples == 1 ? "" : "s", report->n_choice_held_back);
    }
}

static void print_costs(FILE *file, const struct onnxptq_report *report) {
    char a[BYTES_TEXT_SIZE], b[BYTES_TEXT_SIZE];
    double total = 0;
    fputs("  Time      ", file);
    for (size_t i = 0; i < report->n_stages; i++) {
        fprintf(file, "%s%s %.2f s", i > 0 ? ", " : "", report->stages[i].name,
                report->stages[i].seconds);
        total += report->stages[i].seconds;
    }
    fprintf(file, "; %.2f s in all\n", total);
    fprintf(file, "  Memory    %s anonymous, %s with mapped files, at the peak\n",
            bytes_text(a, report->peak_anonymous_bytes),
            bytes_text(b, report->peak_resident_bytes));
}

static void print_sizes(FILE *file, const struct onnxptq_report *report) {
    char a[BYTES_TEXT_SIZE], b[BYTES_TEXT_SIZE];
    fprintf(file, "  Size      %s before, %s after", bytes_text(a, report->model_bytes),
            bytes_text(b, report->output_bytes));
    fprintf(file, "; %s of temporary files in between\n", bytes_text(a, report->temporary_bytes));
}

/* ---- Quality ------------------------------------------------------------------------------- */

static void print_quality(FILE *file, const struct console *console,
                          const struct onnxptq_output_report *output) {
    fputs("  ", file);
    print_text(file, output->name);
    fprintf(file, " (%s): ", onnxptq_type_name(output->type));
    if (output->exact) {
        fputs("equal\n", file);
    } else if (output->has_sqnr) {
        bool alarm = console->colour && output->sqnr_db < LOW_SQNR_DB;
        fprintf(file, "SQNR %s%.1f dB%s, largest error %.4g\n", alarm ? "\033[31m" : "",
                output->sqnr_db, alarm ? "\033[0m" : "", output->max_abs_error);
    } else {
        fprintf(file, "largest error %.4g\n", output->max_abs_error);
    }
}

static void print_check(FILE *file, const struct console *console,
                        const struct onnxptq_report *report) {
    char heading[128];
    if (report->n_check_samples == 0) {
        return; /* a note says why */
    }
    snprintf(heading, sizeof heading, "Measured beside the original, on %zu sample%s%s",
             report->n_check_samples, report->n_check_samples == 1 ? "" : "s",
             report->held_back ? " that calibration did not see" : "");
    print_heading(file, console, heading);
    for (size_t i = 0; i < report->n_outputs; i++) {
        print_quality(file, console, &report->outputs[i]);
    }
}

static void print_notes(FILE *file, const struct console *console,
                        const struct onnxptq_report *report) {
    if (report->n_notes > 0) {
        print_heading(file, console, "Notes");
    }
    for (size_t i = 0; i < report->n_notes; i++) {
        fputs("  - ", file);
        print_wrapped(file, 4, report->notes[i]);
    }
}

void summary_print(FILE *file, const struct console *console, const struct onnxptq_report *report) {
    print_text(file, report->model_path);
    fputs(" -> ", file);
    print_text(file, report->output_path);
    if (report->output_data_path != NULL) {
        fputs(" and ", file);
        print_text(file, report->output_data_path);
    }
    fprintf(file, "\ntarget %s, method %s", report->target, report->method);
    if (report->percentile > 0) {
        fprintf(file, " %g", report->percentile);
    }
    fprintf(file, ", %zu calibration samples, ONNX Runtime %s\n", report->n_calibration_samples,
            report->runtime_version);
    print_decisions(file, console, report);
    if (console->verbose) {
        print_all_nodes(file, console, report);
        print_all_tensors(file, console, report);
    }
    print_heading(file, console, "Numbers");
    print_scales(file, report);
    print_choice(file, report);
    print_costs(file, report);
    print_sizes(file, report);
    print_check(file, console, report);
    print_notes(file, console, report);
    usage_print(file, console, report);
}

void calibration_print(FILE *file, const struct console *console,
                       const struct onnxptq_report *report) {
    print_text(file, report->model_path);
    fputs(" -> ", file);
    print_text(file, report->output_path);
    fprintf(file, "\ntarget %s, %zu calibration samples, ONNX Runtime %s\n", report->target,
            report->n_calibration_samples, report->runtime_version);
    if (console->verbose) {
        print_all_nodes(file, console, report);
    }
    print_heading(file, console, "Numbers");
    print_costs(file, report);
    print_notes(file, console, report);
}
