#include "runtime/collectives.h"

#include <sched.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <utility>

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
    case at::kByte:
      return MPI_BYTE;
    case at::kBFloat16:
      return MPI_UINT16_T;
    default:
      throw UserError("plan", "dtype", fmt::format("{} cannot be sent", at::toString(type)));
  }
}

// MPI does not know bf16: its sum, rounded after every summand.
void add_bf16(void* from, void* to, int* length, MPI_Datatype* /*type*/) {
  const auto* summand = static_cast<const at::BFloat16*>(from);
  auto* sum = static_cast<at::BFloat16*>(to);
  for (int i = 0; i < *length; ++i) sum[i] += summand[i];
}

MPI_Op sum_of(at::ScalarType type) {
  if (type != at::kBFloat16) return MPI_SUM;
  static const MPI_Op sum = [] {
    MPI_Op op = MPI_OP_NULL;
    MPI_Op_create(add_bf16, 1, &op);
    return op;
  }();
  return sum;
}

int count(const at::Tensor& t) {
  if (t.numel() > std::numeric_limits<int>::max()) {
    throw UserError("plan", "", fmt::format("{} elements are too many for one message", t.numel()),
                    "MPI counts up to 2147483647");
  }
  return static_cast<int>(t.numel());
}

std::vector<at::Tensor> only(at::Tensor t) {
  std::vector<at::Tensor> out;
  out.push_back(std::move(t));
  return out;
}

Transfer done(const at::Tensor& t) {
  return {.held = {}, .result = [t] { return only(t); }};
}

// One group's collectives. Blocks of a tensor along a dimension go to or come from the members in
// order of their rank. `root` is the member that alone gets or has the whole, where there is one.
class Group {
 public:
  Group(MPI_Comm comm, SharedMemory* memory, std::int64_t rank, std::int64_t root,
        std::int64_t size, at::ScalarType type)
      : comm_(comm),
        memory_(memory),
        rank_(rank),
        root_(static_cast<int>(root)),
        size_(size),
        type_(to_mpi(type)),
        sum_(sum_of(type)) {}

  [[nodiscard]] at::Tensor block(const at::Tensor& t, std::size_t dim) const {
    const auto length = t.size(static_cast<std::int64_t>(dim)) / size_;
    return t.narrow(static_cast<std::int64_t>(dim), rank_ * length, length);
  }

  // [member, shard...]: the blocks of `t` along `dim`, one after another in memory.
  [[nodiscard]] at::Tensor blocks(const at::Tensor& t, std::size_t dim) const {
    const auto d = static_cast<std::int64_t>(dim);
    auto sizes = t.sizes().vec();
    auto strides = t.strides().vec();
    sizes[dim] /= size_;
    strides.insert(strides.begin() + d, strides[dim] * sizes[dim]);
    sizes.insert(sizes.begin() + d, size_);
    return t.as_strided(sizes, strides).movedim(d, 0).contiguous();
  }

  // In place where nobody else can see it.
  [[nodiscard]] Transfer all_reduce(at::Tensor t) const {
    t = t.contiguous();
    const bool own = t.use_count() == 1 && t.storage().use_count() == 1;
    const auto out = own ? t : at::empty_like(t);
    auto transfer = holding(t, out);
    if (memory_ != nullptr) {
      transfer.exchange = memory_->start_sum(t, out);
    } else {
      MPI_Iallreduce(own ? MPI_IN_PLACE : t.data_ptr(), out.data_ptr(), count(t), type_, sum_,
                     comm_, &transfer.request);
    }
    return transfer;
  }

  [[nodiscard]] Transfer reduce(const at::Tensor& t) const {
    const auto in = t.contiguous();
    const auto out = is_root() ? at::empty_like(in) : at::Tensor();
    auto transfer = holding(in, out);
    if (memory_ != nullptr) {
      transfer.exchange = memory_->start_sum(in, out);
    } else {
      MPI_Ireduce(in.data_ptr(), is_root() ? out.data_ptr() : nullptr, count(in), type_, sum_,
                  root_, comm_, &transfer.request);
    }
    return transfer;
  }

