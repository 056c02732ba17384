/*
 * Raising the opset, one version at a time; see opset.h.
 */
#include "prepare/opset.h"

#include "prepare/opset_table.h"

#include <stdlib.h>
#include <string.h>

/* ---- One version ---- */

/* A local function may bear the name of an operator. */
static bool is_local_function(const struct oq_opset_edit *edit, const char *type) {
    const Onnx__ModelProto *proto = oq_model_proto(edit->model);
    for (size_t i = 0; i < proto->n_functions; i++) {
        const Onnx__FunctionProto *function = proto->functions[i];
        if (oq_is_default_domain(function->domain) && function->name != NULL &&
            strcmp(function->name, type) == 0) {
            return true;
        }
    }
    return false;
}

/* How a node has to be converted when its body gets that version, or NULL. */
static oq_opset_conversion *find_conversion(const struct oq_opset_body *body,
                                            const Onnx__NodeProto *node, int64_t version) {
    if (node->op_type == NULL || !oq_is_default_domain(node->domain)) {
        return NULL;
    }
    const struct oq_opset_change *change = oq_opset_find_change(node->op_type, version);
    if (change == NULL || change->convert == NULL || is_local_function(body->edit, node->op_type)) {
        return NULL;
    }
    return change->convert;
}

static bool has_conversion(const struct oq_opset_body *body, int64_t version) {
    for (size_t i = 0; i < body->n_nodes; i++) {
        if (find_conversion(body, body->nodes[i], version) != NULL) {
            return true;
        }
    }
    return false;
}

static enum onnxptq_status convert_body(struct oq_opset_body *body, int64_t version,
                                        struct onnxptq_error *error) {
    if (!has_conversion(body, version)) {
        return ONNXPTQ_OK;
    }
    body->replaced = body->nodes;
    body->n_replaced = body->n_nodes;
    body->nodes = NULL;
    body->n_nodes = body->capacity_nodes = 0;
    for (size_t i = 0; i < body->n_replaced && !body->edit->out_of_memory; i++) {
        Onnx__NodeProto *node = body->replaced[i];
        oq_opset_conversion *convert = find_conversion(body, node, version);
        if (convert == NULL) {
            oq_opset_emit(body, node);
            continue;
        }
        OQ_TRY(convert(body, oq_opset_copy_node(body, node), error));
    }
    free(body->replaced);
    body->replaced = NULL;
    body->n_replaced = 0;
    return body->edit->out_of_memory ? oq_fail_memory(error, "the opset conversion") : ONNXPTQ_OK;
}

static enum onnxptq_status convert_bodies(struct oq_opset_edit *edit, struct onnxptq_error *error) {
    for (int64_t version = OQ_OPSET_OLDEST + 1; version <= edit->target; version++) {
        for (size_t i = 0; i < edit->n_bodies; i++) {
            const int64_t present = edit->bodies[i]->version;
            if (present != 0 && present < version) {
                OQ_TRY(convert_body(edit->bodies[i], version, error));
            }
        }
    }
    return ONNXPTQ_OK;
}

/* ---- The model ---- */

static enum onnxptq_status check_versions(const struct oq_opset_edit *edit,
                                          struct onnxptq_error *error) {
    if (edit->target < OQ_OPSET_OLDEST || edit->target > OQ_OPSET_NEWEST) {
        return oq_fail(error, ONNXPTQ_ERROR_UNSUPPORTED,
                       "cannot convert to opset %lld: only versions %d to %d are known",
                       (long long)edit->target, OQ_OPSET_OLDEST, OQ_OPSET_NEWEST);
    }
    for (size_t i = 0; i < edit->n_bodies; i++) {
        const struct oq_opset_body *body = edit->bodies[i];
        if (body->version != 0 && body->version < OQ_OPSET_OLDEST) {
            return oq_fail(error, ONNXPTQ_ERROR_UNSUPPORTED,
                           "cannot convert %s '%s' from opset %lld to %lld: only versions from %d "
                           "on are known; export the model again with a later opset",
                           body->function != NULL ? "function" : "graph",
                           body->function != NULL ? body->function->name : body->graph->name,
                           (long long)body->version, (long long)edit->target, OQ_OPSET_OLDEST);
        }
    }
    return ONNXPTQ_OK;
}

