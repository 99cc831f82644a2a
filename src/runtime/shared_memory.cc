#include "runtime/shared_memory.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <ctime>
#include <exception>
#include <new>
#include <type_traits>
#include <utility>

#include "runtime/aten.h"

namespace tandem::runtime {

namespace {

// A chunk and its neighbors stay in a core's cache.
constexpr std::int64_t kChunkBytes = 256 << 10;

template <class Sum, class T>
[[gnu::optimize("O3")]] void add_elements(Sum* __restrict to, const T* __restrict from,
                                          std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) to[i] += from[i];
}

// Sums in the order of the processes, so that the result does not depend on which one computes it.
// `to` may be one of the summands. bf16 numbers are summed in `Sum` and rounded once.
template <class T, class Sum = T>
void sum_elements(T* to, std::span<const T* const> summands, std::int64_t count, Path path) {
  constexpr std::int64_t kBlock = 2048;
  std::array<Sum, kBlock> block;
  for (std::int64_t at = 0; at < count; at += kBlock) {
    const auto n = std::min(kBlock, count - at);
    std::copy_n(summands[0] + at, n, block.data());
    for (const auto* s : summands.subspan(1)) add_elements(block.data(), s + at, n);
    if constexpr (std::is_same_v<T, Sum>) {
      copy(path, to + at, block.data(), static_cast<std::size_t>(n) * sizeof(T));
    } else {
      std::copy_n(block.data(), n, to + at);
    }
  }
}

void sum_bytes(at::ScalarType type, char* to, std::span<const char* const> summands,
               std::int64_t count, Path path) {
  const auto as = [&]<class T>(T*) {
    std::vector<const T*> typed;
    for (const auto* s : summands) typed.push_back(reinterpret_cast<const T*>(s));
    using Sum = std::conditional_t<std::is_same_v<T, at::BFloat16>, float, T>;
    sum_elements<T, Sum>(reinterpret_cast<T*>(to), typed, count, path);
  };
  if (type == at::kDouble) return as(static_cast<double*>(nullptr));
  if (type == at::kBFloat16) return as(static_cast<at::BFloat16*>(nullptr));
  CHECK(type == at::kFloat, at::toString(type));
  as(static_cast<float*>(nullptr));
}

// Calls visit(memory, bytes) for each run of the elements begin ... begin + count - 1 of one
// process's block.
template <class Visit>
void for_each_run(const Blocks& blocks, std::int64_t process, std::int64_t begin,
                  std::int64_t count, Visit&& visit) {
  const auto size = static_cast<std::int64_t>(blocks.of.element_size());
  auto* first = static_cast<char*>(blocks.of.data_ptr()) + process * blocks.next * size;
  for (auto at = begin; at < begin + count;) {
    const auto in_run = at % blocks.run;
    const auto n = std::min(blocks.run - in_run, begin + count - at);
    visit(first + (at / blocks.run * blocks.step + in_run) * size,
          static_cast<std::size_t>(n * size));
    at += n;
  }
}

char* pack(char* to, const Blocks& from, std::int64_t process, std::int64_t begin,
           std::int64_t count, Path path) {
  for_each_run(from, process, begin, count, [&](const char* run, std::size_t bytes) {
    copy(path, to, run, bytes);
    to += bytes;
  });
  return to;
}

void unpack(const char* from, const Blocks& to, std::int64_t process, std::int64_t begin,
            std::int64_t count) {
  for_each_run(to, process, begin, count, [&](char* run, std::size_t bytes) {
    std::memcpy(run, from, bytes);
    from += bytes;
  });
}

}  // namespace

Blocks Blocks::whole(const at::Tensor& t) { return {.of = t, .run = t.defined() ? t.numel() : 0}; }

Blocks Blocks::split_along(const at::Tensor& t, std::size_t dim, std::int64_t processes) {
  if (!t.defined()) return {};
  CHECK(t.is_contiguous());
  std::int64_t row = 1;
  for (auto d = static_cast<std::int64_t>(dim); d < t.dim(); ++d) row *= t.size(d);
  return {.of = t, .run = row / processes, .step = row, .next = row / processes};
}

