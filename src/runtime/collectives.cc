#include "runtime/collectives.h"

#include <limits>

#include "runtime/aten.h"

namespace tandem::runtime {

namespace {

using machine::DigitMask;
using machine::DigitRole;
using machine::ReshardStep;
using machine::Step;

MPI_Datatype to_mpi(at::ScalarType type) {
  switch (type) {
    case at::kFloat:
      return MPI_FLOAT;
    case at::kDouble:
      return MPI_DOUBLE;
    case at::kLong:
      return MPI_INT64_T;
    default:
      throw UserError("plan", "dtype", fmt::format("{} cannot be sent", at::toString(type)));
  }
}

int count(const at::Tensor& t) {
  if (t.numel() > std::numeric_limits<int>::max()) {
    throw UserError("plan", "", fmt::format("{} elements are too many for one message", t.numel()),
                    "MPI counts up to 2147483647");
  }
  return static_cast<int>(t.numel());
}

// One group's collectives. Blocks of a tensor along a dimension go to or come from the members in
// order of their rank. `root` is the member that alone gets or has the whole, where there is one.
class Group {
 public:
  Group(MPI_Comm comm, std::int64_t rank, std::int64_t root, std::int64_t size, at::ScalarType type)
      : comm_(comm), rank_(rank), root_(static_cast<int>(root)), size_(size), type_(to_mpi(type)) {}

  [[nodiscard]] at::Tensor block(const at::Tensor& t, std::size_t dim) const {
    const auto length = t.size(static_cast<std::int64_t>(dim)) / size_;
    return t.narrow(static_cast<std::int64_t>(dim), rank_ * length, length);
  }

  // [member, shard...]: the blocks of `t` along `dim`, one after another in memory.
  [[nodiscard]] at::Tensor blocks(const at::Tensor& t, std::size_t dim) const {
    const auto d = static_cast<std::int64_t>(dim);
    auto sizes = t.sizes().vec();
    sizes[dim] /= size_;
    sizes.insert(sizes.begin() + d, size_);
    return t.contiguous().view(sizes).movedim(d, 0).contiguous();
  }

  // The inverse: [member, shard...] as one tensor, blocks joined along `dim`.
  [[nodiscard]] at::Tensor join(const at::Tensor& t, std::size_t dim) const {
    const auto d = static_cast<std::int64_t>(dim);
    auto sizes = t.sizes().vec();
    sizes.erase(sizes.begin());
    sizes[dim] *= size_;
    return t.movedim(0, d).reshape(sizes);
  }

  // In place where nobody else can see it.
  [[nodiscard]] at::Tensor all_reduce(at::Tensor t) const {
    t = t.contiguous();
    const bool own = t.use_count() == 1 && t.storage().use_count() == 1;
    auto out = own ? t : at::empty_like(t);
    MPI_Allreduce(own ? MPI_IN_PLACE : t.data_ptr(), out.data_ptr(), count(t), type_, MPI_SUM,
                  comm_);
    return out;
  }

  [[nodiscard]] at::Tensor reduce(const at::Tensor& t) const {
    const auto in = t.contiguous();
    auto out = is_root() ? at::empty_like(in) : at::Tensor();
    MPI_Reduce(in.data_ptr(), is_root() ? out.data_ptr() : nullptr, count(in), type_, MPI_SUM,
               root_, comm_);
    return out;
  }

  [[nodiscard]] at::Tensor reduce_scatter(const at::Tensor& t, std::size_t dim) const {
    const auto in = blocks(t, dim);
    auto out = at::empty(in.sizes().slice(1), in.options());
    MPI_Reduce_scatter_block(in.data_ptr(), out.data_ptr(), count(out), type_, MPI_SUM, comm_);
    return out;
  }

  [[nodiscard]] at::Tensor all_gather(const at::Tensor& t, std::size_t dim) const {
    const auto in = t.contiguous();
    auto out = all_shards(in);
    MPI_Allgather(in.data_ptr(), count(in), type_, out.data_ptr(), count(in), type_, comm_);
    return join(out, dim);
  }

