/*
 * Everything is decided once, when the selection is made; asking is a look-up.
 */
#include "quant/select.h"

#include "base/arena.h"
#include "quant/pattern.h"
#include "quant/suggest.h"

#include <stdlib.h>
#include <string.h>

struct choice {
    bool named_type, named_name; /* by op_types, nodes */
    const char *excluded;        /* the reason, or NULL */
};

/* "domain::Type" or "Type". */
struct type_name {
    const char *domain; /* NULL: none was given */
    const char *type;
};

struct type_list {
    struct type_name *names;
    size_t n, capacity;
};

struct oq_selection {
    struct oq_arena *arena;
    struct choice *choices; /* one per node of the graph */
    uint32_t n_nodes;
    struct type_list types, excluded_types; /* op_types, exclude_op_types */
    bool by_type, by_name;                  /* op_types, nodes are given */
};

/* What one list of the options does to the nodes that it matches. */
struct list {
    const char *option; /* for messages */
    const char *const *items;
    size_t n;
    bool exclude;
    struct type_list *types; /* where its operator types are kept; NULL: patterns of node names */
};

struct builder {
    struct oq_selection *selection;
    const struct oq_graph *graph;
    struct onnxptq_error *error;
};

/* ---- Applying ---- */

static enum onnxptq_status apply(const struct builder *builder, const struct list *list,
                                 const char *item, uint32_t node) {
    struct choice *choice = &builder->selection->choices[node];
    if (!list->exclude) {
        *(list->types != NULL ? &choice->named_type : &choice->named_name) = true;
        return ONNXPTQ_OK;
    }
    if (choice->excluded != NULL) {
        return ONNXPTQ_OK;
    }
    choice->excluded =
        oq_arena_printf(builder->selection->arena, "excluded by the %s '%s'",
                        list->types != NULL ? "operator type" : "name pattern", item);
    return choice->excluded != NULL ? ONNXPTQ_OK : oq_fail_memory(builder->error, "the selection");
}

/* ", 'Conv', 'Relu'" of the names kept, or that there are none. */
static enum onnxptq_status fail_no_match(const struct builder *builder, const struct list *list,
                                         const char *item, const struct oq_suggest *nearest) {
    const char *names = "";
    for (size_t i = 0; i < nearest->n && names != NULL; i++) {
        names = oq_arena_printf(builder->selection->arena, "%s%s'%s'", names, i > 0 ? ", " : "",
                                nearest->names[i]);
    }
    if (names == NULL) {
        return oq_fail_memory(builder->error, "the selection");
    }
    if (nearest->n == 0) {
        names = "none, as the model has no node";
    }
    return oq_fail(builder->error, ONNXPTQ_ERROR_USAGE,
                   "cannot apply %s '%s': it matches no %s; the nearest are %s%s", list->option,
                   item, list->types != NULL ? "operator of the model" : "node", names,
                   list->types != NULL ? "" : " (a pattern must match the whole name)");
}

/* ---- Operator types ---- */

static bool is_blank(char c) {
    return c == ' ' || c == '\t';
}

/* The text up to the next comma, without blanks around it; `*at` moves behind the comma, to NULL at
 * the end. NULL when out of memory. */
static const char *take_item(struct oq_arena *arena, const char **at) {
    const char *text = *at, *end = text + strcspn(text, ",");
    *at = *end == ',' ? end + 1 : NULL;
    while (text < end && is_blank(*text)) {
        text++;
    }
    while (text < end && is_blank(end[-1])) {
        end--;
    }
    return oq_arena_strndup(arena, text, (size_t)(end - text));
}

/* Types hold no colon, domains may. */
static bool parse_type(struct oq_arena *arena, const char *text, struct type_name *out) {
    const char *colons = NULL;
    for (const char *at = strstr(text, "::"); at != NULL; at = strstr(at + 1, "::")) {
        colons = at;
    }
    *out = (struct type_name){.type = colons != NULL ? colons + 2 : text};
    if (colons != NULL) {
        out->domain = oq_arena_strndup(arena, text, (size_t)(colons - text));
    }
    return colons == NULL || out->domain != NULL;
}

static bool add_type(struct type_list *list, struct type_name name) {
    void *names = list->names;
    if (!oq_grow(&names, &list->capacity, list->n + 1, sizeof name)) {
        return false;
    }
    list->names = names;
    list->names[list->n++] = name;
    return true;
}

