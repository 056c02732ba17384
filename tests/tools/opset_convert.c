/*
 * Opset conversion alone, for tests/test_opset.py, which runs what comes out.
 *
 *   opset_convert MODEL OUT VERSION    converts; exit 1 and the message on stderr when it cannot
 *   opset_convert --table              prints the table of changes: type, version, how
 */
#include "model/write.h"
#include "prepare/opset.h"
#include "prepare/opset_table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int print_table(void) {
    size_t n;
    const struct oq_opset_change *changes = oq_opset_changes(&n);
    for (size_t i = 0; i < n; i++) {
        printf("%s %lld %s\n", changes[i].type, (long long)changes[i].version,
               changes[i].convert == NULL ? "same" : "converted");
    }
    return EXIT_SUCCESS;
}

static enum onnxptq_status write_model(const struct oq_model *model, const char *path,
                                       struct onnxptq_error *error) {
    struct oq_writer *writer = NULL;
    enum onnxptq_status status;
    OQ_TRY_DONE(oq_writer_create(path, &writer, error));
    OQ_TRY_DONE(oq_model_write(model, writer, error));
    OQ_TRY_DONE(oq_writer_finish(writer, error));
    OQ_TRY_DONE(oq_writer_commit(writer, error));
done:
    oq_writer_destroy(writer);
    return status;
}

/* After a refused conversion the model as it is then is written all the same: it must be unchanged.
 */
static enum onnxptq_status convert(const char *input, const char *output, int64_t version,
                                   struct onnxptq_error *error) {
    struct oq_model *model = NULL;
    enum onnxptq_status status;
    OQ_TRY_DONE(oq_model_read(input, &model, error));
    status = oq_opset_raise(model, version, error);
    const enum onnxptq_status written =
        write_model(model, output, status == ONNXPTQ_OK ? error : NULL);
    status = status == ONNXPTQ_OK ? written : status;
done:
    oq_model_destroy(model);
    return status;
}

int main(int argc, char **argv) {
    if (argc == 2 && strcmp(argv[1], "--table") == 0) {
        return print_table();
    }
    if (argc != 4) {
        fprintf(stderr, "usage: opset_convert MODEL OUT VERSION | --table\n");
        return 2;
    }
    struct onnxptq_error error;
    if (convert(argv[1], argv[2], strtoll(argv[3], NULL, 10), &error) != ONNXPTQ_OK) {
        fprintf(stderr, "%s\n", error.message);
        return EXIT_FAILURE;
    }
    return EXIT_SUCCESS;
}
