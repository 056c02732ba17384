/*
 * Which local functions are inlined; see inline_choice.h.
 */
#include "prepare/inline_choice.h"

#include "prepare/imports.h"
#include "prepare/opset.h"
#include "runtime/probe.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct chooser {
    struct oq_preparation *preparation;
    const struct oq_functions *functions;
    bool *called; /* per function: by a graph, not only by other functions */
    struct onnxptq_error *error;
};

static void tell_kept(const struct chooser *chooser, const Onnx__FunctionProto *function,
                      const char *reason) {
    oq_preparation_note(chooser->preparation,
                        "calls of function %s::%s stay as they are, in float: %s",
                        oq_text(function->domain), oq_text(function->name), reason);
}

/* ---- Implemented elsewhere ------------------------------------------------------------------ */

/* A model whose only node is a call of the function, which it does not define. */
static enum onnxptq_status make_stub(const Onnx__FunctionProto *function, struct oq_model **out,
                                     struct onnxptq_error *error) {
    char output[] = "y", name[] = "";
    char *outputs[] = {output};
    Onnx__OperatorSetIdProto import = ONNX__OPERATOR_SET_ID_PROTO__INIT;
    Onnx__OperatorSetIdProto *imports[] = {&import};
    Onnx__NodeProto node = ONNX__NODE_PROTO__INIT;
    Onnx__NodeProto *nodes[] = {&node};
    Onnx__GraphProto graph = ONNX__GRAPH_PROTO__INIT;
    Onnx__ModelProto model = ONNX__MODEL_PROTO__INIT;
    import.domain = node.domain = function->domain;
    import.has_version = 1;
    import.version = 1;
    node.op_type = function->name;
    node.output = outputs;
    node.n_output = 1;
    graph.name = name;
    graph.node = nodes;
    graph.n_node = 1;
    model.has_ir_version = 1;
    model.ir_version = 8;
    model.graph = &graph;
    model.opset_import = imports;
    model.n_opset_import = 1;
    const size_t size = onnx__model_proto__get_packed_size(&model);
    uint8_t *bytes = malloc(size);
    if (bytes == NULL) {
        return oq_fail_memory(error, "a function's stub");
    }
    onnx__model_proto__pack(&model, bytes);
    const enum onnxptq_status status = oq_model_read_memory(bytes, size, NULL, out, error);
    free(bytes);
    return status;
}

/* The runtime runs a kernel of that name, where it has one, and the body only where it has none. */
static enum onnxptq_status is_known(const struct chooser *chooser,
                                    const Onnx__FunctionProto *function, bool *known) {
    struct oq_model *stub = NULL;
    struct oq_graph *graph = NULL;
    struct oq_probe_result *results = NULL;
    size_t n = 0;
    enum onnxptq_status status = ONNXPTQ_OK;
    *known = false;
    if (chooser->preparation->spec->runtime == NULL) {
        return ONNXPTQ_OK;
    }
    OQ_TRY_DONE(make_stub(function, &stub, chooser->error));
    OQ_TRY_DONE(oq_graph_build(stub, &graph, chooser->error));
    OQ_TRY_DONE(oq_probe_operators(chooser->preparation->spec->runtime, graph, &results, &n,
                                   chooser->error));
    *known = n == 1 && results[0].runnable;
done:
    free(results);
    oq_graph_destroy(graph);
    oq_model_destroy(stub);
    return status;
}

/* ---- Operator sets -------------------------------------------------------------------------- */

/* The converter works on whole models: the function is the only one for as long as that takes. */
static enum onnxptq_status convert_body(const struct chooser *chooser,
                                        Onnx__FunctionProto *function, int64_t version,
                                        struct onnxptq_error *reason) {
    Onnx__ModelProto *model = oq_model_proto(chooser->preparation->model);
    Onnx__FunctionProto **all = model->functions;
    const size_t n_all = model->n_functions;
    Onnx__FunctionProto *only[] = {function};
    model->functions = only;
    model->n_functions = 1;
    const enum onnxptq_status status = oq_opset_raise(chooser->preparation->model, version, reason);
    model->functions = all;
    model->n_functions = n_all;
    return status;
}

