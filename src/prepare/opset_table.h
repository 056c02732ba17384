/*
 * What changed in which version of the default domain, and the functions that rewrite a node.
 */
#ifndef OQ_PREPARE_OPSET_TABLE_H
#define OQ_PREPARE_OPSET_TABLE_H

#include "prepare/opset_edit.h"

/* Rewrites a node of the version before for the version of the row, and emits it with whatever else
 * it needs. `node` is a copy. What is emitted is itself subject to the rows of later versions. */
typedef enum onnxptq_status oq_opset_conversion(struct oq_opset_body *body, Onnx__NodeProto *node,
                                                struct onnxptq_error *error);

struct oq_opset_change {
    const char *type;
    int64_t version;
    oq_opset_conversion *convert; /* NULL: a node of the version before means the same as it is */
};

/* The change of an operator at a version, or NULL. */
const struct oq_opset_change *oq_opset_find_change(const char *type, int64_t version);
/* All changes, by type and version. */
const struct oq_opset_change *oq_opset_changes(size_t *n);

/* opset_inputs.c: attributes that became inputs */
oq_opset_conversion oq_opset_clip_11, oq_opset_dft_20, oq_opset_dropout_10, oq_opset_dropout_12,
    oq_opset_pad_11, oq_opset_reduce, oq_opset_slice_10, oq_opset_split_13, oq_opset_split_18,
    oq_opset_squeeze_13, oq_opset_top_k_10, oq_opset_unsqueeze_13;
/* opset_resize.c */
oq_opset_conversion oq_opset_grid_sample_20, oq_opset_resize_11, oq_opset_resize_13,
    oq_opset_roi_align_16, oq_opset_upsample_9, oq_opset_upsample_10;
/* opset_norm.c */
oq_opset_conversion oq_opset_batch_normalization_9, oq_opset_batch_normalization_14,
    oq_opset_group_normalization_21, oq_opset_softmax_13;
/* opset_control.c */
oq_opset_conversion oq_opset_scan_9, oq_opset_scatter_11;
/* opset_legacy.c: operators of before ONNX 1.0 that runtimes accept below version 10 */
oq_opset_conversion oq_opset_affine_10, oq_opset_crop_10, oq_opset_dynamic_slice_10,
    oq_opset_image_scaler_10, oq_opset_mean_variance_normalization_9,
    oq_opset_parametric_softplus_10, oq_opset_scale_10, oq_opset_scaled_tanh_10;

#endif
