// Measured times of operators' tasks on a device, as `tandem profile MODEL` writes them into a
// machine file. The cost model uses a measured time if there is one, and corrects similar tasks by
// it (predict/task_work.h). A line looks like this:
//
//   measured 812 us of 640 us backward:3 fp32 64x2048,2048x2048,64x2048 linear act=relu
//
// It is one pass of one operator; the bits of 3 are the operands that get gradients. The shapes are
// the shards of the operands, then of the result. The task took 812 us; the cost model predicts 640
// us.
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

// The kind of a task: everything except its shapes.
struct MeasuredKind {
  std::string pass;  // "forward", "backward:3", "update", "sum"
  DType dtype = DType::kFp32;
  std::string name;        // name of the operator or the optimizer
  std::string attributes;  // attributes as in a graph's text

  [[nodiscard]] Hash hash() const;
};
// Returns MeasuredKind::hash() from hashes: `op` is hash_combine of the hashes of name and
// attributes.
Hash hash_kind(Hash pass, DType dtype, Hash op);
Hash hash_pass(bool backward, std::uint64_t operands);

// Key of a task's shapes (operands, then result); it distinguishes measured tasks of one kind.
struct MeasuredShapes {
  Hash hash = 0;
  double elements = 0;  // number of elements in all shapes together

  void add(const Shape& shape);
};

struct MeasuredTime {
  MeasuredKind kind;
  std::vector<Shape> shapes;
  Seconds time;
  Seconds modelled;  // prediction of the cost model without measurements

  [[nodiscard]] MeasuredShapes make_shapes_key() const;
};

// Convert to and from the line above, without its first word. parse_measured() reports errors at
// `place`.
std::string to_text(const MeasuredTime& measured);
MeasuredTime parse_measured(const Place& place, Words rest);

// All measured times of a device, for lookup.
class MeasuredTimes {
 public:
  void add(const MeasuredTime& measured);
  [[nodiscard]] bool empty() const { return points_ == nullptr; }
  [[nodiscard]] Hash hash() const { return hash_; }

  // Returns the measured time of these shapes if there is one. Otherwise it returns `modelled`
  // times a mean ratio of measured to modelled time over tasks of that kind. The mean is geometric.
  // Tasks weigh more if their time, and four times as much their time per element, is near.
  // Example: a matmul with few rows is dominated by reading its weight, so it is corrected by
  // others with few rows.
  [[nodiscard]] Seconds estimate_time(Hash kind, const MeasuredShapes& shapes,
                                      Seconds modelled) const;
  [[nodiscard]] bool has(Hash kind, const MeasuredShapes& shapes) const;

 private:
  struct MeasuredPoint {
    Hash shapes = 0;
    double time = 0;
    // Logarithms of the modelled time, of that time per element, and of measured / modelled.
    double modelled = 0;
    double density = 0;
    double ratio = 0;
  };
  struct OfKind {
    std::vector<MeasuredPoint> like_others;
    std::vector<MeasuredPoint> alone;  // no use for other tasks: a time is zero
  };
  using Points = std::map<Hash, OfKind>;
  static const MeasuredPoint* find(const OfKind& points, Hash shapes);
  std::shared_ptr<const Points> points_;  // shared by copies of a device
  Hash hash_ = 0;
};

}  // namespace tandem::machine
