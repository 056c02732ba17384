/*
 * Unique names; declared in edit.h.
 */
#include "base/map.h"
#include "model/edit.h"
#include "model/walk.h"

#include <stdlib.h>

struct oq_names {
    struct oq_arena *arena;  /* the model's */
    struct oq_map *taken;    /* name -> 0 */
    struct oq_map *suffixes; /* base -> the number to try next */
};

/* Statuses only end the walk; the caller reports memory by returning NULL. */
static enum onnxptq_status take(struct oq_names *names, const char *name) {
    if (name == NULL || name[0] == '\0' || oq_map_put_name(names->taken, name, 0)) {
        return ONNXPTQ_OK;
    }
    return ONNXPTQ_ERROR_MEMORY;
}

static enum onnxptq_status take_infos(struct oq_names *names, Onnx__ValueInfoProto *const *infos,
                                      size_t n) {
    for (size_t i = 0; i < n; i++) {
        OQ_TRY(take(names, infos[i]->name));
    }
    return ONNXPTQ_OK;
}

static enum onnxptq_status take_texts(struct oq_names *names, char *const *texts, size_t n) {
    for (size_t i = 0; i < n; i++) {
        OQ_TRY(take(names, texts[i]));
    }
    return ONNXPTQ_OK;
}

static enum onnxptq_status take_graph(void *user, Onnx__GraphProto *graph,
                                      struct onnxptq_error *error) {
    (void)error;
    OQ_TRY(take_infos(user, graph->input, graph->n_input));
    OQ_TRY(take_infos(user, graph->output, graph->n_output));
    return take_infos(user, graph->value_info, graph->n_value_info);
}

static enum onnxptq_status take_function(void *user, Onnx__FunctionProto *function,
                                         struct onnxptq_error *error) {
    (void)error;
    OQ_TRY(take_texts(user, function->input, function->n_input));
    return take_texts(user, function->output, function->n_output);
}

static enum onnxptq_status take_node(void *user, Onnx__NodeProto *node,
                                     struct onnxptq_error *error) {
    (void)error;
    OQ_TRY(take(user, node->name));
    OQ_TRY(take_texts(user, node->input, node->n_input));
    return take_texts(user, node->output, node->n_output);
}

static enum onnxptq_status take_tensor(void *user, const struct oq_tensor_site *site,
                                       Onnx__TensorProto *tensor, struct onnxptq_error *error) {
    (void)site;
    (void)error;
    return take(user, tensor->name);
}

struct oq_names *oq_names_create(const struct oq_model *model) {
    struct oq_names *names = calloc(1, sizeof *names);
    if (names == NULL) {
        return NULL;
    }
    names->arena = oq_model_arena(model);
    names->taken = oq_map_create();
    names->suffixes = oq_map_create();
    const struct oq_visitor visitor = {.user = names,
                                       .graph = take_graph,
                                       .function = take_function,
                                       .node = take_node,
                                       .tensor = take_tensor};
    if (names->taken == NULL || names->suffixes == NULL ||
        oq_walk_model(oq_model_proto(model), &visitor, NULL) != ONNXPTQ_OK) {
        oq_names_destroy(names);
        return NULL;
    }
    return names;
}

void oq_names_destroy(struct oq_names *names) {
    if (names != NULL) {
        oq_map_destroy(names->taken);
        oq_map_destroy(names->suffixes);
        free(names);
    }
}

const char *oq_names_unique(struct oq_names *names, const char *base) {
    const char *own_base = oq_arena_strdup(names->arena, base);
    if (own_base == NULL) {
        return NULL;
    }
    const char *name = own_base;
    size_t next = 1;
    (void)oq_map_get_name(names->suffixes, base, &next);
    while (name[0] == '\0' || oq_map_get_name(names->taken, name, NULL)) {
        name = oq_arena_printf(names->arena, "%s_%zu", base, next++);
        if (name == NULL) {
            return NULL;
        }
    }
    if (!oq_map_put_name(names->suffixes, own_base, next) ||
        !oq_map_put_name(names->taken, name, 0)) {
        return NULL;
    }
    return name;
}
