/*
 * The arithmetic of folding; see fold.h. Weights are passed through in blocks.
 */
#include "prepare/fold.h"

#include "base/number.h"
#include "base/size.h"
#include "model/tensor.h"

#include <stdlib.h>

#define BLOCK 2048 /* elements */

/* Per output channel. */
struct channels {
    size_t n;
    double *factor, *shift;
};

/* Writes the values in `type`; false when one is not finite there. */
static bool encode_all(int type, const double *values, size_t n, uint8_t *out) {
    const size_t width = oq_type_size(type);
    for (size_t i = 0; i < n; i++) {
        double back;
        oq_store_float(type, values[i], out + i * width);
        oq_convert_to_double(type, out + i * width, 1, &back);
        if (!isfinite(back)) {
            return false;
        }
    }
    return true;
}

/* ---- Channels ------------------------------------------------------------------------------- */

/* Output channels of a weight; false when its form is not that of a convolution. */
static bool count_channels(const struct oq_fold *fold, size_t *out) {
    const Onnx__TensorProto *weight = fold->weight;
    if (weight->n_dims < 3 || !oq_type_is_float(weight->data_type) || fold->groups < 1 ||
        weight->dims[0] < 1 || weight->dims[1] < 1) {
        return false;
    }
    *out = (size_t)weight->dims[0];
    return !fold->transposed || (weight->dims[0] % fold->groups == 0 &&
                                 oq_size_mul((size_t)weight->dims[1], (size_t)fold->groups, out));
}

static bool is_channel_vector(const Onnx__TensorProto *tensor, size_t n) {
    return oq_type_is_float(tensor->data_type) && tensor->n_dims == 1 &&
           (size_t)tensor->dims[0] == n;
}

static bool vectors_fit(const struct oq_fold *fold, size_t n) {
    for (size_t i = 1; i < OQ_NORM_INPUTS; i++) {
        if (!is_channel_vector(fold->norm[i], n)) {
            return false;
        }
    }
    return fold->bias == NULL || is_channel_vector(fold->bias, n);
}

static enum onnxptq_status read_vector(const struct oq_fold *fold, const Onnx__TensorProto *tensor,
                                       double *out, struct onnxptq_error *error) {
    struct oq_tensor_view view;
    OQ_TRY(oq_tensor_view(fold->model, tensor, &view, error));
    oq_convert_to_double(view.type, view.data, view.n_elements, out);
    return ONNXPTQ_OK;
}

/* `work` has room for 5 n: scale, B, mean, variance, bias (zero already). Factor and shift take the
 * place of the first two. */
static enum onnxptq_status compute_channels(const struct oq_fold *fold, double *work,
                                            struct channels *channels,
                                            struct onnxptq_error *error) {
    const size_t n = channels->n;
    double *const scale = work, *const b = work + n, *const mean = work + 2 * n,
                  *const variance = work + 3 * n, *const bias = work + 4 * n;
    OQ_TRY(read_vector(fold, fold->norm[1], scale, error));
    OQ_TRY(read_vector(fold, fold->norm[2], b, error));
    OQ_TRY(read_vector(fold, fold->norm[3], mean, error));
    OQ_TRY(read_vector(fold, fold->norm[4], variance, error));
    if (fold->bias != NULL) {
        OQ_TRY(read_vector(fold, fold->bias, bias, error));
    }
    for (size_t i = 0; i < n; i++) {
        scale[i] /= sqrt(variance[i] + (double)fold->epsilon); /* not finite: refused later */
        b[i] += (bias[i] - mean[i]) * scale[i];
    }
    channels->factor = scale;
    channels->shift = b;
    return ONNXPTQ_OK;
}

static bool all_finite(const double *values, size_t n) {
    for (size_t i = 0; i < n; i++) {
        if (!isfinite(values[i])) {
            return false;
        }
    }
    return true;
}

/* ---- Weight and bias ------------------------------------------------------------------------ */

/* Output channel of an element of the weight. */
struct layout {
    size_t inner;   /* elements of one (row, column) of a transposed weight, else of one channel */
    size_t columns; /* transposed: output channels of a group */
    size_t group_rows; /* transposed: input channels of a group */
};

