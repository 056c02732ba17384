/*
 * Data of new constants: small ones are kept in memory, large ones in one temporary file that
 * becomes a data file of the model.
 */
#ifndef OQ_PREPARE_SPILL_H
#define OQ_PREPARE_SPILL_H

#include "model/model.h"

/* A constant without a name yet. */
struct oq_spilled {
    int type;
    size_t rank;
    const int64_t *shape;
    size_t size;
    uint8_t *bytes;  /* NULL: in the file */
    uint64_t offset; /* there */
};

struct oq_spill;

/* The file is made beside `beside_path` when the first large constant comes. Shapes and small data
 * go to `arena`. */
struct oq_spill *oq_spill_create(const char *beside_path,
                                 struct oq_arena *arena); /* NULL: memory */
void oq_spill_destroy(struct oq_spill *spill); /* removes a file without owner; NULL is allowed */

/* Opens a constant of `size` bytes, to be given by oq_spill_put in any number of parts, in order.
 */
enum onnxptq_status oq_spill_begin(struct oq_spill *spill, int type, const int64_t *shape,
                                   size_t rank, size_t size, struct oq_spilled *out,
                                   struct onnxptq_error *error) OQ_MUST_USE;
void oq_spill_put(struct oq_spill *spill, const void *data, size_t size);

/* Hands the file over to `model`, which removes it at its end. Nothing can be added afterwards. */
enum onnxptq_status oq_spill_attach(struct oq_spill *spill, struct oq_model *model,
                                    struct onnxptq_error *error) OQ_MUST_USE;
/* After oq_spill_attach: the constant as a tensor of that model; NULL when out of memory. */
Onnx__TensorProto *oq_spill_tensor(const struct oq_spill *spill, struct oq_model *model,
                                   const struct oq_spilled *spilled, const char *name);

#endif