  [[nodiscard]] Transfer reduce_scatter(at::Tensor t, std::size_t dim) const {
    const auto in = blocks(t, dim);
    t.reset();  // of which that may be a copy
    const auto out = at::empty(in.sizes().slice(1), in.options());
    auto transfer = holding(in, out);
    if (memory_ != nullptr) {
      transfer.exchange = memory_->start_sum_of_row(in, out);
    } else {
      MPI_Ireduce_scatter_block(in.data_ptr(), out.data_ptr(), count(out), type_, sum_, comm_,
                                &transfer.request);
    }
    return transfer;
  }

  [[nodiscard]] Transfer all_gather(const at::Tensor& t, std::size_t dim) const {
    const auto in = t.contiguous();
    const auto out = all_shards(in);
    auto transfer = joining(in, out, dim);
    if (memory_ != nullptr) {
      transfer.exchange = memory_->start_gather(in, out);
    } else {
      MPI_Iallgather(in.data_ptr(), count(in), type_, out.data_ptr(), count(in), type_, comm_,
                     &transfer.request);
    }
    return transfer;
  }

  [[nodiscard]] Transfer gather(const at::Tensor& t, std::size_t dim) const {
    const auto in = t.contiguous();
    const auto out = is_root() ? all_shards(in) : at::Tensor();
    auto transfer = is_root() ? joining(in, out, dim) : holding(in, out);
    if (memory_ != nullptr) {
      transfer.exchange = memory_->start_gather(in, out);
    } else {
      MPI_Igather(in.data_ptr(), count(in), type_, is_root() ? out.data_ptr() : nullptr, count(in),
                  type_, root_, comm_, &transfer.request);
    }
    return transfer;
  }

  [[nodiscard]] Transfer all_to_all(const at::Tensor& t, std::size_t from_dim,
                                    std::size_t to_dim) const {
    const auto in = blocks(t, to_dim);
    const auto out = at::empty_like(in);
    auto transfer = joining(in, out, from_dim);
    if (memory_ != nullptr) {
      transfer.exchange = memory_->start_swap(in, out);
    } else {
      const auto each = count(in) / static_cast<int>(size_);
      MPI_Ialltoall(in.data_ptr(), each, type_, out.data_ptr(), each, type_, comm_,
                    &transfer.request);
    }
    return transfer;
  }

  [[nodiscard]] Transfer broadcast(const at::Tensor& t, at::Tensor like) const {
    const auto out = is_root() ? t.contiguous() : std::move(like);
    auto transfer = holding(out, out);
    if (memory_ != nullptr) {
      transfer.exchange = memory_->start_broadcast(out, out, root_);
    } else {
      MPI_Ibcast(out.data_ptr(), count(out), type_, root_, comm_, &transfer.request);
    }
    return transfer;
  }

  [[nodiscard]] Transfer scatter(const at::Tensor& t, std::size_t dim, at::Tensor like) const {
    const auto in = is_root() ? blocks(t, dim) : at::Tensor();
    const auto out = std::move(like);
    auto transfer = holding(in, out);
    if (memory_ != nullptr) {
      transfer.exchange = memory_->start_scatter(in, out, root_);
    } else {
      MPI_Iscatter(is_root() ? in.data_ptr() : nullptr, count(out), type_, out.data_ptr(),
                   count(out), type_, root_, comm_, &transfer.request);
    }
    return transfer;
  }

  // What the next one has.
  [[nodiscard]] Transfer shift(const at::Tensor& t) const {
    const auto in = t.contiguous();
    const auto out = at::empty_like(in);
    auto transfer = holding(in, out);
    transfer.memory = nullptr;
    const auto members = static_cast<std::size_t>(size_);
    struct Messages {
      std::vector<int> sent, received, at;
    };
    const auto m = std::make_shared<Messages>(
        Messages{std::vector<int>(members), std::vector<int>(members), std::vector<int>(members)});
    m->sent[static_cast<std::size_t>((rank_ + size_ - 1) % size_)] = count(in);
    m->received[static_cast<std::size_t>((rank_ + 1) % size_)] = count(in);
    MPI_Ialltoallv(in.data_ptr(), m->sent.data(), m->at.data(), type_, out.data_ptr(),
                   m->received.data(), m->at.data(), type_, comm_, &transfer.request);
    transfer.result = [out, m] { return only(out); };
    return transfer;
  }

 private:
  [[nodiscard]] bool is_root() const { return rank_ == root_; }

