/*
 * Raising the opset of a model: operators whose meaning or form changed between two versions of the
 * default domain are rewritten in the newer form, in the main graph, in bodies of control flow and
 * in local functions. Custom domains are left as they are.
 *
 * What changed when is the table in opset_table.c; how each change is made is one function of
 * opset_inputs.c, opset_resize.c, opset_norm.c, opset_control.c and opset_legacy.c.
 */
#ifndef OQ_PREPARE_OPSET_H
#define OQ_PREPARE_OPSET_H

#include "model/model.h"

/* Versions of the default domain that are known here. */
#define OQ_OPSET_OLDEST 7
#define OQ_OPSET_NEWEST 26

/* Converts the model, in place, from the version of the default domain that it imports to
 * `version`; what is there already, or above, stays. A local function has its own version. The IR
 * version is raised to the one `version` needs; a model that so leaves IR version 3 no longer lists
 * its initializers as graph inputs, since they were constants there and would become replaceable by
 * the caller.
 *
 * ONNXPTQ_ERROR_UNSUPPORTED when a version lies outside the range above, or when an operator cannot
 * be converted; the message names the node. On any error the model is as it was. */
enum onnxptq_status oq_opset_raise(struct oq_model *model, int64_t version,
                                   struct onnxptq_error *error) OQ_MUST_USE;

#endif
