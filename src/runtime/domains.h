/*
 * Do the custom-op libraries register, each alone and all together?
 */
#ifndef OQ_RUNTIME_DOMAINS_H
#define OQ_RUNTIME_DOMAINS_H

#include "runtime/runtime.h"

/* Makes throw-away sessions of a constant. The runtime takes each domain from one library only, and
 * says which domain but not which libraries; the message names the two. */
enum onnxptq_status oq_domains_check(const struct oq_runtime *runtime, struct onnxptq_error *error)
    OQ_MUST_USE;

#endif
