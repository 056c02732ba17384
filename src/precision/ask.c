/*
 * Asking the runtime: a model of one node, with its own attributes and small constants, its float32
 * tensors declared as half precision. What loads, runs.
 */
#include "precision/decide.h"

#include "base/number.h"
#include "model/tensor.h"
#include "runtime/session.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SMALL 64 /* elements of a constant that goes along: axes, sizes, pads */

struct stub {
    const struct oq_precision_decider *decider;
    struct oq_arena *arena;
    Onnx__GraphProto graph;
    Onnx__NodeProto node;
};

static int half_type(const struct stub *stub, const struct oq_node *node, size_t input) {
    return node != NULL && oq_precision_keeps_input(node, input) ? ONNXPTQ_TYPE_FLOAT
                                                                 : (int)stub->decider->spec->type;
}

/* A declaration without shape. */
static Onnx__ValueInfoProto *declare(const struct stub *stub, const char *name, int type) {
    Onnx__ValueInfoProto *info = oq_arena_alloc(stub->arena, sizeof *info);
    Onnx__TypeProto *proto = oq_arena_alloc(stub->arena, sizeof *proto);
    Onnx__TypeProto__Tensor *tensor = oq_arena_alloc(stub->arena, sizeof *tensor);
    if (info == NULL || proto == NULL || tensor == NULL) {
        return NULL;
    }
    onnx__value_info_proto__init(info);
    onnx__type_proto__init(proto);
    onnx__type_proto__tensor__init(tensor);
    tensor->has_elem_type = 1;
    tensor->elem_type = type;
    proto->value_case = ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE;
    proto->tensor_type = tensor;
    info->name = (char *)name;
    info->type = proto;
    return info;
}

/* A small constant, in half precision where it is float32; NULL: too large, or no memory. */
static Onnx__TensorProto *small_constant(const struct stub *stub, const struct oq_node *node,
                                         size_t input, const char *name) {
    const Onnx__TensorProto *constant =
        oq_graph_constant(stub->decider->graph, node->inputs[input]);
    struct oq_tensor_view view;
    if (constant == NULL ||
        oq_tensor_view(oq_graph_model(stub->decider->graph), constant, &view, NULL) != ONNXPTQ_OK ||
        view.n_elements > SMALL || view.type == ONNXPTQ_TYPE_STRING) {
        return NULL;
    }
    int type = view.type;
    const void *data = view.data;
    size_t size = view.size;
    uint8_t half[SMALL * sizeof(float)];
    if (type == ONNXPTQ_TYPE_FLOAT) {
        float values[SMALL];
        type = half_type(stub, node, input);
        oq_tensor_view_floats(&view, 0, view.n_elements, values);
        for (size_t i = 0; i < view.n_elements; i++) {
            oq_store_float(type, (double)values[i], half + i * oq_type_size(type));
        }
        data = half;
        size = view.n_elements * oq_type_size(type);
    }
    return oq_tensor_create_in(stub->arena, name, type, view.shape, view.rank, data, size);
}

static int type_now(const struct oq_precision_decider *decider, uint32_t value) {
    const Onnx__TensorProto *constant = oq_graph_constant(decider->graph, value);
    return constant != NULL ? constant->data_type : decider->spec->seen[value].type;
}

static bool add_input(struct stub *stub, const struct oq_node *node, size_t i) {
    const uint32_t value = node->inputs[i];
    char *name = oq_arena_printf(stub->arena, value == OQ_NONE ? "" : "i%zu", i);
    stub->node.input[i] = name;
    if (name == NULL || value == OQ_NONE) {
        return name != NULL;
    }
    Onnx__TensorProto *constant = small_constant(stub, node, i, name);
    if (constant != NULL) {
        stub->graph.initializer[stub->graph.n_initializer++] = constant;
        return true;
    }
    const bool is_float = stub->decider->plan->is_float[value];
    const int type = is_float ? half_type(stub, node, i) : type_now(stub->decider, value);
    stub->graph.input[stub->graph.n_input++] = declare(stub, name, type);
    return stub->graph.input[stub->graph.n_input - 1] != NULL;
}