std::unique_ptr<SharedMemory> SharedMemory::create(MPI_Comm comm) {
  int rank = 0;
  int size = 0;
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &size);
  MPI_Comm near = MPI_COMM_NULL;
  MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &near);
  int here = 0;
  MPI_Comm_size(near, &here);
  MPI_Comm_free(&near);
  int together = here == size && size > 1 ? 1 : 0;
  MPI_Allreduce(MPI_IN_PLACE, &together, 1, MPI_INT, MPI_MIN, comm);
  if (together == 0) return nullptr;

  std::unique_ptr<SharedMemory> out(new SharedMemory);
  out->rank_ = rank;
  char* own = nullptr;
  const auto bytes =
      static_cast<MPI_Aint>(alignof(Counters) + sizeof(Counters)) + kSlots * kChunkBytes;
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  const bool made = MPI_Win_allocate_shared(bytes, 1, MPI_INFO_NULL, comm, static_cast<void*>(&own),
                                            &out->window_) == MPI_SUCCESS;
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_ARE_FATAL);
  if (!made) out->window_ = MPI_WIN_NULL;
  together = made ? 1 : 0;
  MPI_Allreduce(MPI_IN_PLACE, &together, 1, MPI_INT, MPI_MIN, comm);
  if (together == 0) return nullptr;  // Freeing the other windows would need all processes
  for (int r = 0; r < size; ++r) {
    MPI_Aint length = 0;
    int unit = 0;
    char* memory = nullptr;
    MPI_Win_shared_query(out->window_, r, &length, &unit, static_cast<void*>(&memory));
    // Windows need not begin at a cache line.
    const auto address = reinterpret_cast<std::uintptr_t>(memory);
    out->memory_.push_back(memory +
                           (alignof(Counters) - address % alignof(Counters)) % alignof(Counters));
  }
  new (out->memory_[static_cast<std::size_t>(rank)]) Counters{};
  MPI_Barrier(comm);
  return out;
}

SharedMemory::~SharedMemory() {
  if (memory_.empty()) return;  // Not all processes have it
  // Freeing waits for all processes. If an error ends this one, the others may never come.
  if (std::uncaught_exceptions() > 0) return;
  if (window_ != MPI_WIN_NULL) MPI_Win_free(&window_);
}

char* SharedMemory::get_slot(std::int64_t rank, std::int64_t chunk) const {
  return memory_[static_cast<std::size_t>(rank)] + sizeof(Counters) + chunk % kSlots * kChunkBytes;
}

bool SharedMemory::all_have(std::atomic<std::int64_t> Counters::*counter,
                            std::int64_t chunk) const {
  return std::ranges::all_of(memory_, [&](char* m) {
    return (reinterpret_cast<Counters*>(m)->*counter).load(std::memory_order_acquire) > chunk;
  });
}

// --- Exchanges ----------------------------------------------------------------------------------

std::int64_t SharedMemory::start_sum(const at::Tensor& from, const at::Tensor& to) {
  return start({.kind = ExchangeKind::kSum, .from = Blocks::whole(from), .to = Blocks::whole(to)});
}
std::int64_t SharedMemory::start_sum_of_block(Blocks from, const at::Tensor& to) {
  return start(
      {.kind = ExchangeKind::kSumOfBlock, .from = std::move(from), .to = Blocks::whole(to)});
}
std::int64_t SharedMemory::start_gather(const at::Tensor& from, Blocks to) {
  return start({.kind = ExchangeKind::kGather, .from = Blocks::whole(from), .to = std::move(to)});
}
std::int64_t SharedMemory::start_swap(Blocks from, Blocks to) {
  return start({.kind = ExchangeKind::kSwap, .from = std::move(from), .to = std::move(to)});
}
std::int64_t SharedMemory::start_broadcast(const at::Tensor& from, const at::Tensor& to,
                                           std::int64_t root) {
  return start({.kind = ExchangeKind::kBroadcast,
                .from = Blocks::whole(from),
                .to = Blocks::whole(to),
                .root = root});
}
std::int64_t SharedMemory::start_scatter(Blocks from, const at::Tensor& to, std::int64_t root) {
  return start({.kind = ExchangeKind::kScatter,
                .from = std::move(from),
                .to = Blocks::whole(to),
                .root = root});
}

