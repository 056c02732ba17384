/*
 * What goes: float constants that nobody reads any more, and the nodes behind them. First all of
 * them are marked, then each list of the model is gone through once.
 */
#include "quant/emitter.h"

/* Marks the constant behind `value` as far as nobody reads it. */
static void mark(struct oq_emitter *emitter, uint32_t value) {
    while (value != OQ_NONE && emitter->n_readers[value] == 0 && emitter->n_returns[value] == 0 &&
           !emitter->value_removed[value]) {
        const struct oq_value *unread = oq_graph_value(emitter->graph, value);
        emitter->value_removed[value] = true;
        value = OQ_NONE;
        if (unread->producer != OQ_NONE) {
            const struct oq_node *node = oq_graph_node(emitter->graph, unread->producer);
            emitter->node_removed[unread->producer] = true;
            if (node->proto->n_input > 0) { /* Identity; a Constant has none */
                value = node->inputs[0];
                emitter->n_readers[value]--;
            }
        }
    }
}

static bool is_removed(const struct oq_emitter *emitter, uint32_t scope, const char *name) {
    uint32_t value = name ? oq_graph_find_value(emitter->graph, scope, name) : OQ_NONE;
    return value != OQ_NONE && emitter->value_removed[value] &&
           oq_graph_value(emitter->graph, value)->scope == scope;
}

static void sweep_infos(const struct oq_emitter *emitter, uint32_t scope,
                        Onnx__ValueInfoProto **infos, size_t *n) {
    size_t kept = 0;
    for (size_t i = 0; i < *n; i++) {
        if (!is_removed(emitter, scope, infos[i]->name)) {
            infos[kept++] = infos[i];
        }
    }
    *n = kept;
}

static void sweep_scope(const struct oq_emitter *emitter, uint32_t scope) {
    Onnx__GraphProto *graph = oq_graph_scope(emitter->graph, scope)->proto;
    size_t kept = 0;
    for (size_t i = 0; i < graph->n_initializer; i++) {
        if (!is_removed(emitter, scope, graph->initializer[i]->name)) {
            graph->initializer[kept++] = graph->initializer[i];
        }
    }
    graph->n_initializer = kept;
    sweep_infos(emitter, scope, graph->value_info, &graph->n_value_info);
    if (scope == 0) {
        sweep_infos(emitter, scope, graph->input, &graph->n_input);
    }
}

void oq_emit_remove_unread(struct oq_emitter *emitter) {
    const struct oq_plan *plan = emitter->plan;
    if (oq_model_proto(emitter->model)->n_training_info > 0) {
        return; /* it refers to initializers by name */
    }
    for (size_t i = 0; i < plan->n_weights; i++) {
        mark(emitter, plan->weights[i].value);
    }
    for (size_t i = 0; i < plan->n_biases; i++) {
        mark(emitter, plan->biases[i].value);
    }
    for (uint32_t scope = 0; scope < oq_graph_n_scopes(emitter->graph); scope++) {
        sweep_scope(emitter, scope);
    }
}
