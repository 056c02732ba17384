/*
 * Numbers that half precision does not hold: what the trace saw, and constants.
 */
#include "precision/decide.h"

#include "base/number.h"
#include "calib/minmax.h"
#include "model/tensor.h"

#include <math.h>

/* The trace has not seen everything: twice its extremes must fit. */
#define RANGE_MARGIN 2.0
/* Below 2^-14 a float16 has fewer bits than its eleven; tensors whose size is that or a little more
 * lose their lower half. */
#define LEAST_NORMAL_F16 0x1p-14
#define SIZE_MARGIN 4.0
/* Signal to noise that a constant must keep, in dB: rounding alone leaves 73 and 55. */
#define CONSTANT_DB_F16 60.0
#define CONSTANT_DB_BF16 40.0
#define BLOCK 4096

static double largest(const struct oq_precision_decider *decider) {
    return decider->spec->type == ONNXPTQ_TYPE_FLOAT16 ? (double)OQ_HALF_MAX
                                                       : (double)OQ_BFLOAT16_MAX;
}

static float rounded(const struct oq_precision_decider *decider, float value) {
    return decider->spec->type == ONNXPTQ_TYPE_FLOAT16
               ? oq_half_to_float(oq_float_to_half(value))
               : oq_bfloat16_to_float(oq_float_to_bfloat16(value));
}

/* ---- What the trace saw ---- */

static const char *seen_obstacle(struct oq_precision_decider *decider,
                                 const struct oq_statistics *seen) {
    struct oq_arena *arena = decider->plan->arena;
    if (seen->n_finite == 0 || decider->spec->type != ONNXPTQ_TYPE_FLOAT16) {
        return NULL;
    }
    /* Masks become the largest number, which serves as well. */
    const bool near = seen->n_far > 0;
    const double low = near ? seen->near_min : seen->min, high = near ? seen->near_max : seen->max;
    const double size = fmax(fabs(low), fabs(high));
    if (low <= high && size * RANGE_MARGIN > largest(decider)) {
        return oq_arena_printf(arena, "values up to %.3g, too near to the largest float16, 65504",
                               size);
    }
    const double middle = isnan(seen->mean_square) ? size : sqrt(seen->mean_square);
    if (low <= high && middle > 0.0 && middle < LEAST_NORMAL_F16 * SIZE_MARGIN) {
        return oq_arena_printf(arena, "values as small as %.2g, which float16 holds with few bits",
                               middle);
    }
    return NULL;
}

/* ---- Constants ---- */

struct loss {
    double signal, noise, largest;
};

static void add_block(const struct oq_precision_decider *decider, const float *values, size_t n,
                      struct loss *loss) {
    for (size_t i = 0; i < n; i++) {
        const double value = (double)values[i], size = fabs(value);
        if (!isfinite(value) || size >= OQ_FAR_LEAST) {
            continue; /* a mask */
        }
        const double error = value - (double)rounded(decider, values[i]);
        loss->signal += value * value;
        loss->noise += error * error;
        loss->largest = fmax(loss->largest, size);
    }
}

static const char *constant_obstacle(struct oq_precision_decider *decider,
                                     const Onnx__TensorProto *tensor) {
    struct oq_tensor_view view;
    struct loss loss = {0};
    float block[BLOCK];
    if (oq_tensor_view(oq_graph_model(decider->graph), tensor, &view, NULL) != ONNXPTQ_OK) {
        return "a constant that cannot be read";
    }
    for (size_t first = 0; first < view.n_elements; first += BLOCK) {
        const size_t left = view.n_elements - first, n = left < BLOCK ? left : BLOCK;
        oq_tensor_view_floats(&view, first, n, block);
        add_block(decider, block, n, &loss);
    }
    const bool f16 = decider->spec->type == ONNXPTQ_TYPE_FLOAT16;
    const double kept = 10.0 * log10(loss.signal / loss.noise);
    if (loss.largest > largest(decider)) {
        return oq_arena_printf(decider->plan->arena, "a constant of %.3g is beyond the type",
                               loss.largest);
    }
    if (loss.noise > 0.0 && kept < (f16 ? CONSTANT_DB_F16 : CONSTANT_DB_BF16)) {
        return oq_arena_printf(decider->plan->arena,
                               "a constant of %.2g keeps only %.0f dB in the type", loss.largest,
                               kept);
    }
    return NULL;
}

const char *oq_precision_value_obstacle(struct oq_precision_decider *decider, uint32_t value) {
    const Onnx__TensorProto *constant = oq_graph_constant(decider->graph, value);
    return constant != NULL ? constant_obstacle(decider, constant)
                            : seen_obstacle(decider, &decider->spec->seen[value]);
}

bool oq_precision_holds_scale(const struct oq_precision_decider *decider, uint32_t value) {
    const Onnx__TensorProto *constant =
        value == OQ_NONE ? NULL : oq_graph_constant(decider->graph, value);
    struct oq_tensor_view view;
    if (constant == NULL ||
        oq_tensor_view(oq_graph_model(decider->graph), constant, &view, NULL) != ONNXPTQ_OK) {
        return false;
    }
    for (size_t i = 0; i < view.n_elements; i++) {
        float scale;
        oq_tensor_view_floats(&view, i, 1, &scale);
        const float half = rounded(decider, scale);
        if (!(half > 0.0F) || !isfinite(half) || fabsf(half - scale) > scale * 0x1p-8F) {
            return false;
        }
    }
    return true;
}
