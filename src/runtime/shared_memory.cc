#include "runtime/shared_memory.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <exception>
#include <new>
#include <type_traits>

#include "runtime/aten.h"

namespace tandem::runtime {

namespace {

// A chunk and its neighbours stay in a core's cache.
constexpr std::int64_t kChunkBytes = 256 << 10;
constexpr std::int64_t kSlots = 16;

template <class Sum, class T>
[[gnu::optimize("O3")]] void add_elements(Sum* __restrict to, const T* __restrict from,
                                          std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) to[i] += from[i];
}

// Adds in the order of the processes, so that the sum does not depend on who makes it. `to` may be
// one of the summands. 16-bit numbers are added up in `Sum` and rounded once.
template <class T, class Sum = T>
void sum_elements(T* to, std::span<const T* const> summands, std::int64_t count) {
  constexpr std::int64_t kBlock = 2048;
  std::array<Sum, kBlock> block;
  for (std::int64_t at = 0; at < count; at += kBlock) {
    const auto n = std::min(kBlock, count - at);
    std::copy_n(summands[0] + at, n, block.data());
    for (const auto* s : summands.subspan(1)) add_elements(block.data(), s + at, n);
    std::copy_n(block.data(), n, to + at);
  }
}

void sum_bytes(at::ScalarType type, char* to, std::span<const char* const> summands,
               std::int64_t count) {
  const auto as = [&]<class T>(T*) {
    std::vector<const T*> typed;
    for (const auto* s : summands) typed.push_back(reinterpret_cast<const T*>(s));
    using Sum = std::conditional_t<std::is_same_v<T, at::BFloat16>, float, T>;
    sum_elements<T, Sum>(reinterpret_cast<T*>(to), typed, count);
  };
  if (type == at::kDouble) return as(static_cast<double*>(nullptr));
  if (type == at::kBFloat16) return as(static_cast<at::BFloat16*>(nullptr));
  CHECK(type == at::kFloat, at::toString(type));
  as(static_cast<float*>(nullptr));
}

char* bytes_at(const at::Tensor& t, std::int64_t element) {
  return static_cast<char*>(t.data_ptr()) + element * static_cast<std::int64_t>(t.element_size());
}

void copy(char* to, const char* from, const at::Tensor& of, std::int64_t count) {
  std::memcpy(to, from, static_cast<std::size_t>(count) * of.element_size());
}

}  // namespace

std::unique_ptr<SharedMemory> SharedMemory::over(MPI_Comm comm) {
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
  if (together == 0) return nullptr;  // the others' windows are left: to free them takes all
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
  if (memory_.empty()) return;  // not all processes have it
  // Freeing waits for all processes. Where an error ends this one, the others may never come.
  if (std::uncaught_exceptions() > 0) return;
  if (window_ != MPI_WIN_NULL) MPI_Win_free(&window_);
}

char* SharedMemory::slot(std::int64_t rank, std::int64_t chunk) const {
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
  return start({.kind = Kind::kSum, .from = from, .to = to});
}
std::int64_t SharedMemory::start_sum_of_row(const at::Tensor& from, const at::Tensor& to) {
  return start({.kind = Kind::kSumOfRow, .from = from, .to = to});
}
std::int64_t SharedMemory::start_gather(const at::Tensor& from, const at::Tensor& to) {
  return start({.kind = Kind::kGather, .from = from, .to = to});
}
std::int64_t SharedMemory::start_swap(const at::Tensor& from, const at::Tensor& to) {
  return start({.kind = Kind::kSwap, .from = from, .to = to});
}
std::int64_t SharedMemory::start_broadcast(const at::Tensor& from, const at::Tensor& to,
                                           std::int64_t root) {
  return start({.kind = Kind::kBroadcast, .from = from, .to = to, .root = root});
}
std::int64_t SharedMemory::start_scatter(const at::Tensor& from, const at::Tensor& to,
                                         std::int64_t root) {
  return start({.kind = Kind::kScatter, .from = from, .to = to, .root = root});
}

// Does a process give a row for each?
bool SharedMemory::has_rows(Kind kind) {
  return kind == Kind::kSumOfRow || kind == Kind::kSwap || kind == Kind::kScatter;
}

std::int64_t SharedMemory::start(Exchange e) {
  const auto size = static_cast<std::int64_t>(memory_.size());
  const auto& one = e.from.defined() ? e.from : e.to;
  const auto whole = kChunkBytes / static_cast<std::int64_t>(one.element_size());
  const bool of_all = e.kind == Kind::kSwap || (has_rows(e.kind) && !e.to.defined());
  e.elements = of_all ? one.numel() / size : has_rows(e.kind) ? e.to.numel() : one.numel();
  e.per_chunk = has_rows(e.kind) ? whole / size : whole;
  CHECK(e.per_chunk > 0, size);
  e.first = chunks_;
  e.end = chunks_ + (e.elements + e.per_chunk - 1) / e.per_chunk;
  chunks_ = e.end;
  open_.push_back(std::move(e));
  const auto number = first_open_ + static_cast<std::int64_t>(open_.size()) - 1;
  advance();
  return number;
}

