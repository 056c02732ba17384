/*
 * The model's files, one after the other.
 */
#include "model/fingerprint.h"

#include "base/hash.h"
#include "model/model_make.h"

uint64_t oq_model_fingerprint(const struct oq_model *model) {
    uint64_t hash = 0;
    for (uint32_t i = 0; i < oq_model_n_input_files(model); i++) {
        const struct oq_mapping *mapping = oq_data_file_mapping(oq_model_data_file(model, i));
        hash = oq_hash(hash, mapping->data, mapping->size);
    }
    return hash;
}
