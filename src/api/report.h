/*
 * What a run found out, collected stage by stage. Strings of the graph and the plan are borrowed:
 * both live as long as the job. Everything else is in the report's arena.
 */
#ifndef OQ_API_REPORT_H
#define OQ_API_REPORT_H

#include "base/arena.h"
#include "check/compare.h"
#include "precision/precision.h"
#include "quant/emit.h"

#define OQ_REPORT_MAX_STAGES 16

struct oq_report {
    struct onnxptq_report public;
    struct oq_arena *arena;
    struct onnxptq_stage_report stages[OQ_REPORT_MAX_STAGES];
    char **notes;
    size_t n_notes, capacity_notes;
};

enum onnxptq_status oq_report_init(struct oq_report *report, struct onnxptq_error *error)
    OQ_MUST_USE;
void oq_report_reset(struct oq_report *report);

void oq_report_add_stage(struct oq_report *report, const char *name, double seconds,
                         double processor_seconds);
/* What a note says of why a runtime refused something: of a long message the end, where providers
 * say what matters. */
#define OQ_REASON_SIZE 400
void oq_report_reason(const char *message, char reason[OQ_REASON_SIZE]);
/* A line for the user; one that is there already is not added again. Lost when out of memory. */
void oq_report_add_note(struct oq_report *report, const char *format, ...) OQ_PRINTF(2, 3);
void oq_report_remove_notes(struct oq_report *report, size_t first, size_t n);

/* `plan` NULL: only what they are is known yet. `left_float`, one per node, may be NULL: what the
 * emitter had to leave float. */
enum onnxptq_status oq_report_add_nodes(struct oq_report *report, const struct oq_graph *graph,
                                        const struct oq_plan *plan, const bool *left_float,
                                        struct onnxptq_error *error) OQ_MUST_USE;
/* What was emitted: pairs, weights, nodes and the emitter's notes. `ranges`: one per value of the
 * graph. */
enum onnxptq_status oq_report_add_numbers(struct oq_report *report, const struct oq_graph *graph,
                                          const struct oq_plan *plan,
                                          const struct oq_statistics *ranges,
                                          const struct oq_emit_result *emitted,
                                          struct onnxptq_error *error) OQ_MUST_USE;
/* What a plan of half precision says of the same nodes. */
enum onnxptq_status oq_report_add_precision(struct oq_report *report,
                                            const struct oq_precision_plan *plan,
                                            struct onnxptq_error *error) OQ_MUST_USE;
enum onnxptq_status oq_report_add_outputs(struct oq_report *report,
                                          const struct oq_output_quality *quality, size_t n,
                                          struct onnxptq_error *error) OQ_MUST_USE;

/* The report as JSON text (docs/report.md), malloc'ed. */
enum onnxptq_status oq_report_write_json(const struct onnxptq_report *report, char **text,
                                         struct onnxptq_error *error) OQ_MUST_USE;

#endif