  [[nodiscard]] at::Tensor all_shards(const at::Tensor& one) const {
    auto sizes = one.sizes().vec();
    sizes.insert(sizes.begin(), size_);
    return at::empty(sizes, one.options());
  }

  [[nodiscard]] Transfer holding(const at::Tensor& in, const at::Tensor& out) const {
    return {.memory = memory_, .held = {in, out}, .result = [out] { return only(out); }};
  }
  // `out` is [member, shard...]: the result is one tensor, blocks joined along `dim`.
  [[nodiscard]] Transfer joining(const at::Tensor& in, const at::Tensor& out,
                                 std::size_t dim) const {
    auto transfer = holding(in, out);
    transfer.result = [out, dim, size = size_] {
      const auto d = static_cast<std::int64_t>(dim);
      auto sizes = out.sizes().vec();
      sizes.erase(sizes.begin());
      sizes[dim] *= size;
      return only(out.movedim(0, d).reshape(sizes));
    };
    return transfer;
  }

  MPI_Comm comm_;
  SharedMemory* memory_;
  std::int64_t rank_;
  int root_;
  std::int64_t size_;
  MPI_Datatype type_;
  MPI_Op sum_;
};

}  // namespace

Collectives::Collectives(const machine::Digits& digits, std::int64_t device)
    : digits_(digits), device_(device) {}

Collectives::~Collectives() {
  for (auto& [mask, channel] : channels_) {
    channel.memory.reset();
    MPI_Comm_free(&channel.comm);
  }
}

void Collectives::prepare(DigitMask mask) {
  const auto [at, fresh] = channels_.try_emplace(mask);
  if (!fresh) return;
  MPI_Comm_split(MPI_COMM_WORLD,
                 static_cast<int>(digits_.rank_in_group(device_, digits_.all() & ~mask)),
                 static_cast<int>(digits_.rank_in_group(device_, mask)), &at->second.comm);
  at->second.memory = SharedMemory::over(at->second.comm);
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
                             at::ScalarType type, std::int64_t micro_batch) {
  return finish(start(step, std::move(shard), local, type, micro_batch))[0];
}

Transfer Collectives::start(const ReshardStep& step, at::Tensor shard, const Shape& local,
                            at::ScalarType type, std::int64_t micro_batch) {
  if (!takes_part(step)) return done({});
  const auto rank = digits_.rank_in_group(digits_.slot(device_, micro_batch), step.digits);
  const auto* channel = is_local(step.kind) ? nullptr : &channels_.at(step.digits);
  const auto root = machine::root_of(step, digits_);
  const Group group(channel == nullptr ? MPI_COMM_NULL : channel->comm,
                    channel == nullptr ? nullptr : channel->memory.get(), rank, root,
                    digits_.group_size(step.digits), type);
  const auto fresh = [&] { return at::empty(to_aten(local), type); };
  const auto zeros = [&] { return at::zeros(to_aten(local), type); };
  switch (step.kind) {
    case Step::kSlice:
      return done(group.block(shard, step.to_dim));
    case Step::kDrop:
      return done(rank == root ? shard : at::Tensor());
    case Step::kMask:
    case Step::kZero:
      return done(rank == root ? shard : zeros());
    case Step::kPad: {
      auto out = zeros();
      group.block(out, step.from_dim).copy_(shard);
      return done(out);
    }
    case Step::kAllReduce:
      return group.all_reduce(std::move(shard));
    case Step::kReduceScatter:
      return group.reduce_scatter(std::move(shard), step.to_dim);
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
    case Step::kShift:
      return group.shift(shard);
    case Step::kSend:
    case Step::kHalo:
    case Step::kHaloReduce:
      break;
  }
  CHECK(false);
}

