/*
 * The caller's options as this version of the library knows them: copied by size, defaults for
 * fields the caller's version does not have, and checked before anything is loaded or run.
 */
#ifndef OQ_API_OPTIONS_H
#define OQ_API_OPTIONS_H

#include "base/error.h"

/* `quantize.runtime` points to `runtime`, so the struct must not be moved. Strings and arrays are
 * the caller's. */
struct oq_options {
    struct onnxptq_quantize_options quantize;
    struct onnxptq_runtime_options runtime;
};

enum onnxptq_status oq_options_copy(const struct onnxptq_quantize_options *given,
                                    struct oq_options *out, struct onnxptq_error *error)
    OQ_MUST_USE;
/* `given` may be NULL. */
enum onnxptq_status oq_runtime_options_copy(const struct onnxptq_runtime_options *given,
                                            struct onnxptq_runtime_options *out,
                                            struct onnxptq_error *error) OQ_MUST_USE;

/* What can be said of the options alone: ONNXPTQ_ERROR_USAGE. */
enum onnxptq_status oq_options_check(const struct oq_options *options, struct onnxptq_error *error)
    OQ_MUST_USE;

/* The files they name: the model is there (data is opened once the model is known to run), output
 * free (or to be overwritten) and its folder writable, which is proven by creating a file. */
enum onnxptq_status oq_options_check_files(const struct oq_options *options,
                                           struct onnxptq_error *error) OQ_MUST_USE;

/* ONNXPTQ_ERROR_USAGE that lists the targets there are. */
enum onnxptq_status oq_fail_no_target(const char *name, struct onnxptq_error *error);

/* True when samples are given. */
bool oq_options_have_data(const struct onnxptq_quantize_options *q);
/* The file that temporary files lie beside: the output, or the ranges. */
const char *oq_options_result_path(const struct onnxptq_quantize_options *q);

/* Name of a method, e.g. "max"; NULL when there is none of that number. */
const char *oq_method_name(enum onnxptq_method method);

#endif
