#include "runtime/collectives.h"

#include <sched.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "runtime/aten.h"
#include "runtime/group_collectives.h"

namespace tandem::runtime {

namespace {

using machine::DigitMask;
using machine::DigitRole;
using machine::ReshardStep;
using machine::Step;

}  // namespace

Collectives::Collectives(const machine::Digits& digits, std::int64_t device, at::Device place,
                         std::unique_ptr<DeviceNetwork> network)
    : digits_(digits), device_(device), place_(place), network_(std::move(network)) {}

Collectives::~Collectives() {
  for (auto& [mask, channel] : channels_) {
    channel.memory.reset();
    MPI_Comm_free(&channel.comm);
  }
}

void Collectives::prepare(DigitMask mask, bool only_sends) {
  const auto [at, fresh] = channels_.try_emplace(mask);
  auto& channel = at->second;
  if (fresh) {
    MPI_Comm_split(MPI_COMM_WORLD,
                   static_cast<int>(digits_.rank_in_group(device_, digits_.all() & ~mask)),
                   static_cast<int>(digits_.rank_in_group(device_, mask)), &channel.comm);
    if (network_ == nullptr) channel.memory = SharedMemory::create(channel.comm);
  }
  if (network_ != nullptr && !only_sends && channel.device == nullptr) {
    channel.device = network_->over(channel.comm);
  }
}

void Collectives::expect(std::int64_t from, std::int64_t to, std::vector<Message> messages) {
  if (network_ == nullptr) return;
  network_->connect(static_cast<int>(from), static_cast<int>(to));
  if (to == device_) incoming_[from].order = std::move(messages);
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
  if (!takes_part(step)) return make_finished_transfer({});
  if (!is_staged() || is_local(step.kind)) {
    return start_on(place_, step, std::move(shard), local, type, micro_batch);
  }
  if (shard.defined()) shard = shard.to(at::kCPU);
  return copy_results_to_device(
      start_on(at::kCPU, step, std::move(shard), local, type, micro_batch));
}

// Returns the transfer with its results copied from host memory to the device.
Transfer Collectives::copy_results_to_device(Transfer transfer) const {
  transfer.result = [place = place_, result = std::move(transfer.result)] {
    auto out = result();
    for (auto& t : out) {
      if (t.defined()) t = t.to(place);
    }
    return out;
  };
  return transfer;
}

Transfer Collectives::start_on(at::Device on, const ReshardStep& step, at::Tensor shard,
                               const Shape& local, at::ScalarType type, std::int64_t micro_batch) {
  const auto rank = digits_.rank_in_group(digits_.slot(device_, micro_batch), step.digits);
  const auto* channel = is_local(step.kind) ? nullptr : &channels_.at(step.digits);
  const auto root = machine::find_root_rank(step, digits_);
  const GroupCollectives group(channel == nullptr ? MPI_COMM_NULL : channel->comm,
                               channel == nullptr ? nullptr : channel->memory.get(),
                               channel == nullptr ? nullptr : channel->device.get(), rank, root,
                               digits_.group_size(step.digits), type);
  const auto options = at::device(on).dtype(type);
  const auto fresh = [&] { return at::empty(to_aten(local), options); };
  const auto zeros = [&] { return at::zeros(to_aten(local), options); };
  switch (step.kind) {
    case Step::kSlice:
      return make_finished_transfer(group.get_block(shard, step.to_dim));
    case Step::kDrop:
      return make_finished_transfer(rank == root ? shard : at::Tensor());
    case Step::kMask:
    case Step::kZero:
      return make_finished_transfer(rank == root ? shard : zeros());
    case Step::kPad: {
      auto out = zeros();
      group.get_block(out, step.from_dim).copy_(shard);
      return make_finished_transfer(out);
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
  const GroupCollectives group(channel.comm, channel.memory.get(), channel.device.get(),
                               digits_.rank_in_group(device_, first.digits), 0, size, type);
  const bool scatters = first.kind == Step::kReduceScatter;
  CHECK(scatters || first.kind == Step::kAllReduce);
  // One row for every member that gets a part: each tensor's block for that member.
  std::vector<at::Tensor> rows;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    rows.push_back(scatters ? group.arrange_blocks(shards[i], steps[i].to_dim).reshape({size, -1})
                            : shards[i].reshape({1, -1}));
  }
  auto row = at::cat(rows, 1);
  rows.clear();
  if (is_staged()) row = row.to(at::kCPU);
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
  return is_staged() ? copy_results_to_device(std::move(transfer)) : transfer;
}

// --- Halos --------------------------------------------------------------------------------------

namespace {

// Returns the common part of two boxes. A side of it is 0 if they are disjoint.
term::Box intersect_boxes(const term::Box& a, const term::Box& b) {
  auto out = a;
  for (std::size_t d = 0; d < a.size.rank(); ++d) {
    const auto end = std::min(a.offset[d] + a.size[d], b.offset[d] + b.size[d]);
    out.offset[d] = std::max(a.offset[d], b.offset[d]);
    out.size[d] = std::max(end - out.offset[d], std::int64_t{0});
  }
  return out;
}

// Returns the part `part` of `t`, where `t` has the elements of `box`.
at::Tensor narrow_to_part(at::Tensor t, const term::Box& box, const term::Box& part) {
  for (std::size_t d = 0; d < part.size.rank(); ++d) {
    t = t.narrow(static_cast<std::int64_t>(d), part.offset[d] - box.offset[d], part.size[d]);
  }
  return t;
}

}  // namespace

// A device does not send its own part.
Transfer Collectives::start_halo(const ReshardStep& step, const at::Tensor& whole,
                                 const std::vector<Exchanged>& group) {
  if (!takes_part(step)) return make_finished_transfer({});
  const auto shard = is_staged() ? whole.to(at::kCPU) : whole;
  const auto rank = static_cast<std::size_t>(digits_.rank_in_group(device_, step.digits));
  const auto& own = group[rank];
  Lengths gives;
  Lengths takes;
  std::vector<at::Tensor> given;
  std::vector<term::Box> taken;
  for (std::size_t r = 0; r < group.size(); ++r) {
    const auto to = intersect_boxes(own.has, group[r].gets);
    gives.add(r == rank ? 0 : to.size.count());
    if (gives.of.back() > 0) given.push_back(narrow_to_part(shard, own.has, to).reshape({-1}));
    taken.push_back(intersect_boxes(group[r].has, own.gets));
    takes.add(r == rank ? 0 : taken.back().size.count());
  }
  const auto sent = given.empty() ? at::empty({0}, shard.options()) : at::cat(given);
  const auto received = at::empty({takes.total()}, shard.options());
  Transfer transfer{.held = {sent, received}, .result = {}};
  transfer.result = [=, sums = step.kind == Step::kHaloReduce] {
    const auto format = shard.suggest_memory_format();
    auto out = at::empty(to_aten(own.gets.size), shard.options(), format);
    if (sums) out.zero_();
    for (std::size_t r = 0; r < taken.size(); ++r) {
      if (taken[r].size.count() == 0) continue;
      const auto from =
          r == rank ? narrow_to_part(shard, own.has, taken[r])
                    : received.narrow(0, takes.before[r], takes.of[r]).view(to_aten(taken[r].size));
      auto to = narrow_to_part(out, own.gets, taken[r]);
      if (sums) {
        to.add_(from);
      } else {
        to.copy_(from);
      }
    }
    return wrap_in_vector(out);
  };
  const auto& channel = channels_.at(step.digits);
  GroupCollectives(channel.comm, channel.memory.get(), channel.device.get(),
                   static_cast<std::int64_t>(rank), 0, static_cast<std::int64_t>(group.size()),
                   shard.scalar_type())
      .exchange(transfer, sent, gives, received, takes);
  return is_staged() ? copy_results_to_device(std::move(transfer)) : transfer;
}

// Sends the indices and the elements of the rows together as bytes.
Transfer Collectives::start_rows(const ReshardStep& step, const at::Tensor& rows) {
  CHECK(step.kind == Step::kAllReduce);
  if (!takes_part(step)) return make_finished_transfer({});
  const auto& channel = channels_.at(step.digits);
  const auto size = digits_.group_size(step.digits);
  const GroupCollectives group(channel.comm, channel.memory.get(), channel.device.get(),
                               digits_.rank_in_group(device_, step.digits), 0, size, at::kByte);
  const auto as_bytes = [](const at::Tensor& t) {
    return t.contiguous().view({-1}).view(at::kByte);
  };
  const auto places = rows._indices();
  const auto elements = rows._values();
  auto own = at::cat({as_bytes(places), as_bytes(elements)});
  if (is_staged()) own = own.to(at::kCPU);
  auto transfer = group.all_gather(own, 0);
  transfer.result = [gathered = transfer.held.back(), place = place_, size, places, elements,
                     sizes = rows.sizes().vec(), options = rows.options()] {
    const auto first = static_cast<std::int64_t>(places.nbytes());
    const auto bytes = gathered.to(place).view({size, -1});
    const auto all_places = bytes.narrow(1, 0, first).contiguous().view(at::kLong);
    const auto all_elements =
        bytes.narrow(1, first, bytes.size(1) - first).contiguous().view(elements.scalar_type());
    auto at = elements.sizes().vec();
    at[0] *= size;
    return wrap_in_vector(at::_sparse_coo_tensor_unsafe(
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
  // MPI messages progress only inside calls of MPI.
  int flag = 0;
  MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
}

namespace {

// Returns how long a process polls before it sleeps, because waking up takes tens of microseconds.
// Afterwards another program may have the core. With more processes than cores, that may be the
// process it waits for.
double get_polling_seconds() {
  static const double seconds = [] {
    int processes = 0;
    MPI_Comm_size(MPI_COMM_WORLD, &processes);
    const bool own_core = processes <= static_cast<int>(std::thread::hardware_concurrency());
    return own_core ? 1e-3 : 20e-6;
  }();
  return seconds;
}

}  // namespace

// Other processes may wait for this one elsewhere, so all transfers advance while it waits.
void Collectives::wait(Transfer& transfer) {
  if (transfer.mark) return network_->await(transfer.mark);
  const double patience = get_polling_seconds();
  const double since = MPI_Wtime();
  for (;;) {
    int done = 1;
    if (transfer.memory != nullptr) {
      done = transfer.memory->is_done(transfer.exchange) ? 1 : 0;
    } else if (transfer.request != MPI_REQUEST_NULL) {
      MPI_Test(&transfer.request, &done, MPI_STATUS_IGNORE);
    }
    if (done != 0) return;
    advance();
    if (MPI_Wtime() - since < patience) continue;
    if (transfer.memory != nullptr) {
      transfer.memory->sleep();
    } else {
      sched_yield();
    }
  }
}

std::vector<at::Tensor> Collectives::finish(Transfer transfer) {
  wait(transfer);
  transfer.held.clear();
  return transfer.result();
}

// --- Send steps ----------------------------------------------------------------------------------

std::int64_t Collectives::find_sender(const ReshardStep& step) const {
  return digits_.group(device_,
                       step.digits)[static_cast<std::size_t>(find_root_rank(step, digits_))];
}

std::int64_t Collectives::find_receiver(const ReshardStep& step) const {
  return digits_.group(device_,
                       step.digits)[static_cast<std::size_t>(find_target_rank(step, digits_))];
}

// Frees the tensors that have been sent.
void Collectives::forget_sent() {
  std::erase_if(sent_, [this](Sent& s) {
    if (network_ != nullptr) return network_->is_over(s.mark);
    int gone = 0;
    MPI_Test(&s.request, &gone, MPI_STATUS_IGNORE);
    return gone != 0;
  });
}

void Collectives::send(const ReshardStep& step, const at::Tensor& given, int tag) {
  forget_sent();
  if (network_ != nullptr) {
    auto& out = sent_.emplace_back(Sent{MPI_REQUEST_NULL, given.contiguous()});
    out.mark = network_->send(out.tensor, static_cast<int>(find_receiver(step)));
    return;
  }
  const auto shard = is_staged() ? given.to(at::kCPU) : given;
  auto& out = sent_.emplace_back(Sent{MPI_REQUEST_NULL, shard.contiguous()});
  MPI_Isend(out.tensor.data_ptr(), count(out.tensor), to_mpi(shard.scalar_type()),
            static_cast<int>(find_target_rank(step, digits_)), tag, channels_.at(step.digits).comm,
            &out.request);
}

// Frees sent tensors too. In a pipeline, a process that sends to this one has by now received what
// was sent to it some micro-batches ago. Otherwise these tensors would live until the next send, at
// the end of a backward pass, when memory use peaks.
at::Tensor Collectives::receive(const ReshardStep& step, const Shape& local, at::ScalarType type,
                                int tag) {
  if (network_ != nullptr) return finish(queue_receive(step, tag))[0];
  const auto out = at::empty(to_aten(local), type);
  auto transfer = is_staged() ? copy_results_to_device(make_finished_transfer(out))
                              : make_finished_transfer(out);
  MPI_Irecv(out.data_ptr(), count(out), to_mpi(type),
            static_cast<int>(find_root_rank(step, digits_)), tag, channels_.at(step.digits).comm,
            &transfer.request);
  auto received = finish(std::move(transfer))[0];
  forget_sent();
  return received;
}

Transfer Collectives::queue_receive(const ReshardStep& step, int tag) {
  const auto from = find_sender(step);
  auto& incoming = incoming_.at(from);
  while (!incoming.received.contains(tag)) {
    CHECK(incoming.next < incoming.order.size(), tag);
    const auto& message = incoming.order[incoming.next++];
    const auto out = at::empty(to_aten(message.local), at::device(place_).dtype(message.type));
    auto transfer = make_finished_transfer(out);
    transfer.held = {out};
    transfer.mark = network_->receive(out, static_cast<int>(from));
    incoming.received[message.tag] = std::move(transfer);
  }
  return std::move(incoming.received.extract(tag).mapped());
}

std::optional<double> Collectives::waited() const {
  return network_ == nullptr ? std::nullopt : std::optional(network_->waited());
}

void Collectives::finish() {
  if (network_ != nullptr) {
    for (auto& [from, incoming] : incoming_) {
      CHECK(incoming.next == incoming.order.size() && incoming.received.empty(), from);
      incoming.next = 0;
    }
    network_->finish();
    sent_.clear();
    return;
  }
  for (auto& s : sent_) {
    Transfer transfer{.request = s.request, .held = {}, .result = {}};
    wait(transfer);
  }
  sent_.clear();
}

}  // namespace tandem::runtime
