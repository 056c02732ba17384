/*
 * From an array of a file into an input's buffer: shared by the readers of files.
 */
#include "base/number.h"
#include "base/size.h"
#include "data/elements.h"
#include "data/reader.h"

#include <stdlib.h>

#define ALIGNMENT 64

bool oq_buffer_reserve(struct oq_buffer *buffer, size_t size) {
    if (size <= buffer->capacity && buffer->data != NULL) {
        return true;
    }
    size_t padded = 0;
    if (!oq_size_add(size, ALIGNMENT, &padded)) {
        return false;
    }
    padded -= padded % ALIGNMENT;
    uint8_t *data = aligned_alloc(ALIGNMENT, padded);
    if (data == NULL) {
        return false;
    }
    free(buffer->data);
    *buffer = (struct oq_buffer){.data = data, .capacity = padded};
    return true;
}

void oq_buffer_reset(struct oq_buffer *buffer) {
    free(buffer->data);
    *buffer = (struct oq_buffer){0};
}

enum onnxptq_status oq_reader_fetch(struct oq_archive *archive, struct oq_element_range range,
                                    int to, uint8_t *out, struct oq_buffer *scratch,
                                    const char *input, size_t sample, struct onnxptq_error *error) {
    const struct oq_npy *npy = &oq_archive_array(archive, range.array)->npy;
    int from = (int)npy->type;
    if (from == to) {
        return oq_archive_read(archive, range.array, range.first, range.n, out, error);
    }
    if (!oq_buffer_reserve(scratch, range.n * npy->item_size)) {
        return oq_fail_memory(error, "a calibration sample");
    }
    OQ_TRY(oq_archive_read(archive, range.array, range.first, range.n, scratch->data, error));
    size_t converted = oq_elements_convert(from, scratch->data, to, out, range.n);
    if (converted == range.n) {
        return ONNXPTQ_OK;
    }
    return oq_fail(
        error, ONNXPTQ_ERROR_DATA,
        "cannot use '%s' for input '%s': element %zu of sample %zu does not fit %s, which the "
        "input takes; found %s",
        oq_archive_array(archive, range.array)->path, input, converted, sample, oq_type_name(to),
        oq_type_name(from));
}
