/*
 * Fuzzes the model reader: any bytes either are refused or give a model that can be indexed,
 * viewed, copied and packed. Seeds are made by make_model_seeds.py.
 */
#include "model/edit.h"
#include "model/graph.h"
#include "model/model_make.h"
#include "model/tensor.h"
#include "model/walk.h"
#include "model/wire.h"

#include <stdlib.h>

struct sink {
    const struct oq_model *model;
    uint64_t announced, put;
};

static enum onnxptq_status replace(void *user, const struct oq_wire_tensor *tensor,
                                   struct oq_wire_fields *fields, struct onnxptq_error *error) {
    const struct sink *sink = user;
    (void)error;
    fields->body = oq_model_data(sink->model, tensor->file, tensor->offset, tensor->length);
    fields->body_size = (size_t)tensor->length;
    if (fields->body == NULL) {
        abort(); /* every mapped tensor was verified */
    }
    oq_wire_add_length(fields, 9, fields->body_size);
    return ONNXPTQ_OK;
}

static enum onnxptq_status begin(void *user, uint64_t size, struct onnxptq_error *error) {
    (void)error;
    ((struct sink *)user)->announced = size;
    return ONNXPTQ_OK;
}

/* Reads every byte, so that the sanitizer sees it. */
static void put(void *user, const void *data, size_t size) {
    struct sink *sink = user;
    const uint8_t *bytes = data;
    for (size_t i = 0; i < size; i++) {
        sink->put += 1 + (bytes[i] & 0u);
    }
}

static void expand(const struct oq_model *model) {
    struct sink sink = {model, 0, 0};
    const struct oq_wire_expansion expansion = {
        .user = &sink, .replace = replace, .begin = begin, .put = put};
    uint8_t *bytes = NULL;
    size_t size = 0;
    if (oq_model_pack(model, &bytes, &size, NULL) != ONNXPTQ_OK ||
        oq_wire_expand(bytes, size, &expansion, NULL) != ONNXPTQ_OK || sink.put != sink.announced) {
        abort(); /* what was read can be written */
    }
    free(bytes);
}

static enum onnxptq_status view(void *user, const struct oq_tensor_site *site,
                                Onnx__TensorProto *tensor, struct onnxptq_error *error) {
    struct oq_tensor_view found;
    volatile uint8_t seen = 0;
    (void)site;
    if (oq_tensor_view(user, tensor, &found, error) == ONNXPTQ_OK && found.size > 0) {
        seen = found.data[0];
        seen = found.data[found.size - 1];
    }
    (void)seen;
    return ONNXPTQ_OK;
}

static void index_model(const struct oq_model *model) {
    struct oq_graph *graph = NULL;
    struct onnxptq_error error;
    if (oq_graph_build(model, &graph, &error) != ONNXPTQ_OK) {
        return;
    }
    for (uint32_t i = 0; i < oq_graph_n_values(graph); i++) {
        (void)oq_graph_constant(graph, i);
    }
    oq_graph_destroy(graph);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct oq_model *model = NULL, *clone = NULL;
    struct onnxptq_error error;
    if (oq_model_read_memory(data, size, NULL, &model, &error) != ONNXPTQ_OK) {
        return 0;
    }
    const struct oq_visitor visitor = {.user = model, .tensor = view};
    if (oq_walk_model(oq_model_proto(model), &visitor, &error) != ONNXPTQ_OK) {
        abort();
    }
    index_model(model);
    expand(model);
    struct oq_names *names = oq_names_create(model);
    if (oq_names_unique(names, "x") == NULL ||
        oq_model_clone(model, &clone, &error) != ONNXPTQ_OK) {
        abort();
    }
    oq_names_destroy(names);
    oq_model_destroy(model);
    expand(clone);
    oq_model_destroy(clone);
    return 0;
}
