/*
 * A fast hash of a model's files: four chains of multiplications, joined at the end.
 */
#include "model/fingerprint.h"

#include "model/model_make.h"

#include <string.h>

#define CHAINS 4
#define BLOCK (CHAINS * sizeof(uint64_t))

/* Odd, with bits all over: 2^64 divided by the golden ratio. */
#define FACTOR UINT64_C(0x9e3779b97f4a7c15)

static uint64_t mix(uint64_t hash, uint64_t word) {
    hash = (hash ^ word) * FACTOR;
    return hash ^ (hash >> 29);
}

static void add_block(uint64_t chains[CHAINS], const uint8_t *block) {
    uint64_t words[CHAINS];
    memcpy(words, block, sizeof words);
    for (size_t i = 0; i < CHAINS; i++) {
        chains[i] = mix(chains[i], words[i]);
    }
}

static uint64_t hash_bytes(uint64_t seed, const uint8_t *data, size_t size) {
    uint64_t chains[CHAINS];
    uint8_t last[BLOCK] = {0};
    for (size_t i = 0; i < CHAINS; i++) {
        chains[i] = mix(seed, i);
    }
    size_t done = 0;
    for (; size - done >= BLOCK; done += BLOCK) {
        add_block(chains, data + done);
    }
    if (size > done) {
        memcpy(last, data + done, size - done);
        add_block(chains, last);
    }
    uint64_t hash = mix(seed, size);
    for (size_t i = 0; i < CHAINS; i++) {
        hash = mix(hash, chains[i]);
    }
    return hash;
}

uint64_t oq_model_fingerprint(const struct oq_model *model) {
    uint64_t hash = 0;
    for (uint32_t i = 0; i < oq_model_n_input_files(model); i++) {
        const struct oq_mapping *mapping = oq_data_file_mapping(oq_model_data_file(model, i));
        hash = hash_bytes(hash, mapping->data, mapping->size);
    }
    return hash;
}
