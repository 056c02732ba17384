/*
 * Opening the runtime and sessions of models made in memory, for unit tests. Functions fail the
 * running test when they cannot do their work.
 */
#ifndef OQ_TEST_RUNTIME_TOOLS_H
#define OQ_TEST_RUNTIME_TOOLS_H

#include "model/model.h"
#include "runtime/session.h"

#define OQ_TEST_OPS ONNXPTQ_TEST_OPS_DIR "/"

/* With one operator library, or none (NULL). */
struct oq_runtime *oq_test_runtime(const char *library, const struct oq_log *log);
/* Fixtures of cmocka: *state is a runtime without library. */
int oq_test_setup_runtime(void **state);
int oq_test_teardown_runtime(void **state);

/* A session of the model as it is, all weights inline. */
enum onnxptq_status oq_test_session_try(struct oq_runtime *runtime, const struct oq_model *model,
                                        const struct oq_observer_hook *hook,
                                        struct oq_session **out, struct onnxptq_error *error);
struct oq_session *oq_test_session(struct oq_runtime *runtime, const struct oq_model *model,
                                   const struct oq_observer_hook *hook);

/* A tensor over `data`; the shape is given as text: "1,3,8,8". */
struct onnxptq_tensor oq_test_tensor(enum onnxptq_type type, const char *shape, const void *data);

#endif
