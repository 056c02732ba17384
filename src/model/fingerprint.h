/*
 * A number that tells whether two models are the same bytes.
 */
#ifndef OQ_MODEL_FINGERPRINT_H
#define OQ_MODEL_FINGERPRINT_H

#include "model/model.h"

/* Of the files that the model was read from: the model itself and its external data, each whole.
 * Not made against forgery. */
uint64_t oq_model_fingerprint(const struct oq_model *model);

#endif