static bool type_matches(const struct type_name *name, const Onnx__NodeProto *node) {
    if (strcmp(oq_text(node->op_type), name->type) != 0) {
        return false;
    }
    if (name->domain != NULL) {
        return oq_same_domain(name->domain, node->domain);
    }
    return !oq_operator_is_onnx(name->type) || oq_is_default_domain(node->domain);
}

/* Bodies of local functions are not indexed, but may be inlined later. */
static bool is_in_function(const struct oq_graph *graph, const struct type_name *name) {
    const Onnx__ModelProto *model = oq_model_proto(oq_graph_model(graph));
    for (size_t f = 0; f < model->n_functions; f++) {
        for (size_t i = 0; i < model->functions[f]->n_node; i++) {
            if (type_matches(name, model->functions[f]->node[i])) {
                return true;
            }
        }
    }
    return false;
}

static enum onnxptq_status apply_type(const struct builder *builder, const struct list *list,
                                      const char *item) {
    struct type_name name;
    bool any = false;
    if (!parse_type(builder->selection->arena, item, &name) || !add_type(list->types, name)) {
        return oq_fail_memory(builder->error, "the selection");
    }
    for (uint32_t i = 0; i < builder->selection->n_nodes; i++) {
        if (type_matches(&name, oq_graph_node(builder->graph, i)->proto)) {
            any = true;
            OQ_TRY(apply(builder, list, item, i));
        }
    }
    if (any || is_in_function(builder->graph, &name)) {
        return ONNXPTQ_OK;
    }
    struct oq_suggest nearest;
    oq_suggest_init(&nearest, item);
    for (uint32_t i = 0; i < builder->selection->n_nodes; i++) {
        oq_suggest_add(&nearest, oq_graph_node(builder->graph, i)->op_name);
    }
    return fail_no_match(builder, list, item, &nearest);
}

/* Names between commas. */
static enum onnxptq_status apply_types(const struct builder *builder, const struct list *list,
                                       const char *items) {
    for (const char *at = items; at != NULL;) {
        const char *item = take_item(builder->selection->arena, &at);
        if (item == NULL) {
            return oq_fail_memory(builder->error, "the selection");
        }
        if (*item == '\0') {
            return oq_fail(builder->error, ONNXPTQ_ERROR_USAGE,
                           "cannot apply %s '%s': it has an empty name; write types between "
                           "commas, like Conv,MatMul",
                           list->option, items);
        }
        OQ_TRY(apply_type(builder, list, item));
    }
    return ONNXPTQ_OK;
}

/* ---- Node names ---- */

static enum onnxptq_status match_nodes(const struct builder *builder, const struct list *list,
                                       const char *item, const struct oq_pattern *pattern) {
    bool any = false;
    for (uint32_t i = 0; i < builder->selection->n_nodes; i++) {
        bool matches = false;
        OQ_TRY(oq_pattern_match(pattern, oq_graph_node(builder->graph, i)->name, &matches,
                                builder->error));
        if (matches) {
            any = true;
            OQ_TRY(apply(builder, list, item, i));
        }
    }
    if (any) {
        return ONNXPTQ_OK;
    }
    struct oq_suggest nearest;
    oq_suggest_init(&nearest, item);
    for (uint32_t i = 0; i < builder->selection->n_nodes; i++) {
        oq_suggest_add(&nearest, oq_graph_node(builder->graph, i)->name);
    }
    return fail_no_match(builder, list, item, &nearest);
}

static enum onnxptq_status apply_pattern(const struct builder *builder, const struct list *list,
                                         const char *item) {
    struct oq_pattern *pattern = NULL;
    OQ_TRY(oq_prefix(builder->error, oq_pattern_create(item, &pattern, builder->error),
                     "cannot apply %s: ", list->option));
    enum onnxptq_status status = match_nodes(builder, list, item, pattern);
    oq_pattern_destroy(pattern);
    return status;
}

/* ---- The selection ---- */

static enum onnxptq_status apply_list(const struct builder *builder, const struct list *list) {
    for (size_t i = 0; i < list->n; i++) {
        OQ_TRY(list->types != NULL ? apply_types(builder, list, list->items[i])
                                   : apply_pattern(builder, list, list->items[i]));
    }
    return ONNXPTQ_OK;
}