// Returns whether a process gives each process a block of its own.
bool SharedMemory::gives_blocks(ExchangeKind kind) {
  return kind == ExchangeKind::kSumOfBlock || kind == ExchangeKind::kSwap ||
         kind == ExchangeKind::kScatter;
}

std::int64_t SharedMemory::start(Exchange e) {
  const auto size = static_cast<std::int64_t>(memory_.size());
  const auto& one = e.from.of.defined() ? e.from.of : e.to.of;
  const auto whole = kChunkBytes / static_cast<std::int64_t>(one.element_size());
  const bool cut = e.kind == ExchangeKind::kSwap || (gives_blocks(e.kind) && !e.to.of.defined());
  e.elements = cut ? one.numel() / size : gives_blocks(e.kind) ? e.to.of.numel() : one.numel();
  e.per_chunk = gives_blocks(e.kind) ? whole / size : whole;
  CHECK(e.per_chunk > 0, size);
  e.first = chunks_;
  e.end = chunks_ + (e.elements + e.per_chunk - 1) / e.per_chunk;
  chunks_ = e.end;
  open_.push_back(std::move(e));
  const auto number = first_open_ + static_cast<std::int64_t>(open_.size()) - 1;
  advance();
  return number;
}

const SharedMemory::Exchange& SharedMemory::find_exchange(std::int64_t chunk) const {
  return *std::ranges::find_if(open_, [&](const Exchange& e) { return chunk < e.end; });
}

SharedMemory::ChunkPart SharedMemory::get_chunk_part(const Exchange& e, std::int64_t chunk) {
  const auto begin = (chunk - e.first) * e.per_chunk;
  return {begin, std::min(e.per_chunk, e.elements - begin)};
}

SharedMemory::ChunkPart SharedMemory::compute_share(std::int64_t length, std::int64_t rank) const {
  const auto size = static_cast<std::int64_t>(memory_.size());
  const auto begin = length * rank / size;
  return {begin, length * (rank + 1) / size - begin};
}

std::int64_t SharedMemory::count_chunk_bytes(const Exchange& e, std::int64_t chunk) const {
  const auto& one = e.from.of.defined() ? e.from.of : e.to.of;
  const auto blocks = gives_blocks(e.kind) ? static_cast<std::int64_t>(memory_.size()) : 1;
  return get_chunk_part(e, chunk).size * blocks * static_cast<std::int64_t>(one.element_size());
}

// A root does not see what its path costs the processes that read. Broadcast and scatter therefore
// use the path of gather and swap.
Path SharedMemory::choose_path(const Exchange& e, std::int64_t chunk) const {
  const auto kind = e.kind == ExchangeKind::kBroadcast ? ExchangeKind::kGather
                    : e.kind == ExchangeKind::kScatter ? ExchangeKind::kSwap
                                                       : e.kind;
  return paths_[static_cast<std::size_t>(kind)].choose_path(chunk, count_chunk_bytes(e, chunk));
}

void SharedMemory::run_step(Step step, std::int64_t chunk) {
  const auto& e = find_exchange(chunk);
  const auto bytes = count_chunk_bytes(e, chunk);
  if (e.root >= 0 || !ChunkPath::is_measured(chunk, bytes)) return (this->*step)(e, chunk);
  const auto begin = std::chrono::steady_clock::now();
  (this->*step)(e, chunk);
  const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - begin;
  auto& seconds = seconds_[static_cast<std::size_t>(chunk % kSlots)];
  seconds += passed.count();
  if (step != &SharedMemory::take) return;
  paths_[static_cast<std::size_t>(e.kind)].record_time(chunk, bytes, seconds);
  seconds = 0;
}

void SharedMemory::give(const Exchange& e, std::int64_t chunk) const {
  if (e.root >= 0 && e.root != rank_) return;
  const auto part = get_chunk_part(e, chunk);
  const auto blocks = gives_blocks(e.kind) ? static_cast<std::int64_t>(memory_.size()) : 1;
  const auto path = choose_path(e, chunk);
  auto* to = get_slot(rank_, chunk);
  for (std::int64_t b = 0; b < blocks; ++b) to = pack(to, e.from, b, part.begin, part.size, path);
  finish_writing(path);
}

