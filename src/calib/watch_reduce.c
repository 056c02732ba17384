/*
 * Standard operators of version 13 and later, which every provider has:
 *
 *   magnitude = Abs(x)                                 x as float; double stays double
 *   finite = Less(magnitude, infinity), near = Less(magnitude, limit): false for NaN
 *   numbers = Equal(x, x)
 *   min = ReduceMin(Where(finite, x, infinity)), and so on; counts are sums of casts
 *
 * Every tensor that is reduced is joined with the neutral element first, since what a reduction of
 * nothing gives differs between versions. With two of them: OpenVINO takes an extreme behind a
 * Concat of two tensors for that of the two, element by element.
 */
#include "calib/watch_reduce.h"

#include "calib/minmax.h"
#include "model/tensor.h"
#include "runtime/session.h"

#include <math.h>
#include <stdio.h>

enum constant { INFINITE, LOWEST, LIMIT, LIMIT_F16, FLAT, ZERO, N_CONSTANTS };

bool oq_reducer_knows(int type) {
    return type == ONNXPTQ_TYPE_FLOAT || type == ONNXPTQ_TYPE_DOUBLE ||
           type == ONNXPTQ_TYPE_FLOAT16 || type == ONNXPTQ_TYPE_BFLOAT16;
}

/* ---- Constants, in the main graph, which every body sees ---- */

/* Those of integers serve all types. */
static bool is_integer(enum constant which) {
    return which == FLAT || which == ZERO;
}

static double number_of(enum constant which) {
    switch (which) {
    case INFINITE: return (double)INFINITY;
    case LOWEST: return -(double)INFINITY;
    case LIMIT: return OQ_FAR_LEAST;
    case LIMIT_F16: return OQ_FAR_LEAST_F16;
    case FLAT: return -1; /* Reshape to one dimension */
    case ZERO:
    case N_CONSTANTS: return 0;
    }
    return 0;
}

static Onnx__TensorProto *make_integer(struct oq_reducer *reducer, const char *name,
                                       double number) {
    const int64_t shape[] = {1}, integer = (int64_t)number;
    return oq_tensor_create(reducer->model, name, ONNXPTQ_TYPE_INT64, shape, 1, &integer,
                            sizeof integer);
}

static Onnx__TensorProto *make_float(struct oq_reducer *reducer, const char *name, int type,
                                     double number) {
    const int64_t shape[] = {1};
    const float single = (float)number;
    bool wide = type == ONNXPTQ_TYPE_DOUBLE;
    return oq_tensor_create(reducer->model, name, type, shape, 1,
                            wide ? (const void *)&number : (const void *)&single,
                            wide ? sizeof number : sizeof single);
}

/* The name of a constant; NULL when out of memory. */
static const char *constant(struct oq_reducer *reducer, enum constant which, int type) {
    const char **name = &reducer->constants[type == ONNXPTQ_TYPE_DOUBLE][which];
    if (*name != NULL) {
        return *name;
    }
    const char *unique = oq_names_unique(reducer->names, "onnxptq_constant");
    if (unique == NULL) {
        return NULL;
    }
    Onnx__TensorProto *tensor = is_integer(which)
                                    ? make_integer(reducer, unique, number_of(which))
                                    : make_float(reducer, unique, type, number_of(which));
    Onnx__GraphProto *graph = oq_model_proto(reducer->model)->graph;
    if (tensor == NULL || !oq_graph_add_initializer(reducer->model, graph, tensor)) {
        return NULL;
    }
    *name = unique;
    return unique;
}

/* ---- Nodes ---- */

struct chain {
    struct oq_reducer *reducer;
    Onnx__GraphProto *graph;
    const char *stem; /* of the names of its nodes and tensors */
    int type;         /* in which it is computed */
    bool failed;
};

/* A node of up to three inputs and one output, whose name is returned; `attribute` may be NULL.
 * After a failure all names are empty. */
static const char *add(struct chain *chain, const char *op, const char *const inputs[3],
                       const char *attribute, int64_t number) {
    struct oq_model *model = chain->reducer->model;
    size_t n = 0;
    while (n < 3 && inputs[n] != NULL) {
        n++;
    }
    const char *output = oq_names_unique(chain->reducer->names, chain->stem);
    Onnx__NodeProto *node = output != NULL && !chain->failed
                                ? oq_node_create(model, output, "", op, inputs, n, &output, 1)
                                : NULL;
    if (node == NULL || (attribute != NULL && !oq_node_set_int(model, node, attribute, number)) ||
        !oq_graph_append_node(model, chain->graph, node)) {
        chain->failed = true;
        return "";
    }
    return output;
}

