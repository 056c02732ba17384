/*
 * Filled by probe.c, asked through oq_runtime_offers_as_plugin().
 */
#include "runtime/plugins.h"

#include "base/arena.h"

#include <stdlib.h>
#include <string.h>

static bool has_name(const struct oq_plugins *plugins, const char *op_name) {
    for (size_t i = 0; i < plugins->n; i++) {
        if (strcmp(plugins->names[i], op_name) == 0) {
            return true;
        }
    }
    return false;
}

enum onnxptq_status oq_plugins_add(struct oq_plugins *plugins, const char *op_name,
                                   struct onnxptq_error *error) {
    if (has_name(plugins, op_name)) {
        return ONNXPTQ_OK;
    }
    char *copy = strdup(op_name);
    if (copy == NULL || !oq_grow((void **)&plugins->names, &plugins->capacity, plugins->n + 1,
                                 sizeof *plugins->names)) {
        free(copy);
        return oq_fail_memory(error, "the list of plugins");
    }
    plugins->names[plugins->n++] = copy;
    return ONNXPTQ_OK;
}

bool oq_plugins_has(const struct oq_plugins *plugins, const char *domain, const char *type) {
    size_t n = strlen(domain);
    for (size_t i = 0; i < plugins->n; i++) {
        const char *name = plugins->names[i];
        if (strncmp(name, domain, n) == 0 && strncmp(name + n, "::", 2) == 0 &&
            strcmp(name + n + 2, type) == 0) {
            return true;
        }
    }
    return false;
}

void oq_plugins_reset(struct oq_plugins *plugins) {
    for (size_t i = 0; i < plugins->n; i++) {
        free(plugins->names[i]);
    }
    free((void *)plugins->names);
    *plugins = (struct oq_plugins){0};
}