void SharedMemory::sum(const Exchange& e, std::int64_t chunk) const {
  if (e.kind != ExchangeKind::kSum && e.kind != ExchangeKind::kSumOfBlock) return;
  const auto part = get_chunk_part(e, chunk);
  const bool block = e.kind == ExchangeKind::kSumOfBlock;
  const auto mine =
      block ? ChunkPart{rank_ * part.size, part.size} : compute_share(part.size, rank_);
  const auto bytes = static_cast<std::int64_t>(e.from.of.element_size());
  std::vector<const char*> summands;
  for (std::size_t r = 0; r < memory_.size(); ++r) {
    summands.push_back(get_slot(static_cast<std::int64_t>(r), chunk) + mine.begin * bytes);
  }
  auto* to = block ? static_cast<char*>(e.to.of.data_ptr()) + part.begin * bytes
                   : get_slot(rank_, chunk) + mine.begin * bytes;
  const auto path = block ? Path::kCaches : choose_path(e, chunk);
  sum_bytes(e.from.of.scalar_type(), to, summands, mine.size, path);
  finish_writing(path);
}

void SharedMemory::take(const Exchange& e, std::int64_t chunk) const {
  if (e.kind == ExchangeKind::kSumOfBlock || !e.to.of.defined()) return;
  const auto part = get_chunk_part(e, chunk);
  const auto bytes = static_cast<std::int64_t>(e.to.of.element_size());
  const auto own_block = gives_blocks(e.kind) ? rank_ * part.size * bytes : 0;
  if (e.root >= 0) {
    return unpack(get_slot(e.root, chunk) + own_block, e.to, 0, part.begin, part.size);
  }
  for (std::size_t r = 0; r < memory_.size(); ++r) {
    const auto rank = static_cast<std::int64_t>(r);
    const auto* from = get_slot(rank, chunk);
    if (e.kind == ExchangeKind::kSum) {
      const auto theirs = compute_share(part.size, rank);
      unpack(from + theirs.begin * bytes, e.to, 0, part.begin + theirs.begin, theirs.size);
    } else {
      unpack(from + own_block, e.to, rank, part.begin, part.size);
    }
  }
}

// --- Waiting ------------------------------------------------------------------------------------

// A process that falls asleep sets its flag before it looks for work a last time. A process that
// has done something publishes that before it reads the flags. One of them always sees the other.
void SharedMemory::sleep() {
  auto& own = counters(rank_);
  const auto bell = own.bell.load();
  own.asleep.store(1);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (!advance()) {
    // Exchanges of other groups may wait for this process too, so it sleeps briefly.
    constexpr timespec kMoment = {.tv_sec = 0, .tv_nsec = 300'000};
    syscall(SYS_futex, &own.bell, FUTEX_WAIT, bell, &kMoment, nullptr, 0);
  }
  own.asleep.store(0);
}

void SharedMemory::wake_others() const {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  for (std::size_t r = 0; r < memory_.size(); ++r) {
    auto& other = counters(static_cast<std::int64_t>(r));
    if (static_cast<std::int64_t>(r) == rank_ || other.asleep.load() == 0) continue;
    other.bell.fetch_add(1);
    syscall(SYS_futex, &other.bell, FUTEX_WAKE, 1, nullptr, nullptr, 0);
  }
}

// The last action of a chunk's life comes first: it makes room, and its data is in the cache.
bool SharedMemory::advance() {
  auto& own = counters(rank_);
  bool any = false;
  for (bool more = true; more; any = any || more) {
    more = false;
    if (taken_ < summed_ && all_have(&Counters::summed, taken_)) {
      run_step(&SharedMemory::take, taken_);
      own.taken.store(++taken_, std::memory_order_release);
      more = true;
    }
    if (summed_ < given_ && all_have(&Counters::given, summed_)) {
      run_step(&SharedMemory::sum, summed_);
      own.summed.store(++summed_, std::memory_order_release);
      more = true;
    }
    const bool has_room = given_ < kSlots || all_have(&Counters::taken, given_ - kSlots);
    if (given_ < chunks_ && has_room) {
      run_step(&SharedMemory::give, given_);
      own.given.store(++given_, std::memory_order_release);
      more = true;
    }
    if (more) wake_others();
    while (!open_.empty() && open_.front().end <= taken_) {
      open_.pop_front();
      ++first_open_;
    }
  }
  return any;
}

}  // namespace tandem::runtime
