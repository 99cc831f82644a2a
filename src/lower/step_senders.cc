#include "lower/step_senders.h"

#include "base/check.h"

namespace tandem::lower {

Senders get_senders(machine::Step step) {
  using machine::Step;
  switch (step) {
    case Step::kSlice:
    case Step::kDrop:
    case Step::kPad:
      return Senders::kSelf;
    case Step::kMask:
    case Step::kZero:
      return Senders::kSelfIfRoot;
    case Step::kShift:
      return Senders::kNext;
    case Step::kBroadcast:
    case Step::kScatter:
    case Step::kSend:
      return Senders::kRoot;
    case Step::kAllReduce:
    case Step::kReduceScatter:
    case Step::kReduce:
      return Senders::kSummands;
    case Step::kAllGather:
    case Step::kAllToAll:
    case Step::kGather:
    case Step::kHalo:
      return Senders::kPieces;
    case Step::kHaloReduce:
      return Senders::kWindows;
  }
  CHECK(false);
}

}  // namespace tandem::lower
