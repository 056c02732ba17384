/*
 * Applying a plan of half precision: names, Casts, types. It decides nothing.
 */
#include "precision/retype.h"

#include "precision/decide.h"

#include <stdlib.h>
#include <string.h>

bool oq_retype_reads_half(const struct oq_retyper *retyper, uint32_t node, size_t input) {
    const struct oq_node *n = oq_graph_node(retyper->graph, node);
    return n->inputs[input] != OQ_NONE && retyper->plan->is_float[n->inputs[input]] &&
           retyper->plan->nodes[node].half && !oq_precision_keeps_input(n, input);
}

/* ---- Who wants what ---- */

/* An initializer that the caller may replace is no constant. */
static bool is_constant(const struct oq_retyper *retyper, uint32_t id, bool inputs_are_constants) {
    const struct oq_value *value = oq_graph_value(retyper->graph, id);
    return retyper->plan->is_float[id] && oq_graph_constant(retyper->graph, id) != NULL &&
           (!value->is_input || inputs_are_constants);
}

/* An output that must stay float32: of the model, unless native, and of every body. */
static bool is_boundary(const struct oq_retyper *retyper, const struct oq_value *value) {
    return value->is_output && (value->scope > 0 || value->captured || !retyper->plan->native_io);
}

static void find_wants(struct oq_retyper *retyper, bool inputs_are_constants) {
    for (uint32_t i = 0; i < oq_graph_n_values(retyper->graph); i++) {
        const struct oq_value *value = oq_graph_value(retyper->graph, i);
        struct oq_retyped *retyped = &retyper->values[i];
        retyped->constant = is_constant(retyper, i, inputs_are_constants);
        retyped->wants_float = retyped->constant ? value->is_output : is_boundary(retyper, value);
        for (uint32_t k = 0; k < value->n_uses; k++) {
            const bool half =
                oq_retype_reads_half(retyper, value->uses[k].node, value->uses[k].input);
            retyped->wants_half |= half;
            retyped->wants_float |= !half;
        }
    }
}

/* ---- Casts that nothing is left for ---- */

static bool is_cast(const struct oq_node *node) {
    return oq_is_default_domain(node->proto->domain) && strcmp(node->proto->op_type, "Cast") == 0 &&
           node->proto->n_input == 1 && node->proto->n_output == 1 && node->inputs[0] != OQ_NONE &&
           node->outputs[0] != OQ_NONE;
}

/* A Cast of the model that would turn half precision into the same: from a float32 value that is
 * half now, or to float32 from one that always was. */
static bool is_idle(const struct oq_retyper *retyper, uint32_t id) {
    const struct oq_node *node = oq_graph_node(retyper->graph, id);
    const struct oq_precision_plan *plan = retyper->plan;
    if (!is_cast(node) || oq_graph_value(retyper->graph, node->outputs[0])->is_output) {
        return false;
    }
    const bool from_float = plan->is_float[node->inputs[0]];
    const bool to_float = plan->is_float[node->outputs[0]];
    if (from_float) {
        return oq_attribute_int(node->proto, "to", 0) == (int64_t)plan->type &&
               plan->is_half[node->inputs[0]] && plan->nodes[id].half;
    }
    const struct oq_value *input = oq_graph_value(retyper->graph, node->inputs[0]);
    const uint32_t before = input->producer;
    return to_float && plan->nodes[id].half && before != OQ_NONE &&
           is_cast(oq_graph_node(retyper->graph, before)) &&
           oq_attribute_int(oq_graph_node(retyper->graph, before)->proto, "to", 0) ==
               (int64_t)plan->type;
}

/* ---- Names ---- */

static const char *unique(struct oq_retyper *retyper, const char *name, const char *suffix) {
    char *text = oq_arena_printf(retyper->plan->arena, "%s%s", name, suffix);
    return text == NULL ? NULL : oq_names_unique(retyper->names, text);
}

static bool name_value(struct oq_retyper *retyper, uint32_t id) {
    const struct oq_value *value = oq_graph_value(retyper->graph, id);
    struct oq_retyped *retyped = &retyper->values[id];
    const char *suffix = retyper->plan->type == ONNXPTQ_TYPE_FLOAT16 ? "_float16" : "_bfloat16";
    retyped->half_name = retyped->float_name = value->name;
    if (!retyper->plan->is_float[id]) {
        return true;
    }
    if (retyped->constant || !retyper->plan->is_half[id]) {
        const bool both = retyped->wants_half && (retyped->wants_float || !retyped->constant);
        retyped->half_name = both ? unique(retyper, value->name, suffix) : value->name;
    } else if (is_boundary(retyper, value)) {
        retyped->half_name = unique(retyper, value->name, suffix);
    } else if (retyped->wants_float) {
        retyped->float_name = unique(retyper, value->name, "_float32");
    }
    return retyped->half_name != NULL && retyped->float_name != NULL;
}