static const char *add_1(struct chain *chain, const char *op, const char *input) {
    return add(chain, op, (const char *const[3]){input}, NULL, 0);
}

static const char *add_2(struct chain *chain, const char *op, const char *one, const char *other) {
    return add(chain, op, (const char *const[3]){one, other}, NULL, 0);
}

static const char *cast(struct chain *chain, const char *input, int type) {
    return add(chain, "Cast", (const char *const[3]){input}, "to", type);
}

static const char *constant_in(struct chain *chain, enum constant which) {
    const char *name = constant(chain->reducer, which, chain->type);
    chain->failed = chain->failed || name == NULL;
    return name != NULL ? name : "";
}

/* `op` over all elements and the neutral one. */
static const char *reduce(struct chain *chain, const char *op, const char *input,
                          enum constant which) {
    const char *neutral = constant_in(chain, which);
    const char *flat = add_2(chain, "Reshape", input, constant_in(chain, FLAT));
    const char *joined =
        add(chain, "Concat", (const char *const[3]){flat, neutral, neutral}, "axis", 0);
    return add_1(chain, op, joined);
}

/* `op` over the elements of `x` where `mask` holds. */
static const char *extreme(struct chain *chain, const char *op, const char *mask, const char *x,
                           enum constant neutral) {
    const char *kept =
        add(chain, "Where", (const char *const[3]){mask, x, constant_in(chain, neutral)}, NULL, 0);
    return reduce(chain, op, kept, neutral);
}

static const char *count(struct chain *chain, const char *mask) {
    return reduce(chain, "ReduceSum", cast(chain, mask, ONNXPTQ_TYPE_INT64), ZERO);
}

static const char *join(struct chain *chain, const char *const *parts, size_t n) {
    const char *joined = parts[0];
    for (size_t i = 1; i < n; i++) {
        joined = add(chain, "Concat", (const char *const[3]){joined, parts[i]}, "axis", 0);
    }
    return joined;
}

static bool add_observer(struct chain *chain, const char *name, const char *const inputs[3],
                         int type, int64_t slot) {
    struct oq_model *model = chain->reducer->model;
    Onnx__NodeProto *node = chain->failed
                                ? NULL
                                : oq_node_create(model, name, OQ_OWN_DOMAIN,
                                                 OQ_OBSERVE_REDUCED_TYPE, inputs, 3, NULL, 0);
    return node != NULL && oq_node_set_int(model, node, "slot", slot) &&
           oq_node_set_int(model, node, "type", type) &&
           oq_graph_append_node(model, chain->graph, node);
}

bool oq_reducer_add(struct oq_reducer *reducer, Onnx__GraphProto *graph, const char *value,
                    int type, const char *name, int64_t slot) {
    bool wide = type == ONNXPTQ_TYPE_DOUBLE;
    char stem[80];
    (void)snprintf(stem, sizeof stem, "%s_part", name);
    bool native = wide || type == ONNXPTQ_TYPE_FLOAT;
    struct chain chain = {.reducer = reducer,
                          .graph = graph,
                          .stem = stem,
                          .type = wide ? ONNXPTQ_TYPE_DOUBLE : ONNXPTQ_TYPE_FLOAT};
    const char *shape = add_1(&chain, "Shape", value);
    const char *x = native ? value : cast(&chain, value, ONNXPTQ_TYPE_FLOAT);
    const char *magnitude = add_1(&chain, "Abs", x);
    enum constant limit = type == ONNXPTQ_TYPE_FLOAT16 ? LIMIT_F16 : LIMIT;
    const char *finite = add_2(&chain, "Less", magnitude, constant_in(&chain, INFINITE));
    const char *near = add_2(&chain, "Less", magnitude, constant_in(&chain, limit));
    const char *far = add_2(&chain, "And", finite, add_1(&chain, "Not", near));
    const char *extremes[] = {extreme(&chain, "ReduceMin", finite, x, INFINITE),
                              extreme(&chain, "ReduceMax", finite, x, LOWEST),
                              extreme(&chain, "ReduceMin", near, x, INFINITE),
                              extreme(&chain, "ReduceMax", near, x, LOWEST),
                              extreme(&chain, "ReduceMin", far, magnitude, INFINITE)};
    const char *counts[] = {count(&chain, finite), count(&chain, near),
                            count(&chain, add_2(&chain, "Equal", x, x))};
    const char *inputs[] = {shape, join(&chain, extremes, 5), join(&chain, counts, 3)};
    return add_observer(&chain, name, inputs, type, slot);
}
