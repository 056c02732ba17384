/*
 * Reading and verifying models; declared in model.h.
 */
#include "model/model_make.h"
#include "model/tensor.h"
#include "model/walk.h"
#include "model/wire.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- Verifying ---- */

static enum onnxptq_status verify_tensor(void *user, const struct oq_tensor_site *site,
                                         Onnx__TensorProto *tensor, struct onnxptq_error *error) {
    if (tensor->segment != NULL) {
        return ONNXPTQ_OK; /* part of a tensor: passed through, never used */
    }
    const enum onnxptq_status status = oq_tensor_check(user, tensor, error);
    if (status == ONNXPTQ_OK) {
        return ONNXPTQ_OK;
    }
    char text[1024];
    oq_tensor_site_text(site, tensor, text, sizeof text);
    return oq_prefix(error, status, "%s: ", text);
}

static enum onnxptq_status verify_node(void *user, Onnx__NodeProto *node,
                                       struct onnxptq_error *error) {
    (void)user;
    if (node->op_type != NULL && node->op_type[0] != '\0') {
        return ONNXPTQ_OK;
    }
    char text[256];
    oq_node_text(node, text, sizeof text);
    return oq_fail(error, ONNXPTQ_ERROR_MODEL, "node '%s' has no operator type", text);
}

static enum onnxptq_status verify_imports(const Onnx__ModelProto *model,
                                          struct onnxptq_error *error) {
    for (size_t i = 0; i < model->n_opset_import; i++) {
        for (size_t j = 0; j < i && j < 64; j++) {
            const Onnx__OperatorSetIdProto *a = model->opset_import[j], *b = model->opset_import[i];
            if (oq_same_domain(a->domain, b->domain) && a->version != b->version) {
                return oq_fail(error, ONNXPTQ_ERROR_MODEL,
                               "it imports versions %" PRId64 " and %" PRId64
                               " of operator set '%s' at once; keep one of them",
                               a->version, b->version,
                               oq_is_default_domain(a->domain) ? "ai.onnx" : a->domain);
            }
        }
    }
    return ONNXPTQ_OK;
}

static enum onnxptq_status verify(struct oq_model *model, struct onnxptq_error *error) {
    Onnx__ModelProto *proto = oq_model_proto(model);
    if (proto->graph == NULL) {
        return oq_fail(error, ONNXPTQ_ERROR_MODEL, "it holds no graph; is it an ONNX model?");
    }
    OQ_TRY(verify_imports(proto, error));
    const struct oq_visitor visitor = {.user = model, .node = verify_node, .tensor = verify_tensor};
    return oq_walk_model(proto, &visitor, error);
}

/* ---- Reading ---- */

/* Where a model's bytes come from and where its external data may lie. */
struct source {
    const char *path;   /* NULL: memory */
    const char *folder; /* NULL: no external data */
    struct oq_mapping bytes;
    uint8_t *owned; /* malloc'ed bytes of memory, NULL for a mapped file */
};

static enum onnxptq_status parse(struct oq_model *model, struct oq_mapping bytes, uint32_t file,
                                 struct onnxptq_error *error) {
    struct oq_bytes skeleton = {NULL, 0, 0};
    enum onnxptq_status status = oq_wire_shrink(bytes.data, bytes.size, file, &skeleton, error);
    if (status == ONNXPTQ_OK) {
        status = oq_model_unpack(model, skeleton.data, skeleton.size, error);
    }
    oq_bytes_reset(&skeleton);
    return status;
}

/* Takes the source's bytes. */
static enum onnxptq_status read_source(struct source source, struct oq_model **out,
                                       struct onnxptq_error *error) {
    struct oq_model *model = NULL;
    uint32_t file = 0;
    enum onnxptq_status status = oq_model_create(source.path, &model, error);
    if (status != ONNXPTQ_OK) {
        if (source.owned == NULL) {
            oq_mapping_close(&source.bytes);
        }
        free(source.owned);
        return status;
    }
    status = source.owned == NULL
                 ? oq_model_add_input(model, source.bytes, source.path, &file, error)
                 : oq_model_add_bytes(model, source.owned, source.bytes.size, &file, error);
    if (status != ONNXPTQ_OK) {
        goto done;
    }
    if (source.bytes.size == 0) {
        status = oq_fail(error, ONNXPTQ_ERROR_MODEL, "the file is empty");
        goto done;
    }
    OQ_TRY_DONE(parse(model, source.bytes, file, error));
    OQ_TRY_DONE(oq_model_attach_external(model, source.folder, error));
    OQ_TRY_DONE(verify(model, error));
    OQ_TRY_DONE(oq_model_drop_repeated(model, error));
    *out = model;
    model = NULL;
done:
    oq_model_destroy(model);
    return oq_prefix(error, status,
                     "cannot read model '%s': ", source.path == NULL ? "<memory>" : source.path);
}

enum onnxptq_status oq_model_read(const char *path, struct oq_model **out,
                                  struct onnxptq_error *error) {
    struct source source = {.path = path};
    const enum onnxptq_status opened = oq_mapping_open(path, &source.bytes, error);
    if (opened != ONNXPTQ_OK) {
        return opened;
    }
    char *folder = oq_path_folder(path);
    if (folder == NULL) {
        oq_mapping_close(&source.bytes);
        return oq_fail_memory(error, "a path");
    }
    source.folder = folder;
    const enum onnxptq_status status = read_source(source, out, error);
    free(folder);
    return status;
}

enum onnxptq_status oq_model_read_memory(const void *data, size_t size, const char *folder,
                                         struct oq_model **out, struct onnxptq_error *error) {
    uint8_t *copy = malloc(size > 0 ? size : 1);
    if (copy == NULL) {
        return oq_fail_memory(error, "a model");
    }
    if (size > 0) {
        memcpy(copy, data, size);
    }
    const struct source source = {
        .folder = folder, .bytes = {size > 0 ? copy : NULL, size}, .owned = copy};
    return read_source(source, out, error);
}