/* Readers of an idle Cast read what it read. */
static void look_through_casts(struct oq_retyper *retyper) {
    for (uint32_t id = 0; id < oq_graph_n_nodes(retyper->graph); id++) {
        const struct oq_node *node = oq_graph_node(retyper->graph, id);
        if (!is_idle(retyper, id)) {
            continue;
        }
        const struct oq_retyped *from = &retyper->values[node->inputs[0]];
        struct oq_retyped *to = &retyper->values[node->outputs[0]];
        to->half_name = from->half_name;
        if (!retyper->plan->is_float[node->outputs[0]]) {
            to->float_name = from->half_name; /* the name of a value that is not float32 */
        }
        retyper->removed[id] = true;
    }
}

/* ---- Casts ---- */

static bool needs_cast(const struct oq_retyper *retyper, uint32_t id) {
    const struct oq_retyped *retyped = &retyper->values[id];
    return retyper->plan->is_float[id] && !retyped->constant &&
           (retyper->plan->is_half[id] ? retyped->wants_float : retyped->wants_half);
}

static bool make_cast(struct oq_retyper *retyper, uint32_t id) {
    struct oq_retyped *retyped = &retyper->values[id];
    const bool to_float = retyper->plan->is_half[id];
    const char *from = to_float ? retyped->half_name : retyped->float_name;
    const char *to = to_float ? retyped->float_name : retyped->half_name;
    const char *name = unique(retyper, to, "_Cast");
    const int type = to_float ? (int)ONNXPTQ_TYPE_FLOAT : (int)retyper->plan->type;
    retyped->cast =
        name == NULL ? NULL : oq_node_create(retyper->model, name, "", "Cast", &from, 1, &to, 1);
    retyper->counts->casts++;
    return retyped->cast != NULL && oq_node_set_int(retyper->model, retyped->cast, "to", type);
}

/* ---- The nodes ---- */

static bool rewire_node(struct oq_retyper *retyper, uint32_t id) {
    const struct oq_node *node = oq_graph_node(retyper->graph, id);
    struct oq_arena *arena = oq_model_arena(retyper->model);
    for (size_t i = 0; i < node->proto->n_input; i++) {
        if (node->inputs[i] == OQ_NONE) {
            continue;
        }
        const struct oq_retyped *value = &retyper->values[node->inputs[i]];
        node->proto->input[i] = oq_arena_strdup(
            arena, oq_retype_reads_half(retyper, id, i) ? value->half_name : value->float_name);
        if (node->proto->input[i] == NULL) {
            return false;
        }
    }
    bool done = true;
    for (size_t i = 0; done && i < node->proto->n_output; i++) {
        const uint32_t value = node->outputs[i];
        if (value != OQ_NONE && retyper->plan->is_half[value]) {
            node->proto->output[i] = oq_arena_strdup(arena, retyper->values[value].half_name);
            done = node->proto->output[i] != NULL;
            if (done && is_cast(node)) {
                done = oq_node_set_int(retyper->model, node->proto, "to",
                                       (int64_t)retyper->plan->type);
            }
        }
    }
    return done;
}

static size_t add_casts_of(const struct oq_retyper *retyper, const struct oq_node *node,
                           Onnx__NodeProto **list, size_t n) {
    for (size_t i = 0; i < node->proto->n_output; i++) {
        const uint32_t value = node->outputs[i];
        if (value != OQ_NONE && retyper->values[value].cast != NULL) {
            list[n++] = retyper->values[value].cast;
        }
    }
    return n;
}

/* Casts of what a graph is given come first, others right behind the producer. */
static bool list_nodes(struct oq_retyper *retyper, uint32_t scope, Onnx__NodeProto **list) {
    size_t n = 0;
    for (uint32_t i = 0; i < oq_graph_n_values(retyper->graph); i++) {
        const struct oq_value *value = oq_graph_value(retyper->graph, i);
        if (value->scope == scope && value->producer == OQ_NONE &&
            retyper->values[i].cast != NULL) {
            list[n++] = retyper->values[i].cast;
        }
    }
    for (uint32_t id = 0; id < oq_graph_n_nodes(retyper->graph); id++) {
        const struct oq_node *node = oq_graph_node(retyper->graph, id);
        if (node->scope != scope) {
            continue;
        }
        if (!retyper->removed[id]) {
            list[n++] = node->proto;
        }
        n = add_casts_of(retyper, node, list, n);
    }
    return oq_graph_set_nodes(retyper->model, oq_graph_scope(retyper->graph, scope)->proto, list,
                              n);
}

