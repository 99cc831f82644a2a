// How long operators' tasks took on a device, as `tandem profile MODEL` measures them: lines of the
// machine file. The cost model takes them where they are, and corrects by them what is like them
// (predict/device.h). A line says
//
//   measured 812 us of 640 us backward:3 fp32 64x2048,2048x2048,64x2048 linear act=relu
//
// that this pass of the operator, with gradients of the operands whose bits are in 3, on shards of
// these shapes (operands, then the result), took 812 us where the cost model says 640 us.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/hash.h"
#include "base/units.h"
#include "machine/number.h"
#include "tensor/dtype.h"
#include "tensor/shape.h"

namespace tandem::machine {

// A task, whatever its shapes.
struct MeasuredKind {
  std::string pass;  // "forward", "backward:3", "update", "sum"
  DType dtype = DType::kFp32;
  std::string name;        // of the operator, or the optimizer
  std::string attributes;  // as in a graph's text

  [[nodiscard]] Hash hash() const;
};
// The same of what is there as hashes: `op` is hash_combine of those of its name and attributes.
Hash hash_of_kind(Hash pass, DType dtype, Hash op);
Hash hash_of_pass(bool backward, std::uint64_t operands);

// A task's shards, operands and result, as they tell measured tasks of a kind apart.
struct MeasuredShapes {
  Hash hash = 0;
  double elements = 0;  // of all of them

  void add(const Shape& shape);
};

struct MeasuredTime {
  MeasuredKind kind;
  std::vector<Shape> shapes;
  Seconds time;
  Seconds modelled;  // by the cost model without measurements

  [[nodiscard]] MeasuredShapes all_shapes() const;
};

// As the line above, without the first word; and back, where what is wrong is said of `place`.
std::string to_text(const MeasuredTime& measured);
MeasuredTime parse_measured(const Place& place, Words rest);

// All of a device, to be looked up.
class MeasuredTimes {
 public:
  void add(const MeasuredTime& measured);
  [[nodiscard]] bool empty() const { return points_ == nullptr; }
  [[nodiscard]] Hash hash() const { return hash_; }

  // What was measured of these shapes; else what the cost model says, times what measured tasks of
  // that kind took for each second it says: a mean (of logarithms) in which those weigh most that
  // are nearest in how long they take and, four times as much, in how long an element takes them: a
  // product with few rows, which reads its weight for little, is like others with few rows.
  [[nodiscard]] Seconds time(Hash kind, const MeasuredShapes& shapes, Seconds modelled) const;
  [[nodiscard]] bool has(Hash kind, const MeasuredShapes& shapes) const;

 private:
  struct Point {
    Hash shapes = 0;
    double time = 0;
    // Logarithms: of what is modelled, of that for an element, and of the time for a second of it.
    double modelled = 0;
    double density = 0;
    double ratio = 0;
  };
  struct OfKind {
    std::vector<Point> like_others;
    std::vector<Point> alone;  // of no use for others: nothing was modelled, or measured
  };
  using Points = std::map<Hash, OfKind>;
  static const Point* find(const OfKind& points, Hash shapes);
  std::shared_ptr<const Points> points_;  // shared by copies of a device
  Hash hash_ = 0;
};

}  // namespace tandem::machine