static enum onnxptq_status apply_options(const struct builder *builder,
                                         const struct onnxptq_quantize_options *options) {
    struct oq_selection *selection = builder->selection;
    const struct list lists[] = {
        {"--op-types", options->op_types, options->n_op_types, false, &selection->types},
        {"--nodes", options->nodes, options->n_nodes, false, NULL},
        {"--exclude-op-types", options->exclude_op_types, options->n_exclude_op_types, true,
         &selection->excluded_types},
        {"--exclude-nodes", options->exclude_nodes, options->n_exclude_nodes, true, NULL},
    };
    selection->by_type = options->n_op_types > 0;
    selection->by_name = options->n_nodes > 0;
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) {
        OQ_TRY(apply_list(builder, &lists[i]));
    }
    return ONNXPTQ_OK;
}

static enum onnxptq_status make_choices(struct oq_selection *selection,
                                        const struct oq_graph *graph, struct onnxptq_error *error) {
    selection->n_nodes = oq_graph_n_nodes(graph);
    selection->arena = oq_arena_create();
    if (selection->arena != NULL) {
        selection->choices =
            oq_arena_array(selection->arena, selection->n_nodes, sizeof *selection->choices);
    }
    return selection->choices != NULL ? ONNXPTQ_OK : oq_fail_memory(error, "the selection");
}

enum onnxptq_status oq_selection_create(const struct onnxptq_quantize_options *options,
                                        const struct oq_graph *graph, struct oq_selection **out,
                                        struct onnxptq_error *error) {
    struct oq_selection *selection = calloc(1, sizeof *selection);
    if (selection == NULL) {
        return oq_fail_memory(error, "the selection");
    }
    struct builder builder = {selection, graph, error};
    enum onnxptq_status status = make_choices(selection, graph, error);
    if (status == ONNXPTQ_OK) {
        status = apply_options(&builder, options);
    }
    if (status != ONNXPTQ_OK) {
        oq_selection_destroy(selection);
        return status;
    }
    *out = selection;
    return ONNXPTQ_OK;
}

void oq_selection_destroy(struct oq_selection *selection) {
    if (selection == NULL) {
        return;
    }
    free(selection->types.names);
    free(selection->excluded_types.names);
    oq_arena_destroy(selection->arena);
    free(selection);
}

bool oq_selection_allows(const struct oq_selection *selection, uint32_t node, const char **reason) {
    if (node >= selection->n_nodes) {
        return true;
    }
    const struct choice *choice = &selection->choices[node];
    const char *why = choice->excluded;
    if (why == NULL && selection->by_type && !choice->named_type) {
        why = "its operator type is not among those to quantize";
    }
    if (why == NULL && selection->by_name && !choice->named_name) {
        why = "its name is not among those to quantize";
    }
    if (why != NULL && reason != NULL) {
        *reason = why;
    }
    return why == NULL;
}

bool oq_selection_excludes(const struct oq_selection *selection, uint32_t node) {
    return node < selection->n_nodes && selection->choices[node].excluded != NULL;
}

/* ---- Projection ---- */

static bool list_names_type(const struct type_list *list, const Onnx__NodeProto *node) {
    for (size_t i = 0; i < list->n; i++) {
        if (type_matches(&list->names[i], node)) {
            return true;
        }
    }
    return false;
}

/* The choice of a node from the body of an inlined function. */
static struct choice choice_of_inlined(const struct oq_selection *selection, struct choice call,
                                       const Onnx__NodeProto *node) {
    call.named_type |= list_names_type(&selection->types, node);
    if (call.excluded == NULL && list_names_type(&selection->excluded_types, node)) {
        call.excluded = "excluded by its operator type";
    }
    return call;
}

enum onnxptq_status oq_selection_project(const struct oq_selection *selection,
                                         const struct oq_graph *graph, struct oq_selection **out,
                                         struct onnxptq_error *error) {
    struct oq_selection *projected = calloc(1, sizeof *projected);
    if (projected == NULL) {
        return oq_fail_memory(error, "the selection");
    }
    projected->by_type = selection->by_type;
    projected->by_name = selection->by_name;
    enum onnxptq_status status = make_choices(projected, graph, error);
    if (status != ONNXPTQ_OK) {
        oq_selection_destroy(projected);
        return status;
    }
    for (uint32_t i = 0; i < projected->n_nodes; i++) {
        const struct oq_node *node = oq_graph_node(graph, i);
        struct choice origin = {.named_type = true, .named_name = true};
        if (node->origin < selection->n_nodes) {
            origin = selection->choices[node->origin];
        }
        projected->choices[i] = choice_of_inlined(selection, origin, node->proto);
    }
    *out = projected;
    return ONNXPTQ_OK;
}
