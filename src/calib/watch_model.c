/*
 * Adding observers to the copy of the model that the session gets.
 */
#include "calib/watch_model.h"

#include "calib/marks.h"
#include "calib/session_copy.h"
#include "calib/watch_reduce.h"
#include "model/edit.h"
#include "model/value_info.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NODE_PREFIX "onnxptq_observe_"

/* ---- Values that are no tensors ---- */

static const Onnx__TypeProto *declared_type(Onnx__ValueInfoProto *const *infos, size_t n,
                                            const char *name) {
    const Onnx__ValueInfoProto *info = oq_value_info_find(infos, n, name);
    return info == NULL ? NULL : info->type;
}

static bool is_no_tensor(const Onnx__TypeProto *type) {
    return type != NULL && type->value_case != ONNX__TYPE_PROTO__VALUE__NOT_SET &&
           type->value_case != ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE;
}

bool oq_watch_model_is_no_tensor(const struct oq_graph *graph, uint32_t value_id) {
    /* What else may give a sequence (If, Identity, ...) is left to the runtime's answer. */
    static const char *const producers[] = {"Optional",       "SequenceConstruct", "SequenceEmpty",
                                            "SequenceErase",  "SequenceInsert",    "SequenceMap",
                                            "SplitToSequence"};
    const struct oq_value *value = oq_graph_value(graph, value_id);
    const Onnx__GraphProto *scope = oq_graph_scope(graph, value->scope)->proto;
    if (value->is_input) {
        return is_no_tensor(declared_type(scope->input, scope->n_input, value->name));
    }
    if (value->producer == OQ_NONE) {
        return value->sparse_initializer != NULL;
    }
    const Onnx__NodeProto *node = oq_graph_node(graph, value->producer)->proto;
    if (!oq_is_default_domain(node->domain)) {
        return false;
    }
    for (size_t i = 0; i < sizeof producers / sizeof producers[0]; i++) {
        if (strcmp(node->op_type, producers[i]) == 0) {
            return true;
        }
    }
    return false;
}

size_t oq_watch_model_blamed_slot(const char *message, size_t n_slots) {
    const char *at = strstr(message, NODE_PREFIX);
    if (at == NULL) {
        return SIZE_MAX;
    }
    unsigned long long slot = strtoull(at + strlen(NODE_PREFIX), NULL, 10);
    return slot < n_slots ? (size_t)slot : SIZE_MAX;
}

/* ---- Sinks: observers, and marks around nodes ---- */

struct sink {
    uint32_t scope;
    uint64_t place;             /* in a run: later ones are larger */
    const struct oq_mark *mark; /* NULL: an observer */
    size_t slot;
    uint32_t value;
};

/* Inputs come first, outputs last; around a node run "begins", "has ended", its results' observers.
 */
#define PLACE_INPUT 0
#define PLACE_OUTPUT UINT64_MAX
static uint64_t place_of(uint32_t node, enum oq_mark_kind kind) {
    return ((uint64_t)node + 1) * 4 + (uint64_t)kind;
}

/* Last produced first: the runtime then runs each sink right behind the producer (marks.h); the
 * other way round it runs all of them at the end and every tensor stays in memory until then. */
static int compare_sinks(const void *a, const void *b) {
    const struct sink *one = a, *other = b;
    if (one->scope != other->scope) {
        return one->scope < other->scope ? -1 : 1;
    }
    if (one->place != other->place) {
        return one->place > other->place ? -1 : 1;
    }
    return one->slot < other->slot ? 1 : one->slot > other->slot ? -1 : 0;
}

static struct sink observer_sink(const struct oq_graph *graph, uint32_t id, size_t slot) {
    const struct oq_value *value = oq_graph_value(graph, id);
    return (struct sink){.scope = value->scope,
                         .place = value->producer == OQ_NONE
                                      ? PLACE_INPUT
                                      : place_of(value->producer, OQ_MARK_OUTPUT),
                         .slot = slot,
                         .value = id};
}

static struct sink mark_sink(const struct oq_graph *graph, const struct oq_mark *mark,
                             size_t slot) {
    bool output = mark->kind == OQ_MARK_OUTPUT;
    return (struct sink){.scope = output ? oq_graph_value(graph, mark->value)->scope
                                         : oq_graph_node(graph, mark->node)->scope,
                         .place = output ? PLACE_OUTPUT : place_of(mark->node, mark->kind),
                         .mark = mark,
                         .slot = slot,
                         .value = mark->value};
}

