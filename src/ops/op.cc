#include "ops/op.h"

#include <map>
#include <mutex>

namespace tandem::ops {

Op intern(const OpSpec& spec, AnyAttributes attributes) {
  static std::mutex mutex;
  static std::map<std::pair<const OpSpec*, std::string>, std::unique_ptr<Op::OpInstance>> table;
  std::string text = spec.print(attributes.get());
  const std::scoped_lock lock(mutex);
  auto& slot = table[{&spec, text}];
  if (!slot) {
    const Hash hash = hash_combine(hash_text(spec.name), hash_text(text));
    slot = std::make_unique<Op::OpInstance>(
        Op::OpInstance{&spec, std::move(attributes), std::move(text), hash});
  }
  Op op;
  op.instance_ = slot.get();
  return op;
}

Op parse_op(const OpSpec& spec, const AttributeList& attributes) {
  return intern(spec, spec.parse(attributes));
}

}  // namespace tandem::ops