static void raise_imports(Onnx__OperatorSetIdProto *const *imports, size_t n, int64_t version) {
    for (size_t i = 0; i < n; i++) {
        if (oq_is_default_domain(imports[i]->domain) && imports[i]->version < version) {
            imports[i]->version = version;
            imports[i]->has_version = 1;
        }
    }
}

static bool is_initializer(const Onnx__GraphProto *graph, const struct oq_map *names,
                           size_t input) {
    const char *name = graph->input[input]->name;
    return name != NULL && oq_map_get_name(names, name, NULL);
}

/* Up to IR version 3 initializers had to be listed as inputs, and were constants all the same. */
static void unlist_initializers(Onnx__GraphProto *graph, const struct oq_map *initializers) {
    size_t kept = 0;
    for (size_t i = 0; i < graph->n_input; i++) {
        if (!is_initializer(graph, initializers, i)) {
            graph->input[kept++] = graph->input[i];
        }
    }
    graph->n_input = kept;
}

/* The oldest IR version that a model of this version of the default domain may have. */
static int64_t ir_version_of(int64_t opset) {
    /* The first release of ONNX with an opset, and the IR version of that release. */
    static const struct {
        int64_t opset, ir_version;
    } releases[] = {{7, 3},  {9, 4},   {10, 5},  {11, 6},  {12, 7}, {15, 8},
                    {19, 9}, {21, 10}, {23, 11}, {24, 12}, {25, 13}};
    int64_t ir_version = 3;
    for (size_t i = 0; i < sizeof releases / sizeof *releases; i++) {
        ir_version = opset >= releases[i].opset ? releases[i].ir_version : ir_version;
    }
    return ir_version;
}

/* Cannot fail: from here on the model is changed. */
static void raise_versions(const struct oq_opset_edit *edit) {
    Onnx__ModelProto *proto = oq_model_proto(edit->model);
    const int64_t ir_version = ir_version_of(edit->target);
    raise_imports(proto->opset_import, proto->n_opset_import, edit->target);
    for (size_t i = 0; i < proto->n_functions; i++) {
        raise_imports(proto->functions[i]->opset_import, proto->functions[i]->n_opset_import,
                      edit->target);
    }
    if (proto->ir_version >= ir_version) {
        return;
    }
    if (proto->ir_version < OQ_IR_FREE_INITIALIZERS && ir_version >= OQ_IR_FREE_INITIALIZERS &&
        proto->graph != NULL) {
        unlist_initializers(proto->graph, edit->bodies[0]->tensors);
    }
    proto->has_ir_version = 1;
    proto->ir_version = ir_version;
}

static bool is_raised(const struct oq_opset_edit *edit) {
    for (size_t i = 0; i < edit->n_bodies; i++) {
        if (edit->bodies[i]->version != 0 && edit->bodies[i]->version < edit->target) {
            return true;
        }
    }
    return false;
}

enum onnxptq_status oq_opset_raise(struct oq_model *model, int64_t version,
                                   struct onnxptq_error *error) {
    struct oq_opset_edit edit;
    enum onnxptq_status status;
    OQ_TRY_DONE(oq_opset_edit_init(&edit, model, version, error));
    OQ_TRY_DONE(check_versions(&edit, error));
    if (is_raised(&edit)) {
        OQ_TRY_DONE(convert_bodies(&edit, error));
        OQ_TRY_DONE(oq_opset_edit_commit(&edit, error));
        raise_versions(&edit);
    }
done:
    oq_opset_edit_release(&edit);
    return status;
}
