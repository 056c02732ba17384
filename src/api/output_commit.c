/*
 * Putting the result's files in place. Each step is one system call that happens or does not, and
 * after each of them the model under the output's name has its data:
 *
 *   nothing is replaced, or only one of the two:   data, then model
 *   both are replaced:   the data get a name of their own                     old model, old data
 *                        a model that expects them there gets the output's    new model
 *                        the data get their final name too                    new model
 *                        the model that expects them there replaces it        new model, new data
 *                        the other name goes
 */
#include "api/output_files.h"

/* Without leave to replace, what has come meanwhile stays. */
static enum onnxptq_status commit(const struct oq_output *output, struct oq_writer *writer,
                                  struct onnxptq_error *error) {
    return output->overwrite ? oq_writer_commit(writer, error)
                             : oq_writer_commit_new(writer, error);
}

static enum onnxptq_status commit_plainly(struct oq_output *output, struct oq_writer *data,
                                          struct onnxptq_error *error) {
    const bool replaced = oq_path_exists(output->data_path);
    OQ_TRY(commit(output, data, error));
    const enum onnxptq_status status = commit(output, output->model, error);
    if (status != ONNXPTQ_OK && !replaced) {
        oq_file_remove(output->data_path);
    }
    return status;
}

/* Where the file system has no links the data are moved, and for a moment the model has none. */
static enum onnxptq_status move_to_final_names(struct oq_output *output,
                                               struct onnxptq_error *error) {
    const bool linked = oq_file_link_over(output->passage_path, output->data_path);
    if (!linked) {
        OQ_TRY(oq_file_rename(output->passage_path, output->data_path, error));
    }
    OQ_TRY(oq_writer_commit(output->model, error));
    if (linked) {
        oq_file_remove(output->passage_path);
    }
    return ONNXPTQ_OK;
}

static enum onnxptq_status commit_by_passage(struct oq_output *output, struct oq_writer *data,
                                             struct onnxptq_error *error) {
    OQ_TRY(oq_writer_commit_as(data, output->passage_path, error));
    const enum onnxptq_status status = oq_writer_commit(output->passage, error);
    if (status != ONNXPTQ_OK) {
        oq_file_remove(output->passage_path);
        return status;
    }
    return move_to_final_names(output, error);
}

enum onnxptq_status oq_output_commit(struct oq_output *output, struct onnxptq_error *error) {
    if (output->data == NULL) {
        return commit(output, output->model, error);
    }
    struct oq_writer *data = oq_external_data_writer(output->data);
    return output->passage == NULL ? commit_plainly(output, data, error)
                                   : commit_by_passage(output, data, error);
}
