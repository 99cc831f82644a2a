// embedding, embedding_bag and add_embedding_bags on a device that may hold only some rows of the
// table. Indices are global, and those of other rows contribute nothing. An embedding is a bag of
// one.
#include "ops/attributes.h"
#include "ops/registry.h"
#include "runtime/aten.h"
#include "runtime/kernels.h"

namespace tandem::runtime {

namespace {

template <class Sum, class T>
[[gnu::optimize("O3")]] void add_row(Sum* __restrict to, const T* __restrict from,
                                     std::int64_t width) {
  for (std::int64_t d = 0; d < width; ++d) to[d] += static_cast<Sum>(from[d]);
}

// bf16 rows are summed in fp32.
at::TensorOptions make_sum_options(const at::Tensor& t) {
  return t.scalar_type() == at::kBFloat16 ? t.options().dtype(at::kFloat) : t.options();
}

bool has_tables(const Call& call) { return call.op.is(ops::kEmbeddingBags); }

std::int64_t get_bag_size(const Call& call, const at::Tensor& indices) {
  return call.op.is(ops::kEmbedding) ? 1 : indices.size(-1);
}

// Calls visit(bag, row) for every index whose row is on this device. With several tables, bag b
// reads table b % tables, and rows are numbered through all tables.
template <class Visit>
void for_each_row(const Call& call, const at::Tensor& indices, Visit&& visit) {
  const auto* index = indices.data_ptr<std::int64_t>();
  const auto length = get_bag_size(call, indices);
  const auto bags = indices.numel() / length;
  const auto& table = call.operands[1];
  const std::size_t d = has_tables(call) ? 1 : 0;
  const auto tables = has_tables(call) ? table.local[0] : 1;
  const auto first = table.offset[d];
  const auto rows = table.local[d];
  for (std::int64_t bag = 0; bag < bags; ++bag) {
    const auto before = bag % tables * rows;
    for (std::int64_t l = 0; l < length; ++l) {
      const auto row = *index++ - first;
      if (row >= 0 && row < rows) visit(bag, before + row);
    }
  }
}

// --- By ATen, on any device ----------------------------------------------------------------------

// The row of every index, numbered through all tables. If the row is on another device, `row` and
// `here` are 0.
struct TableRows {
  at::Tensor row, here;  // [indices]; `here`: undefined if tables are whole
  std::int64_t length;   // Indices in a bag

  TableRows(const Call& call, const at::Tensor& indices) : length(get_bag_size(call, indices)) {
    const auto& table = call.operands[1];
    const std::size_t d = has_tables(call) ? 1 : 0;
    const auto rows = table.local[d];
    row = indices.reshape({-1, length});
    if (rows != table.sizes[d]) {
      row = at::sub(row, table.offset[d]);
      here = row.ge(0).logical_and_(row.lt(rows));
      row = at::mul(row, here);
      here = here.reshape({-1});
    }
    if (has_tables(call)) {
      const auto first = at::arange(0, table.local[0] * rows, rows, row.options());
      row = at::add(row.view({-1, table.local[0], length}), first.unsqueeze(-1));
    }
    row = row.reshape({-1});
  }

