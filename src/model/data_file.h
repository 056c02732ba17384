/*
 * Bytes that tensors of one or several models lie in: the model file, external data of the input, a
 * temporary file of our own, memory. Counted references.
 */
#ifndef OQ_MODEL_DATA_FILE_H
#define OQ_MODEL_DATA_FILE_H

#include "base/file.h"

struct oq_data_file;

/* Each takes what it is given, on failure too; NULL: out of memory. */
/* A mapped file. `path` NULL: not to be found by name; else links are followed now. */
struct oq_data_file *oq_data_file_create(struct oq_mapping mapping, const char *path);
/* A temporary file, which is removed with its last reference. */
struct oq_data_file *oq_data_file_create_written(struct oq_mapping mapping,
                                                 struct oq_writer *writer);
/* Malloc'ed bytes. */
struct oq_data_file *oq_data_file_create_bytes(uint8_t *bytes, size_t size);

struct oq_data_file *oq_data_file_keep(struct oq_data_file *file);
void oq_data_file_release(struct oq_data_file *file); /* NULL is allowed */

const struct oq_mapping *oq_data_file_mapping(const struct oq_data_file *file);
/* The absolute path without links under which others find the same bytes, or NULL: it has none, or
 * the file was changed or replaced since. */
const char *oq_data_file_path(const struct oq_data_file *file);
/* True when the file now at `path` is the mapped one, changed or not. */
bool oq_data_file_is_at(const struct oq_data_file *file, const char *path);
/* True for a file that we made. */
bool oq_data_file_is_temporary(const struct oq_data_file *file);

#endif
