/*
 * How to run the result: lines to copy. Paths of libraries are absolute, because a library without
 * a slash in its path is looked up elsewhere.
 */
#include "summary.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A Python string literal. */
static void print_literal(FILE *file, const char *text) {
    fputc('"', file);
    for (; *text != '\0'; text++) {
        if (*text == '"' || *text == '\\') {
            fputc('\\', file);
        }
        fputc((unsigned char)*text < 0x20 ? '?' : *text, file);
    }
    fputc('"', file);
}

static void print_absolute(FILE *file, const char *path) {
    while (path[0] == '.' && path[1] == '/') {
        path += 1 + strspn(path + 1, "/");
    }
    char *folder = path[0] == '/' ? NULL : getcwd(NULL, 0);
    size_t size = (folder ? strlen(folder) : 0) + strlen(path) + 2;
    char *absolute = malloc(size);
    if (absolute != NULL) {
        snprintf(absolute, size, "%s%s%s", folder ? folder : "", folder ? "/" : "", path);
    }
    print_literal(file, absolute != NULL ? absolute : path);
    free(absolute);
    free(folder);
}

/* ---- ONNX Runtime -------------------------------------------------------------------------- */

/* "LIB@FUNCTION" where no file of that whole name exists. Python can call RegisterCustomOps only.
 */
static void print_library(FILE *file, const char *library) {
    const char *at = strrchr(library, '@');
    if (at == NULL || access(library, F_OK) == 0) {
        fputs("    options.register_custom_ops_library(", file);
        print_absolute(file, library);
        fputs(")\n", file);
        return;
    }
    char *path = strndup(library, (size_t)(at - library));
    fputs("    # In C: RegisterCustomOpsUsingFunction(options, ", file);
    print_literal(file, at + 1);
    fputs(") after loading ", file);
    print_absolute(file, path != NULL ? path : library);
    fputs("\n", file);
    free(path);
}

static void print_provider(FILE *file, const struct onnxptq_provider_report *provider) {
    if (provider->n_options == 0) {
        print_literal(file, provider->name);
        return;
    }
    fputs("(", file);
    print_literal(file, provider->name);
    for (size_t i = 0; i < provider->n_options; i++) {
        fputs(i > 0 ? ", " : ", {", file);
        print_literal(file, provider->keys[i]);
        fputs(": ", file);
        print_literal(file, provider->values[i]);
    }
    fputs("})", file);
}

static void print_providers(FILE *file, const struct onnxptq_report *report) {
    fputs("providers=[", file);
    if (report->n_providers == 0) {
        print_literal(file, "CPUExecutionProvider");
    }
    for (size_t i = 0; i < report->n_providers; i++) {
        fputs(i > 0 ? ", " : "", file);
        print_provider(file, &report->providers[i]);
    }
    fputs("]", file);
}

static void print_python(FILE *file, const struct onnxptq_report *report) {
    fputs("    import onnxruntime as ort\n    options = ort.SessionOptions()\n", file);
    for (size_t i = 0; i < report->n_custom_op_libraries; i++) {
        print_library(file, report->custom_op_libraries[i]);
    }
    if (report->measured_unoptimized) {
        fputs("    options.graph_optimization_level = "
              "ort.GraphOptimizationLevel.ORT_DISABLE_ALL\n",
              file);
    }
    fputs("    session = ort.InferenceSession(", file);
    print_literal(file, report->output_path);
    fputs(", options, ", file);
    print_providers(file, report);
    fputs(")\n    outputs = session.run(None, {", file);
    for (size_t i = 0; i < report->n_inputs; i++) {
        fputs(i > 0 ? ", " : "", file);
        print_literal(file, report->inputs[i].name);
        fputs(": ...", file);
    }
    fputs("})\n", file);
}

/* ---- TensorRT ------------------------------------------------------------------------------ */

/* A word of a shell command. */
static void print_word(FILE *file, const char *text) {
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "_-./+:,@%";
    if (strspn(text, plain) == strlen(text)) {
        fputs(text, file);
        return;
    }
    fputc('\'', file);
    for (; *text != '\0'; text++) {
        if (*text == '\'') {
            fputs("'\\''", file);
        } else {
            fputc((unsigned char)*text < 0x20 ? '?' : *text, file);
        }
    }
    fputc('\'', file);
}

static const char *first_foreign_op(const struct onnxptq_report *report) {
    for (size_t i = 0; i < report->n_nodes; i++) {
        if (strstr(report->nodes[i].op, "::") != NULL) {
            return report->nodes[i].op;
        }
    }
    return NULL;
}

static void print_trtexec(FILE *file, const struct onnxptq_report *report) {
    const char *foreign = first_foreign_op(report);
    fputs("\n    trtexec --onnx=", file);
    print_word(file, report->output_path);
    fputs(" --stronglyTyped", file);
    if (foreign != NULL) {
        fputs(" --dynamicPlugins=PLUGINS.so\n    # PLUGINS.so: a TensorRT plugin for each custom "
              "operator (",
              file);
        print_text(file, foreign);
        fputs("); ONNX Runtime's libraries are none", file);
    }
    fputs("\n    # TensorRT 10; later versions are strongly typed without the flag\n", file);
}

void usage_print(FILE *file, const struct console *console, const struct onnxptq_report *report) {
    print_heading(file, console, "Run it");
    print_python(file, report);
    if (strcmp(report->target, "tensorrt") == 0) {
        print_trtexec(file, report);
    }
}
