/*
 * Inlining calls of local functions: which, where, and what goes. One call's body is made by
 * instantiate.c.
 */
#include "prepare/inline.h"

#include "prepare/functions.h"
#include "prepare/inline_choice.h"
#include "prepare/instantiate.h"

#include <stdlib.h>
#include <string.h>

/* Functions that call each other twice each make bodies of any size. */
#define MAX_NODES ((size_t)1 << 20)
/* Messages inside messages that readers of the result accept, less those inside a node. */
#define MAX_GRAPH_DEPTH 28

struct inliner {
    struct oq_preparation *preparation;
    struct oq_functions functions;
    struct oq_inline_choice *choices; /* per function */
    size_t n_nodes;                   /* made so far */
    struct onnxptq_error *error;
};

/* The node list of one graph while it is rewritten. */
struct list {
    Onnx__NodeProto **nodes;
    size_t n_nodes, capacity_nodes;
    Onnx__ValueInfoProto **infos;
    size_t n_infos, capacity_infos;
    unsigned depth;
};

/* ---- Rewriting graphs ----------------------------------------------------------------------- */

static const struct oq_function *inlined_function(const struct inliner *inliner,
                                                  const Onnx__NodeProto *node) {
    const struct oq_function *function = oq_functions_called(&inliner->functions, node);
    if (function == NULL || !inliner->choices[function - inliner->functions.items].inlined ||
        oq_preparation_excludes(inliner->preparation, node)) {
        return NULL;
    }
    return function;
}

static bool append(void *array, size_t *capacity, size_t *n, void *item) {
    void *items;
    memcpy(&items, array, sizeof items);
    if (!oq_grow(&items, capacity, *n + 1, sizeof item)) {
        return false;
    }
    memcpy(array, &items, sizeof items);
    memcpy((char *)items + *n * sizeof item, &item, sizeof item);
    ++*n;
    return true;
}

static enum onnxptq_status rewrite_graph(struct inliner *inliner, Onnx__GraphProto *graph,
                                         unsigned depth);

static enum onnxptq_status rewrite_bodies(struct inliner *inliner, Onnx__NodeProto *node,
                                          unsigned depth) {
    for (size_t i = 0; i < node->n_attribute; i++) {
        Onnx__AttributeProto *attribute = node->attribute[i];
        if (attribute->g != NULL) {
            OQ_TRY(rewrite_graph(inliner, attribute->g, depth + 1));
        }
        for (size_t j = 0; j < attribute->n_graphs; j++) {
            OQ_TRY(rewrite_graph(inliner, attribute->graphs[j], depth + 1));
        }
    }
    return ONNXPTQ_OK;
}

static enum onnxptq_status add_node(struct inliner *inliner, struct list *list,
                                    Onnx__NodeProto *node);

static enum onnxptq_status add_body(struct inliner *inliner, struct list *list,
                                    const Onnx__NodeProto *call,
                                    const struct oq_function *function) {
    struct oq_instance instance;
    inliner->n_nodes += function->proto->n_node;
    if (inliner->n_nodes > MAX_NODES) {
        return oq_fail(
            inliner->error, ONNXPTQ_ERROR_UNSUPPORTED,
            "cannot inline function '%s': with all bodies in place the model has more than "
            "%zu nodes",
            oq_text(function->proto->name), MAX_NODES);
    }
    OQ_TRY(oq_instantiate(inliner->preparation, call, function->proto, &instance, inliner->error));
    for (size_t i = 0; i < instance.n_nodes; i++) {
        OQ_TRY(add_node(inliner, list, instance.nodes[i]));
    }
    for (size_t i = 0; i < instance.n_infos; i++) {
        if (!append(&list->infos, &list->capacity_infos, &list->n_infos, instance.infos[i])) {
            return oq_fail_memory(inliner->error, "the body of a function");
        }
    }
    inliner->choices[function - inliner->functions.items].n_calls++;
    return ONNXPTQ_OK;
}

static enum onnxptq_status add_node(struct inliner *inliner, struct list *list,
                                    Onnx__NodeProto *node) {
    const struct oq_function *function = inlined_function(inliner, node);
    if (function != NULL) {
        return add_body(inliner, list, node, function);
    }
    OQ_TRY(rewrite_bodies(inliner, node, list->depth));
    return append(&list->nodes, &list->capacity_nodes, &list->n_nodes, node)
               ? ONNXPTQ_OK
               : oq_fail_memory(inliner->error, "the body of a function");
}

static bool keep_list(struct inliner *inliner, Onnx__GraphProto *graph, const struct list *list) {
    struct oq_model *model = inliner->preparation->model;
    const size_t n = graph->n_value_info + list->n_infos;
    if (list->n_infos > 0) {
        Onnx__ValueInfoProto **infos = oq_arena_array(oq_model_arena(model), n, sizeof(void *));
        if (infos == NULL) {
            return false;
        }
        if (graph->n_value_info > 0) {
            memcpy(infos, graph->value_info, graph->n_value_info * sizeof(void *));
        }
        memcpy(infos + graph->n_value_info, list->infos, list->n_infos * sizeof(void *));
        graph->value_info = infos;
        graph->n_value_info = n;
    }
    return oq_graph_set_nodes(model, graph, list->nodes, list->n_nodes);
}

