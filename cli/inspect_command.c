/*
 * onnxptq inspect.
 */
#include "summary.h"
#include "worker.h"

#include <string.h>

static void print_declarations(FILE *file, const struct console *console, const char *heading,
                               const struct onnxptq_tensor *tensors, size_t n) {
    print_heading(file, console, heading);
    for (size_t i = 0; i < n; i++) {
        fputs("  ", file);
        print_text(file, tensors[i].name);
        fprintf(file, ": %s", onnxptq_type_name(tensors[i].type));
        if (tensors[i].type != ONNXPTQ_TYPE_UNDEFINED) {
            fputs(" [", file);
            for (size_t d = 0; d < tensors[i].rank; d++) {
                fputs(d > 0 ? ", " : "", file);
                tensors[i].shape[d] < 0 ? fputs("?", file)
                                        : fprintf(file, "%lld", (long long)tensors[i].shape[d]);
            }
            fputs("]", file);
        }
        fputs("\n", file);
    }
}

static void print_operators(FILE *file, const struct console *console,
                            const struct onnxptq_inspection *result) {
    print_heading(file, console, "Operators");
    fprintf(file, "  %-40s %7s  %-5s %s\n", "", "nodes", "runs", "quantizable");
    for (size_t i = 0; i < result->n_operators; i++) {
        const struct onnxptq_operator_info *info = &result->operators[i];
        int padding = 40 - (int)strlen(info->op);
        fputs("  ", file);
        print_text(file, info->op);
        fprintf(file, "%*s %7zu  %-5s ", padding > 0 ? padding : 0, "", info->count,
                info->runnable ? "yes" : "NO");
        if (info->n_quantizable > 0) {
            fprintf(file, "%zu\n", info->n_quantizable);
        } else {
            fputs("-\n", file);
        }
    }
}

static void print_missing(FILE *file, const struct console *console,
                          const struct onnxptq_inspection *result) {
    size_t n = 0;
    for (size_t i = 0; i < result->n_operators; i++) {
        if (!result->operators[i].runnable) {
            if (n++ == 0) {
                print_heading(file, console, "Nobody provides");
            }
            fputs("  ", file);
            print_text(file, result->operators[i].op);
            fputs("\n", file);
        }
    }
    if (n > 0) {
        fputs("  Pass the library that holds them with --custom-op-lib.\n", file);
    }
}

static void print_inspection(FILE *file, const struct console *console,
                             const struct onnxptq_inspection *result) {
    char bytes[BYTES_TEXT_SIZE];
    print_text(file, result->model_path);
    fprintf(file, "\nIR version %lld", (long long)result->ir_version);
    for (size_t i = 0; i < result->n_opsets; i++) {
        const char *domain = result->opsets[i].domain;
        fputs(", ", file);
        print_text(file, domain[0] != '\0' ? domain : "opset");
        fprintf(file, " %lld", (long long)result->opsets[i].version);
    }
    fprintf(file, "; ONNX Runtime %s\n", result->runtime_version);
    print_declarations(file, console, "Inputs", result->inputs, result->n_inputs);
    print_declarations(file, console, "Outputs", result->outputs, result->n_outputs);
    print_operators(file, console, result);
    print_heading(file, console, "Weights");
    fprintf(file, "  %zu tensors, %s\n", result->n_weights,
            bytes_text(bytes, result->weight_bytes));
    if (result->n_functions > 0) {
        fprintf(file, "  %zu local functions\n", result->n_functions);
    }
    print_missing(file, console, result);
}

static enum exit_code print_result(struct console *console, const struct args *args,
                                   const struct onnxptq_inspector *inspector) {
    results_show(console);
    if (args->json) {
        char *text = NULL;
        struct onnxptq_error error;
        if (onnxptq_inspector_json(inspector, &text, &error) != ONNXPTQ_OK) {
            return console_fail(console, &error, NULL);
        }
        puts(text);
        onnxptq_free(text);
    } else if (!args->quiet) {
        print_inspection(stdout, console, onnxptq_inspector_result(inspector));
    }
    return console_finish(console, NULL);
}

enum exit_code inspect_command(struct console *console, struct args *args) {
    struct onnxptq_runtime_options runtime;
    struct onnxptq_inspector *inspector = NULL;
    struct onnxptq_error error;
    args_fill_runtime(args, console, &runtime);
    if (onnxptq_inspect(args->model, args->target, &runtime, &inspector, &error) != ONNXPTQ_OK) {
        return console_fail(console, &error, "onnxptq inspect --help");
    }
    enum exit_code code = print_result(console, args, inspector);
    worker_tell_end(console->worker, code);
    onnxptq_inspector_destroy(inspector);
    return code;
}