Transfer Collectives::start_together(const std::vector<ReshardStep>& steps,
                                     const std::vector<at::Tensor>& shards,
                                     const std::vector<Shape>& locals, at::ScalarType type) {
  const auto& first = steps[0];
  if (!takes_part(first)) {
    return {.held = {}, .result = [n = steps.size()] { return std::vector<at::Tensor>(n); }};
  }
  const auto size = digits_.group_size(first.digits);
  const auto& channel = channels_.at(first.digits);
  const Group group(channel.comm, channel.memory.get(),
                    digits_.rank_in_group(device_, first.digits), 0, size, type);
  const bool scatters = first.kind == Step::kReduceScatter;
  CHECK(scatters || first.kind == Step::kAllReduce);
  // A row for everyone who gets a part of it: of each tensor the member's block.
  std::vector<at::Tensor> rows;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    rows.push_back(scatters ? group.blocks(shards[i], steps[i].to_dim).reshape({size, -1})
                            : shards[i].reshape({1, -1}));
  }
  auto row = at::cat(rows, 1);
  rows.clear();
  auto transfer = scatters ? group.reduce_scatter(row, 0) : group.all_reduce(std::move(row));
  transfer.result = [sum = transfer.held.back(), locals] {
    std::vector<at::Tensor> out;
    std::int64_t at = 0;
    for (const auto& local : locals) {
      out.push_back(sum.reshape({-1}).narrow(0, at, local.count()).view(to_aten(local)));
      at += local.count();
    }
    return out;
  };
  return transfer;
}

// --- Halos --------------------------------------------------------------------------------------

namespace {

// What two boxes have in common; nothing where a side of it is empty.
term::Box common(const term::Box& a, const term::Box& b) {
  auto out = a;
  for (std::size_t d = 0; d < a.size.rank(); ++d) {
    const auto end = std::min(a.offset[d] + a.size[d], b.offset[d] + b.size[d]);
    out.offset[d] = std::max(a.offset[d], b.offset[d]);
    out.size[d] = std::max(end - out.offset[d], std::int64_t{0});
  }
  return out;
}

// A part of what is in `box`.
at::Tensor part_of(at::Tensor t, const term::Box& box, const term::Box& part) {
  for (std::size_t d = 0; d < part.size.rank(); ++d) {
    t = t.narrow(static_cast<std::int64_t>(d), part.offset[d] - box.offset[d], part.size[d]);
  }
  return t;
}

// Of all members one after another.
struct Lengths {
  std::vector<int> of, before;

  void add(std::int64_t length) {
    before.push_back(before.empty() ? 0 : before.back() + of.back());
    of.push_back(static_cast<int>(length));
  }
  [[nodiscard]] std::int64_t all() const { return before.back() + of.back(); }
};

}  // namespace

// What a device keeps for itself is not sent.
Transfer Collectives::start_halo(const ReshardStep& step, const at::Tensor& shard,
                                 const std::vector<Exchanged>& group) {
  if (!takes_part(step)) return done({});
  const auto rank = static_cast<std::size_t>(digits_.rank_in_group(device_, step.digits));
  const auto& own = group[rank];
  Lengths gives;
  Lengths takes;
  std::vector<at::Tensor> given;
  std::vector<term::Box> taken;
  for (std::size_t r = 0; r < group.size(); ++r) {
    const auto to = common(own.has, group[r].gets);
    gives.add(r == rank ? 0 : to.size.count());
    if (gives.of.back() > 0) given.push_back(part_of(shard, own.has, to).reshape({-1}));
    taken.push_back(common(group[r].has, own.gets));
    takes.add(r == rank ? 0 : taken.back().size.count());
  }
  const auto sent = given.empty() ? at::empty({0}, shard.options()) : at::cat(given);
  const auto received = at::empty({takes.all()}, shard.options());
  Transfer transfer{.held = {sent, received}, .result = {}};
  const auto type = to_mpi(shard.scalar_type());
  const auto kept_lengths = std::make_shared<std::pair<Lengths, Lengths>>(gives, takes);
  MPI_Ialltoallv(sent.data_ptr(), kept_lengths->first.of.data(), kept_lengths->first.before.data(),
                 type, received.data_ptr(), kept_lengths->second.of.data(),
                 kept_lengths->second.before.data(), type, channels_.at(step.digits).comm,
                 &transfer.request);
  transfer.result = [=, lengths = kept_lengths, sums = step.kind == Step::kHaloReduce] {
    const auto format = shard.suggest_memory_format();
    auto out = at::empty(to_aten(own.gets.size), shard.options(), format);
    if (sums) out.zero_();
    for (std::size_t r = 0; r < taken.size(); ++r) {
      if (taken[r].size.count() == 0) continue;
      const auto from = r == rank
                            ? part_of(shard, own.has, taken[r])
                            : received.narrow(0, lengths->second.before[r], lengths->second.of[r])
                                  .view(to_aten(taken[r].size));
      auto to = part_of(out, own.gets, taken[r]);
      if (sums) {
        to.add_(from);
      } else {
        to.copy_(from);
      }
    }
    return only(out);
  };
  return transfer;
}

