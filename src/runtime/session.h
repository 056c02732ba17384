/*
 * Sessions: the one function that builds them, and running them.
 */
#ifndef OQ_RUNTIME_SESSION_H
#define OQ_RUNTIME_SESSION_H

#include "runtime/runtime.h"

/* A tensor of floats summarised by nodes of the graph, where it lies. "Near" are those that are
 * finite and below a limit that the graph's maker chose; a minimum is infinite, a maximum negative
 * infinite, where there are none. */
struct oq_reduction {
    double min, max;                      /* of the finite elements */
    double near_min, near_max;            /* of the near ones */
    double far_least;                     /* least magnitude of the finite ones that are not near */
    uint64_t n_finite, n_near, n_numbers; /* n_numbers: all but NaN */
};

/* What an observer sees: one tensor, each time it is produced. `data` is any element type; strings
 * and tensors that do not lie in host memory come with data NULL. */
struct oq_observed {
    int64_t slot;
    int type; /* TensorProto.DataType */
    size_t rank;
    const int64_t *shape;
    size_t n_elements;
    const void *data;
    const struct oq_reduction *reduction; /* instead of data, or NULL */
    /* Runs fn(arg, i) for i in [0, n) on the session's threads; returns when all are done. */
    void (*parallel_for)(const struct oq_observed *self, size_t n, void (*fn)(void *arg, size_t i),
                         void *arg);
    void *parallel_context;
};

/* The in-process operator: domain "onnxptq", type "Observe", one input of any tensor type, no
 * output, attribute `slot`. */
#define OQ_OWN_DOMAIN "onnxptq"
#define OQ_OBSERVE_TYPE "Observe"
/* The same for a tensor that was summarised already, so that only numbers leave the device. Inputs:
 * its shape (int64), {min, max, near_min, near_max, far_least} (float or double), {n_finite,
 * n_near, n_numbers} (int64); attributes `slot`, and `type` of the elements. */
#define OQ_OBSERVE_REDUCED_TYPE "ObserveReduced"
/* One input of any tensor type; text attributes `node`, `op` and `library` tell that this node
 * begins (onnxptq_activity), `end` 1 that it has ended; without any it does nothing. */
#define OQ_MARK_TYPE "Mark"
struct oq_observer_hook {
    /* Called from the run, one call at a time for the nodes of one graph. Return false to fail the
     * run. */
    bool (*observe)(void *user, const struct oq_observed *tensor);
    void *user;
};

enum oq_optimization {
    OQ_OPTIMIZE_ALL,
    OQ_OPTIMIZE_FLOAT, /* the same, but Q/DQ stay what they are: no integer kernels are made of them
                        */
    OQ_OPTIMIZE_NONE
};

struct oq_session_spec {
    const void *model; /* serialised; only read during creation */
    size_t size;
    const char *weights_folder; /* of external data, or NULL */
    enum oq_optimization optimization;
    bool no_prepacking; /* keeps packed copies of the weights out of memory */
    bool cpu_only;      /* leave the user's providers out */
    /* NULL: no Observe operator in this model. Outlives the session. */
    const struct oq_observer_hook *hook;
    const char *purpose; /* for messages: "calibration", "check of the quantized model", ... */
};

struct oq_session;

/* Every session of the project is made here: all custom-op libraries in the user's order, providers
 * in the user's order, threads. The runtime's message is passed on with what was being done in
 * front. */
enum onnxptq_status oq_session_create(struct oq_runtime *runtime,
                                      const struct oq_session_spec *spec, struct oq_session **out,
                                      struct onnxptq_error *error) OQ_MUST_USE;
void oq_session_destroy(struct oq_session *session); /* NULL is allowed */

/* Declarations: name, type, rank, shape (-1 unknown), data NULL. Rank unknown or not a tensor: type
 * UNDEFINED. Inputs are those that must be fed (initializers excluded). */
size_t oq_session_n_inputs(const struct oq_session *session);
size_t oq_session_n_outputs(const struct oq_session *session);
const struct onnxptq_tensor *oq_session_input(const struct oq_session *session, size_t index);
const struct onnxptq_tensor *oq_session_output(const struct oq_session *session, size_t index);

/* Runs once. `inputs` in the order of the declarations (name, type, shape, data set). When
 * `outputs` is NULL nothing is fetched beyond what the runtime demands; else it is filled with one
 * tensor per declared output, valid until the next run or destroy. Outputs that are no dense
 * numeric tensors (strings, sequences, absent optionals) have type STRING or UNDEFINED and data
 * NULL. */
enum onnxptq_status oq_session_run(struct oq_session *session, const struct onnxptq_tensor *inputs,
                                   struct onnxptq_tensor *outputs, struct onnxptq_error *error)
    OQ_MUST_USE;
#endif
