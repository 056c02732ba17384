/*
 * The local functions of a model; see functions.h.
 */
#include "prepare/functions.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Calls inside calls: bodies are worked on recursively. */
#define MAX_HEIGHT 64

enum mark { UNSEEN, OPEN, KNOWN };

/* ---- Operators ------------------------------------------------------------------------------ */

static bool is_random(const Onnx__NodeProto *node) {
    static const char *const types[] = {"Bernoulli",        "Multinomial",   "RandomNormal",
                                        "RandomNormalLike", "RandomUniform", "RandomUniformLike"};
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        if (strcmp(node->op_type, types[i]) == 0) {
            return true;
        }
    }
    /* Its third input switches training on. */
    return strcmp(node->op_type, "Dropout") == 0 && node->n_input > 2 &&
           oq_text(node->input[2])[0] != '\0';
}

static bool has_bodies(const Onnx__NodeProto *node) {
    for (size_t i = 0; i < node->n_attribute; i++) {
        if (node->attribute[i]->g != NULL || node->attribute[i]->n_graphs > 0) {
            return true;
        }
    }
    return false;
}

bool oq_node_is_pure(const Onnx__NodeProto *node) {
    if (!oq_is_default_domain(node->domain) || node->op_type == NULL ||
        !oq_operator_is_onnx(node->op_type)) {
        return false;
    }
    const struct oq_operator *op = oq_operator_find("", node->op_type);
    const bool quantized =
        op != NULL && (op->role == OQ_ROLE_QUANTIZE || op->role == OQ_ROLE_CONTROL);
    return !quantized && !is_random(node) && !has_bodies(node);
}

/* ---- The table ------------------------------------------------------------------------------ */

static bool make_key(char *key, size_t size, const char *domain, const char *name,
                     const char *overload) {
    const int length = snprintf(key, size, "%s\n%s\n%s", oq_is_default_domain(domain) ? "" : domain,
                                oq_text(name), oq_text(overload));
    return length >= 0 && (size_t)length < size;
}

/* Names are short but need not be: what does not fit is made on the heap. */
static bool with_key(const struct oq_functions *functions, const char *domain, const char *name,
                     const char *overload, size_t *index, bool put) {
    char short_key[256];
    char *key = short_key;
    size_t size = sizeof short_key;
    if (!make_key(key, size, domain, name, overload)) {
        size = strlen(oq_text(domain)) + strlen(oq_text(name)) + strlen(oq_text(overload)) + 3;
        key = malloc(size);
        if (key == NULL || !make_key(key, size, domain, name, overload)) {
            free(key);
            return false;
        }
    }
    const bool done = put ? oq_map_put_copy(functions->index, key, strlen(key), *index)
                          : oq_map_get(functions->index, key, strlen(key), index);
    if (key != short_key) {
        free(key);
    }
    return done;
}

struct oq_function *oq_functions_called(const struct oq_functions *functions,
                                        const Onnx__NodeProto *node) {
    size_t index;
    if (functions->items == NULL ||
        !with_key(functions, node->domain, node->op_type, node->overload, &index, false)) {
        return NULL;
    }
    return &functions->items[index];
}

/* ---- What the bodies hold ------------------------------------------------------------------- */

struct study {
    const struct oq_functions *functions;
    struct oq_function *function;
    unsigned depth;
    struct onnxptq_error *error;
    enum onnxptq_status status;
};

static enum onnxptq_status study_function(const struct oq_functions *functions,
                                          struct oq_function *function, unsigned depth,
                                          struct onnxptq_error *error);

static bool study_call(struct study *study, struct oq_function *called) {
    struct oq_function *function = study->function;
    study->status = study_function(study->functions, called, study->depth + 1, study->error);
    if (study->status != ONNXPTQ_OK) {
        return false;
    }
    function->weighted = function->weighted || called->weighted;
    function->pure = function->pure && called->pure;
    function->height =
        called->height + 1 > function->height ? called->height + 1 : function->height;
    return true;
}

static bool study_node(void *user, Onnx__NodeProto *node) {
    struct study *study = user;
    struct oq_function *called = oq_functions_called(study->functions, node);
    if (called != NULL) {
        return study_call(study, called);
    }
    const bool standard = oq_is_default_domain(node->domain);
    const struct oq_operator *op = standard ? oq_operator_find("", oq_text(node->op_type)) : NULL;
    study->function->weighted = study->function->weighted || oq_operator_is_weighted(op);
    study->function->pure = study->function->pure && oq_node_is_pure(node);
    return true;
}

/* Both the way down and what lies below are bounded: a body may be known by the time it is called.
 */
static bool is_too_deep(const struct oq_function *function, unsigned depth) {
    return depth > MAX_HEIGHT || depth + function->height > MAX_HEIGHT;
}

static enum onnxptq_status study_function(const struct oq_functions *functions,
                                          struct oq_function *function, unsigned depth,
                                          struct onnxptq_error *error) {
    if (is_too_deep(function, depth)) {
        return oq_fail(
            error, ONNXPTQ_ERROR_UNSUPPORTED,
            "cannot use function '%s': functions call each other more than %d levels deep",
            oq_text(function->proto->name), MAX_HEIGHT);
    }
    if (function->mark == KNOWN) {
        return ONNXPTQ_OK;
    }
    if (function->mark == OPEN) {
        return oq_fail(error, ONNXPTQ_ERROR_MODEL,
                       "cannot use function '%s': it calls itself, directly or through others",
                       oq_text(function->proto->name));
    }
    struct study study = {
        .functions = functions, .function = function, .depth = depth, .error = error};
    function->mark = OPEN;
    function->pure = true;
    if (!oq_visit_nodes(function->proto->node, function->proto->n_node, study_node, &study)) {
        return study.status;
    }
    function->mark = KNOWN;
    return ONNXPTQ_OK;
}

static bool fill_table(struct oq_functions *functions, const Onnx__ModelProto *model) {
    functions->items = calloc(functions->n, sizeof *functions->items);
    functions->index = oq_map_create();
    if (functions->items == NULL || functions->index == NULL) {
        return false;
    }
    for (size_t i = 0; i < functions->n; i++) {
        const Onnx__FunctionProto *function = functions->items[i].proto = model->functions[i];
        if (!with_key(functions, function->domain, function->name, function->overload, &i, true)) {
            return false;
        }
    }
    return true;
}

enum onnxptq_status oq_functions_init(struct oq_functions *functions, const struct oq_model *model,
                                      struct onnxptq_error *error) {
    const Onnx__ModelProto *proto = oq_model_proto(model);
    *functions = (struct oq_functions){.n = proto->n_functions};
    if (functions->n == 0) {
        return ONNXPTQ_OK;
    }
    if (!fill_table(functions, proto)) {
        oq_functions_reset(functions);
        return oq_fail_memory(error, "functions");
    }
    for (size_t i = 0; i < functions->n; i++) {
        const enum onnxptq_status status =
            study_function(functions, &functions->items[i], 0, error);
        if (status != ONNXPTQ_OK) {
            oq_functions_reset(functions);
            return status;
        }
    }
    return ONNXPTQ_OK;
}

void oq_functions_reset(struct oq_functions *functions) {
    free(functions->items);
    oq_map_destroy(functions->index);
    *functions = (struct oq_functions){0};
}