static bool add_output(struct stub *stub, const struct oq_node *node, size_t i) {
    const uint32_t value = node->outputs[i];
    char *name = oq_arena_printf(stub->arena, value == OQ_NONE ? "" : "o%zu", i);
    stub->node.output[i] = name;
    if (name == NULL || value == OQ_NONE) {
        return name != NULL;
    }
    const bool is_float = stub->decider->plan->is_float[value];
    const int type = is_float ? half_type(stub, NULL, 0) : type_now(stub->decider, value);
    stub->graph.output[stub->graph.n_output++] = declare(stub, name, type);
    return stub->graph.output[stub->graph.n_output - 1] != NULL;
}

/* The node's `to`, or the type of its `value`, follows. */
static bool retype_attributes(struct stub *stub) {
    for (size_t i = 0; i < stub->node.n_attribute; i++) {
        Onnx__AttributeProto *attribute = stub->node.attribute[i];
        const bool is_cast = strcmp(stub->node.op_type, "Cast") == 0 &&
                             strcmp(oq_text(attribute->name), "to") == 0 &&
                             attribute->i == ONNXPTQ_TYPE_FLOAT;
        if (!is_cast) {
            continue;
        }
        Onnx__AttributeProto *copy = oq_arena_alloc(stub->arena, sizeof *copy);
        if (copy == NULL) {
            return false;
        }
        *copy = *attribute;
        copy->i = (int64_t)stub->decider->spec->type;
        stub->node.attribute[i] = copy;
    }
    return true;
}

static bool fill(struct stub *stub, const struct oq_node *node) {
    const Onnx__NodeProto *proto = node->proto;
    char *nothing = oq_arena_strdup(stub->arena, "stub");
    onnx__graph_proto__init(&stub->graph);
    stub->node = *proto;
    stub->node.name = nothing;
    stub->node.input = oq_arena_array(stub->arena, proto->n_input, sizeof(char *));
    stub->node.output = oq_arena_array(stub->arena, proto->n_output, sizeof(char *));
    stub->node.attribute = oq_arena_array(stub->arena, proto->n_attribute, sizeof(void *));
    stub->graph.input = oq_arena_array(stub->arena, proto->n_input, sizeof(void *));
    stub->graph.initializer = oq_arena_array(stub->arena, proto->n_input, sizeof(void *));
    stub->graph.output = oq_arena_array(stub->arena, proto->n_output, sizeof(void *));
    if (!nothing || !stub->node.input || !stub->node.output || !stub->node.attribute ||
        !stub->graph.input || !stub->graph.initializer || !stub->graph.output) {
        return false;
    }
    memcpy(stub->node.attribute, proto->attribute, proto->n_attribute * sizeof(void *));
    bool done = retype_attributes(stub);
    for (size_t i = 0; done && i < proto->n_input; i++) {
        done = add_input(stub, node, i);
    }
    for (size_t i = 0; done && i < proto->n_output; i++) {
        done = add_output(stub, node, i);
    }
    stub->graph.name = nothing;
    return done;
}

static uint8_t *pack(struct stub *stub, size_t *size) {
    const Onnx__ModelProto *own = oq_model_proto(oq_graph_model(stub->decider->graph));
    Onnx__ModelProto model = ONNX__MODEL_PROTO__INIT;
    Onnx__NodeProto *nodes[] = {&stub->node};
    stub->graph.node = nodes;
    stub->graph.n_node = 1;
    model.graph = &stub->graph;
    model.has_ir_version = 1;
    model.ir_version = own->ir_version < 4 ? 4 : own->ir_version;
    model.opset_import = own->opset_import;
    model.n_opset_import = own->n_opset_import;
    *size = onnx__model_proto__get_packed_size(&model);
    uint8_t *bytes = malloc(*size);
    if (bytes != NULL) {
        onnx__model_proto__pack(&model, bytes);
    }
    return bytes;
}

