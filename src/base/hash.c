/*
 * Four chains of multiplications, joined at the end: a processor computes them side by side.
 */
#include "base/hash.h"

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

uint64_t oq_hash(uint64_t seed, const void *data, size_t size) {
    const uint8_t *bytes = data;
    uint64_t chains[CHAINS];
    uint8_t last[BLOCK] = {0};
    for (size_t i = 0; i < CHAINS; i++) {
        chains[i] = mix(seed, i);
    }
    size_t done = 0;
    for (; size - done >= BLOCK; done += BLOCK) {
        add_block(chains, bytes + done);
    }
    if (size > done) {
        memcpy(last, bytes + done, size - done);
        add_block(chains, last);
    }
    uint64_t hash = mix(seed, size);
    for (size_t i = 0; i < CHAINS; i++) {
        hash = mix(hash, chains[i]);
    }
    return hash;
}

uint64_t oq_hash_text(uint64_t seed, const char *text) {
    return text != NULL ? oq_hash(seed, text, strlen(text)) : mix(seed, UINT64_MAX);
}

uint64_t oq_hash_number(uint64_t seed, uint64_t number) {
    return mix(seed, number);
}
