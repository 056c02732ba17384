/*
 * Data of new constants; see spill.h.
 */
#include "prepare/spill.h"

#include "model/tensor.h"

#include <stdlib.h>
#include <string.h>

#define INLINE_MAXIMUM 1024 /* bytes that are not worth a place in the file */
#define ALIGNMENT 64

struct oq_spill {
    const char *beside_path;
    struct oq_arena *arena;
    struct oq_writer *writer; /* NULL: no large constant yet */
    uint8_t *inline_end;      /* where the next part of a small constant goes; NULL: to the file */
    uint32_t file;            /* of the model, after attach */
};

struct oq_spill *oq_spill_create(const char *beside_path, struct oq_arena *arena) {
    struct oq_spill *spill = calloc(1, sizeof *spill);
    if (spill != NULL) {
        spill->beside_path = beside_path;
        spill->arena = arena;
    }
    return spill;
}

void oq_spill_destroy(struct oq_spill *spill) {
    if (spill != NULL) {
        oq_writer_destroy(spill->writer);
        free(spill);
    }
}

enum onnxptq_status oq_spill_begin(struct oq_spill *spill, int type, const int64_t *shape,
                                   size_t rank, size_t size, struct oq_spilled *out,
                                   struct onnxptq_error *error) {
    int64_t *dims = oq_arena_array(spill->arena, rank, sizeof *dims);
    uint8_t *bytes = size <= INLINE_MAXIMUM ? oq_arena_alloc(spill->arena, size) : NULL;
    if (dims == NULL || (bytes == NULL && size <= INLINE_MAXIMUM)) {
        return oq_fail_memory(error, "a constant");
    }
    if (rank > 0) {
        memcpy(dims, shape, rank * sizeof *dims);
    }
    spill->inline_end = bytes;
    *out = (struct oq_spilled){type, rank, dims, size, bytes, 0};
    if (bytes != NULL) {
        return ONNXPTQ_OK;
    }
    if (spill->writer == NULL) {
        OQ_TRY(oq_writer_create(spill->beside_path, &spill->writer, error));
    }
    oq_writer_align(spill->writer, ALIGNMENT);
    out->offset = oq_writer_offset(spill->writer);
    return ONNXPTQ_OK;
}

void oq_spill_put(struct oq_spill *spill, const void *data, size_t size) {
    if (spill->inline_end == NULL) {
        oq_writer_put(spill->writer, data, size);
    } else if (size > 0) {
        memcpy(spill->inline_end, data, size);
        spill->inline_end += size;
    }
}

enum onnxptq_status oq_spill_attach(struct oq_spill *spill, struct oq_model *model,
                                    struct onnxptq_error *error) {
    if (spill->writer == NULL) {
        return ONNXPTQ_OK;
    }
    struct oq_writer *writer = spill->writer;
    spill->writer = NULL;
    return oq_model_add_written(model, writer, &spill->file, error);
}

Onnx__TensorProto *oq_spill_tensor(const struct oq_spill *spill, struct oq_model *model,
                                   const struct oq_spilled *spilled, const char *name) {
    if (spilled->bytes != NULL) {
        return oq_tensor_create(model, name, spilled->type, spilled->shape, spilled->rank,
                                spilled->bytes, spilled->size);
    }
    return oq_tensor_create_mapped(model, name, spilled->type, spilled->shape, spilled->rank,
                                   spill->file, spilled->offset, spilled->size);
}
