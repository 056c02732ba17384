/*
 * A fast hash, to tell whether two things are the same bytes. Not made against forgery.
 */
#ifndef OQ_BASE_HASH_H
#define OQ_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

/* Hashes of several pieces are chained by `seed`. */
uint64_t oq_hash(uint64_t seed, const void *data, size_t size);
uint64_t oq_hash_text(uint64_t seed, const char *text); /* NULL is another than "" */
uint64_t oq_hash_number(uint64_t seed, uint64_t number);

#endif
