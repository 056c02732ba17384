/*
 * Built with the messages of the model folder; offered to the runtime by probe.c and domains.c.
 */
#include "runtime/stub.h"

#include <stdlib.h>

#define STUB_IR_VERSION 8 /* known to every runtime that we load */

static enum onnxptq_status pack_model(Onnx__GraphProto *graph, Onnx__OperatorSetIdProto **imports,
                                      size_t n_imports, uint8_t **bytes, size_t *size,
                                      struct onnxptq_error *error) {
    Onnx__ModelProto model = ONNX__MODEL_PROTO__INIT;
    model.has_ir_version = 1;
    model.ir_version = STUB_IR_VERSION;
    model.graph = graph;
    model.opset_import = imports;
    model.n_opset_import = n_imports;
    size_t n = onnx__model_proto__get_packed_size(&model);
    uint8_t *packed = malloc(n);
    if (packed == NULL) {
        return oq_fail_memory(error, "a model of one node");
    }
    *size = onnx__model_proto__pack(&model, packed);
    *bytes = packed;
    return ONNXPTQ_OK;
}

enum onnxptq_status oq_stub_operator(const struct oq_stub *stub, uint8_t **bytes, size_t *size,
                                     struct onnxptq_error *error) {
    char value[] = "value";
    char *values[] = {value};
    char end_domain[] = OQ_STUB_END_DOMAIN, end_type[] = OQ_STUB_END_TYPE, name[] = "stub";
    Onnx__NodeProto asked = ONNX__NODE_PROTO__INIT, end = ONNX__NODE_PROTO__INIT;
    asked.domain = (char *)(uintptr_t)stub->domain;
    asked.op_type = (char *)(uintptr_t)stub->type;
    asked.output = values;
    asked.n_output = 1;
    end.domain = end_domain;
    end.op_type = end_type;
    end.input = values;
    end.n_input = 1;
    Onnx__NodeProto *nodes[] = {&asked, &end};
    Onnx__GraphProto graph = ONNX__GRAPH_PROTO__INIT;
    graph.name = name;
    graph.node = nodes;
    graph.n_node = 2;
    return pack_model(&graph, stub->imports, stub->n_imports, bytes, size, error);
}

enum onnxptq_status oq_stub_constant(uint8_t **bytes, size_t *size, struct onnxptq_error *error) {
    char value[] = "value", type[] = "Constant", attribute_name[] = "value_int", name[] = "stub";
    char *values[] = {value};
    Onnx__AttributeProto attribute = ONNX__ATTRIBUTE_PROTO__INIT;
    attribute.name = attribute_name;
    attribute.has_type = 1;
    attribute.type = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INT;
    attribute.has_i = 1;
    Onnx__AttributeProto *attributes[] = {&attribute};
    Onnx__NodeProto node = ONNX__NODE_PROTO__INIT;
    node.op_type = type;
    node.output = values;
    node.n_output = 1;
    node.attribute = attributes;
    node.n_attribute = 1;
    Onnx__NodeProto *nodes[] = {&node};
    Onnx__ValueInfoProto output = ONNX__VALUE_INFO_PROTO__INIT;
    output.name = value;
    Onnx__ValueInfoProto *outputs[] = {&output};
    Onnx__GraphProto graph = ONNX__GRAPH_PROTO__INIT;
    graph.name = name;
    graph.node = nodes;
    graph.n_node = 1;
    graph.output = outputs;
    graph.n_output = 1;
    Onnx__OperatorSetIdProto import = ONNX__OPERATOR_SET_ID_PROTO__INIT;
    import.has_version = 1;
    import.version = 13;
    Onnx__OperatorSetIdProto *imports[] = {&import};
    return pack_model(&graph, imports, 1, bytes, size, error);
}