/* What is left of the runtime's sentence: its first line. */
static const char *refusal(struct oq_precision_decider *decider, const char *message) {
    const char *fact = strstr(message, "half precision: ");
    fact = fact != NULL ? fact + strlen("half precision: ") : message;
    const size_t length = strcspn(fact, "\n");
    char *text = oq_arena_printf(decider->plan->arena,
                                 "the runtime does not take it in half precision: %.*s",
                                 (int)(length < 200 ? length : 200), fact);
    return text != NULL ? text : "the runtime does not take it in half precision";
}

/* A provider without kernels of the type is no obstacle to the provider that the result is for,
 * where types are those of bfloat16, which no CPU has. */
static bool lacks_kernel_only(const struct oq_precision_decider *decider, const char *message) {
    return decider->spec->type == ONNXPTQ_TYPE_BFLOAT16 &&
           strstr(message, "Could not find an implementation") != NULL;
}

static enum onnxptq_status offer(struct oq_precision_decider *decider, uint32_t node,
                                 const char **reason, struct onnxptq_error *error) {
    struct stub stub = {.decider = decider, .arena = oq_arena_create()};
    struct oq_session_spec spec = {.optimization = OQ_OPTIMIZE_NONE, .purpose = "half precision"};
    struct oq_session *session = NULL;
    struct onnxptq_error answer = {0};
    uint8_t *bytes = NULL;
    if (stub.arena != NULL && fill(&stub, oq_graph_node(decider->graph, node))) {
        bytes = pack(&stub, &spec.size);
    }
    oq_arena_destroy(stub.arena);
    if (bytes == NULL) {
        return oq_fail_memory(error, "a question to the runtime");
    }
    spec.model = bytes;
    const enum onnxptq_status status =
        oq_session_create(decider->spec->runtime, &spec, &session, &answer);
    oq_session_destroy(session);
    free(bytes);
    if (status == ONNXPTQ_OK || lacks_kernel_only(decider, answer.message)) {
        *reason = NULL;
        return ONNXPTQ_OK;
    }
    if (status != ONNXPTQ_ERROR_RUNTIME) {
        return oq_fail(error, status, "%s", answer.message);
    }
    *reason = refusal(decider, answer.message);
    return ONNXPTQ_OK;
}

/* Operator and types: nodes alike get one answer. NULL: out of memory. */
static char *signature(const struct oq_precision_decider *decider, const struct oq_node *node) {
    char *text = oq_arena_printf(decider->plan->arena, "%s", node->op_name);
    for (size_t i = 0; text != NULL && i < node->proto->n_input + node->proto->n_output; i++) {
        const bool is_input = i < node->proto->n_input;
        const uint32_t value = is_input ? node->inputs[i] : node->outputs[i - node->proto->n_input];
        const int type = value == OQ_NONE                 ? -1
                         : decider->plan->is_float[value] ? 0
                                                          : type_now(decider, value);
        text = oq_arena_printf(decider->plan->arena, "%s%c%d", text, is_input ? ',' : '>', type);
    }
    return text;
}

enum onnxptq_status oq_precision_ask(struct oq_precision_decider *decider, uint32_t node,
                                     const char **reason, struct onnxptq_error *error) {
    const char *key = signature(decider, oq_graph_node(decider->graph, node));
    size_t known = 0;
    if (key == NULL) {
        return oq_fail_memory(error, "a question to the runtime");
    }
    if (oq_map_get_name(decider->answers, key, &known)) {
        *reason = known == 0 ? NULL : decider->refusals[known - 1];
        return ONNXPTQ_OK;
    }
    OQ_TRY(offer(decider, node, reason, error));
    if (*reason != NULL) {
        void *refusals = decider->refusals;
        if (!oq_grow(&refusals, &decider->capacity_refusals, decider->n_refusals + 1,
                     sizeof *decider->refusals)) {
            return oq_fail_memory(error, "the runtime's answers");
        }
        decider->refusals = refusals;
        decider->refusals[decider->n_refusals++] = *reason;
        known = decider->n_refusals;
    }
    return oq_map_put_name(decider->answers, key, known)
               ? ONNXPTQ_OK
               : oq_fail_memory(error, "the runtime's answers");
}
