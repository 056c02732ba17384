/*
 * Sessions for unit tests.
 */
#include "runtime_tools.h"

#include "base/number.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

/* cmocka.h stays after what it needs */
#include <cmocka.h>

struct oq_runtime *oq_test_runtime(const char *library, const struct oq_log *log) {
    struct onnxptq_runtime_options options = {.struct_size = sizeof options,
                                              .custom_op_libraries = &library,
                                              .n_custom_op_libraries = library != NULL ? 1 : 0,
                                              .threads = 2};
    struct oq_runtime *runtime = NULL;
    struct onnxptq_error error = {0};
    if (oq_runtime_open(&options, log, &runtime, &error) != ONNXPTQ_OK) {
        fail_msg("%s", error.message);
    }
    return runtime;
}

int oq_test_setup_runtime(void **state) {
    *state = oq_test_runtime(NULL, NULL);
    return 0;
}

int oq_test_teardown_runtime(void **state) {
    oq_runtime_close(*state);
    return 0;
}

enum onnxptq_status oq_test_session_try(struct oq_runtime *runtime, const struct oq_model *model,
                                        const struct oq_observer_hook *hook,
                                        struct oq_session **out, struct onnxptq_error *error) {
    const Onnx__ModelProto *proto = oq_model_proto(model);
    size_t size = onnx__model_proto__get_packed_size(proto);
    uint8_t *bytes = malloc(size);
    assert_non_null(bytes);
    onnx__model_proto__pack(proto, bytes);
    const struct oq_session_spec spec = {
        .model = bytes, .size = size, .hook = hook, .purpose = "a test"};
    enum onnxptq_status status = oq_session_create(runtime, &spec, out, error);
    free(bytes);
    return status;
}

struct oq_session *oq_test_session(struct oq_runtime *runtime, const struct oq_model *model,
                                   const struct oq_observer_hook *hook) {
    struct oq_session *session = NULL;
    struct onnxptq_error error = {0};
    if (oq_test_session_try(runtime, model, hook, &session, &error) != ONNXPTQ_OK) {
        fail_msg("%s", error.message);
    }
    return session;
}

struct onnxptq_tensor oq_test_tensor(enum onnxptq_type type, const char *shape, const void *data) {
    struct onnxptq_tensor tensor = {.type = type, .data = data, .size = oq_type_size((int)type)};
    while (*shape != '\0') {
        char *end;
        assert_true(tensor.rank < ONNXPTQ_MAX_RANK);
        tensor.shape[tensor.rank] = strtoll(shape, &end, 10);
        tensor.size *= (size_t)tensor.shape[tensor.rank++];
        shape = *end == ',' ? end + 1 : end;
    }
    return tensor;
}
