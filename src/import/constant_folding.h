// Constant folding: computes the nodes whose operands are all known, with integers where ONNX uses
// integers. It turns the shapes that a network computes from its inputs' shapes into numbers.
//
// Example: x is [4, 3, 8].
//   Shape(x) = {4, 3, 8}, Gather of element 0 = {4}, Concat with {-1} = {4, -1}
//   Reshape(x, {4, -1}) stays and gives [4, 24]
#pragma once

#include <string_view>
#include <utility>
#include <vector>

#include "import/importer.h"

namespace tandem::import {

using Operands = std::vector<KnownPtr>;
using FoldFunction = Known (*)(OnnxCall&, const Operands&);
using FoldFunctions = std::vector<std::pair<std::string_view, FoldFunction>>;

// Return the folding functions of one file each, by ONNX operator.
FoldFunctions elementwise_fold_functions();
FoldFunctions movement_fold_functions();
FoldFunctions reduction_fold_functions();

// Returns operand `i`. Throws UserError if it is missing.
const Known& get_operand(const Operands& in, std::size_t i);
// Returns the number of elements of a result of these sizes, and charges the call for them.
std::size_t count_and_charge(OnnxCall& call, const Sizes& sizes);

std::int64_t to_integer(double value);
void push(Known& out, double value);
// Appends element `from` of `k` to `out`, unchanged.
void copy_element(const Known& k, std::size_t from, Known& out);

// Returns the row-major strides of a tensor of these sizes.
std::vector<std::size_t> compute_strides(const Sizes& sizes);
// Returns a tensor of `sizes` whose element at index (n_0, n_1, ...) is the element of `k` at begin
// + n_0 * strides[0] + n_1 * strides[1] + ...
Known copy_strided(OnnxCall& call, const Known& k, Sizes sizes, std::int64_t begin,
                   const std::vector<std::int64_t>& strides);
// Returns `k` broadcast to `sizes`.
Known broadcast(OnnxCall& call, const Known& k, const Sizes& sizes);

// Return the result of the binary operator `op` on two elements. Integers wrap around, as they do
// in ONNX's implementations.
std::int64_t evaluate_integer_op(std::string_view op, std::int64_t a, std::int64_t b);
double evaluate_real_op(std::string_view op, double a, double b);

}  // namespace tandem::import
