// Folding: nodes whose operands are all known are computed here, on whole numbers where ONNX does.
// It is how shapes that a network computes from its inputs' shapes become numbers.
#pragma once

#include <string_view>
#include <utility>
#include <vector>

#include "import/importer.h"

namespace tandem::import {

using Operands = std::vector<KnownPtr>;
using Folder = Known (*)(Call&, const Operands&);
using Folders = std::vector<std::pair<std::string_view, Folder>>;

Folders elementwise_folders();
Folders movement_folders();
Folders reduction_folders();

// Operand i; throws where it is missing.
const Known& operand(const Operands& in, std::size_t i);
// The elements of a result of these sizes, which is charged for.
std::size_t count_of(Call& call, const Sizes& sizes);

std::int64_t to_integer(double value);
void push(Known& out, double value);
// Element `from` of `k`, unchanged.
void copy_element(const Known& k, std::size_t from, Known& out);

std::vector<std::size_t> strides_of(const Sizes& sizes);
// A result that reads every element of `k` at an index made from the result's: element n along
// dimension d is at n * stride[d] more than `begin`.
Known strided(Call& call, const Known& k, Sizes sizes, std::int64_t begin,
              const std::vector<std::int64_t>& strides);
Known broadcast(Call& call, const Known& k, const Sizes& sizes);

// Of two elements, by an operator's name. Whole numbers wrap around, as they do in ONNX's
// implementations.
std::int64_t whole_result(std::string_view op, std::int64_t a, std::int64_t b);
double real_result(std::string_view op, double a, double b);

}  // namespace tandem::import
