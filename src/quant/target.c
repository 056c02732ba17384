/*
 * The list of targets, and running one. To add a target: a row in a file of its own, an entry here,
 * a line in oq_target_names(), and its placement tests.
 */
#include "quant/target.h"

#include "quant/planner.h"

#include <stdio.h>
#include <string.h>

static const struct oq_target *const TARGETS[] = {&oq_target_tensorrt, &oq_target_onnxruntime};

const struct oq_target *oq_target_find(const char *name) {
    if (name == NULL) {
        return TARGETS[0];
    }
    for (size_t i = 0; i < sizeof TARGETS / sizeof TARGETS[0]; i++) {
        if (strcmp(TARGETS[i]->name, name) == 0) {
            return TARGETS[i];
        }
    }
    return NULL;
}

const char *oq_target_names(void) {
    return "tensorrt, onnxruntime";
}

enum onnxptq_status oq_target_check_activation(const struct oq_target *target,
                                               enum onnxptq_type type,
                                               struct onnxptq_error *error) {
    char names[64] = "";
    if (type == ONNXPTQ_TYPE_UNDEFINED) {
        return ONNXPTQ_OK;
    }
    for (const enum onnxptq_type *own = target->activation_types; *own != ONNXPTQ_TYPE_UNDEFINED;
         own++) {
        if (*own == type) {
            return ONNXPTQ_OK;
        }
        size_t n = strlen(names);
        snprintf(names + n, sizeof names - n, "%s%s", n > 0 ? ", " : "", onnxptq_type_name(*own));
    }
    return oq_fail(error, ONNXPTQ_ERROR_USAGE,
                   "cannot use %s activations (--activation-type): target '%s' has %s",
                   onnxptq_type_name(type), target->name, names);
}

enum onnxptq_status oq_target_plan(const struct oq_target *target,
                                   const struct oq_plan_context *context, struct oq_plan *plan,
                                   struct onnxptq_error *error) {
    struct oq_planner planner = {.target = target,
                                 .context = context,
                                 .graph = context->graph,
                                 .plan = plan,
                                 .activation = target->activation};
    if (context->activation_type != ONNXPTQ_TYPE_UNDEFINED) {
        planner.activation.type = context->activation_type;
    }
    OQ_TRY(oq_plan_classify(&planner, error));
    for (const oq_planner_pass *pass = target->passes; *pass != NULL; pass++) {
        OQ_TRY((*pass)(&planner, error));
        OQ_TRY(oq_planner_check_memory(&planner, error));
    }
    if (context->quantize_outputs > 0) {
        oq_plan_outputs(&planner);
    }
    return oq_planner_check_memory(&planner, error);
}
