/*
 * Visiting all of a model; see walk.h. Nesting was bounded when the model was read.
 */
#include "model/walk.h"

#include <stdio.h>

struct walk {
    const struct oq_visitor *visitor;
    struct onnxptq_error *error;
};

static enum onnxptq_status walk_graph(const struct walk *walk, Onnx__GraphProto *graph);

static enum onnxptq_status visit_tensor(const struct walk *walk, const struct oq_tensor_site *site,
                                        Onnx__TensorProto *tensor) {
    if (walk->visitor->tensor == NULL || tensor == NULL) {
        return ONNXPTQ_OK;
    }
    return walk->visitor->tensor(walk->visitor->user, site, tensor, walk->error);
}

static enum onnxptq_status walk_sparse(const struct walk *walk, struct oq_tensor_site site,
                                       Onnx__SparseTensorProto *sparse) {
    site.sparse = true;
    if (sparse == NULL) {
        return ONNXPTQ_OK;
    }
    OQ_TRY(visit_tensor(walk, &site, sparse->values));
    return visit_tensor(walk, &site, sparse->indices);
}

static enum onnxptq_status walk_attribute(const struct walk *walk, struct oq_tensor_site site,
                                          Onnx__AttributeProto *attribute) {
    site.attribute = oq_text(attribute->name);
    OQ_TRY(visit_tensor(walk, &site, attribute->t));
    for (size_t i = 0; i < attribute->n_tensors; i++) {
        OQ_TRY(visit_tensor(walk, &site, attribute->tensors[i]));
    }
    OQ_TRY(walk_sparse(walk, site, attribute->sparse_tensor));
    for (size_t i = 0; i < attribute->n_sparse_tensors; i++) {
        OQ_TRY(walk_sparse(walk, site, attribute->sparse_tensors[i]));
    }
    OQ_TRY(walk_graph(walk, attribute->g));
    for (size_t i = 0; i < attribute->n_graphs; i++) {
        OQ_TRY(walk_graph(walk, attribute->graphs[i]));
    }
    return ONNXPTQ_OK;
}

static enum onnxptq_status walk_nodes(const struct walk *walk, const char *graph,
                                      Onnx__NodeProto *const *nodes, size_t n) {
    for (size_t i = 0; i < n; i++) {
        if (walk->visitor->node != NULL) {
            OQ_TRY(walk->visitor->node(walk->visitor->user, nodes[i], walk->error));
        }
        const struct oq_tensor_site site = {graph, nodes[i], NULL, false};
        for (size_t j = 0; j < nodes[i]->n_attribute; j++) {
            OQ_TRY(walk_attribute(walk, site, nodes[i]->attribute[j]));
        }
    }
    return ONNXPTQ_OK;
}

static enum onnxptq_status walk_graph(const struct walk *walk, Onnx__GraphProto *graph) {
    if (graph == NULL) {
        return ONNXPTQ_OK;
    }
    if (walk->visitor->graph != NULL) {
        OQ_TRY(walk->visitor->graph(walk->visitor->user, graph, walk->error));
    }
    const struct oq_tensor_site site = {oq_text(graph->name), NULL, NULL, false};
    for (size_t i = 0; i < graph->n_initializer; i++) {
        OQ_TRY(visit_tensor(walk, &site, graph->initializer[i]));
    }
    for (size_t i = 0; i < graph->n_sparse_initializer; i++) {
        OQ_TRY(walk_sparse(walk, site, graph->sparse_initializer[i]));
    }
    return walk_nodes(walk, site.graph, graph->node, graph->n_node);
}

static enum onnxptq_status walk_function(const struct walk *walk, Onnx__FunctionProto *function) {
    if (walk->visitor->function != NULL) {
        OQ_TRY(walk->visitor->function(walk->visitor->user, function, walk->error));
    }
    const struct oq_tensor_site site = {oq_text(function->name), NULL, NULL, false};
    for (size_t i = 0; i < function->n_attribute_proto; i++) {
        OQ_TRY(walk_attribute(walk, site, function->attribute_proto[i]));
    }
    return walk_nodes(walk, site.graph, function->node, function->n_node);
}

enum onnxptq_status oq_walk_model(Onnx__ModelProto *model, const struct oq_visitor *visitor,
                                  struct onnxptq_error *error) {
    const struct walk walk = {visitor, error};
    OQ_TRY(walk_graph(&walk, model->graph));
    for (size_t i = 0; i < model->n_functions; i++) {
        OQ_TRY(walk_function(&walk, model->functions[i]));
    }
    for (size_t i = 0; i < model->n_training_info; i++) {
        OQ_TRY(walk_graph(&walk, model->training_info[i]->initialization));
        OQ_TRY(walk_graph(&walk, model->training_info[i]->algorithm));
    }
    return ONNXPTQ_OK;
}

/* ---- Nodes alone ---- */

static bool visit_bodies(const Onnx__AttributeProto *attribute,
                         bool (*visit)(void *user, Onnx__NodeProto *node), void *user) {
    if (attribute->g != NULL &&
        !oq_visit_nodes(attribute->g->node, attribute->g->n_node, visit, user)) {
        return false;
    }
    for (size_t i = 0; i < attribute->n_graphs; i++) {
        const Onnx__GraphProto *graph = attribute->graphs[i];
        if (!oq_visit_nodes(graph->node, graph->n_node, visit, user)) {
            return false;
        }
    }
    return true;
}

bool oq_visit_nodes(Onnx__NodeProto *const *nodes, size_t n,
                    bool (*visit)(void *user, Onnx__NodeProto *node), void *user) {
    for (size_t i = 0; i < n; i++) {
        if (!visit(user, nodes[i])) {
            return false;
        }
        for (size_t j = 0; j < nodes[i]->n_attribute; j++) {
            if (!visit_bodies(nodes[i]->attribute[j], visit, user)) {
                return false;
            }
        }
    }
    return true;
}

/* ---- Names ---- */

static const char *first_output(const Onnx__NodeProto *node) {
    const char *output = "";
    for (size_t i = 0; i < node->n_output && output[0] == '\0'; i++) {
        output = oq_text(node->output[i]);
    }
    return output;
}

const char *oq_node_name(struct oq_arena *arena, const Onnx__NodeProto *node) {
    return oq_text(node->name)[0] != '\0' ? node->name
                                          : oq_arena_printf(arena, "@%s", first_output(node));
}

void oq_node_text(const Onnx__NodeProto *node, char *text, size_t size) {
    const bool named = oq_text(node->name)[0] != '\0';
    snprintf(text, size, "%s%s", named ? "" : "@", named ? node->name : first_output(node));
}

const char *oq_operator_name(struct oq_arena *arena, const char *domain, const char *type) {
    return oq_is_default_domain(domain) ? oq_text(type)
                                        : oq_arena_printf(arena, "%s::%s", domain, oq_text(type));
}

void oq_tensor_site_text(const struct oq_tensor_site *site, const Onnx__TensorProto *tensor,
                         char *text, size_t size) {
    const char *kind = site->sparse ? "sparse " : "";
    if (site->attribute == NULL) {
        snprintf(text, size, "%sinitializer '%s'", kind, oq_text(tensor->name));
        return;
    }
    if (site->node == NULL) {
        snprintf(text, size, "%stensor in default of attribute '%s' of function '%s'", kind,
                 site->attribute, site->graph);
        return;
    }
    char node[256];
    oq_node_text(site->node, node, sizeof node);
    snprintf(text, size, "%stensor in attribute '%s' of node '%s'", kind, site->attribute, node);
}
