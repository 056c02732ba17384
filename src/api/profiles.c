/*
 * Called once, when the model has been read. That the three profiles agree is checked with the
 * providers (runtime/provider_tensorrt.c).
 */
#include "api/profiles.h"

#include "data/declared.h"

static enum onnxptq_status check(const struct onnxptq_report *report, const char *option,
                                 const struct onnxptq_input_shape *shapes, size_t n,
                                 struct onnxptq_error *error) {
    const struct oq_data_spec inputs = {.inputs = report->inputs, .n_inputs = report->n_inputs};
    for (size_t i = 0; i < n; i++) {
        size_t index = oq_declared_find(report->inputs, report->n_inputs, shapes[i].name);
        if (index == report->n_inputs) {
            return oq_declared_fail_name(&inputs, "TensorRT profile", shapes[i].name, error);
        }
        struct onnxptq_tensor declared = report->inputs[index];
        enum onnxptq_status status = oq_declared_set_shape(&declared, &shapes[i], error);
        if (status != ONNXPTQ_OK) {
            return oq_suffix(error, status, "; check %s", option);
        }
    }
    return ONNXPTQ_OK;
}

enum onnxptq_status oq_profiles_check(const struct onnxptq_runtime_options *options,
                                      const struct onnxptq_report *report,
                                      struct onnxptq_error *error) {
    OQ_TRY(check(report, "--trt-profile-min", options->trt_profile_min, options->n_trt_profile_min,
                 error));
    OQ_TRY(check(report, "--trt-profile-opt", options->trt_profile_opt, options->n_trt_profile_opt,
                 error));
    return check(report, "--trt-profile-max", options->trt_profile_max, options->n_trt_profile_max,
                 error);
}