  // Returns `elements` [indices, width] with zeros for rows on other devices.
  [[nodiscard]] at::Tensor zero_absent_rows(const at::Tensor& elements) const {
    return here.defined() ? at::mul(elements, here.unsqueeze(-1)) : elements;
  }
  // Returns the row of each index's bag: [indices, width].
  [[nodiscard]] at::Tensor expand_bags(const at::Tensor& g) const {
    const auto bags = g.reshape({-1, 1, g.size(-1)});
    return zero_absent_rows(bags.expand({-1, length, -1}).reshape({-1, g.size(-1)}));
  }
};

at::Tensor compute_bags_by_aten(const Call& call, std::span<const at::Tensor> in) {
  const TableRows places(call, in[0]);
  const auto width = in[1].size(-1);
  auto sizes = in[0].sizes().vec();
  if (!call.op.is(ops::kEmbedding)) sizes.pop_back();
  sizes.push_back(width);
  const auto rows =
      places.zero_absent_rows(at::index_select(in[1].reshape({-1, width}), 0, places.row));
  const auto type = c10::typeMetaToScalarType(make_sum_options(in[1]).dtype());
  return at::sum(rows.view({-1, places.length, width}), {1}, false, type).view(sizes);
}

// Returns the gradient with an entry for every index, which is zero if the row is on another
// device.
at::Tensor compute_bag_gradient_by_aten(const Call& call, const at::Tensor& indices,
                                        const at::Tensor& g) {
  const TableRows places(call, indices);
  const auto elements = places.expand_bags(g);
  const auto sizes = to_aten(call.operands[1].local);
  if (!call.row_sparse) {
    auto out = at::zeros(sizes, make_sum_options(g));
    out.view({-1, g.size(-1)}).index_add_(0, places.row, elements.to(out.scalar_type()));
    return out;
  }
  const auto rows = call.operands[1].local[call.operands[1].local.rank() - 2];
  const auto at_rows =
      has_tables(call)
          ? at::stack({at::floor_divide(places.row, rows), at::remainder(places.row, rows)})
          : places.row.unsqueeze(0);
  return at::_sparse_coo_tensor_unsafe(at_rows, elements, sizes, g.options().layout(at::kSparse));
}

// --- By rows, on the CPU -------------------------------------------------------------------------

at::Tensor bag_forward(const Call& call, std::span<const at::Tensor> in) {
  if (!in[1].is_cpu()) return compute_bags_by_aten(call, in);
  const auto indices = in[0].contiguous();
  const auto table = in[1].contiguous();
  const auto width = table.size(-1);
  auto sizes = indices.sizes().vec();
  if (!call.op.is(ops::kEmbedding)) sizes.pop_back();
  sizes.push_back(width);
  auto out = at::zeros(sizes, make_sum_options(table));
  AT_DISPATCH_FLOATING_TYPES_AND(at::kBFloat16, table.scalar_type(), "embedding_bag", [&] {
    using Sum = at::opmath_type<scalar_t>;
    auto* to = out.data_ptr<Sum>();
    const auto* from = table.data_ptr<scalar_t>();
    for_each_row(call, indices, [&](std::int64_t bag, std::int64_t row) {
      add_row(to + bag * width, from + row * width, width);
    });
  });
  return out;
}

// Returns the sparse gradient of the rows read, with one entry for each read.
at::Tensor compute_sparse_gradient(const Call& call, const at::Tensor& indices,
                                   const at::Tensor& g) {
  std::vector<std::int64_t> rows;
  std::vector<std::int64_t> bags;
  for_each_row(call, indices, [&](std::int64_t bag, std::int64_t row) {
    bags.push_back(bag);
    rows.push_back(row);
  });
  const auto count = static_cast<std::int64_t>(rows.size());
  const auto flat = at::from_blob(rows.data(), {1, count}, at::kLong);
  const auto in_table = call.operands[1].local[call.operands[1].local.rank() - 2];
  const auto at_rows =
      has_tables(call) ? at::cat({at::floor_divide(flat, in_table), at::remainder(flat, in_table)})
                       : flat.clone();
  const auto from = at::from_blob(bags.data(), {count}, at::kLong);
  const auto values = at::index_select(g.reshape({-1, g.size(-1)}), 0, from);
  return at::_sparse_coo_tensor_unsafe(at_rows, values, to_aten(call.operands[1].local),
                                       g.options().layout(at::kSparse));
}

at::Tensor compute_dense_gradient(const Call& call, const at::Tensor& indices,
                                  const at::Tensor& g) {
  auto out = at::zeros(to_aten(call.operands[1].local), make_sum_options(g));
  const auto width = out.size(-1);
  AT_DISPATCH_FLOATING_TYPES_AND(at::kBFloat16, g.scalar_type(), "embedding_bag_backward", [&] {
    using Sum = at::opmath_type<scalar_t>;
    auto* to = out.data_ptr<Sum>();
    const auto* from = g.data_ptr<scalar_t>();
    for_each_row(call, indices, [&](std::int64_t bag, std::int64_t row) {
      add_row(to + row * width, from + bag * width, width);
    });
  });
  return out;
}

Gradients bag_backward(const Call& call, const BackwardInput& b) {
  if (!b.wants(1)) return Gradients(2);
  if (!b.gradient.is_cpu()) {
    return {at::Tensor(), compute_bag_gradient_by_aten(call, b.operands[0], b.gradient)};
  }
  const auto indices = b.operands[0].contiguous();
  const auto g = b.gradient.contiguous();
  return {at::Tensor(), call.row_sparse ? compute_sparse_gradient(call, indices, g)
                                        : compute_dense_gradient(call, indices, g)};
}

bool bag_covers(const Call& call) {
  return call.op.get<ops::EmbeddingBag>().mode == ops::BagMode::kSum;
}

}  // namespace

const Kernel kEmbeddingKernel = {"embedding", bag_forward, bag_backward};
const Kernel kEmbeddingBagKernel = {"embedding_bag", bag_forward, bag_backward,
                                    [](const ops::Op&) { return false; }, bag_covers};
const Kernel kEmbeddingBagsKernel = {"embedding_bags", bag_forward, bag_backward,
                                     [](const ops::Op&) { return false; }, bag_covers};

}  // namespace tandem::runtime
