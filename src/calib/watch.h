/*
 * Watching tensors: runs a model with observers on chosen values and returns their statistics.
 * Both the trace (one sample, all values) and the calibration (all samples, planned values) are
 * this.
 */
#ifndef OQ_CALIB_WATCH_H
#define OQ_CALIB_WATCH_H

#include "calib/statistics.h"
#include "calib/traced_shapes.h"
#include "data/source.h"
#include "model/graph.h"
#include "model/write.h"
#include "runtime/session.h"

struct oq_watch_spec {
    struct oq_runtime *runtime;
    const struct oq_graph *graph; /* index of the model to run */
    struct oq_weight_file *weights;
    struct oq_data_source *source;
    const struct oq_data_runs *runs;
    size_t max_runs;        /* 0: all */
    const uint32_t *values; /* value ids to watch, in any scope */
    size_t n_values;
    bool histograms;   /* count the elements of float tensors, besides their extremes */
    const char *stage; /* "trace" or "calibrate", for progress and messages */
    const struct oq_log *log;
    /* One per value, from an earlier trace: tensors of floats are summarised by nodes of the graph,
     * on the device where they lie, and only numbers come to the host. Not with histograms. NULL:
     * observers read all elements. */
    const struct oq_statistics *reduce;
    /* From an earlier trace; NULL: this is the trace. */
    const struct oq_traced_shapes *shapes;
    /* Why the providers refused the model, which then ran on CPU: a trace does where a provider
     * wants shapes that are not known yet. Untouched when they took it; may be NULL. */
    struct onnxptq_error *refusal;
    bool no_prepacking; /* weights so large that packed copies of them must not be made */
    /* Called after each run with what was seen so far, for it to be kept; may be NULL. The last of
     * `n_done` runs is whole. `last`: no further run follows, be it because it is cancelled. */
    enum onnxptq_status (*keep)(void *user, const struct oq_statistics *statistics, size_t n_done,
                                bool last, struct onnxptq_error *error);
    void *keep_user;
    bool continues; /* statistics hold what earlier runs saw, and are added to */
};

/* statistics[i] belongs to values[i], to be reset by the caller. Values that cannot be watched
 * (sequences, optionals) come out with seen == 0. Fails when a run fails, and nothing is in
 * `statistics` then; the message names the sample. */
enum onnxptq_status oq_watch(const struct oq_watch_spec *spec, struct oq_statistics *statistics,
                             struct onnxptq_error *error) OQ_MUST_USE;

#endif
