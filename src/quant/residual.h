/*
 * Finding the shortcut of a residual Add: the operand that is not computed by the matrix operator
 * into which the Add is fused.
 */
#ifndef OQ_QUANT_RESIDUAL_H
#define OQ_QUANT_RESIDUAL_H

#include "quant/planner.h"

/* Scratch for many searches in one graph. */
struct oq_residual_search;
struct oq_residual_search *oq_residual_search_create(const struct oq_planner *planner);
void oq_residual_search_destroy(struct oq_residual_search *search); /* NULL is allowed */

/* Index (0 or 1) of the shortcut operand of an Add, or -1 when it is not a residual one. */
int oq_residual_shortcut(struct oq_residual_search *search, uint32_t add);

#endif
