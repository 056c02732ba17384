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

struct oq_selection {
    struct oq_arena *arena;
    const struct onnxptq_quantize_options *options; /* borrowed */
    struct choice *choices;                         /* one per node of the graph */
    uint32_t n_nodes;
    bool by_type, by_name; /* op_types, nodes are given */
};

/* What one list of the options does to the nodes that it matches. */
struct list {
    const char *option; /* for messages */
    const char *const *items;
    size_t n;
    bool exclude, types;
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
        *(list->types ? &choice->named_type : &choice->named_name) = true;
        return ONNXPTQ_OK;
    }
    if (choice->excluded != NULL) {
        return ONNXPTQ_OK;
    }
    choice->excluded = oq_arena_printf(builder->selection->arena, "excluded by the %s '%s'",
                                       list->types ? "operator type" : "name pattern", item);
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
                   item, list->types ? "operator of the model" : "node", names,
                   list->types ? "" : " (a pattern must match the whole name)");
}

/* ---- Operator types ---- */

/* "domain::Type" or "Type". */
struct type_name {
    const char *domain; /* NULL: none was given */
    size_t domain_length;
    const char *type;
};

static struct type_name parse_type(const char *text) {
    struct type_name name = {.type = text};
    for (const char *at = strstr(text, "::"); at != NULL; at = strstr(at + 1, "::")) {
        name = (struct type_name){text, (size_t)(at - text), at + 2};
    }
    return name;
}

static bool same_domain(const struct type_name *name, const char *domain) {
    char given[64];
    if (domain != NULL && strlen(domain) == name->domain_length &&
        memcmp(domain, name->domain, name->domain_length) == 0) {
        return true;
    }
    if (name->domain_length >= sizeof given) {
        return false;
    }
    memcpy(given, name->domain, name->domain_length);
    given[name->domain_length] = '\0';
    return oq_is_default_domain(given) && oq_is_default_domain(domain);
}

static bool type_matches(const struct type_name *name, const Onnx__NodeProto *node) {
    if (node->op_type == NULL || strcmp(node->op_type, name->type) != 0) {
        return false;
    }
    if (name->domain != NULL) {
        return same_domain(name, node->domain);
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
    struct type_name name = parse_type(item);
    bool any = false;
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

static const char *trim(struct oq_arena *arena, const char *text, size_t length) {
    while (length > 0 && (*text == ' ' || *text == '\t')) {
        text++, length--;
    }
    while (length > 0 && (text[length - 1] == ' ' || text[length - 1] == '\t')) {
        length--;
    }
    return oq_arena_strndup(arena, text, length);
}

/* Names between commas. */
static enum onnxptq_status apply_types(const struct builder *builder, const struct list *list,
                                       const char *items) {
    for (const char *at = items; at != NULL;) {
        const char *comma = strchr(at, ',');
        size_t length = comma != NULL ? (size_t)(comma - at) : strlen(at);
        const char *item = trim(builder->selection->arena, at, length);
        if (item == NULL) {
            return oq_fail_memory(builder->error, "the selection");
        }
        if (*item == '\0') {
            return oq_fail(
                builder->error, ONNXPTQ_ERROR_USAGE,
                "cannot apply %s '%s': it has an empty name; write types between commas, "
                "like Conv,MatMul",
                list->option, items);
        }
        OQ_TRY(apply_type(builder, list, item));
        at = comma != NULL ? comma + 1 : NULL;
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
        OQ_TRY(list->types ? apply_types(builder, list, list->items[i])
                           : apply_pattern(builder, list, list->items[i]));
    }
    return ONNXPTQ_OK;
}

static enum onnxptq_status apply_options(const struct builder *builder,
                                         const struct onnxptq_quantize_options *options) {
    const struct list lists[] = {
        {"--op-types", options->op_types, options->n_op_types, false, true},
        {"--nodes", options->nodes, options->n_nodes, false, false},
        {"--exclude-op-types", options->exclude_op_types, options->n_exclude_op_types, true, true},
        {"--exclude-nodes", options->exclude_nodes, options->n_exclude_nodes, true, false},
    };
    builder->selection->by_type = options->n_op_types > 0;
    builder->selection->by_name = options->n_nodes > 0;
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
    selection->options = options;
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

/* True when a list of op types, commas between them, names the node's type. */
static bool list_names_type(const char *const *items, size_t n, const Onnx__NodeProto *node) {
    const char *type = node->op_type == NULL ? "" : node->op_type;
    for (size_t i = 0; i < n; i++) {
        for (const char *at = items[i]; at != NULL;) {
            const char *comma = strchr(at, ',');
            size_t length = comma != NULL ? (size_t)(comma - at) : strlen(at);
            char item[256];
            while (length > 0 && (*at == ' ' || *at == '\t')) {
                at++, length--;
            }
            while (length > 0 && (at[length - 1] == ' ' || at[length - 1] == '\t')) {
                length--;
            }
            if (length < sizeof item && length >= strlen(type)) {
                memcpy(item, at, length);
                item[length] = '\0';
                struct type_name name = parse_type(item);
                if (type_matches(&name, node)) {
                    return true;
                }
            }
            at = comma != NULL ? comma + 1 : NULL;
        }
    }
    return false;
}

/* The choice of a node from the body of an inlined function. */
static struct choice choice_of_inlined(const struct oq_selection *selection, struct choice call,
                                       const Onnx__NodeProto *node) {
    const struct onnxptq_quantize_options *o = selection->options;
    call.named_type |= list_names_type(o->op_types, o->n_op_types, node);
    if (call.excluded == NULL &&
        list_names_type(o->exclude_op_types, o->n_exclude_op_types, node)) {
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
    projected->options = selection->options;
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