  [[nodiscard]] at::Tensor gather(const at::Tensor& t, std::size_t dim) const {
    const auto in = t.contiguous();
    auto out = is_root() ? all_shards(in) : at::Tensor();
    MPI_Gather(in.data_ptr(), count(in), type_, is_root() ? out.data_ptr() : nullptr, count(in),
               type_, root_, comm_);
    return is_root() ? join(out, dim) : out;
  }

  [[nodiscard]] at::Tensor all_to_all(const at::Tensor& t, std::size_t from_dim,
                                      std::size_t to_dim) const {
    const auto in = blocks(t, to_dim);
    auto out = at::empty_like(in);
    const auto each = count(in) / static_cast<int>(size_);
    MPI_Alltoall(in.data_ptr(), each, type_, out.data_ptr(), each, type_, comm_);
    return join(out, from_dim);
  }

  [[nodiscard]] at::Tensor broadcast(const at::Tensor& t, at::Tensor like) const {
    auto out = is_root() ? t.contiguous() : std::move(like);
    MPI_Bcast(out.data_ptr(), count(out), type_, root_, comm_);
    return out;
  }

  [[nodiscard]] at::Tensor scatter(const at::Tensor& t, std::size_t dim, at::Tensor like) const {
    const auto in = is_root() ? blocks(t, dim) : at::Tensor();
    auto out = std::move(like);
    MPI_Scatter(is_root() ? in.data_ptr() : nullptr, count(out), type_, out.data_ptr(), count(out),
                type_, root_, comm_);
    return out;
  }

 private:
  [[nodiscard]] bool is_root() const { return rank_ == root_; }

  [[nodiscard]] at::Tensor all_shards(const at::Tensor& one) const {
    auto sizes = one.sizes().vec();
    sizes.insert(sizes.begin(), size_);
    return at::empty(sizes, one.options());
  }

