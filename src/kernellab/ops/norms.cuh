// Norms over the last dim: how rows are moved, and the sums over them. The op's Norm says what is computed:
// Norm::CENTRED, whether the mean is subtracted; Norm::normalized(x, mean, rstd); and Norm::gradient(g, normal, mean_g,
// mean_product, rstd), the gradient of x from that of the normalized values, g, and the means of g and of g·normal.
//
// In every kernel x is [rows, cols] with strides (x_row, x_col), as are the residual, dy and `up`, the gradient of the
// sum of x and the residual; y, total and dx are contiguous. All are counted in elements. WIDTH > 1 only if all column
// strides are 1; then all rows are ALIGNED to WIDTH elements, or those of all tensors start at the same offset from it.
// mean and rstd are [rows] in fp32.
//
// weight and bias are [cols]. Where rows are not ALIGNED, they are copies [WIDTH, w_row] of it: copy h begins with column
// h, and its accesses are aligned as those of a row are that has h elements before them (see Peeled).
//
// A null pointer stands for a parameter, a mean or a gradient that is not there.
#pragma once

#include "norms_backward.cuh"
#include "norms_forward.cuh"
#include "norms_pipeline.cuh"
