/*
 * What writing the result's files and putting them in place share. Private to output.c and
 * output_commit.c.
 */
#ifndef OQ_API_OUTPUT_FILES_H
#define OQ_API_OUTPUT_FILES_H

#include "api/output.h"

struct oq_output {
    char *path, *data_path; /* final */
    bool overwrite;
    bool leaves_data;
    struct oq_writer *model;
    struct oq_external_data *data; /* NULL: the weights are inside */
    struct oq_writer *passage;     /* the model again, whose data are at passage_path; or NULL */
    char *passage_path;
};

#endif