  MPI_Comm comm_;
  std::int64_t rank_;
  int root_;
  std::int64_t size_;
  MPI_Datatype type_;
};

}  // namespace

Collectives::Collectives(const machine::Digits& digits, std::int64_t device)
    : digits_(digits), device_(device) {}

Collectives::~Collectives() {
  for (auto& [mask, comm] : communicators_) MPI_Comm_free(&comm);
}

void Collectives::prepare(DigitMask mask) {
  const auto [at, fresh] = communicators_.try_emplace(mask, MPI_COMM_NULL);
  if (!fresh) return;
  MPI_Comm_split(MPI_COMM_WORLD,
                 static_cast<int>(digits_.rank_in_group(device_, digits_.all() & ~mask)),
                 static_cast<int>(digits_.rank_in_group(device_, mask)), &at->second);
}

bool Collectives::takes_part(const ReshardStep& step) const {
  for (std::size_t i = 0; i < digits_.count(); ++i) {
    const auto role = step.before[i];
    const bool stays = role.is_idle() && (step.digits >> i & 1U) == 0;
    if (stays && digits_.coordinate(device_, i) != role.place()) return false;
  }
  return true;
}

at::Tensor Collectives::move(const ReshardStep& step, at::Tensor shard, const Shape& local,
                             at::ScalarType type, std::int64_t micro_batch) const {
  if (!takes_part(step)) return {};
  const auto rank = digits_.rank_in_group(digits_.slot(device_, micro_batch), step.digits);
  const auto comm = is_local(step.kind) ? MPI_COMM_NULL : communicators_.at(step.digits);
  const auto root = machine::root_of(step, digits_);
  const Group group(comm, rank, root, digits_.group_size(step.digits), type);
  const auto fresh = [&] { return at::empty(to_aten(local), type); };
  const auto zeros = [&] { return at::zeros(to_aten(local), type); };
  switch (step.kind) {
    case Step::kSlice:
      return group.block(shard, step.to_dim);
    case Step::kDrop:
      return rank == root ? shard : at::Tensor();
    case Step::kMask:
    case Step::kZero:
      return rank == root ? shard : zeros();
    case Step::kPad: {
      auto out = zeros();
      group.block(out, step.from_dim).copy_(shard);
      return out;
    }
    case Step::kAllReduce:
      return group.all_reduce(std::move(shard));
    case Step::kReduceScatter:
      return group.reduce_scatter(shard, step.to_dim);
    case Step::kAllGather:
      return group.all_gather(shard, step.from_dim);
    case Step::kAllToAll:
      return group.all_to_all(shard, step.from_dim, step.to_dim);
    case Step::kReduce:
      return group.reduce(shard);
    case Step::kGather:
      return group.gather(shard, step.from_dim);
    case Step::kBroadcast:
      return group.broadcast(shard, rank == root ? at::Tensor() : fresh());
    case Step::kScatter:
      return group.scatter(shard, step.to_dim, fresh());
    case Step::kSend:
    case Step::kShift:
      break;
    case Step::kHalo:
    case Step::kHaloReduce:
      throw UserError("plan", "", "the runtime cannot exchange halos yet",
                      "`tandem plan --dims` without `spatial` makes plans without them");
  }
  CHECK(false);
}

std::vector<at::Tensor> Collectives::move_together(const std::vector<ReshardStep>& steps,
                                                   const std::vector<at::Tensor>& shards,
                                                   const std::vector<Shape>& locals,
                                                   at::ScalarType type) const {
  const auto& first = steps[0];
  if (!takes_part(first)) return std::vector<at::Tensor>(steps.size());
  const auto size = digits_.group_size(first.digits);
  const Group group(communicators_.at(first.digits), digits_.rank_in_group(device_, first.digits),
                    0, size, type);
  const bool scatters = first.kind == Step::kReduceScatter;
  CHECK(scatters || first.kind == Step::kAllReduce);
  // A row for everyone who gets a part of it: of each tensor the member's block.
  std::vector<at::Tensor> rows;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    rows.push_back(scatters ? group.blocks(shards[i], steps[i].to_dim).reshape({size, -1})
                            : shards[i].reshape({1, -1}));
  }
  auto row = at::cat(rows, 1);
  row = scatters ? group.reduce_scatter(row, 0) : group.all_reduce(std::move(row));
  std::vector<at::Tensor> out;
  std::int64_t at = 0;
  for (const auto& local : locals) {
    out.push_back(row.reshape({-1}).narrow(0, at, local.count()).view(to_aten(local)));
    at += local.count();
  }
  return out;
}

void Collectives::send(const ReshardStep& step, const at::Tensor& shard, int tag) {
  // What has gone meanwhile need not be kept.
  std::erase_if(sent_, [](Sent& s) {
    int gone = 0;
    MPI_Test(&s.request, &gone, MPI_STATUS_IGNORE);
    return gone != 0;
  });
  auto& out = sent_.emplace_back(Sent{MPI_REQUEST_NULL, shard.contiguous()});
  MPI_Isend(out.tensor.data_ptr(), count(out.tensor), to_mpi(shard.scalar_type()),
            static_cast<int>(target_of(step, digits_)), tag, communicators_.at(step.digits),
            &out.request);
}

at::Tensor Collectives::receive(const ReshardStep& step, const Shape& local, at::ScalarType type,
                                int tag) const {
  auto out = at::empty(to_aten(local), type);
  MPI_Recv(out.data_ptr(), count(out), to_mpi(type), static_cast<int>(root_of(step, digits_)), tag,
           communicators_.at(step.digits), MPI_STATUS_IGNORE);
  return out;
}

void Collectives::finish() {
  for (auto& s : sent_) MPI_Wait(&s.request, MPI_STATUS_IGNORE);
  sent_.clear();
}

}  // namespace tandem::runtime