static enum onnxptq_status rewrite_graph(struct inliner *inliner, Onnx__GraphProto *graph,
                                         unsigned depth) {
    struct list list = {.depth = depth};
    enum onnxptq_status status = ONNXPTQ_OK;
    if (depth > MAX_GRAPH_DEPTH) {
        return oq_fail(
            inliner->error, ONNXPTQ_ERROR_UNSUPPORTED,
            "cannot inline functions: with all bodies in place graph '%s' is nested more "
            "than %d levels deep",
            oq_text(graph->name), MAX_GRAPH_DEPTH);
    }
    for (size_t i = 0; i < graph->n_node && status == ONNXPTQ_OK; i++) {
        status = add_node(inliner, &list, graph->node[i]);
    }
    if (status == ONNXPTQ_OK && !keep_list(inliner, graph, &list)) {
        status = oq_fail_memory(inliner->error, "the body of a function");
    }
    free(list.nodes);
    free(list.infos);
    return status;
}

/* ---- Functions that nothing calls any more -------------------------------------------------- */

struct call_count {
    const struct inliner *inliner;
    bool *called; /* per function */
};

static bool count_call(void *user, Onnx__NodeProto *node) {
    const struct call_count *count = user;
    const struct oq_function *function = oq_functions_called(&count->inliner->functions, node);
    if (function != NULL) {
        count->called[function - count->inliner->functions.items] = true;
    }
    return true;
}

static void count_graph(const struct call_count *count, const Onnx__GraphProto *graph) {
    if (graph != NULL) {
        (void)oq_visit_nodes(graph->node, graph->n_node, count_call, (void *)(uintptr_t)count);
    }
}

static void count_calls(const struct call_count *count) {
    const Onnx__ModelProto *model = oq_model_proto(count->inliner->preparation->model);
    memset(count->called, 0, count->inliner->functions.n * sizeof *count->called);
    count_graph(count, model->graph);
    for (size_t i = 0; i < model->n_training_info; i++) {
        count_graph(count, model->training_info[i]->initialization);
        count_graph(count, model->training_info[i]->algorithm);
    }
    for (size_t i = 0; i < count->inliner->functions.n; i++) {
        const Onnx__FunctionProto *function = count->inliner->functions.items[i].proto;
        if (!count->inliner->choices[i].removed) {
            (void)oq_visit_nodes(function->node, function->n_node, count_call,
                                 (void *)(uintptr_t)count);
        }
    }
}

/* A function that was inlined and is called by nothing goes, and so do those that only it called
 * and that were inlined with it. */
static enum onnxptq_status remove_functions(struct inliner *inliner) {
    Onnx__ModelProto *model = oq_model_proto(inliner->preparation->model);
    struct call_count count = {inliner, calloc(inliner->functions.n, sizeof(bool))};
    if (count.called == NULL) {
        return oq_fail_memory(inliner->error, "functions");
    }
    for (bool more = true; more;) {
        more = false;
        count_calls(&count);
        for (size_t i = 0; i < inliner->functions.n; i++) {
            struct oq_inline_choice *choice = &inliner->choices[i];
            if (choice->n_calls > 0 && !count.called[i] && !choice->removed) {
                choice->removed = more = true;
            }
        }
    }
    free(count.called);
    size_t kept = 0;
    for (size_t i = 0; i < inliner->functions.n; i++) {
        if (!inliner->choices[i].removed) {
            model->functions[kept++] = inliner->functions.items[i].proto;
        }
    }
    model->n_functions = kept;
    return ONNXPTQ_OK;
}

/* ---- All together --------------------------------------------------------------------------- */

static void tell(const struct inliner *inliner) {
    for (size_t i = 0; i < inliner->functions.n; i++) {
        const Onnx__FunctionProto *function = inliner->functions.items[i].proto;
        const size_t n = inliner->choices[i].n_calls;
        if (n > 0) {
            oq_preparation_note(inliner->preparation,
                                "%zu call%s of function %s::%s inlined: ranges differ from call to "
                                "call",
                                n, n == 1 ? "" : "s", oq_text(function->domain),
                                oq_text(function->name));
        }
    }
}

static bool inlines_any(const struct inliner *inliner) {
    for (size_t i = 0; i < inliner->functions.n; i++) {
        if (inliner->choices[i].inlined) {
            return true;
        }
    }
    return false;
}

static enum onnxptq_status run(struct inliner *inliner) {
    Onnx__GraphProto *graph = oq_model_proto(inliner->preparation->model)->graph;
    OQ_TRY(oq_inline_choose(inliner->preparation, &inliner->functions, inliner->choices,
                            inliner->error));
    if (!inlines_any(inliner)) {
        return ONNXPTQ_OK;
    }
    OQ_TRY(rewrite_graph(inliner, graph, 0));
    OQ_TRY(remove_functions(inliner));
    tell(inliner);
    return ONNXPTQ_OK;
}

enum onnxptq_status oq_prepare_inline(struct oq_preparation *preparation,
                                      struct onnxptq_error *error) {
    struct inliner inliner = {.preparation = preparation, .error = error};
    OQ_TRY(oq_functions_init(&inliner.functions, preparation->model, error));
    if (inliner.functions.n == 0) {
        return ONNXPTQ_OK;
    }
    inliner.choices =
        oq_arena_array(preparation->scratch, inliner.functions.n, sizeof *inliner.choices);
    const enum onnxptq_status status =
        inliner.choices == NULL ? oq_fail_memory(error, "functions") : run(&inliner);
    oq_functions_reset(&inliner.functions);
    return status;
}
