/*
 * Calls of local functions replaced by their bodies.
 */
#ifndef OQ_PREPARE_INLINE_H
#define OQ_PREPARE_INLINE_H

#include "prepare/preparation.h"

/* Inlines every call, in any graph, of a function that holds weighted operators, directly or
 * through calls: ranges differ from call to call, so a body that several calls share cannot be
 * quantized. Inner names become "<call>/<name>", unique in the model. Calls that the user excluded
 * stay, as do those of functions that a library implements too, or whose operator sets cannot be
 * brought together with the model's; of the latter two a note tells. Functions that nothing calls
 * any more are removed. */
enum onnxptq_status oq_prepare_inline(struct oq_preparation *preparation,
                                      struct onnxptq_error *error) OQ_MUST_USE;

#endif
