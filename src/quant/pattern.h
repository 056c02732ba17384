/*
 * Patterns of names: PCRE2, matched against the whole name, with a bound on the work of one match.
 */
#ifndef OQ_QUANT_PATTERN_H
#define OQ_QUANT_PATTERN_H

#include "base/error.h"

struct oq_pattern;

/* ONNXPTQ_ERROR_USAGE for an invalid pattern: the message has the pattern and the position. */
enum onnxptq_status oq_pattern_create(const char *text, struct oq_pattern **out,
                                      struct onnxptq_error *error) OQ_MUST_USE;
void oq_pattern_destroy(struct oq_pattern *pattern); /* NULL is allowed */

/* ONNXPTQ_ERROR_USAGE when the match takes too many steps. */
enum onnxptq_status oq_pattern_match(const struct oq_pattern *pattern, const char *name,
                                     bool *matches, struct onnxptq_error *error) OQ_MUST_USE;

#endif