// Places and elements travel together, as bytes.
Transfer Collectives::start_rows(const ReshardStep& step, const at::Tensor& rows) {
  CHECK(step.kind == Step::kAllReduce);
  if (!takes_part(step)) return done({});
  const auto& channel = channels_.at(step.digits);
  const auto size = digits_.group_size(step.digits);
  const Group group(channel.comm, channel.memory.get(), digits_.rank_in_group(device_, step.digits),
                    0, size, at::kByte);
  const auto as_bytes = [](const at::Tensor& t) {
    return t.contiguous().view({-1}).view(at::kByte);
  };
  const auto places = rows._indices();
  const auto elements = rows._values();
  auto transfer = group.all_gather(at::cat({as_bytes(places), as_bytes(elements)}), 0);
  transfer.result = [all = transfer.held.back(), size, places, elements, sizes = rows.sizes().vec(),
                     options = rows.options()] {
    const auto first = static_cast<std::int64_t>(places.nbytes());
    const auto bytes = all.view({size, -1});
    const auto all_places = bytes.narrow(1, 0, first).contiguous().view(at::kLong);
    const auto all_elements =
        bytes.narrow(1, first, bytes.size(1) - first).contiguous().view(elements.scalar_type());
    auto at = elements.sizes().vec();
    at[0] *= size;
    return only(at::_sparse_coo_tensor_unsafe(
        all_places.view({size, places.size(0), -1}).movedim(0, 1).reshape({places.size(0), -1}),
        all_elements.view(at), sizes, options));
  };
  return transfer;
}

// --- Waiting ------------------------------------------------------------------------------------

void Collectives::advance() {
  for (auto& [mask, channel] : channels_) {
    if (channel.memory) channel.memory->advance();
  }
  // Messages go on inside calls of MPI only.
  int flag = 0;
  MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
}

// Whoever waits here may be waited for elsewhere: everything on its way goes on.
void Collectives::wait(Transfer& transfer) {
  // Then another program, or the process that is waited for, may have the core.
  constexpr int kPatience = 200;
  for (int waited = 0;; ++waited) {
    int done = 1;
    if (transfer.memory != nullptr) {
      done = transfer.memory->is_done(transfer.exchange) ? 1 : 0;
    } else if (transfer.request != MPI_REQUEST_NULL) {
      MPI_Test(&transfer.request, &done, MPI_STATUS_IGNORE);
    }
    if (done != 0) return;
    advance();
    if (waited > kPatience) sched_yield();
  }
}

std::vector<at::Tensor> Collectives::finish(Transfer transfer) {
  wait(transfer);
  transfer.held.clear();
  return transfer.result();
}

// --- From one device to another -----------------------------------------------------------------

void Collectives::send(const ReshardStep& step, const at::Tensor& shard, int tag) {
  // What has gone meanwhile need not be kept.
  std::erase_if(sent_, [](Sent& s) {
    int gone = 0;
    MPI_Test(&s.request, &gone, MPI_STATUS_IGNORE);
    return gone != 0;
  });
  auto& out = sent_.emplace_back(Sent{MPI_REQUEST_NULL, shard.contiguous()});
  MPI_Isend(out.tensor.data_ptr(), count(out.tensor), to_mpi(shard.scalar_type()),
            static_cast<int>(target_of(step, digits_)), tag, channels_.at(step.digits).comm,
            &out.request);
}

at::Tensor Collectives::receive(const ReshardStep& step, const Shape& local, at::ScalarType type,
                                int tag) {
  const auto out = at::empty(to_aten(local), type);
  auto transfer = done(out);
  MPI_Irecv(out.data_ptr(), count(out), to_mpi(type), static_cast<int>(root_of(step, digits_)), tag,
            channels_.at(step.digits).comm, &transfer.request);
  return finish(std::move(transfer))[0];
}

void Collectives::finish() {
  for (auto& s : sent_) {
    Transfer transfer{.request = s.request, .held = {}, .result = {}};
    wait(transfer);
  }
  sent_.clear();
}

}  // namespace tandem::runtime