/* `values` has n entries. NULL when out of memory. */
static struct sink *order_sinks(const struct oq_graph *graph, const uint32_t *values, size_t n,
                                const struct oq_mark *marks, size_t n_marks, size_t *n_sinks) {
    struct sink *sinks = calloc(n + n_marks + 1, sizeof *sinks);
    size_t used = 0;
    for (size_t i = 0; sinks != NULL && i < n; i++) {
        if (values[i] != OQ_NONE) {
            sinks[used++] = observer_sink(graph, values[i], i);
        }
    }
    for (size_t i = 0; sinks != NULL && i < n_marks; i++) {
        sinks[used++] = mark_sink(graph, &marks[i], i);
    }
    if (sinks != NULL) {
        qsort(sinks, used, sizeof *sinks, compare_sinks);
    }
    *n_sinks = used;
    return sinks;
}

static bool is_reduced(const struct oq_watch_spec *spec, const bool *unreduced,
                       const struct sink *sink) {
    const struct oq_statistics *seen = spec->reduce != NULL ? &spec->reduce[sink->value] : NULL;
    return seen != NULL && (unreduced == NULL || !unreduced[sink->slot]) && seen->seen > 0 &&
           !seen->type_varies && oq_reducer_knows(seen->type);
}

/* The model being made, and its own index, which has the ids of the original's, since both hold the
 * same graphs. */
struct making {
    const struct oq_watch_spec *spec;
    const bool *unreduced;
    struct oq_model *model;
    struct oq_graph *graph;
    struct oq_reducer reducer;
};

static bool add_observer(struct making *making, const struct sink *sink) {
    struct oq_model *model = making->model;
    Onnx__GraphProto *graph = oq_graph_scope(making->graph, sink->scope)->proto;
    const char *const inputs[] = {oq_graph_value(making->graph, sink->value)->name};
    char name[64];
    (void)snprintf(name, sizeof name, NODE_PREFIX "%zu", sink->slot);
    if (is_reduced(making->spec, making->unreduced, sink)) {
        if (making->reducer.names == NULL) {
            making->reducer = (struct oq_reducer){.model = model, .names = oq_names_create(model)};
        }
        return making->reducer.names != NULL &&
               oq_reducer_add(&making->reducer, graph, inputs[0],
                              making->spec->reduce[sink->value].type, name, (int64_t)sink->slot);
    }
    Onnx__NodeProto *node =
        oq_node_create(model, name, OQ_OWN_DOMAIN, OQ_OBSERVE_TYPE, inputs, 1, NULL, 0);
    return node != NULL && oq_node_set_int(model, node, "slot", (int64_t)sink->slot) &&
           oq_graph_append_node(model, graph, node);
}

static bool add_sinks(struct making *making, const uint32_t *values, const struct oq_mark *marks,
                      size_t n_marks) {
    size_t n = 0;
    struct sink *sinks =
        order_sinks(making->graph, values, making->spec->n_values, marks, n_marks, &n);
    bool done = sinks != NULL && oq_model_import_opset(making->model, OQ_OWN_DOMAIN, 1);
    for (size_t i = 0; i < n && done; i++) {
        done = sinks[i].mark == NULL ? add_observer(making, &sinks[i])
                                     : oq_mark_append(making->model, making->graph,
                                                      making->spec->runtime, sinks[i].mark);
    }
    free(sinks);
    return done;
}

static enum onnxptq_status edit_model(struct making *making, const uint32_t *values,
                                      struct onnxptq_error *error) {
    struct oq_mark *marks = NULL;
    size_t n_marks = 0;
    OQ_TRY(oq_graph_build(making->model, &making->graph, error));
    enum onnxptq_status status =
        oq_marks_list(making->graph, making->spec->runtime, true, &marks, &n_marks, error);
    if (status == ONNXPTQ_OK && !add_sinks(making, values, marks, n_marks)) {
        status = oq_fail_memory(error, "the observers of a model");
    }
    free(marks);
    oq_names_destroy(making->reducer.names);
    oq_graph_destroy(making->graph);
    return status;
}

enum onnxptq_status oq_watch_model_create(const struct oq_watch_spec *spec, const uint32_t *values,
                                          const bool *unreduced, struct oq_model **out,
                                          struct onnxptq_error *error) {
    struct oq_model *model = NULL;
    OQ_TRY(oq_session_copy_create(oq_graph_model(spec->graph), spec->runtime, spec->shapes, &model,
                                  error));
    struct making making = {.spec = spec, .unreduced = unreduced, .model = model};
    enum onnxptq_status status = edit_model(&making, values, error);
    if (status != ONNXPTQ_OK) {
        oq_model_destroy(model);
        return status;
    }
    *out = model;
    return ONNXPTQ_OK;
}