static size_t channel_of(const struct oq_fold *fold, const struct layout *layout, size_t element) {
    const size_t index = element / layout->inner;
    if (!fold->transposed) {
        return index;
    }
    const size_t row = index / layout->columns;
    return row / layout->group_rows * layout->columns + index % layout->columns;
}

static struct layout layout_of(const struct oq_fold *fold, const struct oq_tensor_view *view,
                               size_t n_channels) {
    const size_t rows = (size_t)view->shape[0], columns = (size_t)view->shape[1];
    return fold->transposed ? (struct layout){view->n_elements / rows / columns, columns,
                                              rows / (size_t)fold->groups}
                            : (struct layout){view->n_elements / n_channels, 0, 0};
}

static bool put_weight(const struct oq_fold *fold, const struct oq_tensor_view *view,
                       const struct channels *channels, struct oq_spill *spill) {
    const struct layout layout = layout_of(fold, view, channels->n);
    const size_t width = oq_type_size(view->type);
    double values[BLOCK];
    uint8_t bytes[BLOCK * sizeof(double)];
    for (size_t first = 0; first < view->n_elements; first += BLOCK) {
        const size_t left = view->n_elements - first, n = left < BLOCK ? left : BLOCK;
        oq_convert_to_double(view->type, view->data + first * width, n, values);
        for (size_t i = 0; i < n; i++) {
            values[i] *= channels->factor[channel_of(fold, &layout, first + i)];
        }
        if (!encode_all(view->type, values, n, bytes)) {
            return false;
        }
        oq_spill_put(spill, bytes, n * width);
    }
    return true;
}

static enum onnxptq_status compute_bias(struct oq_fold *fold, const struct channels *channels,
                                        struct oq_spill *spill, bool *exact,
                                        struct onnxptq_error *error) {
    const int type = fold->weight->data_type;
    const int64_t shape[] = {(int64_t)channels->n};
    const size_t size = channels->n * oq_type_size(type);
    uint8_t *bytes = malloc(size);
    if (bytes == NULL) {
        return oq_fail_memory(error, "a bias");
    }
    *exact = encode_all(type, channels->shift, channels->n, bytes);
    enum onnxptq_status status = ONNXPTQ_OK;
    if (*exact) {
        status = oq_spill_begin(spill, type, shape, 1, size, &fold->new_bias, error);
    }
    if (status == ONNXPTQ_OK && *exact) {
        oq_spill_put(spill, bytes, size);
    }
    free(bytes);
    return status;
}

static enum onnxptq_status compute_weight(struct oq_fold *fold, const struct channels *channels,
                                          struct oq_spill *spill, bool *exact,
                                          struct onnxptq_error *error) {
    struct oq_tensor_view view;
    OQ_TRY(oq_tensor_view(fold->model, fold->weight, &view, error));
    *exact = view.n_elements > 0;
    if (!*exact) {
        return ONNXPTQ_OK;
    }
    OQ_TRY(oq_spill_begin(spill, view.type, view.shape, view.rank, view.size, &fold->new_weight,
                          error));
    *exact = put_weight(fold, &view, channels, spill);
    return ONNXPTQ_OK;
}

enum onnxptq_status oq_fold_compute(struct oq_fold *fold, struct oq_spill *spill, bool *exact,
                                    struct onnxptq_error *error) {
    struct channels channels = {0};
    enum onnxptq_status status = ONNXPTQ_OK;
    *exact = false;
    if (!count_channels(fold, &channels.n) || !vectors_fit(fold, channels.n)) {
        return ONNXPTQ_OK;
    }
    double *work = calloc(channels.n, OQ_NORM_INPUTS * sizeof *work);
    if (work == NULL) {
        return oq_fail_memory(error, "a folded BatchNormalization");
    }
    OQ_TRY_DONE(compute_channels(fold, work, &channels, error));
    if (!all_finite(channels.factor, channels.n)) {
        goto done;
    }
    OQ_TRY_DONE(compute_bias(fold, &channels, spill, exact, error));
    if (*exact) {
        OQ_TRY_DONE(compute_weight(fold, &channels, spill, exact, error));
    }
done:
    free(work);
    return status;
}