static enum onnxptq_status match_default_domain(const struct chooser *chooser,
                                                Onnx__FunctionProto *function, bool *matches) {
    const int64_t own = oq_imports_find(function->opset_import, function->n_opset_import, "");
    const int64_t wanted = oq_model_opset(chooser->preparation->model);
    *matches = own == wanted || own == 0;
    if (*matches) {
        return ONNXPTQ_OK;
    }
    struct onnxptq_error *reason = calloc(1, sizeof *reason);
    if (reason == NULL) {
        return oq_fail_memory(chooser->error, "a message");
    }
    enum onnxptq_status status =
        own < wanted ? convert_body(chooser, function, wanted, reason)
                     : oq_fail(reason, ONNXPTQ_ERROR_UNSUPPORTED,
                               "it imports opset %" PRId64 ", the model %" PRId64, own, wanted);
    *matches = status == ONNXPTQ_OK;
    if (status == ONNXPTQ_ERROR_UNSUPPORTED) {
        tell_kept(chooser, function, reason->message);
        status = ONNXPTQ_OK;
    } else if (status != ONNXPTQ_OK) {
        (void)oq_fail(chooser->error, status, "%s", reason->message);
    }
    free(reason);
    return status;
}

/* Version that the model would have to import differs from what it imports. */
static bool other_domains_match(const struct chooser *chooser,
                                const Onnx__FunctionProto *function) {
    const Onnx__ModelProto *model = oq_model_proto(chooser->preparation->model);
    for (size_t i = 0; i < function->n_opset_import; i++) {
        const Onnx__OperatorSetIdProto *import = function->opset_import[i];
        const int64_t own =
            oq_imports_find(model->opset_import, model->n_opset_import, import->domain);
        if (!oq_is_default_domain(import->domain) && own != 0 && own != import->version) {
            tell_kept(chooser, function,
                      "it imports another version of an operator set than the model does");
            return false;
        }
    }
    return true;
}

static enum onnxptq_status import_domains(const struct chooser *chooser,
                                          const Onnx__FunctionProto *function) {
    for (size_t i = 0; i < function->n_opset_import; i++) {
        const Onnx__OperatorSetIdProto *import = function->opset_import[i];
        if (!oq_model_import_opset(chooser->preparation->model, import->domain, import->version)) {
            return oq_fail_memory(chooser->error, "an operator set");
        }
    }
    return ONNXPTQ_OK;
}

/* ---- Choosing ------------------------------------------------------------------------------- */

static enum onnxptq_status choose(const struct chooser *chooser, Onnx__FunctionProto *function,
                                  bool *inlined) {
    bool known = false, matches = false;
    OQ_TRY(is_known(chooser, function, &known));
    if (known) {
        tell_kept(chooser, function, "the runtime or a library implements the operator itself");
        return ONNXPTQ_OK;
    }
    if (!other_domains_match(chooser, function)) {
        return ONNXPTQ_OK;
    }
    OQ_TRY(match_default_domain(chooser, function, &matches));
    if (!matches) {
        return ONNXPTQ_OK;
    }
    *inlined = true;
    return import_domains(chooser, function);
}

static bool note_call(void *user, Onnx__NodeProto *node) {
    const struct chooser *chooser = user;
    const struct oq_function *function = oq_functions_called(chooser->functions, node);
    if (function != NULL && !chooser->called[function - chooser->functions->items]) {
        chooser->called[function - chooser->functions->items] = true;
        (void)oq_visit_nodes(function->proto->node, function->proto->n_node, note_call, user);
    }
    return true;
}

enum onnxptq_status oq_inline_choose(struct oq_preparation *preparation,
                                     const struct oq_functions *functions,
                                     struct oq_inline_choice *choices,
                                     struct onnxptq_error *error) {
    const Onnx__GraphProto *graph = oq_model_proto(preparation->model)->graph;
    struct chooser chooser = {.preparation = preparation, .functions = functions, .error = error};
    chooser.called = oq_arena_array(preparation->scratch, functions->n, sizeof *chooser.called);
    if (chooser.called == NULL) {
        return oq_fail_memory(error, "functions");
    }
    (void)oq_visit_nodes(graph->node, graph->n_node, note_call, &chooser);
    for (size_t i = 0; i < functions->n; i++) {
        if (functions->items[i].weighted && chooser.called[i]) {
            OQ_TRY(choose(&chooser, functions->items[i].proto, &choices[i].inlined));
        }
    }
    return ONNXPTQ_OK;
}
