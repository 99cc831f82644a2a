// Random numbers of both types that evaluators compute with.
#pragma once

#include <random>

#include "tensor/dense.h"
#include "term/field.h"

namespace tandem::term {

template <class T>
T random_value(std::mt19937_64& random);
template <>
inline double random_value<double>(std::mt19937_64& random) {
  return std::uniform_real_distribution<double>(-1, 1)(random);
}
template <>
inline Field random_value<Field>(std::mt19937_64& random) {
  return Field(random());
}

template <class T>
Dense<T> random_dense(const Shape& shape, std::mt19937_64& random) {
  Dense<T> out(shape);
  for (auto& v : out.data) v = random_value<T>(random);
  return out;
}

}  // namespace tandem::term
