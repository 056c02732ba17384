/*
 * Telling the caller what code that is not ours is about to do (onnxptq_activity).
 */
#ifndef OQ_RUNTIME_ACTIVITY_H
#define OQ_RUNTIME_ACTIVITY_H

#include "base/map.h"
#include "runtime/runtime.h"

struct oq_activity {
    onnxptq_activity_fn tell; /* NULL: nobody listens */
    void *user;
    struct onnxptq_activity now;
    struct oq_map *library_of; /* operator's name to index of its library; NULL: not probed yet */
};

/* `library` NULL: none. */
void oq_activity_tell_load(struct oq_activity *activity, const char *library);
void oq_activity_tell_run(struct oq_activity *activity, const char *stage, size_t first_sample,
                          size_t n_samples);
/* A session ends, and with it the kernels of libraries. */
void oq_activity_tell_close(struct oq_activity *activity);
/* What was going on goes on. */
void oq_activity_tell_again(struct oq_activity *activity, const struct onnxptq_activity *before);
/* Nothing is going on. */
void oq_activity_tell_rest(struct oq_activity *activity);
/* A node begins, or (`node` NULL) has ended. */
void oq_activity_tell_node(struct oq_activity *activity, const char *node, const char *op,
                           const char *library);

#endif
