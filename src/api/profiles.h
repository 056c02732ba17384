/*
 * Shape profiles for TensorRT, beside the inputs that the model has.
 */
#ifndef OQ_API_PROFILES_H
#define OQ_API_PROFILES_H

#include "api/report.h"

/* Profiles of the options must be of inputs in the report, with shapes that these can have: what
 * TensorRT says about others names neither. */
enum onnxptq_status oq_profiles_check(const struct onnxptq_runtime_options *options,
                                      const struct onnxptq_report *report,
                                      struct onnxptq_error *error) OQ_MUST_USE;

#endif
