/*
 * Adding observers to the copy of the model that the session gets.
 */
#include "calib/watch_model.h"

#include "calib/session_copy.h"
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

/* ---- Observers ---- */

struct watched {
    uint32_t scope, producer, value;
    size_t slot;
};

/* Last produced first: the runtime then runs each observer right behind the producer; the other way
 * round it runs all of them at the end and every tensor stays in memory until then. Inputs come
 * last. */
static int compare_watched(const void *a, const void *b) {
    const struct watched *one = a, *other = b;
    if (one->scope != other->scope) {
        return one->scope < other->scope ? -1 : 1;
    }
    uint32_t first = one->producer == OQ_NONE ? 0 : one->producer + 1;
    uint32_t second = other->producer == OQ_NONE ? 0 : other->producer + 1;
    if (first != second) {
        return first > second ? -1 : 1;
    }
    return one->slot < other->slot ? 1 : one->slot > other->slot ? -1 : 0;
}

static struct watched *order_values(const struct oq_graph *graph, const uint32_t *values, size_t n,
                                    size_t *n_watched) {
    struct watched *watched = calloc(n > 0 ? n : 1, sizeof *watched);
    size_t used = 0;
    if (watched == NULL) {
        return NULL;
    }
    for (size_t i = 0; i < n; i++) {
        if (values[i] == OQ_NONE) {
            continue;
        }
        const struct oq_value *value = oq_graph_value(graph, values[i]);
        watched[used++] = (struct watched){value->scope, value->producer, values[i], i};
    }
    qsort(watched, used, sizeof *watched, compare_watched);
    *n_watched = used;
    return watched;
}

static bool add_observer(struct oq_model *model, const struct oq_graph *copy,
                         const struct watched *watched) {
    char name[64];
    (void)snprintf(name, sizeof name, NODE_PREFIX "%zu", watched->slot);
    const char *const inputs[] = {oq_graph_value(copy, watched->value)->name};
    Onnx__NodeProto *node =
        oq_node_create(model, name, OQ_OBSERVE_DOMAIN, OQ_OBSERVE_TYPE, inputs, 1, NULL, 0);
    return node != NULL && oq_node_set_int(model, node, "slot", (int64_t)watched->slot) &&
           oq_graph_append_node(model, oq_graph_scope(copy, watched->scope)->proto, node);
}

static bool edit_model(struct oq_model *model, const struct oq_graph *copy,
                       const struct watched *watched, size_t n) {
    for (size_t i = 0; i < n; i++) {
        if (!add_observer(model, copy, &watched[i])) {
            return false;
        }
    }
    return oq_model_import_opset(model, OQ_OBSERVE_DOMAIN, 1);
}

/* The copy's own index has the ids of the original's, since both hold the same graphs. */
static enum onnxptq_status add_observers(struct oq_model *model, const struct oq_watch_spec *spec,
                                         const uint32_t *values, struct onnxptq_error *error) {
    struct oq_graph *copy = NULL;
    size_t n = 0;
    OQ_TRY(oq_graph_build(model, &copy, error));
    struct watched *watched = order_values(copy, values, spec->n_values, &n);
    bool done = watched != NULL && edit_model(model, copy, watched, n);
    free(watched);
    oq_graph_destroy(copy);
    return done ? ONNXPTQ_OK : oq_fail_memory(error, "the observers of a model");
}

enum onnxptq_status oq_watch_model_create(const struct oq_watch_spec *spec, const uint32_t *values,
                                          struct oq_model **out, struct onnxptq_error *error) {
    struct oq_model *model = NULL;
    OQ_TRY(oq_session_copy_create(oq_graph_model(spec->graph), spec->runtime, spec->shapes, &model,
                                  error));
    enum onnxptq_status status = add_observers(model, spec, values, error);
    if (status != ONNXPTQ_OK) {
        oq_model_destroy(model);
        return status;
    }
    *out = model;
    return ONNXPTQ_OK;
}
