/*
 * The copy of a model that is run with observers: for watch.c alone.
 */
#ifndef OQ_CALIB_WATCH_MODEL_H
#define OQ_CALIB_WATCH_MODEL_H

#include "calib/watch.h"

/* A clone of the model with an observer, slot i, on each values[i] that is not dropped (OQ_NONE).
 * Where unreduced[i] is true (NULL: nowhere) it reads all elements, whatever the spec says. */
enum onnxptq_status oq_watch_model_create(const struct oq_watch_spec *spec, const uint32_t *values,
                                          const bool *unreduced, struct oq_model **out,
                                          struct onnxptq_error *error) OQ_MUST_USE;

/* The slot of the Observe node that a message of the runtime speaks of, or SIZE_MAX. */
size_t oq_watch_model_blamed_slot(const char *message, size_t n_slots);

/* True when the value cannot be a tensor, as far as its declaration or producer tell. */
bool oq_watch_model_is_no_tensor(const struct oq_graph *graph, uint32_t value);

#endif
