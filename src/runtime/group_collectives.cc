#include "runtime/group_collectives.h"

#include <limits>
#include <memory>
#include <utility>

#include "runtime/aten.h"

namespace tandem::runtime {

namespace {

// Sums bf16 numbers, which MPI does not know. Rounds after every summand.
void add_bf16(void* from, void* to, int* length, MPI_Datatype* /*type*/) {
  const auto* summand = static_cast<const at::BFloat16*>(from);
  auto* sum = static_cast<at::BFloat16*>(to);
  for (int i = 0; i < *length; ++i) sum[i] += summand[i];
}

MPI_Op get_sum_operation(at::ScalarType type) {
  if (type != at::kBFloat16) return MPI_SUM;
  static const MPI_Op sum = [] {
    MPI_Op op = MPI_OP_NULL;
    MPI_Op_create(add_bf16, 1, &op);
    return op;
  }();
  return sum;
}

}  // namespace

MPI_Datatype to_mpi(at::ScalarType type) {
  switch (type) {
    case at::kFloat:
      return MPI_FLOAT;
    case at::kDouble:
      return MPI_DOUBLE;
    case at::kLong:
      return MPI_INT64_T;
    case at::kByte:
      return MPI_BYTE;
    case at::kBFloat16:
      return MPI_UINT16_T;
    default:
      throw UserError("plan", "dtype",
                      fmt::format("messages cannot have element type {}", at::toString(type)));
  }
}

int to_mpi_count(std::int64_t elements) {
  if (elements > std::numeric_limits<int>::max()) {
    throw UserError("plan", "", fmt::format("a message of {} elements is too large", elements),
                    "MPI supports at most 2147483647 elements per message");
  }
  return static_cast<int>(elements);
}

int count(const at::Tensor& t) { return to_mpi_count(t.numel()); }

MpiLengths::MpiLengths(const Lengths& lengths) {
  for (const auto n : lengths.of) of.push_back(to_mpi_count(n));
  for (const auto n : lengths.before) before.push_back(to_mpi_count(n));
}

std::vector<at::Tensor> wrap_in_vector(at::Tensor t) {
  std::vector<at::Tensor> out;
  out.push_back(std::move(t));
  return out;
}

Transfer make_finished_transfer(const at::Tensor& t) {
  return {.held = {}, .result = [t] { return wrap_in_vector(t); }};
}

GroupCollectives::GroupCollectives(MPI_Comm comm, SharedMemory* memory, DeviceChannel* device,
                                   std::int64_t rank, std::int64_t root, std::int64_t size,
                                   at::ScalarType type)
    : comm_(comm),
      memory_(device == nullptr ? memory : nullptr),
      device_(device),
      rank_(rank),
      root_(static_cast<int>(root)),
      size_(size),
      type_(to_mpi(type)),
      sum_(get_sum_operation(type)) {}

at::Tensor GroupCollectives::get_block(const at::Tensor& t, std::size_t dim) const {
  const auto length = t.size(static_cast<std::int64_t>(dim)) / size_;
  return t.narrow(static_cast<std::int64_t>(dim), rank_ * length, length);
}

at::Tensor GroupCollectives::arrange_blocks(const at::Tensor& t, std::size_t dim) const {
  const auto d = static_cast<std::int64_t>(dim);
  auto sizes = t.sizes().vec();
  auto strides = t.strides().vec();
  sizes[dim] /= size_;
  strides.insert(strides.begin() + d, strides[dim] * sizes[dim]);
  sizes.insert(sizes.begin() + d, size_);
  return t.as_strided(sizes, strides).movedim(d, 0).contiguous();
}

Transfer GroupCollectives::all_reduce(at::Tensor t) const {
  t = t.contiguous();
  const bool own = t.use_count() == 1 && t.storage().use_count() == 1;
  const auto out = own ? t : at::empty_like(t);
  auto transfer = make_transfer(t, out);
  if (device_ != nullptr) {
    transfer.mark = device_->sum(t, out);
  } else if (memory_ != nullptr) {
    transfer.exchange = memory_->start_sum(t, out);
  } else {
    MPI_Iallreduce(own ? MPI_IN_PLACE : t.data_ptr(), out.data_ptr(), count(t), type_, sum_, comm_,
                   &transfer.request);
  }
  return transfer;
}

Transfer GroupCollectives::reduce(const at::Tensor& t) const {
  const auto in = t.contiguous();
  const auto out = is_root() ? at::empty_like(in) : at::Tensor();
  auto transfer = make_transfer(in, out);
  if (device_ != nullptr) {
    transfer.mark = device_->sum_to(in, out, root_);
  } else if (memory_ != nullptr) {
    transfer.exchange = memory_->start_sum(in, out);
  } else {
    MPI_Ireduce(in.data_ptr(), is_root() ? out.data_ptr() : nullptr, count(in), type_, sum_, root_,
                comm_, &transfer.request);
  }
  return transfer;
}

Transfer GroupCollectives::reduce_scatter(at::Tensor t, std::size_t dim) const {
  if (memory_ != nullptr) {
    t = t.contiguous();
    const auto part = at::empty(compute_block_sizes(t, dim), t.options());
    auto transfer = make_transfer(t, part);
    transfer.exchange = memory_->start_sum_of_block(Blocks::split_along(t, dim, size_), part);
    return transfer;
  }
  const auto in = arrange_blocks(t, dim);
  t.reset();  // `in` may be a copy of it
  const auto out = at::empty(in.sizes().slice(1), in.options());
  auto transfer = make_transfer(in, out);
  if (device_ != nullptr) {
    transfer.mark = device_->sum_of_row(in, out);
  } else {
    MPI_Ireduce_scatter_block(in.data_ptr(), out.data_ptr(), count(out), type_, sum_, comm_,
                              &transfer.request);
  }
  return transfer;
}

Transfer GroupCollectives::all_gather(const at::Tensor& t, std::size_t dim) const {
  const auto in = t.contiguous();
  if (memory_ != nullptr) {
    const auto whole = at::empty(compute_joined_sizes(in, dim), in.options());
    auto transfer = make_transfer(in, whole);
    transfer.exchange = memory_->start_gather(in, Blocks::split_along(whole, dim, size_));
    return transfer;
  }
  const auto out = make_gather_buffer(in);
  auto transfer = make_joining_transfer(in, out, dim);
  if (device_ != nullptr) {
    transfer.mark = device_->gather(in, out);
  } else {
    MPI_Iallgather(in.data_ptr(), count(in), type_, out.data_ptr(), count(in), type_, comm_,
                   &transfer.request);
  }
  return transfer;
}

Transfer GroupCollectives::gather(const at::Tensor& t, std::size_t dim) const {
  const auto in = t.contiguous();
  if (memory_ != nullptr) {
    const auto whole =
        is_root() ? at::empty(compute_joined_sizes(in, dim), in.options()) : at::Tensor();
    auto transfer = make_transfer(in, whole);
    transfer.exchange = memory_->start_gather(in, Blocks::split_along(whole, dim, size_));
    return transfer;
  }
  const auto out = is_root() ? make_gather_buffer(in) : at::Tensor();
  auto transfer = is_root() ? make_joining_transfer(in, out, dim) : make_transfer(in, out);
  if (device_ != nullptr) {
    transfer.mark = device_->gather_to(in, out, root_);
  } else {
    MPI_Igather(in.data_ptr(), count(in), type_, is_root() ? out.data_ptr() : nullptr, count(in),
                type_, root_, comm_, &transfer.request);
  }
  return transfer;
}

Transfer GroupCollectives::all_to_all(const at::Tensor& t, std::size_t from_dim,
                                      std::size_t to_dim) const {
  if (memory_ != nullptr) {
    const auto from = t.contiguous();
    auto sizes = compute_block_sizes(from, to_dim);
    sizes[from_dim] *= size_;
    const auto to = at::empty(sizes, from.options());
    auto transfer = make_transfer(from, to);
    transfer.exchange = memory_->start_swap(Blocks::split_along(from, to_dim, size_),
                                            Blocks::split_along(to, from_dim, size_));
    return transfer;
  }
  const auto in = arrange_blocks(t, to_dim);
  const auto out = at::empty_like(in);
  auto transfer = make_joining_transfer(in, out, from_dim);
  if (device_ != nullptr) {
    transfer.mark = device_->exchange(in, split_evenly(in), out, split_evenly(out));
  } else {
    const auto each = count(in) / static_cast<int>(size_);
    MPI_Ialltoall(in.data_ptr(), each, type_, out.data_ptr(), each, type_, comm_,
                  &transfer.request);
  }
  return transfer;
}

Transfer GroupCollectives::broadcast(const at::Tensor& t, at::Tensor like) const {
  const auto out = is_root() ? t.contiguous() : std::move(like);
  auto transfer = make_transfer(out, out);
  if (device_ != nullptr) {
    transfer.mark = device_->broadcast(out, root_);
  } else if (memory_ != nullptr) {
    transfer.exchange = memory_->start_broadcast(out, out, root_);
  } else {
    MPI_Ibcast(out.data_ptr(), count(out), type_, root_, comm_, &transfer.request);
  }
  return transfer;
}

Transfer GroupCollectives::scatter(const at::Tensor& t, std::size_t dim, at::Tensor like) const {
  const auto out = std::move(like);
  if (memory_ != nullptr) {
    const auto whole = is_root() ? t.contiguous() : at::Tensor();
    auto transfer = make_transfer(whole, out);
    transfer.exchange = memory_->start_scatter(Blocks::split_along(whole, dim, size_), out, root_);
    return transfer;
  }
  const auto in = is_root() ? arrange_blocks(t, dim) : at::Tensor();
  auto transfer = make_transfer(in, out);
  if (device_ != nullptr) {
    transfer.mark = device_->scatter(in, out, root_);
  } else {
    MPI_Iscatter(is_root() ? in.data_ptr() : nullptr, count(out), type_, out.data_ptr(), count(out),
                 type_, root_, comm_, &transfer.request);
  }
  return transfer;
}

Transfer GroupCollectives::shift(const at::Tensor& t) const {
  const auto in = t.contiguous();
  const auto out = at::empty_like(in);
  auto transfer = make_transfer(in, out);
  Lengths sent;
  Lengths received;
  for (std::int64_t r = 0; r < size_; ++r) {
    sent.add(r == (rank_ + size_ - 1) % size_ ? in.numel() : 0);
    received.add(r == (rank_ + 1) % size_ ? in.numel() : 0);
  }
  exchange(transfer, in, sent, out, received);
  return transfer;
}

void GroupCollectives::exchange(Transfer& transfer, const at::Tensor& from, const Lengths& gives,
                                const at::Tensor& to, const Lengths& takes) const {
  if (device_ != nullptr) {
    transfer.mark = device_->exchange(from, gives, to, takes);
    return;
  }
  transfer.memory = nullptr;
  const auto lengths = std::make_shared<std::pair<MpiLengths, MpiLengths>>(gives, takes);
  MPI_Ialltoallv(from.data_ptr(), lengths->first.of.data(), lengths->first.before.data(), type_,
                 to.data_ptr(), lengths->second.of.data(), lengths->second.before.data(), type_,
                 comm_, &transfer.request);
  transfer.result = [lengths, result = std::move(transfer.result)] { return result(); };
}

Lengths GroupCollectives::split_evenly(const at::Tensor& t) const {
  Lengths out;
  for (std::int64_t r = 0; r < size_; ++r) out.add(t.numel() / size_);
  return out;
}

std::vector<std::int64_t> GroupCollectives::compute_joined_sizes(const at::Tensor& block,
                                                                 std::size_t dim) const {
  auto sizes = block.sizes().vec();
  sizes[dim] *= size_;
  return sizes;
}

std::vector<std::int64_t> GroupCollectives::compute_block_sizes(const at::Tensor& t,
                                                                std::size_t dim) const {
  auto sizes = t.sizes().vec();
  sizes[dim] /= size_;
  return sizes;
}

at::Tensor GroupCollectives::make_gather_buffer(const at::Tensor& one) const {
  auto sizes = one.sizes().vec();
  sizes.insert(sizes.begin(), size_);
  return at::empty(sizes, one.options());
}

Transfer GroupCollectives::make_transfer(const at::Tensor& in, const at::Tensor& out) const {
  return {.memory = memory_, .held = {in, out}, .result = [out] { return wrap_in_vector(out); }};
}

Transfer GroupCollectives::make_joining_transfer(const at::Tensor& in, const at::Tensor& out,
                                                 std::size_t dim) const {
  auto transfer = make_transfer(in, out);
  transfer.result = [out, dim, size = size_] {
    const auto d = static_cast<std::int64_t>(dim);
    auto sizes = out.sizes().vec();
    sizes.erase(sizes.begin());
    sizes[dim] *= size;
    return wrap_in_vector(out.movedim(0, d).reshape(sizes));
  };
  return transfer;
}

}  // namespace tandem::runtime