const SharedMemory::Exchange& SharedMemory::exchange_of(std::int64_t chunk) const {
  return *std::ranges::find_if(open_, [&](const Exchange& e) { return chunk < e.end; });
}

SharedMemory::Part SharedMemory::part_of(const Exchange& e, std::int64_t chunk) {
  const auto begin = (chunk - e.first) * e.per_chunk;
  return {begin, std::min(e.per_chunk, e.elements - begin)};
}

SharedMemory::Part SharedMemory::share(std::int64_t length, std::int64_t rank) const {
  const auto size = static_cast<std::int64_t>(memory_.size());
  const auto begin = length * rank / size;
  return {begin, length * (rank + 1) / size - begin};
}

void SharedMemory::give(const Exchange& e, std::int64_t chunk) const {
  if (e.root >= 0 && e.root != rank_) return;
  const auto part = part_of(e, chunk);
  const auto rows = has_rows(e.kind) ? static_cast<std::int64_t>(memory_.size()) : 1;
  auto* to = slot(rank_, chunk);
  for (std::int64_t row = 0; row < rows; ++row) {
    copy(to, bytes_at(e.from, row * e.elements + part.begin), e.from, part.size);
    to += part.size * static_cast<std::int64_t>(e.from.element_size());
  }
}

void SharedMemory::sum(const Exchange& e, std::int64_t chunk) const {
  if (e.kind != Kind::kSum && e.kind != Kind::kSumOfRow) return;
  const auto part = part_of(e, chunk);
  const bool row = e.kind == Kind::kSumOfRow;
  const auto mine = row ? Part{rank_ * part.size, part.size} : share(part.size, rank_);
  const auto offset = mine.begin * static_cast<std::int64_t>(e.from.element_size());
  std::vector<const char*> summands;
  for (std::size_t r = 0; r < memory_.size(); ++r) {
    summands.push_back(slot(static_cast<std::int64_t>(r), chunk) + offset);
  }
  auto* to = row ? bytes_at(e.to, part.begin) : slot(rank_, chunk) + offset;
  sum_bytes(e.from.scalar_type(), to, summands, mine.size);
}

void SharedMemory::take(const Exchange& e, std::int64_t chunk) const {
  if (e.kind == Kind::kSumOfRow || !e.to.defined()) return;
  const auto part = part_of(e, chunk);
  const auto bytes = static_cast<std::int64_t>(e.to.element_size());
  const auto own_row = has_rows(e.kind) ? rank_ * part.size * bytes : 0;
  if (e.root >= 0) {
    return copy(bytes_at(e.to, part.begin), slot(e.root, chunk) + own_row, e.to, part.size);
  }
  for (std::size_t r = 0; r < memory_.size(); ++r) {
    const auto rank = static_cast<std::int64_t>(r);
    const auto* from = slot(rank, chunk);
    if (e.kind == Kind::kSum) {
      const auto theirs = share(part.size, rank);
      copy(bytes_at(e.to, part.begin + theirs.begin), from + theirs.begin * bytes, e.to,
           theirs.size);
    } else {
      copy(bytes_at(e.to, rank * e.elements + part.begin), from + own_row, e.to, part.size);
    }
  }
}

// What comes last in a chunk's life comes first here: it makes room, and is in the cache.
bool SharedMemory::advance() {
  auto& own = *reinterpret_cast<Counters*>(memory_[static_cast<std::size_t>(rank_)]);
  bool any = false;
  for (bool more = true; more; any = any || more) {
    more = false;
    if (taken_ < summed_ && all_have(&Counters::summed, taken_)) {
      take(exchange_of(taken_), taken_);
      own.taken.store(++taken_, std::memory_order_release);
      more = true;
    }
    if (summed_ < given_ && all_have(&Counters::given, summed_)) {
      sum(exchange_of(summed_), summed_);
      own.summed.store(++summed_, std::memory_order_release);
      more = true;
    }
    const bool has_room = given_ < kSlots || all_have(&Counters::taken, given_ - kSlots);
    if (given_ < chunks_ && has_room) {
      give(exchange_of(given_), given_);
      own.given.store(++given_, std::memory_order_release);
      more = true;
    }
    while (!open_.empty() && open_.front().end <= taken_) {
      open_.pop_front();
      ++first_open_;
    }
  }
  return any;
}

}  // namespace tandem::runtime