static enum onnxptq_status edit_nodes(struct oq_retyper *retyper, struct onnxptq_error *error) {
    const size_t room = (size_t)oq_graph_n_nodes(retyper->graph) + retyper->counts->casts;
    Onnx__NodeProto **list = oq_arena_array(retyper->plan->arena, room, sizeof(void *));
    bool done = list != NULL;
    for (uint32_t id = 0; done && id < oq_graph_n_nodes(retyper->graph); id++) {
        done = rewire_node(retyper, id);
    }
    for (uint32_t scope = 0; done && scope < oq_graph_n_scopes(retyper->graph); scope++) {
        done = list_nodes(retyper, scope, list);
    }
    return done ? ONNXPTQ_OK : oq_fail_memory(error, "a model in half precision");
}

/* ---- Declared types ---- */

static bool is_half_under_own_name(const struct oq_retyper *retyper, uint32_t id) {
    const struct oq_retyped *retyped = &retyper->values[id];
    const bool half = retyped->constant ? retyped->wants_half && !retyped->wants_float
                                        : retyper->plan->is_half[id];
    return half && strcmp(retyped->half_name, oq_graph_value(retyper->graph, id)->name) == 0;
}

static void retype_infos(const struct oq_retyper *retyper, uint32_t scope,
                         Onnx__ValueInfoProto **infos, size_t n) {
    for (size_t i = 0; i < n; i++) {
        const char *name = oq_text(infos[i]->name);
        const uint32_t value = oq_graph_find_value(retyper->graph, scope, name);
        Onnx__TypeProto *type = infos[i]->type;
        if (value != OQ_NONE && is_half_under_own_name(retyper, value) && type != NULL &&
            type->value_case == ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE &&
            oq_graph_value(retyper->graph, value)->scope == scope) {
            type->tensor_type->elem_type = (int32_t)retyper->plan->type;
        }
    }
}

static void retype_declarations(const struct oq_retyper *retyper) {
    for (uint32_t scope = 0; scope < oq_graph_n_scopes(retyper->graph); scope++) {
        const Onnx__GraphProto *graph = oq_graph_scope(retyper->graph, scope)->proto;
        retype_infos(retyper, scope, graph->value_info, graph->n_value_info);
        retype_infos(retyper, scope, graph->input, graph->n_input);
        retype_infos(retyper, scope, graph->output, graph->n_output);
    }
}

/* ---- All ---- */

static enum onnxptq_status retype(struct oq_retyper *retyper, struct onnxptq_error *error) {
    const uint32_t n_values = oq_graph_n_values(retyper->graph);
    const bool old_ir = oq_model_proto(retyper->model)->ir_version < OQ_IR_FREE_INITIALIZERS;
    find_wants(retyper, old_ir);
    bool done = !old_ir || oq_model_free_initializers(retyper->model);
    for (uint32_t i = 0; done && i < n_values; i++) {
        done = name_value(retyper, i);
    }
    if (done) {
        look_through_casts(retyper);
    }
    for (uint32_t i = 0; done && i < n_values; i++) {
        done = !needs_cast(retyper, i) || make_cast(retyper, i);
    }
    if (!done) {
        return oq_fail_memory(error, "a model in half precision");
    }
    OQ_TRY(oq_retype_convert_constants(retyper, error));
    OQ_TRY(edit_nodes(retyper, error));
    OQ_TRY(oq_retype_place_constants(retyper, error));
    retype_declarations(retyper);
    return oq_retype_drop_unread(retyper, error);
}

enum onnxptq_status oq_precision_apply(struct oq_model *model, const struct oq_graph *graph,
                                       const struct oq_precision_plan *plan,
                                       const char *beside_path, struct oq_precision_counts *counts,
                                       struct onnxptq_error *error) {
    struct oq_arena *arena = plan->arena;
    *counts = (struct oq_precision_counts){0};
    struct oq_retyper retyper = {
        .model = model,
        .graph = graph,
        .plan = plan,
        .names = oq_names_create(model),
        .spill = oq_spill_create(beside_path, arena),
        .values = oq_arena_array(arena, oq_graph_n_values(graph), sizeof *retyper.values),
        .removed = oq_arena_array(arena, oq_graph_n_nodes(graph), sizeof(bool)),
        .counts = counts};
    const enum onnxptq_status status =
        retyper.names && retyper.spill && retyper.values && retyper.removed
            ? retype(&retyper, error)
            : oq_fail_memory(error, "a model in half precision");
    oq_spill_destroy(retyper.spill);
    oq_names_destroy(retyper.names);
    return status;
}
