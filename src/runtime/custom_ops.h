/*
 * The user's custom-op libraries: finding, loading and registering them.
 *
 * They are loaded here and their entry point is called here, not by the runtime: so each failure
 * has its own reason, any entry point can be named, and no symbol of one library is seen by
 * another.
 */
#ifndef OQ_RUNTIME_CUSTOM_OPS_H
#define OQ_RUNTIME_CUSTOM_OPS_H

#include "base/file.h"
#include "runtime/activity.h"

#include <onnxruntime_c_api.h>

struct oq_custom_op_library {
    char *name;     /* as the user wrote it */
    char *path;     /* absolute */
    char *function; /* entry point */
    RegisterCustomOpsFn entry;
};

struct oq_custom_ops {
    struct oq_custom_op_library *libraries; /* in the user's order, without duplicates */
    size_t n;
    struct oq_activity *activity; /* that is told when one of them is at work */
};

/* Loads all libraries of the options. Same file (through links or another spelling) and same entry
 * point: dropped. Libraries stay loaded as long as the process: unloading third-party code that may
 * own threads and exit handlers is not safe. */
enum onnxptq_status oq_custom_ops_load(struct oq_custom_ops *ops, const char *const *names,
                                       size_t n, struct oq_activity *activity,
                                       struct onnxptq_error *error) OQ_MUST_USE;
void oq_custom_ops_reset(struct oq_custom_ops *ops);

/* Calls the entry points in order. */
enum onnxptq_status oq_custom_ops_register(const struct oq_custom_ops *ops, const OrtApiBase *base,
                                           const OrtApi *api, OrtSessionOptions *options,
                                           struct onnxptq_error *error) OQ_MUST_USE;
/* One of them. */
enum onnxptq_status oq_custom_op_register(const struct oq_custom_ops *ops, size_t index,
                                          const OrtApiBase *base, const OrtApi *api,
                                          OrtSessionOptions *options, struct onnxptq_error *error)
    OQ_MUST_USE;

#endif
