/*
 * The files of the result: the model and, where its weights are kept outside, its data beside it.
 * Both are written under temporary names and put in place at the end, such that at every moment the
 * model under the output's name has its data.
 */
#ifndef OQ_API_OUTPUT_H
#define OQ_API_OUTPUT_H

#include "model/write.h"

struct oq_output;

/* Is there room for the result's files? Known once the input is read: that the output is not a file
 * that holds the input's weights, and that a data file, if it is certain that there will be one,
 * replaces nothing without leave. Removes what killed runs left of it. */
enum onnxptq_status oq_output_check(const struct onnxptq_quantize_options *options,
                                    const struct oq_model *original, struct onnxptq_error *error)
    OQ_MUST_USE;

/* Writes `model` under temporary names. `original` is the input. */
enum onnxptq_status oq_output_write(const struct onnxptq_quantize_options *options,
                                    const struct oq_model *original, const struct oq_model *model,
                                    struct oq_output **out, struct onnxptq_error *error)
    OQ_MUST_USE;

uint64_t oq_output_bytes(const struct oq_output *output);
/* Final path of the data file, or NULL: the weights are inside the model. */
const char *oq_output_data_path(const struct oq_output *output);

/* True when the model that the result replaces has data beside it that the result does not need. */
bool oq_output_leaves_data(const struct oq_output *output);

/* Puts the files in place. */
enum onnxptq_status oq_output_commit(struct oq_output *output, struct onnxptq_error *error)
    OQ_MUST_USE;
/* Removes what is not in place. NULL is allowed. */
void oq_output_destroy(struct oq_output *output);

#endif
