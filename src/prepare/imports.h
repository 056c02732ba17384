/*
 * Operator sets that a model and its local functions import.
 */
#ifndef OQ_PREPARE_IMPORTS_H
#define OQ_PREPARE_IMPORTS_H

#include "prepare/preparation.h"

/* Merges equal imports of one domain, refuses different ones, and adds those of domains that nodes
 * use and nothing imports: the runtime takes such a model, checkers do not. */
enum onnxptq_status oq_prepare_imports(struct oq_preparation *preparation,
                                       struct onnxptq_error *error) OQ_MUST_USE;

/* Version of `domain` in a list of imports, or 0. */
int64_t oq_imports_find(Onnx__OperatorSetIdProto *const *imports, size_t n, const char *domain);

#endif
