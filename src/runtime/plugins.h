/*
 * Operators that no library has and a provider's plugin does. The runtime's TensorRT provider
 * announces the plugins it has loaded as operators of one domain, whatever domain the model uses;
 * a session's copy of the model must call them by that one.
 */
#ifndef OQ_RUNTIME_PLUGINS_H
#define OQ_RUNTIME_PLUGINS_H

#include "runtime/runtime.h"

struct oq_plugins {
    char **names; /* "domain::Type", as the model calls them */
    size_t n, capacity;
};

enum onnxptq_status oq_plugins_add(struct oq_plugins *plugins, const char *op_name,
                                   struct onnxptq_error *error) OQ_MUST_USE;
bool oq_plugins_has(const struct oq_plugins *plugins, const char *domain, const char *type);
void oq_plugins_reset(struct oq_plugins *plugins);

#endif
