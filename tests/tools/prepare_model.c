/*
 * The prepare stage alone, for tests/test_prepare.py, which runs what comes out.
 *
 *   prepare_model MODEL OUT [--opset N] [--exclude NODE] [--lib LIBRARY]
 *
 * Options may be repeated. Prints, with tabs in between, one line "note TEXT" for each note and one
 * line "node NAME ORIGIN" for each node of the result, ORIGIN being the name of the original node
 * or "-". Exit 1 and the message on stderr when it fails.
 */
#include "model/write.h"
#include "prepare/prepare.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_OPTIONS 16

struct arguments {
    const char *input, *output;
    int64_t opset;
    const char *exclude[MAX_OPTIONS];
    size_t n_exclude;
    const char *libraries[MAX_OPTIONS];
    size_t n_libraries;
};

static bool parse(int argc, char **argv, struct arguments *out) {
    *out = (struct arguments){0};
    if (argc < 3) {
        return false;
    }
    out->input = argv[1];
    out->output = argv[2];
    for (int i = 3; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--opset") == 0) {
            out->opset = strtoll(argv[i + 1], NULL, 10);
        } else if (strcmp(argv[i], "--exclude") == 0 && out->n_exclude < MAX_OPTIONS) {
            out->exclude[out->n_exclude++] = argv[i + 1];
        } else if (strcmp(argv[i], "--lib") == 0 && out->n_libraries < MAX_OPTIONS) {
            out->libraries[out->n_libraries++] = argv[i + 1];
        } else {
            return false;
        }
    }
    return argc % 2 == 1;
}

static enum onnxptq_status write_model(const struct oq_model *model, const char *path,
                                       struct onnxptq_error *error) {
    struct oq_writer *writer = NULL;
    enum onnxptq_status status;
    OQ_TRY_DONE(oq_writer_create(path, &writer, error));
    OQ_TRY_DONE(oq_model_write(model, writer, error));
    OQ_TRY_DONE(oq_writer_finish(writer, error));
    OQ_TRY_DONE(oq_writer_commit(writer, error));
done:
    oq_writer_destroy(writer);
    return status;
}

static enum onnxptq_status print_nodes(const struct oq_model *model,
                                       const struct oq_graph *original,
                                       struct onnxptq_error *error) {
    struct oq_graph *graph = NULL;
    OQ_TRY(oq_graph_build(model, &graph, error));
    for (uint32_t i = 0; i < oq_graph_n_nodes(graph); i++) {
        const struct oq_node *node = oq_graph_node(graph, i);
        printf("node\t%s\t%s\n", node->name,
               node->origin == OQ_NONE ? "-" : oq_graph_node(original, node->origin)->name);
    }
    oq_graph_destroy(graph);
    return ONNXPTQ_OK;
}

static bool *make_exclusions(const struct arguments *arguments, const struct oq_graph *graph) {
    bool *excluded = calloc((size_t)oq_graph_n_nodes(graph) + 1, sizeof *excluded);
    for (uint32_t i = 0; excluded != NULL && i < oq_graph_n_nodes(graph); i++) {
        for (size_t j = 0; j < arguments->n_exclude; j++) {
            excluded[i] =
                excluded[i] || strcmp(oq_graph_node(graph, i)->name, arguments->exclude[j]) == 0;
        }
    }
    return excluded;
}

static void print_note(void *user, const char *text) {
    (void)user;
    printf("note\t%s\n", text);
}

static enum onnxptq_status run(const struct arguments *arguments, struct onnxptq_error *error) {
    struct onnxptq_runtime_options options;
    struct oq_runtime *runtime = NULL;
    struct oq_model *model = NULL, *prepared = NULL;
    struct oq_graph *graph = NULL;
    bool *excluded = NULL;
    enum onnxptq_status status;
    onnxptq_runtime_options_init(&options);
    options.custom_op_libraries = arguments->libraries;
    options.n_custom_op_libraries = arguments->n_libraries;
    OQ_TRY_DONE(oq_runtime_open(&options, NULL, &runtime, error));
    OQ_TRY_DONE(oq_model_read(arguments->input, &model, error));
    OQ_TRY_DONE(oq_graph_build(model, &graph, error));
    excluded = make_exclusions(arguments, graph);
    const struct oq_prepare_spec spec = {.graph = graph,
                                         .runtime = runtime,
                                         .beside_path = arguments->output,
                                         .excluded = excluded,
                                         .opset = arguments->opset,
                                         .note = print_note};
    OQ_TRY_DONE(oq_prepare(&spec, &prepared, error));
    OQ_TRY_DONE(print_nodes(prepared, graph, error));
    OQ_TRY_DONE(write_model(prepared, arguments->output, error));
done:
    free(excluded);
    oq_graph_destroy(graph);
    oq_model_destroy(prepared);
    oq_model_destroy(model);
    oq_runtime_close(runtime);
    return status;
}

int main(int argc, char **argv) {
    struct arguments arguments;
    if (!parse(argc, argv, &arguments)) {
        fprintf(stderr,
                "usage: prepare_model MODEL OUT [--opset N] [--exclude NODE] [--lib LIB]\n");
        return 2;
    }
    struct onnxptq_error error;
    if (run(&arguments, &error) != ONNXPTQ_OK) {
        fprintf(stderr, "%s\n", error.message);
        return EXIT_FAILURE;
    }
    return EXIT_SUCCESS;
}
