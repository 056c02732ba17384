/*
 * Helpers of the steps; see preparation.h.
 */
#include "prepare/preparation.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#define NOTE_SIZE 1024

enum onnxptq_status oq_preparation_index(struct oq_preparation *preparation,
                                         struct onnxptq_error *error) {
    oq_graph_destroy(preparation->graph);
    preparation->graph = NULL;
    return oq_graph_build(preparation->model, &preparation->graph, error);
}

void oq_preparation_note(const struct oq_preparation *preparation, const char *format, ...) {
    char text[NOTE_SIZE];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    const struct oq_prepare_spec *spec = preparation->spec;
    oq_log_message(spec->log, ONNXPTQ_LOG_INFO, "%s", text);
    if (spec->note != NULL) {
        spec->note(spec->note_user, text);
    }
}

bool oq_preparation_excludes(const struct oq_preparation *preparation,
                             const Onnx__NodeProto *node) {
    const struct oq_prepare_spec *spec = preparation->spec;
    return spec->excluded != NULL && node->has_origin && node->origin > 0 &&
           node->origin <= oq_graph_n_nodes(spec->graph) && spec->excluded[node->origin - 1];
}

/* ---- Copies --------------------------------------------------------------------------------- */

static void *allocate(void *arena, size_t size) {
    return oq_arena_alloc(arena, size);
}

static void release(void *arena, void *pointer) {
    oq_arena_release(arena, pointer);
}

void *oq_message_copy(struct oq_model *model, const ProtobufCMessage *message) {
    static const uint8_t nothing[1];
    const size_t size = protobuf_c_message_get_packed_size(message);
    uint8_t *bytes = size > 0 ? malloc(size) : NULL;
    if (size > 0 && bytes == NULL) {
        return NULL;
    }
    if (size > 0) {
        protobuf_c_message_pack(message, bytes);
    }
    ProtobufCAllocator allocator = {allocate, release, oq_model_arena(model)};
    ProtobufCMessage *copy = protobuf_c_message_unpack(message->descriptor, &allocator, size,
                                                       size > 0 ? bytes : nothing);
    free(bytes);
    return copy;
}
