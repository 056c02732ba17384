/*
 * ONNX Runtime, loaded at run time. Only this folder includes its header.
 *
 * One oq_runtime = one loaded library + one environment + the user's custom-op libraries and
 * providers, so that every session, without exception, is built by oq_session_create() with all of
 * them.
 */
#ifndef OQ_RUNTIME_RUNTIME_H
#define OQ_RUNTIME_RUNTIME_H

#include "base/log.h"

struct oq_runtime;

/* Loads the runtime library (options->ort_library, $ONNXPTQ_ORT_LIB, the built-in path, the
 * loader's default), creates the environment, checks the providers against those that this runtime
 * has, resolves the custom-op libraries to absolute paths (duplicates dropped: same file and same
 * function) and proves that each loads and registers, one by one, in a throw-away session options.
 * Runtime messages go to `log` (borrowed; lives as long as the runtime). */
enum onnxptq_status oq_runtime_open(const struct onnxptq_runtime_options *options,
                                    const struct oq_log *log, struct oq_runtime **out,
                                    struct onnxptq_error *error) OQ_MUST_USE;
void oq_runtime_close(struct oq_runtime *runtime); /* NULL is allowed */

const char *oq_runtime_version(const struct oq_runtime *runtime); /* e.g. "1.32.0" */
const char *oq_runtime_library(const struct oq_runtime *runtime); /* path as loaded */

/* Custom-op libraries after dropping duplicates, as the user wrote them. */
size_t oq_runtime_n_libraries(const struct oq_runtime *runtime);
const char *oq_runtime_library_name(const struct oq_runtime *runtime, size_t index);

/* The user's providers (none: CPU alone); texts live as long as the runtime. */
size_t oq_runtime_n_providers(const struct oq_runtime *runtime);
void oq_runtime_describe_provider(const struct oq_runtime *runtime, size_t index,
                                  struct onnxptq_provider_report *out);

/* Domain by which the runtime knows the plugins of its providers, whatever the model calls it. */
#define OQ_PLUGIN_DOMAIN "trt.plugins"
/* True for an operator that nobody has but a plugin: in a session's copy of a model it must be of
 * that domain. Known once the model's operators have been probed (probe.h). */
bool oq_runtime_calls_plugin(const struct oq_runtime *runtime, const char *domain,
                             const char *type);

/* The library that has a custom operator ("domain::Type"), as the user wrote it; NULL: none of
 * them, or not known yet. Known once the model's operators have been probed (probe.h). */
const char *oq_runtime_library_of(const struct oq_runtime *runtime, const char *op_name);

/* Tells the caller's activity callback which run comes next. */
void oq_runtime_tell_run(struct oq_runtime *runtime, const char *stage, size_t first_sample,
                         size_t n_samples);
/* True when sessions are to tell which custom operator runs: somebody listens, and marks would not
 * come between the nodes that a provider compiles together. */
bool oq_runtime_wants_marks(const struct oq_runtime *runtime);

/* True when tensors of one of the providers do not lie in host memory. */
bool oq_runtime_has_own_memory(const struct oq_runtime *runtime);

/* True when the user's providers are others than CPU alone. */
bool oq_runtime_has_accelerators(const struct oq_runtime *runtime);

#endif
